"""Finds the type of every part of an expression, and what is wrong with it, before it is ever run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from steelyard.kube.cel import functions, types, values
from steelyard.kube.cel.ast import (
    Call,
    Comprehension,
    Constant,
    Identifier,
    ListLiteral,
    MapLiteral,
    Node,
    Select,
)
from steelyard.kube.cel.functions import Overload
from steelyard.kube.cel.problems import CompileError, EvaluationError, Problem
from steelyard.kube.cel.types import Type

_TYPE_NAMES: Final[dict[str, tuple[str, Type]]] = {
    **{
        name: (name, types.SIMPLE[name])
        for name in ("bool", "bytes", "double", "int", "null_type", "string", "type", "uint")
    },
    "list": ("list", types.list_of(types.DYN)),
    "map": ("map", types.map_of(types.DYN, types.DYN)),
    "optional_type": ("optional_type", types.optional_of(types.DYN)),
    "google.protobuf.Duration": ("google.protobuf.Duration", types.DURATION),
    "google.protobuf.Timestamp": ("google.protobuf.Timestamp", types.TIMESTAMP),
    **{each.name: (each.name, each) for each in types.OPAQUE.values()},
}
_LITERALS: Final[dict[type, Type]] = {
    bool: types.BOOL, int: types.INT, values.UInt: types.UINT, float: types.DOUBLE, str: types.STRING,
    bytes: types.BYTES, type(None): types.NULL,
}  # fmt: skip
_READ_EARLY: Final = ("duration", "timestamp", "matches")


class Checked:
    """A tree whose parts have types. Nodes are told apart by identity, so the tree is kept with them."""

    __slots__ = ("_overloads", "_types", "constants", "root", "type", "variables_used")

    def __init__(self, root: Node, checker: _Checker) -> None:
        self.root = root
        resolve = checker.bindings.resolve
        self._types = {key: resolve(each, unknown_is_dynamic=True) for key, each in checker.types.items()}
        self._overloads = checker.overloads
        self.constants = checker.constants
        self.variables_used = frozenset(checker.variables_used)
        self.type = self._types[id(root)]

    def type_of(self, node: Node) -> Type:
        return self._types[id(node)]

    def overloads_of(self, call: Call) -> tuple[Overload, ...]:
        return self._overloads[id(call)]


def check(source: str, root: Node, variables: Mapping[str, Type]) -> Checked:
    """Raises CompileError with every problem found."""
    checker = _Checker(dict(variables))
    checker.check(root)
    if not checker.problems:
        checker.judge_literals()
    if checker.problems:
        raise CompileError(source, checker.problems)
    return Checked(root, checker)


class _Checker:
    def __init__(self, variables: dict[str, Type]) -> None:
        self._scope = variables
        self._outer = frozenset(variables)
        self._local: list[str] = []
        self.bindings = types.Bindings()
        self.types: dict[int, Type] = {}
        self.overloads: dict[int, tuple[Overload, ...]] = {}
        self.constants: dict[int, Any] = {}
        self.variables_used: set[str] = set()
        self.problems: list[Problem] = []
        self._formats_within = 0
        self._alike: list[list[tuple[Node, Type]]] = []
        self._literals: list[tuple[str, Constant]] = []

    def judge_literals(self) -> None:
        """What only counts once the types are right: lists of one type, durations and patterns that can be read."""
        for group in self._alike:
            wanted = self._shown(group[0][1])
            for node, found in group[1:]:
                if self._shown(found) != wanted:
                    self._mismatch(node, group[0][1], found)
                    break
        for function, literal in self._literals:
            for overload in functions.table()[function]:
                arguments = ("", literal.value) if function == "matches" else (literal.value,)
                if not overload.is_member and overload.takes(arguments) and len(overload.parameters) == len(arguments):
                    try:
                        overload.implementation(*arguments)
                    except EvaluationError:
                        self._problem(literal, f"invalid {function} argument")

    def check(self, node: Node) -> Type:
        found = self.bindings.resolve(self._find(node))
        self.types[id(node)] = found
        return found

    def _find(self, node: Node) -> Type:
        match node:
            case Constant():
                return _LITERALS[node.value.__class__]
            case Identifier():
                return self._identifier(node)
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

    def _problem(self, node: Node, text: str) -> Type:
        self.problems.append(Problem(node.position, text))
        return types.ERROR

    def _undeclared(self, node: Node, name: str) -> Type:
        return self._problem(node, f"undeclared reference to '{name}' (in container '')")

    def _mismatch(self, node: Node, wanted: Type, found: Type) -> Type:
        return self._problem(node, f"expected type '{self._shown(wanted)}' but found '{self._shown(found)}'")

    def _shown(self, type_: Type) -> str:
        return str(self.bindings.resolve(type_, unknown_is_dynamic=True))

    def _identifier(self, node: Identifier) -> Type:
        name = node.name.removeprefix(".")
        found = self._scope.get(name)
        if found is not None:
            node.name = name
            if name not in self._local:
                self.variables_used.add(name)
            return found
        return self._named_type(node, name) or self._undeclared(node, node.name)

    def _named_type(self, node: Node, name: str) -> Type | None:
        found = _TYPE_NAMES.get(name)
        if found is None:
            return None
        self.constants[id(node)] = values.TypeName(found[0])
        return types.type_of(found[1])

    def _select(self, node: Select) -> Type:
        name = None if node.is_test or node.is_optional else _qualified(node)
        if name is not None and name.partition(".")[0] not in self._scope:
            found = self._named_type(node, name)
            if found is not None:
                return found
        operand = self.check(node.operand)
        target = operand.parameters[0] if operand.kind == "optional" else operand
        if target.kind == "map":
            result = target.parameters[1]
        elif target.kind == "object":
            field = target.fields.get(node.field)
            result = field.type if field is not None else self._problem(node, f"undefined field '{node.field}'")
        elif target.kind == "param":
            self.bindings.assign(types.DYN, target)
            result = types.DYN
        else:
            if not types.is_dynamic(target):
                self._problem(node, f"type '{self._shown(target)}' does not support field selection")
            result = types.DYN
        if node.is_test:
            return types.BOOL
        return types.optional_of(result) if operand.kind == "optional" or node.is_optional else result

    def _call(self, node: Call) -> Type:
        self._formats_within += node.function == "format"
        arguments = [self.check(argument) for argument in node.arguments]
        self._formats_within -= node.function == "format"
        if node.function in _READ_EARLY and node.arguments and isinstance(node.arguments[-1], Constant):
            self._literals.append((node.function, node.arguments[-1]))
        if node.target is not None:
            prefix = _qualified(node.target)
            known = functions.table().get(f"{prefix}.{node.function}") if prefix else None
            if known is not None:
                node.function, node.target = f"{prefix}.{node.function}", None
        if node.target is not None:
            arguments.insert(0, self.check(node.target))
        if node.function in ("_&&_", "_||_"):
            wrong = [index for index, type_ in enumerate(arguments) if not self.bindings.assign(type_, types.BOOL)]
            for index in wrong:
                self._mismatch(node.arguments[index], types.BOOL, arguments[index])
            self.overloads[id(node)] = ()
            return types.ERROR if wrong else types.BOOL
        declared = functions.table().get(node.function)
        if declared is None:
            return self._undeclared(node, node.function)
        return self._resolve(node, declared, arguments)

    def _resolve(self, node: Call, declared: tuple[Overload, ...], arguments: list[Type]) -> Type:
        matching: list[Overload] = []
        result: Type | None = None
        is_member = node.target is not None
        for overload in declared:
            if overload.is_member != is_member or len(overload.parameters) != len(arguments):
                continue
            parameters, declared_result = self._instance(overload)
            if not self.bindings.assign_all(arguments, parameters):
                continue
            matching.append(overload)
            found = self.bindings.resolve(declared_result)
            if result is None:
                result = found
            elif result.kind != "dyn" and str(result) != str(found):
                result = types.DYN
        if result is None:
            shown = [self._shown(each) for each in arguments]
            listed = f"{shown[0]}.({', '.join(shown[1:])})" if is_member else f"({', '.join(shown)})"
            return self._problem(node, f"found no matching overload for '{node.function}' applied to '{listed}'")
        self.overloads[id(node)] = tuple(matching)
        keeps_kind = node.function == "_+_" and arguments[0].kind == "list" and arguments[0].list_kind != "atomic"
        return arguments[0] if keeps_kind else result

    def _instance(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """The overload with variables of its own, told apart from those of other calls."""
        if not overload.has_variables:
            return overload.parameters, overload.result
        fresh: dict[str, Type] = {}
        parameters = tuple(self._renamed(parameter, fresh) for parameter in overload.parameters)
        return parameters, self._renamed(overload.result, fresh)

    def _renamed(self, type_: Type, fresh: dict[str, Type]) -> Type:
        if type_.kind == "param":
            return fresh.setdefault(type_.name, self.bindings.variable())
        if not type_.parameters:
            return type_
        return Type(type_.kind, tuple(self._renamed(each, fresh) for each in type_.parameters), type_.name)

    def _entry(self, node: Node, *, is_optional: bool) -> tuple[Node, Type]:
        found = self.check(node)
        if is_optional:
            if found.kind == "optional":
                return node, found.parameters[0]
            if found.kind != "dyn":
                self._mismatch(node, types.optional_of(found), found)
        return node, found

    def _joined(self, entries: list[tuple[Node, Type]]) -> Type:
        """The type of all entries; a list of several types is one of `dyn`, and refused later."""
        if not entries:
            return self.bindings.variable()
        if not self._formats_within:
            self._alike.append(entries)
        known = entries[0][1]
        for _, found in entries[1:]:
            known = self.bindings.join(known, found) or types.DYN
        return known

    def _list(self, node: ListLiteral) -> Type:
        entries = [
            self._entry(element, is_optional=index in node.optional) for index, element in enumerate(node.elements)
        ]
        return types.list_of(self._joined(entries))

    def _map(self, node: MapLiteral) -> Type:
        keys: list[tuple[Node, Type]] = []
        found: list[tuple[Node, Type]] = []
        for key, value, is_optional in node.entries:
            keys.append(self._entry(key, is_optional=False))
            found.append(self._entry(value, is_optional=is_optional))
        return types.map_of(self._joined(keys), self._joined(found))

    def _comprehension(self, node: Comprehension) -> Type:
        variables = self._variables(node, self.check(node.range))
        before = dict(self._scope)
        self._scope.update(variables)
        self._local.extend(variables)
        condition = self.check(node.condition) if node.condition is not None else types.BOOL
        result = self.check(node.result) if node.result is not None else types.BOOL
        del self._local[len(self._local) - len(variables) :]
        self._scope = before
        if node.condition is not None and not self.bindings.assign(condition, types.BOOL):
            self._condition_problem(node, condition, result, variables)
        match node.macro:
            case "all" | "exists" | "exists_one":
                return types.BOOL
            case "filter":
                return types.list_of(next(iter(variables.values())))
            case "map" | "transformList":
                return types.list_of(result)
            case "transformMap":
                return types.map_of(next(iter(variables.values())), result)
            case "transformMapEntry":
                return result
            case "optMap":
                return types.optional_of(result)
            case "optFlatMap":
                return result

    def _variables(self, node: Comprehension, over: Type) -> dict[str, Type]:
        names = node.variables
        if node.macro in ("optMap", "optFlatMap"):
            return {names[0]: over.parameters[0] if over.kind == "optional" else types.DYN}
        if over.kind == "list":
            found = (types.INT, over.parameters[0]) if len(names) == 2 else (over.parameters[0],)
        elif over.kind == "map":
            found = over.parameters[: len(names)]
        else:
            if over.kind == "param":
                self.bindings.assign(types.DYN, over)
            elif not types.is_dynamic(over):
                text = "cannot be range of a comprehension (must be list, map, or dynamic)"
                self._problem(node.range, f"expression of type '{self._shown(over)}' {text}")
            found = (types.DYN, types.DYN)[: len(names)]
        return dict(zip(names, found, strict=True))

    def _condition_problem(
        self, node: Comprehension, condition: Type, result: Type, variables: Mapping[str, Type]
    ) -> None:
        assert node.condition is not None
        if node.macro in ("all", "exists"):
            self._mismatch(node.condition, types.BOOL, condition)
            return
        if node.macro == "exists_one":
            shown = "int"
        else:
            element = next(iter(variables.values())) if node.macro == "filter" else result
            shown = str(types.list_of(self.bindings.resolve(element, unknown_is_dynamic=True)))
        listed = f"({self._shown(condition)}, {shown}, {shown})"
        self._problem(node, f"found no matching overload for '_?_:_' applied to '{listed}'")


def _qualified(node: Node) -> str | None:
    """`a.b.c` for a chain of selections that starts at a name."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.is_test and not node.is_optional:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Identifier):
        return None
    return ".".join([node.name.removeprefix("."), *reversed(parts)])
