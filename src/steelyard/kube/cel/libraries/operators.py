"""Arithmetic, comparison, membership, indexes and sizes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from steelyard.kube import effort
from steelyard.kube.cel import values
from steelyard.kube.cel.functions import Overload, declare
from steelyard.kube.cel.problems import EvaluationError
from steelyard.kube.cel.values import Duration, Timestamp, UInt, within_int, within_uint

_Binary: TypeAlias = Callable[[Any, Any], Any]
_EFFORT: Final = 20
"""Of comparing two values; what lists and maps hold is counted as they are gone through."""
_EARLIEST: Final = -62135596800 * 1_000_000_000
_LATEST: Final = 253402300800 * 1_000_000_000


def within_duration(nanoseconds: int) -> Duration:
    if values.MIN_INT <= nanoseconds <= values.MAX_INT:
        return Duration(nanoseconds)
    raise EvaluationError("duration overflow")


def within_timestamp(nanoseconds: int) -> Timestamp:
    if _EARLIEST <= nanoseconds < _LATEST:
        return Timestamp(nanoseconds)
    raise EvaluationError("timestamp overflow")


def _divide(left: int, right: int) -> int:
    """Towards zero."""
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return within_int(quotient if (left < 0) == (right < 0) else -quotient)


def _modulo(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _divide_uint(left: int, right: int) -> UInt:
    if right == 0:
        raise EvaluationError("division by zero")
    return UInt(left // right)


def _modulo_uint(left: int, right: int) -> UInt:
    if right == 0:
        raise EvaluationError("modulus by zero")
    return UInt(left % right)


def _divide_double(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _multiply_double(left: float, right: float) -> float:
    return left * right


def _ordered(compare: _Binary) -> _Binary:
    def check(left: Any, right: Any) -> bool:
        if left != left or right != right:
            raise EvaluationError("NaN values cannot be ordered")
        return compare(left, right)

    return check


def _comparisons() -> Iterator[Overload]:
    for name, compare in (("<", operator.lt), ("<=", operator.le), (">", operator.gt), (">=", operator.ge)):
        for kind in ("bool", "int", "uint", "string", "bytes", "timestamp", "duration"):
            yield declare(f"_{name}_({kind}, {kind}) bool", compare)
        for pair in ("int, double", "uint, double", "double, double", "double, int", "double, uint"):
            yield declare(f"_{name}_({pair}) bool", _ordered(compare))
        for pair in ("int, uint", "uint, int"):
            yield declare(f"_{name}_({pair}) bool", compare)


def at_index(items: list[Any], index: Any) -> Any:
    if index.__class__ is float and index.is_integer():
        index = int(index)
    if not isinstance(index, int) or isinstance(index, bool):
        raise EvaluationError(f"unsupported index type '{values.kind_of(index)}' in list")
    if 0 <= index < len(items):
        return items[index]
    raise EvaluationError(f"index out of bounds: {index}")


def at_key(mapping: dict[Any, Any], key: Any) -> Any:
    try:
        return mapping[key]
    except KeyError:
        raise EvaluationError(f"no such key: {key}") from None
    except TypeError:
        raise values.no_overload() from None


def _maybe_at(found: Callable[[Any, Any], Any], holds: Callable[[Any, Any], bool]) -> _Binary:
    def run(container: Any, key: Any) -> values.Optional:
        return values.Optional(found(container, key)) if holds(container, key) else values.NONE

    return run


def _through_optional(inner: _Binary) -> _Binary:
    """Looks into the value of an optional; nothing is found in an absent one."""

    def run(container: values.Optional, key: Any) -> Any:
        return values.NONE if container is values.NONE else inner(container.value, key)

    return run


def _has_index(items: list[Any], index: Any) -> bool:
    return 0 <= index < len(items)


def _has_key(mapping: dict[Any, Any], key: Any) -> bool:
    return key in mapping


def in_list(item: Any, items: list[Any]) -> bool:
    return find(item, items) >= 0


def find(item: Any, items: list[Any]) -> int:
    """Where the item first stands, or -1."""
    if item.__class__ is str:
        effort.spend(len(items))
        return items.index(item) if item in items else -1
    for index, each in enumerate(items):
        effort.spend(_EFFORT)
        if values.equal(item, each):
            return index
    return -1


def _in_map(key: Any, mapping: dict[Any, Any]) -> bool:
    try:
        return key in mapping
    except TypeError:
        raise values.no_overload() from None


_list_at: Final = _maybe_at(at_index, _has_index)
_map_at: Final = _maybe_at(at_key, _has_key)

OVERLOADS: Final = (
    declare("_?_:_(bool, A, A) A", lambda condition, left, right: left if condition else right),
    declare("!_(bool) bool", operator.not_),
    declare("_==_(A, A) bool", values.equal),
    declare("_!=_(A, A) bool", lambda left, right: not values.equal(left, right)),
    declare("_+_(bytes, bytes) bytes", operator.add),
    declare("_+_(double, double) double", operator.add),
    declare("_+_(duration, duration) duration", lambda a, b: within_duration(a.nanoseconds + b.nanoseconds)),
    declare("_+_(duration, timestamp) timestamp", lambda a, b: within_timestamp(a.nanoseconds + b.nanoseconds)),
    declare("_+_(timestamp, duration) timestamp", lambda a, b: within_timestamp(a.nanoseconds + b.nanoseconds)),
    declare("_+_(int, int) int", lambda a, b: within_int(a + b)),
    declare("_+_(list(A), list(A)) list(A)", operator.add),
    declare("_+_(string, string) string", operator.add),
    declare("_+_(uint, uint) uint", lambda a, b: within_uint(a + b)),
    declare("_-_(double, double) double", operator.sub),
    declare("_-_(duration, duration) duration", lambda a, b: within_duration(a.nanoseconds - b.nanoseconds)),
    declare("_-_(int, int) int", lambda a, b: within_int(a - b)),
    declare("_-_(timestamp, duration) timestamp", lambda a, b: within_timestamp(a.nanoseconds - b.nanoseconds)),
    declare("_-_(timestamp, timestamp) duration", lambda a, b: within_duration(a.nanoseconds - b.nanoseconds)),
    declare("_-_(uint, uint) uint", lambda a, b: within_uint(int(a) - int(b))),
    declare("_*_(double, double) double", _multiply_double),
    declare("_*_(int, int) int", lambda a, b: within_int(a * b)),
    declare("_*_(uint, uint) uint", lambda a, b: within_uint(a * b)),
    declare("_/_(double, double) double", _divide_double),
    declare("_/_(int, int) int", _divide),
    declare("_/_(uint, uint) uint", _divide_uint),
    declare("_%_(int, int) int", _modulo),
    declare("_%_(uint, uint) uint", _modulo_uint),
    declare("-_(double) double", operator.neg),
    declare("-_(int) int", lambda a: within_int(-a)),
    *_comparisons(),
    declare("_[_](list(A), int) A", at_index),
    declare("_[_](map(A, B), A) B", at_key),
    declare("_[_](optional(list(A)), int) optional(A)", _through_optional(_list_at)),
    declare("_[_](optional(map(A, B)), A) optional(B)", _through_optional(_map_at)),
    declare("_[?_](list(A), int) optional(A)", _list_at),
    declare("_[?_](optional(list(A)), int) optional(A)", _through_optional(_list_at)),
    declare("_[?_](map(A, B), A) optional(B)", _map_at),
    declare("_[?_](optional(map(A, B)), A) optional(B)", _through_optional(_map_at)),
    declare("@in(A, list(A)) bool", in_list),
    declare("@in(A, map(A, B)) bool", _in_map),
    *(
        declare(signature, len)
        for kind in ("bytes", "list(A)", "map(A, B)", "string")
        for signature in (f"size({kind}) int", f"{kind} -> size() int")
    ),
)
