"""allOf, anyOf, oneOf and not: what a schema asks of the outcome of other schemas.

When no alternative fits, upstream reports the failures of the one that looked at most of the value; `_depth` repeats
that count. These complaints concern no single field, so upstream leaves their path out and names it in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, cast

from steelyard.kube import effort, fields
from steelyard.kube.errors import Cause
from steelyard.kube.schema.model import Schema


class Findings(list[tuple[str, Cause]]):
    """Each complaint with the path of the value it is about; a missing field's is the object's that lacks it."""

    def append(self, found: tuple[str, Cause], /) -> None:
        effort.spend(_STEPS_PER_FINDING)
        super().append(found)


Check: TypeAlias = Callable[[Any, str, Findings], None]
_STEPS_PER_NODE: Final = 30
_STEPS_PER_FINDING: Final = 500


def compile_junctors(schema: Schema, checker: Callable[[Schema], Check]) -> Check | None:
    any_of = [(branch, _counted(branch, checker(branch))) for branch in schema.any_of]
    one_of = [(branch, _counted(branch, checker(branch))) for branch in schema.one_of]
    all_of = [_counted(branch, checker(branch)) for branch in schema.all_of]
    negated = _counted(schema.negated, checker(schema.negated)) if schema.negated is not None else None
    if not (any_of or one_of or all_of or negated):
        return None
    if schema.int_or_string and _is_int_or_string(schema.any_of) and not (one_of or all_of or negated):
        return _unless(int, str, _any_of(any_of))

    steps: list[Check] = []
    if any_of:
        steps.append(_any_of(any_of))
    if one_of:
        steps.append(_one_of(one_of))
    if all_of:
        steps.append(_all_of(all_of))
    if negated is not None:
        steps.append(_not(negated))
    return steps[0] if len(steps) == 1 else _sequence(steps)


def _counted(schema: Schema, check: Check) -> Check:
    """The check of a branch. A value is held against each once, and so against many where branches have branches."""
    steps = _STEPS_PER_NODE * _nodes(schema)
    goes_through_entries = _has_entries(schema)

    def counted(value: Any, path: str, found: Findings) -> None:
        effort.spend(steps * (1 + _entries(value)) if goes_through_entries else steps)
        check(value, path, found)

    return counted


def _nodes(schema: Schema) -> int:
    return 1 + sum(map(_nodes, _children(schema)))


def _has_entries(schema: Schema) -> bool:
    has_own = schema.items is not None or schema.additional is not None or schema.reference is not None
    return has_own or any(map(_has_entries, _children(schema)))


def _children(schema: Schema) -> Iterator[Schema]:
    if schema.reference is None:
        yield from (*schema.all_of, *schema.any_of, *schema.one_of, *schema.properties.values())
        yield from (each for each in (schema.negated, schema.items, schema.additional) if each is not None)


def _entries(value: Any) -> int:
    """How many values there are in the lists and maps of a value."""
    if isinstance(value, dict):
        value = list(cast("dict[str, Any]", value).values())
    if not isinstance(value, list):
        return 0
    entries = cast("list[Any]", value)
    return len(entries) + sum(_entries(each) for each in entries if isinstance(each, dict | list))


def _is_int_or_string(branches: tuple[Schema, ...]) -> bool:
    return [branch.type for branch in branches] == ["integer", "string"]


def _unless(first: type, second: type, check: Check) -> Check:
    def guarded(value: Any, path: str, found: Findings) -> None:
        if type(value) is not first and type(value) is not second:
            check(value, path, found)

    return guarded


def _sequence(steps: list[Check]) -> Check:
    def check(value: Any, path: str, found: Findings) -> None:
        for step in steps:
            step(value, path, found)

    return check


def _complaint(text: str) -> Cause:
    return fields.invalid("", "", text)


def _any_of(branches: list[tuple[Schema, Check]]) -> Check:
    def check(value: Any, path: str, found: Findings) -> None:
        failures: list[Findings] = []
        for _, branch in branches:
            inner = Findings()
            branch(value, path, inner)
            if not inner:
                return
            failures.append(inner)
        found.append((path, _complaint(f"{fields.quote(path)} must validate at least one schema (anyOf)")))
        found.extend(_closest(branches, failures, value))

    return check


def _one_of(branches: list[tuple[Schema, Check]]) -> Check:
    def check(value: Any, path: str, found: Findings) -> None:
        failures: list[Findings] = []
        valid = 0
        for _, branch in branches:
            inner = Findings()
            branch(value, path, inner)
            valid += not inner
            failures.append(inner)
        if valid == 1:
            return
        outcome = f"Found {valid} valid alternatives" if valid else "Found none valid"
        text = f"{fields.quote(path)} must validate one and only one schema (oneOf). {outcome}"
        found.append((path, _complaint(text)))
        if not valid:
            found.extend(_closest(branches, failures, value))

    return check


def _all_of(branches: list[Check]) -> Check:
    def check(value: Any, path: str, found: Findings) -> None:
        valid = 0
        for branch in branches:
            inner = Findings()
            branch(value, path, inner)
            valid += not inner
            found.extend(inner)
        if valid != len(branches):
            none = "" if valid else ". None validated"
            found.append((path, _complaint(f"{fields.quote(path)} must validate all the schemas (allOf){none}")))

    return check


def _not(branch: Check) -> Check:
    def check(value: Any, path: str, found: Findings) -> None:
        inner = Findings()
        branch(value, path, inner)
        if not inner:
            found.append((path, _complaint(f"{fields.quote(path)} must not validate the schema (not)")))

    return check


def _closest(branches: list[tuple[Schema, Check]], failures: list[Findings], value: Any) -> Findings:
    depths = [_depth(schema, value) for schema, _ in branches]
    return failures[depths.index(max(depths))]


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def _depth(schema: Schema, value: Any) -> int:
    """How much of the value a schema has a say about."""
    count = 3
    if schema.type and type(value) in _PYTHON_TYPES[schema.type]:
        count += 2
    if isinstance(value, dict):
        known = cast("dict[str, Any]", value)
        for key, child in schema.properties.items():
            if key in known:
                count += _depth(child, known[key])
    elif isinstance(value, list) and schema.items is not None:
        count += sum(_depth(schema.items, item) for item in cast("list[Any]", value))
    return count + sum(_depth(branch, value) for branch in schema.all_of)
