"""How large the values of an expression can be, for estimating what it costs.

The size of a string is its characters, that of a list its entries. `Known` is what a schema says of a value's size;
where it says nothing, that is what fits into the largest request.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Final, NamedTuple

from steelyard.frozen import frozen

MOST: Final = (1 << 64) - 1
"""Costs and sizes grow no further than this."""


class Size(NamedTuple):
    low: int
    high: int

    def union(self, other: Size) -> Size:
        return Size(min(self.low, other.low), max(self.high, other.high))

    def plus(self, other: Size) -> Size:
        return Size(add(self.low, other.low), add(self.high, other.high))

    def times(self, other: Size) -> Size:
        return Size(multiply(self.low, other.low), multiply(self.high, other.high))


ONE: Final = Size(1, 1)
UNKNOWN: Final = Size(0, MOST)


class Entries(NamedTuple):
    """The sizes of what a list or map made by the expression itself holds."""

    is_list: bool
    key: Size
    value: Size

    def union(self, other: Entries) -> Entries:
        return Entries(self.is_list, self.key.union(other.key), self.value.union(other.value))


@frozen
class Known:
    """The most elements of a value, the fewest bytes it takes in JSON, and the same of its parts."""

    most: int = 0
    bytes: int = 0
    fields: Mapping[str, Known] = field(default_factory=dict[str, "Known"])
    entry: Known | None = None
    key: Known | None = None

    def at(self, path: tuple[str, ...]) -> Known | None:
        node: Known | None = self
        for name in path:
            if node is None:
                return None
            if name in ("@items", "@values"):
                node = node.entry
            elif name == "@keys":
                node = node.key
            else:
                node = node.fields.get(name)
        return node


def add(first: int, second: int) -> int:
    return min(MOST, first + second)


def multiply(first: int, second: int) -> int:
    return min(MOST, first * second)


def scaled(size: int, factor: float) -> int:
    """Rounded up, in the floating-point numbers that upstream computes with."""
    product = math.ceil(float(size) * factor)
    return MOST if product >= 1 << 64 else product
