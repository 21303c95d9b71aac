"""Valid objects made invalid in one place: a wrong type, a broken constraint, a broken CEL rule.

A place is chosen anywhere in the schema; the valid object is extended until it has it and is still valid, and then one
thing is wrong. Kinds that have no rules, or none that can be broken alone, get a second constraint broken instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final, cast

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.schema import patterns
from steelyard.kube.schema.model import Schema
from tests.conformance.sharedcrds import generate, samples
from tests.conformance.sharedcrds.definitions import Definition
from tests.conformance.sharedcrds.generate import CannotGenerate, Generator, Step

_PLACES: Final = 60
_RULE_PLACES: Final = 12
_CHANGES: Final = 60
_TYPE: Final = ("type",)
_CONSTRAINTS: Final = (
    "required", "enum", "minimum", "maximum", "maxLength", "minLength", "format", "pattern", "minItems", "maxItems",
    "duplicate", "minProperties",
)  # fmt: skip
_SERVED_APART: Final = ("apiVersion", "kind", "metadata", "status")


@dataclass(frozen=True)
class Broken:
    """What was done, for whoever reads a difference; the object; and where our own rules find it wrong."""

    what: str
    object: Object
    fields: tuple[str, ...]


Break = Callable[[Any, Any], Any]
"""From the value at a place and whatever holds it, to a wrong value; `_GONE` takes it away."""
_GONE: Final = object()


def broken(definition: Definition, valid: Object, random: Random) -> list[Broken]:
    """Three, of different sorts as far as the kind has them."""
    breaker = _Breaker(definition, valid, random)
    found = [breaker.constraint(_TYPE), breaker.constraint(_CONSTRAINTS), breaker.rule()]
    for index, each in enumerate(found):
        found[index] = (
            each or breaker.constraint(_CONSTRAINTS) or breaker.constraint((*_TYPE, "null")) or breaker.metadata()
        )
    return [each for each in found if each is not None]


class _Breaker:
    def __init__(self, definition: Definition, valid: Object, random: Random) -> None:
        self._definition = definition
        self._valid = valid
        self._random = random
        self._generator = Generator(random)
        self._used: set[str] = set()
        is_apart = definition.served.has_status
        self._places = [
            place
            for place in generate.walk(definition.document, definition.schema)
            if place[0][0] not in (_SERVED_APART if is_apart else _SERVED_APART[:3])
        ]

    def constraint(self, sorts: tuple[str, ...]) -> Broken | None:
        """Breaks what the schema says of one value, other than by CEL rules; the same thing never twice."""
        possible = [
            (name, steps, wrong)
            for steps, document, schema in self._places
            for name, wrong in _breaks(document, schema, steps, self._parent(steps))
            if name in sorts and f"{name} at {shown(steps)}" not in self._used
        ]
        self._random.shuffle(possible)
        # What has not been broken yet comes first.
        possible.sort(key=lambda each: each[0] in self._used)
        for name, steps, wrong in possible[:_PLACES]:
            result = self._try(steps, f"{name} at {shown(steps)}", wrong)
            if result is not None:
                self._used |= {name, result.what}
                return result
        return None

    def _parent(self, steps: tuple[Step, ...]) -> Schema:
        schema = self._definition.schema
        for step in steps[:-1]:
            inner = schema.additional if step is None else schema.items if step == 0 else schema.properties[str(step)]
            assert inner is not None
            schema = inner
        return schema

    def rule(self) -> Broken | None:
        """Breaks a CEL rule, and nothing but rules."""
        ruled = [place for place in self._places if place[2].rules]
        for steps, document, schema in self._shuffled(ruled, _RULE_PLACES):
            obj = self._with_place(steps)
            if obj is None:
                continue
            holder, key = _locate(obj, steps)
            value = holder[key]
            for candidate in itertools.islice(self._changed(document, schema, value), _CHANGES):
                holder[key] = candidate
                complaints = self._definition.complaints(obj)
                if complaints and all(_is_of_rule(each[2]) for each in complaints):
                    return Broken(f"a rule at {shown(steps)}", objects.copy(obj), tuple(each[0] for each in complaints))
            holder[key] = value
        return None

    def _changed(self, document: Object, schema: Schema, value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            fields = cast(Object, value)
            for name in fields:
                yield {key: item for key, item in fields.items() if key != name}
            yield from self._generator.changes(document, schema, fields)
            return
        plain = {key: item for key, item in document.items() if key not in ("x-kubernetes-validations", "default")}
        unruled = Schema(**{name: getattr(schema, name) for name in _COPIED}, items=schema.items)
        try:
            yield from self._generator.values(plain, unruled)
        except CannotGenerate:
            return

    def metadata(self) -> Broken | None:
        """For a kind whose schema asks for nothing that could be broken."""
        wrong: tuple[tuple[str, Any], ...] = (
            ("labels", {"a": 1}),
            ("annotations", {"a": [1]}),
            ("finalizers", {"a": "b"}),
        )
        for name, value in wrong:
            if name not in self._used:
                self._used.add(name)
                obj = objects.copy(self._valid)
                obj["metadata"][name] = value
                return Broken(f"metadata.{name}", obj, ())
        return None

    def _shuffled(self, places: list[Any], count: int) -> list[Any]:
        return self._random.sample(places, min(count, len(places)))

    def _with_place(self, steps: tuple[Step, ...]) -> Object | None:
        obj = objects.copy(self._valid)
        try:
            self._generator.ensure(self._definition.document, self._definition.schema, obj, steps)
        except CannotGenerate:
            return None
        return None if self._definition.complaints(obj) else obj

    def _try(self, steps: tuple[Step, ...], what: str, wrong: Break) -> Broken | None:
        obj = self._with_place(steps)
        if obj is None:
            return None
        holder, key = _locate(obj, steps)
        changed = wrong(holder[key], holder)
        if changed is _GONE:
            del holder[key]
        else:
            holder[key] = changed
        complaints = self._definition.complaints(obj)
        return Broken(what, obj, tuple(each[0] for each in complaints)) if complaints else None


_COPIED: Final = ("type", "enum", "format", "pattern", "minimum", "maximum", "min_length", "max_length", "min_items",
                  "max_items", "list_type", "list_map_keys", "int_or_string", "nullable")  # fmt: skip


def shown(steps: tuple[Step, ...]) -> str:
    parts = ("[0]" if step == 0 else "[*]" if step is None else f".{step}" for step in steps)
    return "".join(parts).removeprefix(".")


def _locate(obj: Object, steps: tuple[Step, ...]) -> tuple[Any, Any]:
    holder: Any = obj
    for step in steps[:-1]:
        holder = holder[next(iter(holder)) if step is None else step]
    return holder, next(iter(holder)) if steps[-1] is None else steps[-1]


def _is_of_rule(message: str) -> bool:
    """Whether a complaint is one that a rule words, not one about a value of its own kind."""
    return " in body " not in message and not message.startswith(("Unsupported", "Duplicate", "Too"))


def _breaks(document: Object, schema: Schema, steps: tuple[Step, ...], parent: Schema) -> Iterator[tuple[str, Break]]:
    if schema.type and not schema.int_or_string:
        yield "type", _always(samples.wrong_type(schema.type))
        if not schema.nullable and document.get("default") is None:
            yield "null", _always(None)
    elif schema.int_or_string:
        yield "type", _always([1])
    if isinstance(steps[-1], str) and steps[-1] in parent.required and document.get("default") is None:
        yield "required", _always(_GONE)
    if schema.enum is not None and schema.type == "string":
        yield "enum", _always("no-such-member")
    yield from _string_breaks(schema)
    if schema.type in ("integer", "number"):
        if schema.minimum is not None:
            yield "minimum", _always(schema.minimum - 1)
        if schema.maximum is not None:
            yield "maximum", _always(schema.maximum + 1)
    yield from _list_breaks(schema)


def _string_breaks(schema: Schema) -> Iterator[tuple[str, Break]]:
    if schema.type != "string":
        return
    if schema.max_length is not None and schema.max_length < 5000:
        yield "maxLength", _always("a" * (int(schema.max_length) + 1))
    if schema.min_length:
        yield "minLength", _always("")
    if schema.format:
        yield "format", _always("!not of the format!")
    if schema.pattern:
        try:
            matches = patterns.compiled(schema.pattern).matches
        except patterns.BadPattern:
            return
        for text in ("!", "é é", "", "-a-", "no such thing"):
            if not matches(text) and (schema.min_length or 0) <= len(text) <= (schema.max_length or 1000):
                yield "pattern", _always(text)
                return


def _list_breaks(schema: Schema) -> Iterator[tuple[str, Break]]:
    if schema.type == "array":
        if schema.min_items:
            yield "minItems", _always([])
        if schema.max_items is not None and 0 < schema.max_items < 200:
            yield "maxItems", _repeated(int(schema.max_items) + 1)
        if schema.list_type in ("set", "map"):
            yield "duplicate", lambda value, holder: [*value, *value]
    if schema.type == "object" and schema.min_properties:
        yield "minProperties", _always({})


def _repeated(count: int) -> Break:
    def repeat(value: Any, holder: Any) -> Any:
        del holder
        entries = cast("list[Any]", value) or [None]
        return (entries * count)[:count]

    return repeat


def _always(wrong: Any) -> Break:
    return lambda value, holder: wrong
