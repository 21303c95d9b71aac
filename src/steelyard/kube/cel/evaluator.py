"""Checked trees into Python closures.

What the checker found out is used up here: a field of an object is one look-up, a call whose arguments have known types
goes straight to its implementation. A closure takes the frame, a list with one place per variable; its first place
holds the number of steps that macros may still take.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from steelyard.kube.cel import loops, structures, values
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
from steelyard.kube.cel.checker import Checked
from steelyard.kube.cel.functions import Overload
from steelyard.kube.cel.loops import Frame, Run
from steelyard.kube.cel.problems import EvaluationError
from steelyard.kube.cel.types import Field, Type

_SIMPLE: Final = frozenset(("bool", "int", "string", "bytes"))
_MADE: Final = frozenset(("string", "bytes", "list"))
_TAKEN: Final = frozenset(("_[_]", "_[?_]", "_?_:_", "charAt", "value", "orValue"))
"""Functions whose result was there before."""
_TEXT_PER_STEP: Final = 40
"""Upstream's cost of a text is a tenth of its length, and a step is four of its units."""
_FOLDED: Final = ("duration", "timestamp", "quantity", "semver", "ip", "cidr", "url")


def compile_(checked: Checked, variables: tuple[str, ...]) -> tuple[Run, int]:
    """The closure and the size of the frame it needs, in which the variables follow the number of steps."""
    evaluator = _Evaluator(checked, {name: place for place, name in enumerate(variables, 1)})
    return evaluator.compile(checked.root), evaluator.size


