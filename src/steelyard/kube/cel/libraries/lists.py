"""Lists as a whole: order, sums, extremes, positions; and lists taken as sets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

from steelyard.kube.cel import values
from steelyard.kube.cel.functions import Overload, declare
from steelyard.kube.cel.libraries import operators
from steelyard.kube.cel.problems import EvaluationError
from steelyard.kube.cel.values import Duration, UInt

_COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def _is_sorted(items: list[Any]) -> bool:
    return not any(later < earlier for earlier, later in itertools.pairwise(items))


def _extreme(name: str, pick: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def run(items: list[Any]) -> Any:
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        return pick(items)

    return run


def _sum_of_durations(items: list[Duration]) -> Duration:
    return operators.within_duration(sum(each.nanoseconds for each in items))


def _overloads() -> Iterator[Overload]:
    for kind in _COMPARABLE:
        yield declare(f"list({kind}) -> isSorted() bool", _is_sorted)
        yield declare(f"list({kind}) -> max() {kind}", _extreme("max", max))
        yield declare(f"list({kind}) -> min() {kind}", _extreme("min", min))


def _index_of(items: list[Any], item: Any) -> int:
    return operators.find(item, items)


def _last_index_of(items: list[Any], item: Any) -> int:
    found = _index_of(items[::-1], item)
    return found if found < 0 else len(items) - 1 - found


def _contains(items: list[Any], others: list[Any]) -> bool:
    return all(operators.in_list(other, items) for other in others)


def _intersects(items: list[Any], others: list[Any]) -> bool:
    return any(operators.in_list(other, items) for other in others)


OVERLOADS: Final = (
    *_overloads(),
    declare("list(int) -> sum() int", lambda items: values.within_int(sum(items))),
    declare("list(uint) -> sum() uint", lambda items: values.within_uint(sum(items, UInt(0)))),
    declare("list(double) -> sum() double", lambda items: sum(items, 0.0)),
    declare("list(duration) -> sum() duration", _sum_of_durations),
    declare("list(A) -> indexOf(A) int", _index_of),
    declare("list(A) -> lastIndexOf(A) int", _last_index_of),
    declare("sets.contains(list(A), list(A)) bool", _contains),
    declare("sets.equivalent(list(A), list(A)) bool", lambda a, b: _contains(a, b) and _contains(b, a)),
    declare("sets.intersects(list(A), list(A)) bool", _intersects),
)
