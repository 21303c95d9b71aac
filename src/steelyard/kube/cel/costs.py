"""What an expression costs at most, as upstream estimates it before it accepts a rule.

A unit is about what looking at a variable takes. A loop costs its body times the largest number of entries that its
range can have, a string function a tenth of a unit for every character. Where neither a schema nor the expression
bounds a size, it is what fits into the largest request, or unknown and so too much. Macros count as what they stand
for: `all` is a loop that joins its results with `&&`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from steelyard.frozen import frozen
from steelyard.kube.cel import callcosts, checker, parser
from steelyard.kube.cel.ast import Call, Comprehension, Constant, Identifier, ListLiteral, MapLiteral, Node, Select
from steelyard.kube.cel.callcosts import Argument
from steelyard.kube.cel.sizes import MOST, ONE, UNKNOWN, Entries, Known, Size, add, multiply
from steelyard.kube.cel.types import Type

_LIST: Final = 10
_MAP: Final = 30
_NO_ENTRIES: Final = Size(0, 0)
_SCALARS: Final = frozenset(("bool", "double", "duration", "int", "timestamp", "uint"))
_Path = tuple[str, ...]


@frozen
class _Local:
    path: _Path
    size: Size | None
    entries: Entries | None = None


def estimate(source: str, variables: Mapping[str, Type], known: Known) -> int:
    """The most that an expression costs, which must compile; `known` describes what all its variables stand for."""
    return _Estimator(checker.check(source, root := parser.parse(source), variables), known).cost(root)


class _Estimator:
    def __init__(self, checked: checker.Checked, known: Known) -> None:
        self._checked = checked
        self._known = known
        self._paths: dict[int, _Path] = {}
        self._sizes: dict[int, Size] = {}
        self._entries: dict[int, Entries] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> int:
        match node:
            case Constant():
                return 0
            case Identifier():
                self._paths[id(node)] = self._path(node)
                return 1
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Comprehension():
                return self._comprehension(node)

    def _path(self, node: Node) -> _Path:
        if isinstance(node, Identifier):
            local = self._local(node.name)
            return local.path if local is not None else (node.name,)
        return self._paths.get(id(node), ())

    def _local(self, name: str) -> _Local | None:
        found = self._locals.get(name)
        return found[-1] if found else None

    def _size(self, node: Node) -> Size | None:
        found = self._sizes.get(id(node)) or _literal_size(node)
        if found is not None:
            return found
        path = self._path(node)
        if path and (known := self._known.at(path[1:])) is not None:
            return Size(0, known.most)
        if _is_scalar(self._checked.type_of(node)):
            return ONE
        local = self._local(node.name) if isinstance(node, Identifier) else None
        return local.size if local is not None else None

    def _size_or_unknown(self, node: Node) -> Size:
        return self._size(node) or UNKNOWN

    def _entries_of(self, node: Node) -> Entries | None:
        found = self._entries.get(id(node))
        if found is None and isinstance(node, Identifier) and (local := self._local(node.name)) is not None:
            return local.entries
        return found

    def _select(self, node: Select) -> int:
        if id(node) in self._checked.constants:
            return 1
        cost = self.cost(node.operand)
        if node.is_test:
            return cost
        if node.is_optional:
            return add(cost, 1)
        self._paths[id(node)] = (*self._path(node.operand), node.field)
        return add(cost, 1) if self._checked.type_of(node.operand).kind in ("map", "object", "param") else cost

    def _list(self, node: ListLiteral) -> int:
        cost, size = _LIST, Size(MOST, 0) if node.elements else _NO_ENTRIES
        for element in node.elements:
            cost = add(cost, self.cost(element))
            size = size.union(self._size_or_unknown(element))
        self._entries[id(node)] = Entries(True, ONE, size)
        return cost

    def _map(self, node: MapLiteral) -> int:
        cost = _MAP
        keys = values = Size(MOST, 0) if node.entries else _NO_ENTRIES
        for key, value, _ in node.entries:
            cost = add(cost, add(self.cost(key), self.cost(value)))
            keys = keys.union(self._size_or_unknown(key))
            values = values.union(self._size_or_unknown(value))
        self._entries[id(node)] = Entries(False, keys, values)
        return cost

    def _argument(self, node: Node) -> Argument:
        path = self._path(node)
        type_ = self._checked.type_of(node)
        element = self._known.at((*path[1:], "@items")) if path else None
        literal = node.value if isinstance(node, Constant) else None
        return Argument(type_, self._size_or_unknown(node), element.most if element is not None else MOST, literal)

    def _call(self, node: Call) -> int:
        costs = [self.cost(argument) for argument in node.arguments]
        if node.function == "dyn":
            self._copy_sizes(node, node.arguments[0])
            return add(1, costs[0])
        if node.function in ("_&&_", "_||_"):
            return add(costs[0], costs[1])
        if node.function == "_?_:_":
            return self._conditional(node, costs)
        before = self.cost(node.target) if node.target is not None else 0
        target = self._argument(node.target) if node.target is not None else None
        arguments = [self._argument(argument) for argument in node.arguments]
        most, size = 0, None
        for overload in self._checked.overloads_of(node):
            cost, result = callcosts.estimate(node.function, overload, target, arguments)
            most = max(most, cost)
            size = result if size is None or result is None else size.union(result)
        if node.function == "_[_]":
            size = self._indexed(node) or size
        elif node.function == "_+_":
            self._join_entries(node, *node.arguments)
        if size is not None:
            self._sizes[id(node)] = size
        return add(before, add(most, min(MOST, sum(costs))))

    def _conditional(self, node: Call, costs: list[int]) -> int:
        _, then, otherwise = node.arguments
        self._sizes[id(node)] = self._size_or_unknown(then).union(self._size_or_unknown(otherwise))
        self._join_entries(node, then, otherwise)
        return add(costs[0], max(costs[1], costs[2]))

    def _join_entries(self, node: Node, first: Node, second: Node) -> None:
        left, right = self._entries_of(first), self._entries_of(second)
        if left is not None and right is not None:
            self._entries[id(node)] = left.union(right)

    def _indexed(self, node: Call) -> Size | None:
        over = node.arguments[0]
        kind = self._checked.type_of(over).kind
        if kind in ("list", "map", "dyn"):
            self._paths[id(node)] = (*self._path(over), "@items" if kind == "list" else "@values")
        entries = self._entries_of(over)
        return entries.value if entries is not None else self._size(node)

    def _copy_sizes(self, node: Node, source: Node) -> None:
        if (size := self._size(source)) is not None:
            self._sizes[id(node)] = size
        if (entries := self._entries_of(source)) is not None:
            self._entries[id(node)] = entries

    def _comprehension(self, node: Comprehension) -> int:
        if node.macro in ("optMap", "optFlatMap"):
            return self._bound(node)
        before = self.cost(node.range)
        self._push_variables(node)
        condition = self.cost(node.condition) if node.condition is not None else 0
        result = self.cost(node.result) if node.result is not None else 0
        step, after = _loop(node, condition, result)
        made = self._size_or_unknown(node.result) if node.result is not None else None
        if node.macro == "filter":
            made = self._size_of_entry(node)
        for name in node.variables:
            self._locals[name].pop()
        length = self._size_or_unknown(node.range)
        if made is None:
            self._sizes[id(node)] = ONE
        else:
            self._sizes[id(node)] = length
            self._entries[id(node)] = Entries(True, ONE, made.union(_NO_ENTRIES))
        return add(before, add(after, multiply(length.high, step)))

    def _size_of_entry(self, node: Comprehension) -> Size:
        local = self._locals[node.variables[0]][-1]
        known = self._known.at(local.path[1:])
        if known is not None:
            return Size(0, known.most)
        over = self._checked.type_of(node.range)
        is_scalar = bool(over.parameters) and _is_scalar(over.parameters[0])
        return ONE if is_scalar else local.size or UNKNOWN

    def _push_variables(self, node: Comprehension) -> None:
        path, entries = self._path(node.range), self._entries_of(node.range)
        is_list = entries.is_list if entries is not None else self._checked.type_of(node.range).kind == "list"
        key, value = ("@indices", "@items") if is_list else ("@keys", "@values")
        steps = [key, value] if len(node.variables) == 2 else [value if is_list else key]
        for name, step in zip(node.variables, steps, strict=True):
            size = None if entries is None else entries.value if step in ("@items", "@values") else entries.key
            self._locals.setdefault(name, []).append(_Local((*path, step), size))

    def _bound(self, node: Comprehension) -> int:
        """`x.optMap(v, e)` is `x.hasValue() ? optional.of(e with v for x.value()) : optional.none()`."""
        assert node.result is not None
        over = self.cost(node.range)
        name = node.variables[0]
        size = ONE if _is_scalar(self._checked.type_of(node.range)) else None
        self._locals.setdefault(name, []).append(_Local((), size))
        result = self.cost(node.result)
        self._locals[name].pop()
        inside = add(_LIST, add(add(over, 1), result))
        return add(add(over, 1), add(inside, 1) if node.macro == "optMap" else inside)


def _loop(node: Comprehension, condition: int, result: int) -> tuple[int, int]:
    """What one turn of the loop costs, and what is done once."""
    match node.macro:
        case "all":
            return add(condition, 3), 1
        case "exists":
            return add(condition, 4), 1
        case "exists_one":
            return add(condition, 2), 2
        case "filter":
            return add(condition, _LIST + 3), _LIST + 1
        case "map" | "transformList":
            return add(add(condition, result), _LIST + 2), _LIST + 1
        case "transformMap":
            return add(add(condition, result), 3), _MAP + 1
        case _:
            return add(add(condition, result), 2), _MAP + 1


def _literal_size(node: Node) -> Size | None:
    match node:
        case Constant(value=str() | bytes() as text):
            return Size(len(text), len(text))
        case Constant():
            return ONE
        case ListLiteral(elements=held) | MapLiteral(entries=held):
            return Size(len(held), len(held))
        case _:
            return None


def _is_scalar(type_: Type) -> bool:
    if type_.kind == "optional":
        return _is_scalar(type_.parameters[0])
    return type_.kind in _SCALARS