class _Evaluator:
    def __init__(self, checked: Checked, places: Mapping[str, int]) -> None:
        self._checked = checked
        self._places = dict(places)
        self.size = 1 + len(places)

    def compile(self, node: Node) -> Run:
        if id(node) in self._checked.constants:
            return _constant(self._checked.constants[id(node)])
        match node:
            case Constant():
                return _constant(node.value)
            case Identifier():
                return operator.itemgetter(self._places[node.name])
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

    def _type(self, node: Node) -> Type:
        return self._checked.type_of(node)

    def _select(self, node: Select) -> Run:
        type_ = self._type(node.operand)
        operand = self.compile(node.operand)
        if type_.kind == "object":
            field = type_.fields[node.field]
            if node.is_test:
                return _tested(operand, field)
            take = _of_object(operand, field, node.field)
            if node.is_optional:
                return _maybe(_tested(operand, field), take)
            if isinstance(node.operand, Identifier):
                return _of_variable(self._places[node.operand.name], field, take)
            return take
        if type_.kind == "optional":
            return self._of_optional(node, operand, type_.parameters[0])
        key = node.field
        if node.is_test:
            return lambda frame: key in loops.mapping(operand(frame))
        if node.is_optional:
            return lambda frame: (
                values.Optional(found[key]) if key in (found := loops.mapping(operand(frame))) else values.NONE
            )
        return _of_map(operand, key)

    def _of_optional(self, node: Select, operand: Run, inner: Type) -> Run:
        field = inner.fields.get(node.field) if inner.kind == "object" else None
        key = field.name if field is not None else node.field
        holder: Run = operator.itemgetter(0)
        take = _of_object(holder, field, key) if field is not None else _of_map(holder, key)
        is_test = node.is_test

        def run(frame: Frame) -> Any:
            optional = operand(frame)
            is_present = optional is not values.NONE and loops.mapping(optional.value).get(key) is not None
            if is_test:
                return is_present
            return values.Optional(take([optional.value])) if is_present else values.NONE

        return run

    def _call(self, node: Call) -> Run:
        arguments = node.arguments if node.target is None else [node.target, *node.arguments]
        runs = [self.compile(argument) for argument in arguments]
        types_ = [self._type(argument) for argument in arguments]
        match node.function:
            case "_&&_":
                return _decided(runs[0], runs[1], by=False)
            case "_||_":
                return _decided(runs[0], runs[1], by=True)
            case "_?_:_":
                return _conditional(runs[0], runs[1], runs[2])
            case "!_" if types_[0].kind == "bool":
                inner = runs[0]
                return lambda frame: not inner(frame)
            case "_==_":
                return _compared(runs, types_, negated=False)
            case "_!=_":
                return _compared(runs, types_, negated=True)
            case "_+_" if types_[0].kind == "list" and types_[0].list_kind != "atomic":
                return _weighed(_called(structures.addition(types_[0]), runs))
            case "@in" if types_[1].kind == "list" and types_[0].kind == types_[1].parameters[0].kind == "string":
                item, items = runs
                return lambda frame: item(frame) in items(frame)
            case _:
                return self._dispatched(node, runs, types_)

    def _dispatched(self, node: Call, runs: list[Run], types_: list[Type]) -> Run:
        overloads = self._checked.overloads_of(node)
        if len(overloads) == 1 and not any(type_.kind == "dyn" for type_ in types_):
            implementation = overloads[0].implementation
            is_constant = node.target is None and all(isinstance(argument, Constant) for argument in node.arguments)
            if node.function in _FOLDED and is_constant:
                try:
                    return _constant(implementation(*(run([]) for run in runs)))
                except EvaluationError:
                    return _called(implementation, runs)
            is_made = overloads[0].result.kind in _MADE and node.function not in _TAKEN
            return _weighed(_called(implementation, runs)) if is_made else _called(implementation, runs)
        return _weighed(_by_value(overloads, runs))

    def _list(self, node: ListLiteral) -> Run:
        runs = [self.compile(element) for element in node.elements]
        optional = node.optional
        if not optional:
            if all(isinstance(element, Constant) for element in node.elements):
                return _constant([run([]) for run in runs])
            return lambda frame: [run(frame) for run in runs]

        def run(frame: Frame) -> list[Any]:
            found: list[Any] = []
            for index, element in enumerate(runs):
                value = element(frame)
                if index not in optional:
                    found.append(value)
                elif value is not values.NONE:
                    found.append(value.value)
            return found

        return run

    def _map(self, node: MapLiteral) -> Run:
        entries = [(self.compile(key), self.compile(value), maybe) for key, value, maybe in node.entries]

        def run(frame: Frame) -> dict[Any, Any]:
            found: dict[Any, Any] = {}
            for key_run, value_run, is_optional in entries:
                key, value = key_run(frame), value_run(frame)
                if key.__class__ not in (bool, int, values.UInt, str):
                    raise EvaluationError(f"unsupported key type: {values.kind_of(key)}")
                if key in found:
                    raise EvaluationError(f"Failed with repeated key {key}")
                if not is_optional:
                    found[key] = value
                elif value is not values.NONE:
                    found[key] = value.value
            return found

        return run

    def _comprehension(self, node: Comprehension) -> Run:
        over = self.compile(node.range)
        before = dict(self._places)
        first = self.size
        self.size += len(node.variables)
        self._places.update({name: first + index for index, name in enumerate(node.variables)})
        condition = self.compile(node.condition) if node.condition is not None else None
        result = self.compile(node.result) if node.result is not None else None
        self._places = before
        if node.macro in ("optMap", "optFlatMap"):
            assert result is not None
            return loops.mapped_optional(over, result, first, wraps=node.macro == "optMap")
        steps = loops.pairs(over, first) if len(node.variables) == 2 else loops.single(over, first)
        match node.macro:
            case "all":
                assert condition is not None
                return loops.quantified(over, first, len(node.variables) == 2, condition, by=False)
            case "exists":
                assert condition is not None
                return loops.quantified(over, first, len(node.variables) == 2, condition, by=True)
            case "exists_one":
                assert condition is not None
                return loops.only_one(over, first, len(node.variables) == 2, condition)
            case "filter":
                assert condition is not None
                return lambda frame: [frame[first] for _ in steps(frame) if loops.true(condition(frame))]
            case "map" | "transformList":
                assert result is not None
                return lambda frame: [
                    result(frame) for _ in steps(frame) if condition is None or loops.true(condition(frame))
                ]
            case "transformMap":
                assert result is not None
                return loops.keyed(steps, condition, result, first)
            case _:
                assert result is not None
                return loops.merged(steps, condition, result)


