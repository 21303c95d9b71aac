"""Valid objects from a structural schema.

What is required is filled in from the leaves up. Where an object still breaks a rule (one of several fields must be
set, a value must go with another), fields are added and exchanged as long as our own validation has less to say. The
result is then enriched with optional fields, each kept only if the whole stays valid. Upstream is the judge of it all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final, cast

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.schema import default, validate
from steelyard.kube.schema.model import Schema
from tests.conformance.sharedcrds import samples
from tests.conformance.sharedcrds.definitions import Definition

ENRICHMENTS: Final = 25
_DEEPEST: Final = 14
_REPAIRS: Final = 12
_PAIRS: Final = 14
_NAMES: Final = ("sample", "default", "cluster", "kubeadm-config")
_OF_THE_SERVER: Final = ("apiVersion", "kind", "metadata", "status")


Step = str | int | None
"""A property, the first entry of a list, or (None) an entry of a map."""
Judge = Callable[[Object], Sequence[object]]
"""What is wrong with an object."""


class CannotGenerate(Exception):
    """No value was found that our own validation accepts."""


def valid(definition: Definition, random: Random) -> Object:
    """Raises CannotGenerate."""
    generator = Generator(random)
    problem: Exception | None = None
    for name in _NAMES:
        obj: Object = {
            "apiVersion": definition.api_version,
            "kind": definition.kind,
            "metadata": {"name": name},
        }
        if "spec" in definition.schema.properties:
            _fill(generator, definition, obj, "spec")
        for key in definition.schema.required:
            _fill(generator, definition, obj, key)
        try:
            generator.repair(definition.document, definition.schema, obj, definition.complaints)
        except CannotGenerate as error:
            problem = error
            continue
        _enrich(generator, definition, obj)
        return obj
    raise CannotGenerate(f"{definition.name}: {problem}")


def _fill(generator: Generator, definition: Definition, obj: Object, key: str) -> None:
    child, schema = _property(definition.document, definition.schema, key)
    if key not in obj and schema is not None and not (key == "status" and definition.served.has_status):
        obj[key] = generator.value(child, schema)


def _enrich(generator: Generator, definition: Definition, obj: Object) -> None:
    sites = [
        steps
        for steps, _, _ in walk(definition.document, definition.schema)
        if 0 < len(steps) <= 4 and isinstance(steps[-1], str) and steps[0] not in _OF_THE_SERVER
    ]
    for steps in generator.random.sample(sites, min(ENRICHMENTS, len(sites))):
        before = objects.copy(obj)
        try:
            generator.ensure(definition.document, definition.schema, obj, steps)
            is_valid = not definition.complaints(obj)
        except CannotGenerate:
            is_valid = False
        if not is_valid:
            obj.clear()
            obj.update(before)


_KEY: Final = "a"


def walk(
    document: Object, schema: Schema, steps: tuple[Step, ...] = ()
) -> Iterator[tuple[tuple[Step, ...], Object, Schema]]:
    """Every place below a node that an object can have, with what is asked of it there."""
    if len(steps) > 8:
        return
    for name, child in schema.properties.items():
        place, inner = (*steps, name), objects.mapping(objects.at(document, "properties", name))
        yield place, inner, child
        yield from walk(inner, child, place)
    below: tuple[tuple[Step, str, Schema | None], ...] = (
        (0, "items", schema.items),
        (None, "additionalProperties", schema.additional),
    )
    for step, key, child in below:
        if child is not None:
            place, inner = (*steps, step), objects.mapping(document.get(key))
            yield place, inner, child
            yield from walk(inner, child, place)


def _property(document: Object, schema: Schema, key: str) -> tuple[Object, Schema | None]:
    return objects.mapping(objects.at(document, "properties", key)), schema.properties.get(key)


class Generator:
    def __init__(self, random: Random) -> None:
        self.random = random
        self._depth = 0

    def value(self, document: Object, schema: Schema) -> Any:
        """One value that the node accepts. Raises CannotGenerate."""
        return next(self.values(document, schema))

    def values(self, document: Object, schema: Schema) -> Iterator[Any]:
        """Several; raises CannotGenerate if there is none."""
        self._depth += 1
        try:
            if self._depth > _DEEPEST:
                raise CannotGenerate("nested too deeply")
            found = False
            for candidate in self._candidates(document, schema):
                if not _problems(schema, candidate):
                    found = True
                    yield candidate
            if not found:
                raise CannotGenerate(f"nothing fits {str(document)[:300]}")
        finally:
            self._depth -= 1

    def _candidates(self, document: Object, schema: Schema) -> Iterator[Any]:
        if document.get("default") is not None and schema.type != "object":
            yield document["default"]
        if schema.enum is not None:
            yield from schema.enum
            return
        if schema.int_or_string:
            yield from (1, "1", "50%", "1Gi")
            yield from samples.strings(document, self.random)
            return
        match schema.type:
            case "string":
                yield from samples.strings(document, self.random)
            case "integer":
                yield from (int(each) for each in samples.numbers(document))
            case "number":
                yield from samples.numbers(document)
            case "boolean":
                yield from (True, False)
            case "array":
                yield from self._lists(document, schema)
            case "object":
                yield from self._objects(document, schema)
            case _:
                yield from ({}, {"a": "b"}, "a", 1)

    def _lists(self, document: Object, schema: Schema) -> Iterator[list[Any]]:
        items, inner = objects.mapping(document.get("items")), schema.items
        low = int(schema.min_items or 0)
        if inner is None:
            yield []
            return
        count = max(1, low)
        entries = list(itertools.islice(self.values(items, inner), count))
        while len(entries) < count:
            entries.append(objects.copy({"": entries[-1]})[""])
        if schema.list_type == "map":
            _make_distinct(entries, schema.list_map_keys)
        yield entries
        if not low:
            yield []

    def _objects(self, document: Object, schema: Schema) -> Iterator[Object]:
        result: Object = {}
        if schema.embedded_resource:
            result.update(apiVersion="v1", kind="ConfigMap", metadata={"name": "a"})
        for key in schema.required:
            child, inner = _property(document, schema, key)
            if key not in result:
                result[key] = self.value(child, inner) if inner is not None else {}
        if schema.additional is not None:
            for index in range(int(schema.min_properties or 1)):
                key = _KEY if not index else f"{_KEY}{index}"
                result[key] = self.value(objects.mapping(document.get("additionalProperties")), schema.additional)
        self.repair(document, schema, result, lambda value: _problems(schema, value))
        yield result
        if schema.additional is not None and not schema.min_properties:
            yield {}

    def repair(self, document: Object, schema: Schema, value: Object, judge: Judge) -> None:
        """Changes the object in place until `judge` finds nothing. Raises CannotGenerate."""
        for _ in range(_REPAIRS):
            problems = judge(value)
            if not problems:
                return
            best = self._best_change(document, schema, value, judge, len(problems))
            if best is None:
                raise CannotGenerate(f"{problems[0]} at {str(value)[:200]}")
            value.clear()
            value.update(best)
        raise CannotGenerate("still not valid after many changes")

    def _best_change(self, document: Object, schema: Schema, value: Object, judge: Judge, count: int) -> Object | None:
        least, best = count, None
        for changed in self.changes(document, schema, value):
            remaining = len(judge(changed))
            if remaining < least:
                least, best = remaining, changed
                if not remaining:
                    break
        return best

    def changes(self, document: Object, schema: Schema, value: Object) -> Iterator[Object]:
        """The object with one field more, one exchanged, or two more."""
        optional = [key for key in schema.properties if key not in value and key not in _OF_THE_SERVER]
        added: dict[str, Any] = {}
        for key in optional:
            for candidate in self._some(*_property(document, schema, key), count=3):
                added.setdefault(key, candidate)
                yield {**value, key: candidate}
        for key in [key for key in value if key in schema.properties and key not in _OF_THE_SERVER]:
            child, inner = _property(document, schema, key)
            for candidate in self._some(child, inner, count=8):
                yield {**value, key: candidate}
            if inner is not None and inner.type == "object" and isinstance(value[key], dict):
                for changed in itertools.islice(self.changes(child, inner, objects.mapping(value[key])), 60):
                    yield {**value, key: changed}
            if key not in schema.required:
                yield {name: item for name, item in value.items() if name != key}
        for first, second in itertools.combinations(itertools.islice(added, _PAIRS), 2):
            yield {**value, first: added[first], second: added[second]}

    def _some(self, document: Object, schema: Schema | None, *, count: int) -> list[Any]:
        if schema is None:
            return []
        try:
            return list(itertools.islice(self.values(document, schema), count))
        except CannotGenerate:
            return []

    def ensure(self, document: Object, schema: Schema, value: Any, steps: tuple[Step, ...]) -> None:
        """Makes the place exist in the value, in place. Raises CannotGenerate."""
        for step in steps:
            if step is None:
                document, inner = objects.mapping(document.get("additionalProperties")), schema.additional
            elif step == 0:
                document, inner = objects.mapping(document.get("items")), schema.items
            else:
                document, inner = _property(document, schema, str(step))
            if inner is None:
                raise CannotGenerate("no such place")
            schema = inner
            value = self._ensure_step(document, schema, value, step)

    def _ensure_step(self, document: Object, schema: Schema, value: Any, step: Step) -> Any:
        if isinstance(value, list):
            entries = cast("list[Any]", value)
            if not entries:
                entries.append(self.value(document, schema))
            return entries[0]
        if not isinstance(value, dict):
            raise CannotGenerate("no object")
        fields = cast(Object, value)
        key = next(iter(fields), _KEY) if step is None else str(step)
        if fields.get(key) is None:
            fields[key] = self.value(document, schema)
        return fields[key]


def _make_distinct(entries: list[Any], keys: tuple[str, ...]) -> None:
    for index, entry in enumerate(entries[1:], 1):
        for key in keys:
            held = objects.mapping(entry).get(key)
            entry[key] = f"{held}{index}" if isinstance(held, str) else int(held or 0) + index


def _problems(schema: Schema, value: Any) -> list[Any]:
    judged = objects.copy({"": value})
    default.apply_defaults(Schema(type="object", properties={"": schema}), judged)
    return list(validate.validate(schema, judged[""], "here", is_resource=schema.embedded_resource))
