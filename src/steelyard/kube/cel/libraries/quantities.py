"""Kubernetes quantities: `500m`, `2Gi`, `1.5`."""

from __future__ import annotations

import functools
import re
from fractions import Fraction
from typing import ClassVar, Final

from steelyard.frozen import frozen
from steelyard.kube.cel import values
from steelyard.kube.cel.functions import declare
from steelyard.kube.cel.problems import EvaluationError

_SHAPE: Final = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)([A-Za-z]*|[eE][+-]?\d+)", re.ASCII)
_SUFFIXES: Final[dict[str, Fraction]] = {
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("n", "u", "m", ""), -3)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
_WRONG_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"
_LONGEST: Final = 1_000
_NANO: Final = Fraction(1, 10**9)


@functools.total_ordering
@frozen
class Quantity:
    kind: ClassVar[str] = "kubernetes.Quantity"
    amount: Fraction

    def __lt__(self, other: Quantity) -> bool:
        return self.amount < other.amount


def parse(text: str) -> Quantity:
    """Raises EvaluationError. Amounts finer than a billionth are rounded up, as upstream does."""
    match = _SHAPE.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise EvaluationError(_WRONG_FORMAT)
    sign, number, suffix = match.groups()
    scale = _SUFFIXES.get(suffix)
    if scale is None:
        if re.fullmatch(r"[eE][+-]?\d{1,9}", suffix, re.ASCII) is None:
            raise EvaluationError(_WRONG_SUFFIX)
        exponent = int(suffix[1:])
        if abs(exponent) > 400:
            exponent = 400 if exponent > 0 else -400
        scale = Fraction(10) ** exponent
    amount = Fraction(number if number[0] != "." else f"0{number}") * scale
    if amount % _NANO:
        amount = (amount // _NANO + 1) * _NANO
    return Quantity(-amount if sign == "-" else amount)


def _is_quantity(text: str) -> bool:
    try:
        parse(text)
    except EvaluationError:
        return False
    return True


def _is_integer(quantity: Quantity) -> bool:
    whole = quantity.amount
    return whole.denominator == 1 and values.MIN_INT <= whole <= values.MAX_INT


def _as_integer(quantity: Quantity) -> int:
    if not _is_integer(quantity):
        raise EvaluationError("cannot convert value to integer")
    return int(quantity.amount)


def _compare(left: Quantity, right: Quantity) -> int:
    return (left.amount > right.amount) - (left.amount < right.amount)


OVERLOADS: Final = (
    declare("quantity(string) quantity", parse),
    declare("isQuantity(string) bool", _is_quantity),
    declare("sign(quantity) int", lambda a: (a.amount > 0) - (a.amount < 0)),
    declare("quantity -> isGreaterThan(quantity) bool", lambda a, b: a.amount > b.amount),
    declare("quantity -> isLessThan(quantity) bool", lambda a, b: a.amount < b.amount),
    declare("quantity -> compareTo(quantity) int", _compare),
    declare("quantity -> asApproximateFloat() double", lambda a: float(a.amount)),
    declare("quantity -> asInteger() int", _as_integer),
    declare("quantity -> isInteger() bool", _is_integer),
    declare("quantity -> add(quantity) quantity", lambda a, b: Quantity(a.amount + b.amount)),
    declare("quantity -> add(int) quantity", lambda a, b: Quantity(a.amount + b)),
    declare("quantity -> sub(quantity) quantity", lambda a, b: Quantity(a.amount - b.amount)),
    declare("quantity -> sub(int) quantity", lambda a, b: Quantity(a.amount - b)),
)
