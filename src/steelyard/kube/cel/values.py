"""What expressions compute with: JSON's values as Python has them, and the kinds JSON lacks.

Numbers of the three kinds compare across kinds; otherwise values of different kinds are not equal. Whole numbers keep
to 64 bits: what leaves that range is an error, never another number.
"""

from __future__ import annotations

import datetime
import functools
from dataclasses import field
from typing import Any, Final, cast

from steelyard.frozen import frozen
from steelyard.kube import effort
from steelyard.kube.cel.problems import EvaluationError

_EFFORT: Final = 20
"""Of comparing two entries."""
MAX_INT: Final = (1 << 63) - 1
MIN_INT: Final = -(1 << 63)
MAX_UINT: Final = (1 << 64) - 1


class UInt(int):
    """An unsigned whole number: `1u`."""

    __slots__ = ()


@functools.total_ordering
@frozen
class Duration:
    nanoseconds: int

    def __lt__(self, other: Duration) -> bool:
        return self.nanoseconds < other.nanoseconds


@functools.total_ordering
@frozen
class Timestamp:
    """Nanoseconds since 1970; the offset (in seconds) it was written with only counts where it is written again."""

    nanoseconds: int
    offset: int = field(default=0, compare=False)

    def __lt__(self, other: Timestamp) -> bool:
        return self.nanoseconds < other.nanoseconds

    def local(self, zone: datetime.tzinfo) -> datetime.datetime:
        seconds, rest = divmod(self.nanoseconds, 1_000_000_000)
        utc = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=seconds)
        return utc.replace(microsecond=rest // 1000).astimezone(zone)


@frozen
class TypeName:
    """A type as a value: what `type(x)` gives."""

    name: str


class Optional:
    """A value that may be absent. `NONE` is the absent one."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Optional):
            return False
        if self is NONE or other is NONE:
            return self is other
        return equal(self.value, other.value)

    # Unhashable: equal across numeric types, so no hash would fit. typeshed takes the name for a method.
    __hash__ = None  # type: ignore[assignment]


NONE: Final = Optional(None)

_NUMBERS: Final = frozenset((int, UInt, float))
_SAME_KIND: Final[dict[type, str]] = {
    bool: "bool", int: "int", UInt: "uint", float: "double", str: "string", bytes: "bytes", list: "list", dict: "map",
    type(None): "null_type", Duration: "duration", Timestamp: "timestamp", TypeName: "type", Optional: "optional",
}  # fmt: skip
_NAMES: Final = {
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    "optional": "optional_type",
}


def kind_of(value: Any) -> str:
    """The kind of a value, which is the name of the library's class for those that come from a library."""
    kind = _SAME_KIND.get(value.__class__)
    return kind if kind is not None else str(value.kind)


def type_name(value: Any) -> TypeName:
    kind = kind_of(value)
    return TypeName(_NAMES.get(kind, kind))


def equal(left: Any, right: Any) -> bool:
    kind, other = left.__class__, right.__class__
    if kind is not other:
        return kind in _NUMBERS and other in _NUMBERS and left == right
    if kind is list:
        effort.spend(len(left) * _EFFORT)
        return len(left) == len(right) and all(map(equal, left, right))
    if kind is dict:
        effort.spend(len(left) * _EFFORT)
        mapping = cast("dict[Any, Any]", right)
        return len(left) == len(mapping) and all(
            key in mapping and equal(value, mapping[key]) for key, value in cast("dict[Any, Any]", left).items()
        )
    return bool(left == right)


def within_int(number: int) -> int:
    if MIN_INT <= number <= MAX_INT:
        return number
    raise EvaluationError("integer overflow")


def within_uint(number: int) -> UInt:
    if 0 <= number <= MAX_UINT:
        return UInt(number)
    raise EvaluationError("unsigned integer overflow")


def no_overload() -> EvaluationError:
    return EvaluationError("no such overload")
