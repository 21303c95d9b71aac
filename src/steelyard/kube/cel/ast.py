"""The tree an expression is parsed into.

Macros (`has`, `all`, `map`, …) are nodes of their own; `position` is the offset of the token that stands for the node
in messages: the operator, the dot, the opening bracket.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias


@dataclass(slots=True)
class Constant:
    position: int
    value: Any


@dataclass(slots=True)
class Identifier:
    position: int
    name: str


@dataclass(slots=True)
class Select:
    position: int
    operand: Node
    field: str
    is_test: bool = False
    is_optional: bool = False


@dataclass(slots=True)
class Call:
    position: int
    function: str
    target: Node | None
    arguments: list[Node]


@dataclass(slots=True)
class ListLiteral:
    position: int
    elements: list[Node]
    optional: frozenset[int]


@dataclass(slots=True)
class MapLiteral:
    position: int
    entries: list[tuple[Node, Node, bool]]


Macro: TypeAlias = Literal[
    "all", "exists", "exists_one", "map", "filter", "transformList", "transformMap", "transformMapEntry", "optMap",
    "optFlatMap",
]  # fmt: skip


@dataclass(slots=True)
class Comprehension:
    """`range.macro(variables, condition, result)`; `all`, `exists`, `exists_one` and `filter` have no result."""

    position: int
    macro: Macro
    range: Node
    variables: tuple[str, ...]
    condition: Node | None
    result: Node | None


Node: TypeAlias = Constant | Identifier | Select | Call | ListLiteral | MapLiteral | Comprehension
