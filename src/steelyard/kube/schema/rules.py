"""CEL rules (`x-kubernetes-validations`), run on values the rest of the schema has found valid.

Rules that speak of `oldSelf` run on updates, where an old value is known to be the same field, map entry or entry of a
list with keys. What an update leaves unchanged may go on breaking the other rules; the client is warned. A schema
without rules costs one look-up. Rules are compiled when a value first meets them and stay with the schema.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, cast

from steelyard.frozen import frozen
from steelyard.kube import effort, fields
from steelyard.kube.cel import values
from steelyard.kube.cel.problems import CompileError, CostExceeded, EvaluationError
from steelyard.kube.errors import Cause
from steelyard.kube.schema.model import MISSING, Rule, Schema

_NAME: Final = "rules"
_LONGEST_MESSAGE: Final = 5 * 1024
_BLOCKING: Final = frozenset(
    ("FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")
)
_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_EFFORT: Final = 500
"""Of looking at a value, and of running a rule; what a rule does itself is counted there."""
_Evaluate: TypeAlias = Callable[[Any, Any], Any]


@frozen
class Compiled:
    """One rule ready to run. `problem` and `message_problem` say why it is not."""

    rule: Rule
    evaluate: _Evaluate | None
    uses_old: bool
    message: _Evaluate | None
    message_uses_old: bool
    field_path: str
    problem: str = ""
    message_problem: str = ""


@frozen
class _Node:
    type: str
    keys: tuple[str, ...] | None
    """Of a list that is a map."""
    compiled: tuple[Compiled, ...]
    properties: dict[str, _Node]
    additional: _Node | None
    items: _Node | None


class _Stopped(Exception):
    """A rule has taken so long that no other is run."""


class _Pair:
    """A value and its old one, compared once: many rules may ask, about each entry of a list."""

    __slots__ = ("_is_unchanged", "old", "value")

    def __init__(self, value: Any, old: Any) -> None:
        self.value = value
        self.old = old
        self._is_unchanged: bool | None = None

    @property
    def is_unchanged(self) -> bool:
        if self._is_unchanged is None:
            self._is_unchanged = bool(self.value == self.old)
        return self._is_unchanged


@frozen
class _Correlation:
    """A value and its old one; or only those of the nearest part around it that has both."""

    current: _Pair | None = None
    around: _Pair | None = None

    def is_unchanged(self) -> bool:
        pair = self.current or self.around
        return pair is not None and pair.is_unchanged

    def within(self, value: Any, old: Any) -> _Correlation:
        if self.current is None:
            return self
        return _Correlation(None if old is None else _Pair(value, old), self.current)


def validate(
    schema: Schema,
    value: Any,
    path: str = "",
    *,
    old: Any = MISSING,
    before: Iterable[Cause] = (),
    found: list[Cause],
    warnings: list[str] | None = None,
    is_resource: bool = True,
) -> None:
    """Adds what the rules say to `found`, which has what the rest of the schema said; `before` is from elsewhere."""
    node = _node(schema, is_resource=is_resource)
    if node is None:
        return
    if any(cause.reason in _BLOCKING for cause in itertools.chain(before, found)):
        found.append(Cause(fields.NO_PATH, "FieldValueInvalid", f"Invalid value: null: {_NOT_CHECKED}"))
        return
    run = _Run(found, warnings)
    correlation = _Correlation() if old is MISSING else _Correlation(_Pair(value, old))
    try:
        with effort.LIMITED:
            run.visit(node, value, None if old is MISSING else old, path, correlation)
    except _Stopped:
        pass
    except effort.Exhausted:
        found.append(fields.invalid(path or fields.NO_PATH, schema.type, _OUT_OF_BUDGET))


def prepare(schema: Schema) -> None:
    """Compiles the rules of a resource."""
    _node(schema, is_resource=True)


def _node(schema: Schema, *, is_resource: bool) -> _Node | None:
    key = _NAME if not is_resource else f"{_NAME}-resource"
    known = schema.compiled.get(key, MISSING)
    if known is MISSING:
        known = schema.compiled[key] = _compile(schema, is_resource=is_resource)
    return cast("_Node | None", known)


def _compile(schema: Schema, *, is_resource: bool) -> _Node | None:
    if schema.reference is not None:
        return None  # only custom resources have rules, and their schemas name no other type
    properties: dict[str, _Node] = {}
    for name, child in schema.properties.items():
        inner = _node(child, is_resource=child.embedded_resource)
        if inner is not None:
            properties[name] = inner
    additional = items = None
    if schema.additional is not None:
        additional = _node(schema.additional, is_resource=schema.additional.embedded_resource)
    if schema.items is not None:
        items = _node(schema.items, is_resource=schema.items.embedded_resource)
    if not (schema.rules or properties or additional or items):
        return None
    compiled = compile_rules(schema, is_resource=is_resource) if schema.rules else ()
    keys = schema.list_map_keys if schema.list_type == "map" else None
    return _Node(schema.type, keys, compiled, properties, additional, items)


def compile_rules(schema: Schema, *, is_resource: bool) -> tuple[Compiled, ...]:
    """The rules of this node alone."""
    from steelyard.kube.cel import types
    from steelyard.kube.schema import ruletypes

    self_type = ruletypes.type_of(schema, is_resource=is_resource)
    if self_type is None:
        problem = "failed to convert to declType for CEL validation rules"
        return tuple(Compiled(rule, None, False, None, False, "", problem) for rule in schema.rules)
    return tuple(
        _compile_rule(
            schema,
            rule,
            {"self": self_type, "oldSelf": types.optional_of(self_type) if rule.optional_old_self else self_type},
        )
        for rule in schema.rules
        if rule.rule.strip()
    )


def _compile_rule(schema: Schema, rule: Rule, variables: dict[str, Any]) -> Compiled:
    from steelyard.kube.cel import program
    from steelyard.kube.schema import rulepaths

    try:
        main = program.compile_(rule.rule, variables)
    except CompileError as error:
        return Compiled(rule, None, False, None, False, "", f"compilation failed: {error}")
    if main.type.kind != "bool":
        return Compiled(rule, None, False, None, False, "", "cel expression must evaluate to a bool")
    message = None
    message_problem = ""
    if rule.message_expression:
        try:
            message = program.compile_(rule.message_expression, variables)
        except CompileError as error:
            message_problem = f"messageExpression compilation failed: {error}"
        else:
            if message.type.kind != "string":
                message, message_problem = None, "messageExpression must evaluate to a string"
    return Compiled(
        rule=rule,
        evaluate=_converting(main, variables["self"]),
        uses_old="oldSelf" in main.variables_used,
        message=None if message is None else _converting(message, variables["self"]),
        message_uses_old=message is not None and "oldSelf" in message.variables_used,
        field_path=(rulepaths.normalise(rule.field_path, schema) or "") if rule.field_path else "",
        message_problem=message_problem,
    )


def _converting(evaluate: _Evaluate, type_: Any) -> _Evaluate:
    """For a value that is not what rules compute with as it stands, such as a date."""
    convert = type_.convert
    if convert is None:
        return evaluate

    def run(value: Any, old: Any) -> Any:
        if isinstance(old, values.Optional):
            old = old if old is values.NONE else values.Optional(convert(old.value))
        elif old is not None:
            old = convert(old)
        return evaluate(convert(value), old)

    return run


class _Run:
    """One validation: where its findings go."""

    __slots__ = ("_found", "_warnings")

    def __init__(self, found: list[Cause], warnings: list[str] | None) -> None:
        self._found = found
        self._warnings = warnings

    def visit(self, node: _Node, value: Any, old: Any, path: str, correlation: _Correlation) -> None:
        if value is None:
            return
        effort.spend(_EFFORT)
        for compiled in node.compiled:
            effort.spend(_EFFORT)
            self._run_rule(node.type, compiled, value, old, path, correlation)
        if value.__class__ is dict:
            self._visit_fields(node, value, old, path, correlation)
        elif value.__class__ is list and node.items is not None:
            items = node.items
            find_old = _old_entries(node.keys, old)
            for index, item in enumerate(value):
                before = find_old(item)
                self.visit(items, item, before, f"{path}[{index}]", correlation.within(item, before))

    def _visit_fields(self, node: _Node, value: dict[str, Any], old: Any, path: str, correlation: _Correlation) -> None:
        before = cast("dict[str, Any]", old) if old.__class__ is dict else {}
        is_root = correlation.current is not None and correlation.around is None
        if node.additional is not None:
            for key, item in value.items():
                past = before.get(key)
                self.visit(node.additional, item, past, f"{path}[{key}]", correlation.within(item, past))
        for key, inner in node.properties.items():
            item = value.get(key)
            if item is not None:
                past = before.get(key)
                known = correlation.within(item, past)
                if is_root and key in ("apiVersion", "kind"):
                    known = _Correlation()
                self.visit(inner, item, past, f"{path}.{key}" if path else key, known)

    def _run_rule(
        self, type_: str, compiled: Compiled, value: Any, old: Any, path: str, correlation: _Correlation
    ) -> None:
        rule = compiled.rule
        place = path or fields.NO_PATH
        if compiled.evaluate is None:
            self._found.append(fields.invalid(place, type_, f"rule compile error: {compiled.problem}"))
            return
        if compiled.uses_old and old is None and not rule.optional_old_self:
            return
        given = old
        if rule.optional_old_self:
            given = values.NONE if old is None else values.Optional(old)
        try:
            if compiled.evaluate(value, given):
                return
        except CostExceeded as error:
            text = f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: "
            self._found.append(fields.invalid(place, type_, text + _described(rule)))
            raise _Stopped from None
        except EvaluationError as error:
            self._found.append(fields.invalid(place, type_, _failure(error.text, rule)))
            return
        if compiled.field_path:
            place = fields.child(path, compiled.field_path)
        cause = _cause(place, type_, _message(compiled, value, old), rule.reason)
        if not compiled.uses_old and correlation.is_unchanged():
            if self._warnings is not None:
                self._warnings.append(f"{cause.field}: {cause.message}")
        else:
            self._found.append(cause)


def _old_entries(keys: tuple[str, ...] | None, old: Any) -> Callable[[Any], Any]:
    if keys is None or old.__class__ is not list:
        return lambda entry: None

    def key(entry: Any) -> tuple[str, ...]:
        return tuple(repr(entry.get(name)) for name in keys) if entry.__class__ is dict else ()

    by_key = {key(entry): entry for entry in cast("list[Any]", old)}
    return lambda entry: by_key.get(key(entry))


def _described(rule: Rule) -> str:
    return (rule.message or rule.rule).strip()


def _failure(error: str, rule: Rule) -> str:
    if error.startswith("no such overload"):
        text = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{error}': {text}: {_described(rule)}"
    return f"{error} evaluating rule: {_described(rule)}"


def _message(compiled: Compiled, value: Any, old: Any) -> str:
    """What the rule says of the value; its fixed message if its expression fails or says nothing usable."""
    rule = compiled.rule
    if compiled.message is not None and not (compiled.message_uses_old and old is None):
        try:
            text = str(compiled.message(value, old)).strip()
        except (EvaluationError, CostExceeded):
            text = ""
        if text and "\n" not in text and len(text.encode()) <= _LONGEST_MESSAGE:
            return text
    return rule.message.strip() if rule.message else f"failed rule: {rule.rule.strip()}"


def _cause(path: str, type_: str, detail: str, reason: str) -> Cause:
    match reason:
        case "FieldValueForbidden":
            return fields.forbidden(path, detail)
        case "FieldValueRequired":
            return fields.required(path, detail)
        case "FieldValueDuplicate":
            return fields.duplicate(path, type_)
        case _:
            return fields.invalid(path, type_, detail)