def _constant(value: Any) -> Run:
    return lambda frame: value


def _of_object(operand: Run, field: Field, shown: str) -> Run:
    """A field's value. A field that is absent or null is an error that rules avoid with `has`."""
    name, convert = field.name, field.type.convert

    def run(frame: Frame) -> Any:
        found = operand(frame)
        value = found.get(name) if found.__class__ is dict else None
        if value is None:
            raise EvaluationError(f"no such key: {shown}")
        return value if convert is None else convert(value)

    return run


def _of_variable(place: int, field: Field, general: Run) -> Run:
    """The common case by the shortest way; null and absent fields go the general one."""
    name, convert = field.name, field.type.convert

    def run(frame: Frame) -> Any:
        try:
            value = frame[place][name]
        except (KeyError, TypeError):
            return general(frame)
        if value is None:
            return general(frame)
        return value if convert is None else convert(value)

    return run


def _tested(operand: Run, field: Field) -> Run:
    name = field.name
    return lambda frame: operand(frame).get(name) is not None


def _maybe(is_there: Run, take: Run) -> Run:
    return lambda frame: values.Optional(take(frame)) if is_there(frame) else values.NONE


def _of_map(operand: Run, key: str) -> Run:
    def run(frame: Frame) -> Any:
        found = operand(frame)
        if found.__class__ is values.Optional:
            is_present = found is not values.NONE and key in loops.mapping(found.value)
            return values.Optional(found.value[key]) if is_present else values.NONE
        try:
            return loops.mapping(found)[key]
        except KeyError:
            raise EvaluationError(f"no such key: {key}") from None

    return run


def _decided(left: Run, right: Run, *, by: bool) -> Run:
    """`&&` and `||`: one side of the deciding value is enough, even if the other fails."""

    def run(frame: Frame) -> bool:
        try:
            first = left(frame)
        except EvaluationError:
            if right(frame) is by:
                return by
            raise
        if first is by:
            return by
        second = right(frame)
        if second is by:
            return by
        return loops.true(first) and loops.true(second) if by is False else loops.true(first) or loops.true(second)

    return run


def _conditional(condition: Run, then: Run, otherwise: Run) -> Run:
    def run(frame: Frame) -> Any:
        value = condition(frame)
        if value is True:
            return then(frame)
        if value is False:
            return otherwise(frame)
        raise values.no_overload()

    return run


def _compared(runs: list[Run], types_: list[Type], *, negated: bool) -> Run:
    left, right = runs
    if types_[0].kind in _SIMPLE and types_[1].kind == types_[0].kind:
        if negated:
            return lambda frame: left(frame) != right(frame)
        return lambda frame: left(frame) == right(frame)
    equal = structures.equality(types_[0] if types_[0].kind != "dyn" else types_[1])
    if negated:
        return lambda frame: not equal(left(frame), right(frame))
    return lambda frame: equal(left(frame), right(frame))


def _called(implementation: Callable[..., Any], runs: list[Run]) -> Run:
    if len(runs) == 1:
        only = runs[0]
        return lambda frame: implementation(only(frame))
    if len(runs) == 2:
        first, second = runs
        return lambda frame: implementation(first(frame), second(frame))
    return lambda frame: implementation(*[run(frame) for run in runs])


def _weighed(made: Run) -> Run:
    """For what a call makes: its size takes steps, so that no rule can fill the memory."""

    def run(frame: Frame) -> Any:
        value = made(frame)
        kind = value.__class__
        if kind is str or kind is bytes:
            loops.take_steps(frame, len(value) // _TEXT_PER_STEP)
        elif kind is list:
            loops.take_steps(frame, len(value))
        return value

    return run


def _by_value(overloads: tuple[Overload, ...], runs: list[Run]) -> Run:
    """For arguments whose types only their values tell."""

    def run(frame: Frame) -> Any:
        arguments = [each(frame) for each in runs]
        for overload in overloads:
            if overload.takes(arguments):
                try:
                    return overload.implementation(*arguments)
                except (TypeError, AttributeError):
                    break
        raise values.no_overload()

    return run
