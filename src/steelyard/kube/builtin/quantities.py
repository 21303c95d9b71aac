"""Quantities as Go writes them: whatever way an amount was given, it is stored and shown in one.

canonical("1000m") == "1"    canonical("0.5") == "500m"    canonical("2048Mi") == "2Gi"    canonical(100000) == "100k"
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from steelyard.kube import remembering

_SHAPE: Final = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)([A-Za-z]*|[eE][+-]?\d+)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SUFFIX_OF: Final = {power: suffix for suffix, power in _DECIMAL.items()}
_LARGEST_POWER: Final = 18
_SMALLEST_POWER: Final = -9
_MOST_DIGITS: Final = 400
"""Of a quantity as it is written, and zeros that an exponent may add: nobody has so much of anything."""


@remembering.briefly(1024, 64)
def canonical(value: str | int | float) -> str:
    """What is no quantity is given back as it is."""
    match = _match(value)
    if match is None:
        return str(value)
    sign, number, suffix = match.groups()
    digits = Fraction(f"0{number}" if number[0] == "." else number)
    if suffix in _BINARY[1:]:
        return sign.replace("+", "") + _binary(digits * 1024 ** _BINARY.index(suffix))
    if suffix in _DECIMAL:
        return sign.replace("+", "") + _decimal(digits * Fraction(10) ** _DECIMAL[suffix])
    if suffix[1:].lstrip("+-").isdigit() and abs(int(suffix[1:])) <= _LARGEST_POWER * 2:
        return sign.replace("+", "") + _decimal(digits * Fraction(10) ** int(suffix[1:]), exponents=True)
    return str(value)


@remembering.briefly(1024, 64)
def amount(value: str | int | float) -> Fraction:
    """How much a quantity is; 0 for what is none."""
    match = _match(value)
    if match is None:
        return Fraction(0)
    sign, number, suffix = match.groups()
    digits = Fraction(f"{sign}0{number}" if number[0] == "." else f"{sign}{number.rstrip('.')}")
    if suffix in _BINARY[1:]:
        return digits * 1024 ** _BINARY.index(suffix)
    if suffix in _DECIMAL:
        return digits * Fraction(10) ** _DECIMAL[suffix]
    if not suffix[1:].lstrip("+-").isdigit():
        return Fraction(0)
    return digits * Fraction(10) ** max(-_MOST_DIGITS, min(int(suffix[1:]), _MOST_DIGITS))


def _match(value: str | int | float) -> re.Match[str] | None:
    text = str(value).strip()
    return _SHAPE.fullmatch(text) if len(text) <= _MOST_DIGITS else None


def _binary(amount: Fraction) -> str:
    if amount < 1024 or amount.denominator != 1:
        return _decimal(amount)
    whole, power = int(amount), 0
    while whole % 1024 == 0 and power < len(_BINARY) - 1:
        whole //= 1024
        power += 1
    return f"{whole}{_BINARY[power]}"


def _decimal(amount: Fraction, *, exponents: bool = False) -> str:
    """The largest power of a thousand that leaves a whole number; what is finer than a billionth is rounded up."""
    if not amount:
        return "0"
    power = _LARGEST_POWER
    while power > _SMALLEST_POWER and (amount / Fraction(10) ** power).denominator != 1:
        power -= 3
    scaled = amount / Fraction(10) ** power
    whole = -(-scaled.numerator // scaled.denominator)
    if exponents:
        return f"{whole}e{power}" if power else str(whole)
    return f"{whole}{_SUFFIX_OF[power]}"
