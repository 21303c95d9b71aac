"""Bodies that cost their reader more than their sender. Each is made of a few numbers, which the search may change."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from tests.soak.hostile.attack import Assault, Knob
from tests.soak.hostile.field import config_map

Payload = Callable[[Assault], bytes]
_OPEN: Final = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"},"data":'


def name(assault: Assault, number: int = 0) -> str:
    """As long for every number, so that one can be put in another's place."""
    return f"{assault.tag}-{number:06d}"


def merge_keys(assault: Assault) -> bytes:
    """Each line merges the one before it many times: keys multiply with every line."""
    width = assault.number("width")
    lines = ["a: &b0 {k: 1}"]
    for number in range(1, assault.number("depth") + 1):
        before = ", ".join([f"*b{number - 1}"] * width)
        lines.append(f"b{number}: &b{number} {{<<: [{before}]}}")
    return "\n".join(lines).encode()


def aliases(assault: Assault) -> bytes:
    width = assault.number("width")
    lines = [f"a0: &a0 [{', '.join(['x'] * width)}]"]
    for number in range(1, assault.number("depth") + 1):
        before = ", ".join([f"*a{number - 1}"] * width)
        lines.append(f"a{number}: &a{number} [{before}]")
    return "\n".join(lines).encode()


def deep_flow(assault: Assault) -> bytes:
    return b"a: " + b"[" * assault.number("size")


def deep_block(assault: Assault) -> bytes:
    """Each level is indented by one more, so that bytes grow with the square of the depth."""
    return "\n".join(" " * level + "a:" for level in range(assault.number("depth"))).encode()


