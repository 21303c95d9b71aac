"""Attacks by the body of a request: what is sent, where, called what, and in which pieces."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import Final

from tests.soak.hostile import payloads
from tests.soak.hostile.attack import Assault, Attack, Knob, Who, numbers
from tests.soak.hostile.field import JSON, KNOWN, THEIRS, config_maps
from tests.soak.hostile.payloads import MEGABYTES, Payload

YAML: Final = "application/yaml"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_COLLECTION: Final = config_maps(THEIRS)
_OBJECT: Final = f"{_COLLECTION}/{KNOWN}"
DESTINATIONS: Final[Mapping[str, tuple[str, str, str]]] = {
    "review": ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", ""),
    "rules": ("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", ""),
    "create": ("POST", _COLLECTION, ""),
    "strict": ("POST", f"{_COLLECTION}?fieldValidation=Strict", ""),
    "dry": ("POST", f"{_COLLECTION}?dryRun=All", ""),
    "update": ("PUT", _OBJECT, ""),
    "merge": ("PATCH", _OBJECT, "application/merge-patch+json"),
    "json": ("PATCH", f"{_OBJECT}?dryRun=All", "application/json-patch+json"),
    "strategic": ("PATCH", f"{_OBJECT}?dryRun=All", "application/strategic-merge-patch+json"),
    "apply": ("PATCH", f"{_COLLECTION}/applied?fieldManager=m&force=true", "application/apply-patch+yaml"),
    "delete": ("DELETE", f"{_COLLECTION}/absent", ""),
    "token": ("POST", f"/api/v1/namespaces/{THEIRS}/serviceaccounts/someone/token", ""),
}
_PIECES: Final = Knob(0, 0, 65_536)
"""Bytes of each chunk; 0 is a body with its length told ahead."""


def framed(assault: Assault, body: bytes) -> bytes:
    method, path, patch = DESTINATIONS[assault.word("to")]
    headers = [f"Content-Type: {patch or assault.word('type')}"]
    if assault.word("encoding"):
        headers.append(f"Content-Encoding: {assault.word('encoding')}")
        body = gzip.compress(body, 1)
    size = assault.number("chunk")
    if not size:
        return assault.identity.head(method, path, *headers, f"Content-Length: {len(body)}") + b"\r\n" + body
    chunks = b"".join(
        b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[at : at + size] for at in range(0, len(body), size))
    )
    return assault.identity.head(method, path, *headers, "Transfer-Encoding: chunked") + b"\r\n" + chunks + b"0\r\n\r\n"


def body_attack(
    name: str,
    make: Payload,
    to: str = "create",
    type_: str = JSON,
    *,
    chunk: int = 0,
    encoding: str = "",
    at_once: int = 2,
    **knobs: Knob,
) -> Attack:
    async def work(assault: Assault) -> None:
        whole: bytes = assault.state["request"]
        first = payloads.name(assault).encode()
        is_named = first in whole
        # What can be created only once gets another name each time.
        await assault.keep_sending(
            lambda number: whole.replace(first, payloads.name(assault, number).encode()) if is_named else whole
        )

    async def prepare(assault: Assault) -> None:
        assault.state["request"] = framed(assault, make(assault))

    common = {
        "to": Knob(to, words=tuple(DESTINATIONS)),
        "type": Knob(type_, words=(JSON, YAML, _PROTOBUF, "text/plain")),
        "encoding": Knob(encoding, words=("", "", "", "gzip")),
        "chunk": Knob(chunk, _PIECES.low, _PIECES.high),
    }
    return Attack(name, Who.USER, work, {**knobs, **common, **numbers(at_once)}, prepare)


ATTACKS: Final = (
    body_attack("yaml merge keys", payloads.merge_keys, "review", YAML, width=Knob(20, 1, 400), depth=Knob(30, 1, 300)),
    body_attack("yaml aliases", payloads.aliases, "review", YAML, width=Knob(10, 1, 400), depth=Knob(9, 1, 300)),
    body_attack("yaml deep flow", payloads.deep_flow, "create", YAML, size=Knob(100_000, 10, 3_000_000)),
    body_attack("yaml deep block", payloads.deep_block, "create", YAML, depth=Knob(1500, 10, 2400)),
    body_attack("yaml list", payloads.yaml_list, "review", YAML, size=MEGABYTES),
    body_attack("yaml map", payloads.yaml_map, "create", YAML, size=MEGABYTES),
    body_attack(
        "yaml scalar",
        payloads.yaml_scalar,
        "create",
        YAML,
        size=MEGABYTES,
        quote=Knob("words", words=("plain", "words", "escapes", "quotes")),
    ),
    body_attack("yaml documents", payloads.yaml_documents, "create", YAML, size=MEGABYTES),
    body_attack("yaml comments", payloads.yaml_comments, "create", YAML, size=MEGABYTES),
    body_attack("yaml numbers", payloads.yaml_numbers, "create", YAML, digits=Knob(100_000, 10, 700_000)),
    body_attack("json, bad end", payloads.bad_end, size=MEGABYTES),
    body_attack("json, many values and a bad end", payloads.bad_end_of_many, size=MEGABYTES),
    body_attack("json brackets", payloads.brackets, size=MEGABYTES),
    body_attack("json nested", payloads.nested, depth=Knob(9000, 10, 500_000)),
    body_attack("json digits", payloads.digits, digits=Knob(1_000_000, 10, 3_000_000)),
    body_attack("json many digits", payloads.many_digits, digits=Knob(4300, 10, 100_000), size=MEGABYTES),
    body_attack("config map of 100,000 keys", payloads.data_keys, keys=Knob(100_000, 1, 200_000)),
    body_attack("100,000 wrong values", payloads.wrong_values, keys=Knob(100_000, 1, 150_000)),
    body_attack("100,000 unknown fields", payloads.unknown_fields, "strict", keys=Knob(100_000, 1, 200_000)),
    body_attack("100,000 repeated fields", payloads.repeated_fields, "strict", keys=Knob(100_000, 1, 300_000)),
    body_attack("many labels", payloads.labels, keys=Knob(100_000, 1, 200_000)),
    body_attack("many annotations", payloads.annotated, keys=Knob(20_000, 1, 200_000)),
    body_attack("many finalizers", payloads.finalizers, "dry", keys=Knob(50_000, 1, 100_000)),
    body_attack("4,000 absent owners", payloads.owners, keys=Knob(4000, 1, 20_000)),
    body_attack("20,000 absent owners", payloads.owners, keys=Knob(20_000, 1, 20_000)),
    body_attack("many managed fields", payloads.managed_fields, managers=Knob(200, 1, 2000), keys=Knob(500, 1, 20_000)),
    body_attack(
        "json patch of 10,000",
        payloads.json_patch,
        "json",
        operation=Knob("add", words=("add", "replace", "test", "insert", "copy", "move")),
        keys=Knob(9990, 1, 20_000),
    ),
    body_attack(
        "json patch that copies",
        payloads.json_patch,
        "json",
        operation=Knob("copy", words=("copy",)),
        keys=Knob(40, 1, 10_000),
    ),
    body_attack("strategic patch of lists", payloads.strategic, "strategic", keys=Knob(8000, 1, 15_000)),
    body_attack("large apply", payloads.applied, "apply", YAML, keys=Knob(30_000, 1, 100_000)),
    body_attack("protobuf within protobuf", payloads.protobuf, "create", _PROTOBUF, depth=Knob(5000, 1, 20_000)),
    body_attack("protobuf pairs", payloads.protobuf_pairs, "create", _PROTOBUF, size=MEGABYTES),
    body_attack("chunks of one byte", payloads.ordinary, "dry", chunk=1, size=Knob(1_000_000, 1000, 3_000_000)),
    body_attack("gzip", payloads.ordinary, encoding="gzip", size=Knob(3_000_000, 1000, 50_000_000)),
)  # fmt: skip
