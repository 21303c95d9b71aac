"""Strings that match a regular expression, a format or a length, and other values that a schema node is likely to take.

These are guesses, best first; whoever asks checks them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.schema import patterns

_OF_FORMAT: Final = {
    "date-time": "2026-01-02T03:04:05Z", "datetime": "2026-01-02T03:04:05Z", "date": "2026-01-02", "uri": "https://example.com/a",
    "email": "a@example.com", "hostname": "a.example.com", "ipv4": "10.0.0.1", "ipv6": "fd00::1",
    "cidr": "10.0.0.0/24", "mac": "02:00:00:00:00:01", "uuid": "6f1d9c4e-6c1b-4c58-9d7c-0d1a5b1c2d3e",
    "byte": "YQ==", "duration": "1h", "k8s-short-name": "a", "k8s-long-name": "a.b",
}  # fmt: skip
_WORDS: Final = (
    "a", "abc", "example", "1h", "30s", "10m", "1.2.3", "v1.30.0", "10.0.0.1", "10.0.0.0/24", "fd00::/64",
    "example.com", "https://example.com/a", "oci://example.com/a", "1Gi", "100m", "50%", "80", "1", "0", "01",
    "true", "a/b", "a:b", "v1", "example.com/a:1", "/a", "Aa1", "2026-01-02T03:04:05Z", "aaaaaaaaaaaaaaaa",
    "0123456789abcdef0123456789abcdef", "6f1d9c4e-6c1b-4c58-9d7c-0d1a5b1c2d3e", "self", "*", "a-b-c", "A", "MONDAY",
    "0 0 * * *", "us-east-1", "",
)  # fmt: skip
_LONGEST: Final = 4


def strings(schema: Object, random: Random) -> Iterator[str]:
    low, high = int(schema.get("minLength") or 0), schema.get("maxLength")
    if schema.get("format") in _OF_FORMAT:
        yield _OF_FORMAT[str(schema["format"])]
    wanted = [str(each["pattern"]) for each in (schema, *_branches(schema)) if each.get("pattern")]
    for pattern in wanted:
        for _ in range(6):
            sample = of_pattern(pattern, random)
            if sample is not None:
                yield sample
    yield from _WORDS
    for word in ("a", "a1"):
        yield (word * (low + 1))[: max(low, 1)]
    if high is not None:
        yield "a" * int(high)


def _branches(schema: Object) -> Iterator[Object]:
    for junctor in ("anyOf", "oneOf", "allOf"):
        yield from map(objects.mapping, objects.sequence(schema.get(junctor)))


def numbers(schema: Object) -> Iterator[float | int]:
    low, high, factor = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    for branch in (schema, *_branches(schema)):
        yield from (int(each) for each in objects.sequence(branch.get("enum")) if isinstance(each, int))
    if factor:
        yield from (factor, 0)
    yield 1
    if low is not None:
        yield from (low, low + 1)
    if high is not None:
        yield from (high, high - 1)
    yield from (0, 2, 3, 10, 80, 443, 8080, 65535, 100, 1024)


def wrong_type(type_: str) -> Any:
    """A value that is of another type."""
    return {"string": 7, "integer": "seven", "number": "seven", "boolean": "yes", "array": {"a": 1}, "object": [1]}[
        type_
    ]


def of_pattern(pattern: str, random: Random) -> str | None:
    """A string that matches; None if this gives up, as with what Python writes otherwise than Go."""
    try:
        tree = re._parser.parse(pattern, re.ASCII)  # type: ignore[attr-defined]
        text = "".join(_sampled(tree, random))
        return text if patterns.compiled(pattern).matches(text) else None
    except (patterns.BadPattern, KeyError, re.error, IndexError):
        return None


def _sampled(tree: Any, random: Random) -> Iterator[str]:
    for operation, argument in tree:
        yield from _operation(str(operation), argument, random)


def _operation(name: str, argument: Any, random: Random) -> Iterator[str]:
    match name:
        case "LITERAL":
            yield chr(argument)
        case "NOT_LITERAL":
            yield next(each for each in "a1-" if ord(each) != argument)
        case "ANY":
            yield "a"
        case "IN":
            yield _of_class(argument, random)
        case "BRANCH":
            yield from _sampled(random.choice(list(argument[1])), random)
        case "SUBPATTERN":
            yield from _sampled(argument[-1], random)
        case "MAX_REPEAT" | "MIN_REPEAT":
            low, high, inner = argument
            for _ in range(random.randint(low, max(low, min(int(high), low + _LONGEST)))):
                yield from _sampled(inner, random)
        case "AT":
            return
        case _:
            raise KeyError(name)


_CATEGORIES: Final = {"CATEGORY_DIGIT": "0123456789", "CATEGORY_WORD": "abcXYZ019_", "CATEGORY_SPACE": " ",
                      "CATEGORY_NOT_DIGIT": "ab", "CATEGORY_NOT_WORD": "-", "CATEGORY_NOT_SPACE": "ab1"}  # fmt: skip
_PRINTABLE: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@ %+,=#!*"


def _of_class(members: Any, random: Random) -> str:
    negated = bool(members) and str(members[0][0]) == "NEGATE"
    chosen: list[str] = []
    for operation, argument in members[1:] if negated else members:
        match str(operation):
            case "LITERAL":
                chosen.append(chr(argument))
            case "RANGE":
                low, high = argument
                chosen += [chr(code) for code in range(low, min(high, low + 90) + 1)]
            case _:
                chosen += _CATEGORIES[str(argument)]
    if negated:
        return random.choice([each for each in _PRINTABLE if each not in chosen])
    return random.choice([each for each in chosen if each in _PRINTABLE] or chosen)