def yaml_list(assault: Assault) -> bytes:
    return b"a:\n" + b"- b\n" * (assault.number("size") // 4)


def yaml_map(assault: Assault) -> bytes:
    return "\n".join(f"k{number}: v" for number in range(assault.number("size") // 12)).encode()


def yaml_scalar(assault: Assault) -> bytes:
    quote = assault.word("quote")
    size = assault.number("size")
    filling = {"plain": "x", "words": "x y\n  ", "escapes": "\\x41", "quotes": "''"}[quote]
    text = filling * (size // len(filling))
    return {"plain": f"a: {text}", "words": f"a: {text}", "escapes": f'a: "{text}"', "quotes": f"a: '{text}'"}[
        quote
    ].encode()


def yaml_documents(assault: Assault) -> bytes:
    return b"---\n" * (assault.number("size") // 4)


def yaml_comments(assault: Assault) -> bytes:
    return b"#\n" * (assault.number("size") // 2) + b"a: b\n"


def yaml_numbers(assault: Assault) -> bytes:
    """`1:1:1` is a number to base 60 in YAML 1.1."""
    digits = assault.number("digits")
    return f"a: {'1' * digits}\nb: {':'.join(['1'] * digits)}\nc: 0x{'f' * digits}\nd: 1e{'9' * 9}\n".encode()


def bad_end(assault: Assault) -> bytes:
    start = _OPEN % name(assault) + '{"a":"'
    return start.encode() + b"x" * assault.number("size") + b'"}\x01'


def bad_end_of_many(assault: Assault) -> bytes:
    """Many small values, and the mistake after the last."""
    return (_OPEN % name(assault)).encode() + b"[" + b"1," * (assault.number("size") // 2) + b"]\xff"


def brackets(assault: Assault) -> bytes:
    return b"[" * assault.number("size")


def nested(assault: Assault) -> bytes:
    depth = assault.number("depth")
    return (_OPEN % name(assault)).encode() + b'{"a":' * depth + b"1" + b"}" * depth + b"}"


def digits(assault: Assault) -> bytes:
    number = b"1" * assault.number("digits")
    return (_OPEN % name(assault)).encode() + b'{"a":' + number + b'},"immutable":' + number + b"}"


def many_digits(assault: Assault) -> bytes:
    number = b"9" * assault.number("digits")
    count = assault.number("size") // (len(number) + 1)
    return (_OPEN % name(assault)).encode() + b'{"a":[' + b",".join([number] * count) + b"]}}"


def data_keys(assault: Assault) -> bytes:
    return _json(config_map(name(assault), data={f"k{number}": "" for number in range(assault.number("keys"))}))


def wrong_values(assault: Assault) -> bytes:
    """Every one of them is a mistake to be told."""
    return _json(config_map(name(assault), data={f"k {number}": number for number in range(assault.number("keys"))}))


def unknown_fields(assault: Assault) -> bytes:
    return _json(config_map(name(assault), **{f"f{number}": 1 for number in range(assault.number("keys"))}))


def repeated_fields(assault: Assault) -> bytes:
    """The same key again and again, each time with a warning to be given."""
    pairs = ",".join(['"k":"v"'] * assault.number("keys"))
    return (_OPEN % name(assault) + "{" + pairs + "}}").encode()


def _with_metadata(assault: Assault, **metadata: Any) -> bytes:
    body = config_map(name(assault))
    body["metadata"] |= metadata
    return _json(body)


def labels(assault: Assault) -> bytes:
    return _with_metadata(assault, labels={f"l{number}": "v" for number in range(assault.number("keys"))})


def annotated(assault: Assault) -> bytes:
    return _with_metadata(assault, annotations={f"a{number}": "" for number in range(assault.number("keys"))})


def finalizers(assault: Assault) -> bytes:
    return _with_metadata(assault, finalizers=[f"example.com/f{number}" for number in range(assault.number("keys"))])


def owners(assault: Assault) -> bytes:
    """Of objects that are not there: each is a question for the garbage collector."""
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": f"absent-{number}", "uid": f"{assault.tag}-{number}"}
        for number in range(assault.number("keys"))
    ]
    return _with_metadata(assault, ownerReferences=references)


def managed_fields(assault: Assault) -> bytes:
    entries: list[Any] = [
        {
            "manager": f"m{number}",
            "operation": "Apply",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {f"f:k{field}": {} for field in range(assault.number("keys"))}},
        }
        for number in range(assault.number("managers"))
    ]
    return _with_metadata(assault, managedFields=entries)


def json_patch(assault: Assault) -> bytes:
    value = "x" * 50
    operations: dict[str, Callable[[int], Any]] = {
        "add": lambda number: {"op": "add", "path": f"/metadata/annotations/a{number}", "value": value},
        "replace": lambda number: {"op": "replace", "path": "/data/text", "value": f"{value}{number}"},
        "test": lambda _: {"op": "test", "path": "/metadata/name", "value": "known"},
        "insert": lambda _: {"op": "add", "path": "/metadata/finalizers/0", "value": "example.com/f"},
        "copy": lambda number: {"op": "copy", "from": "/data", "path": f"/data/c{number}"},
        "move": lambda number: {"op": "move", "from": f"/data/{_moved(number)}", "path": f"/data/{_moved(number + 1)}"},
    }
    make = operations[assault.word("operation")]
    first: list[Any] = [
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/finalizers", "value": []},
    ]
    return _json([*first, *(make(number) for number in range(assault.number("keys")))])


def _moved(number: int) -> str:
    return "text" if number % 2 == 0 else "moved"


def strategic(assault: Assault) -> bytes:
    """Lists that are merged by a key, with an order of their own and something to delete in each."""
    count = assault.number("keys")
    uids = [f"u{number}" for number in range(count)]
    references = [{"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid} for uid in uids]
    removed = [{"$patch": "delete", "uid": uid} for uid in uids]
    order = [{"uid": uid} for uid in reversed(uids)]
    return _json({"metadata": {"$setElementOrder/ownerReferences": order, "ownerReferences": references + removed}})


def applied(assault: Assault) -> bytes:
    return _json(config_map("applied", data={f"k{number}": "v" for number in range(assault.number("keys"))}))


def protobuf(assault: Assault) -> bytes:
    """A message within a message within a message."""
    inner = b""
    for _ in range(assault.number("depth")):
        inner = b"\x0a" + _varint(len(inner)) + inner
    return b"k8s\0" + b"\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12" + _varint(len(inner)) + inner


def protobuf_pairs(assault: Assault) -> bytes:
    pair = b"\x12\x06\x0a\x01k\x12\x01v"
    raw = pair * (assault.number("size") // len(pair))
    return b"k8s\0" + b"\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12" + _varint(len(raw)) + raw


def ordinary(assault: Assault) -> bytes:
    return _json(config_map(name(assault), data={"text": "x" * assault.number("size")}))


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


MEGABYTES: Final = Knob(3_000_000, 1000, 3_100_000)
