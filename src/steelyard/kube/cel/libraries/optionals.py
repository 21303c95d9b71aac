"""Values that may be absent."""

from __future__ import annotations

from typing import Any, Final

from steelyard.kube.cel.functions import declare
from steelyard.kube.cel.problems import EvaluationError
from steelyard.kube.cel.values import NONE, Duration, Optional, Timestamp

_ZERO_TIME: Final = Timestamp(-62135596800 * 1_000_000_000)


def _value(optional: Optional) -> Any:
    if optional is NONE:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _of_non_zero(value: Any) -> Optional:
    is_zero = value is None or value is NONE or value in (Duration(0), _ZERO_TIME)
    if is_zero or (isinstance(value, bool | int | float | str | bytes | list | dict) and not value):
        return NONE
    return Optional(value)


def _present(items: list[Optional]) -> list[Any]:
    return [item.value for item in items if item is not NONE]


OVERLOADS: Final = (
    declare("optional.of(A) optional(A)", Optional),
    declare("optional.ofNonZeroValue(A) optional(A)", _of_non_zero),
    declare("optional.none() optional(A)", lambda: NONE),
    declare("optional(A) -> value() A", _value),
    declare("optional(A) -> hasValue() bool", lambda optional: optional is not NONE),
    declare("optional(A) -> or(optional(A)) optional(A)", lambda a, b: b if a is NONE else a),
    declare("optional(A) -> orValue(A) A", lambda a, b: b if a is NONE else a.value),
    declare("list(A) -> first() optional(A)", lambda items: Optional(items[0]) if items else NONE),
    declare("list(A) -> last() optional(A)", lambda items: Optional(items[-1]) if items else NONE),
    declare("optional.unwrap(list(optional(A))) list(A)", _present),
    declare("list(optional(A)) -> unwrapOpt() list(A)", _present),
)
