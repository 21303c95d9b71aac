"""allOf, anyOf, oneOf and not: what a schema asks of the outcome of other schemas.

When no alternative fits, upstream reports the failures of the one that looked at most of the value; `_depth` repeats
that count. These complaints concern no single field, so upstream leaves their path out and names it in the text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from steelyard.kube import fields
from steelyard.kube.errors import Cause
from steelyard.kube.schema.model import Schema

Findings: TypeAlias = list[tuple[str, Cause]]
"""Each complaint with the path of the value it is about; a missing field's is the object's that lacks it."""
Check: TypeAlias = Callable[[Any, str, Findings], None]


def compile_junctors(schema: Schema, checker: Callable[[Schema], Check]) -> Check | None:
    any_of = [(branch, checker(branch)) for branch in schema.any_of]
    one_of = [(branch, checker(branch)) for branch in schema.one_of]
    all_of = [checker(branch) for branch in schema.all_of]
    negated = checker(schema.negated) if schema.negated is not None else None
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
            inner: Findings = []
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
            inner: Findings = []
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
            inner: Findings = []
            branch(value, path, inner)
            valid += not inner
            found.extend(inner)
        if valid != len(branches):
            none = "" if valid else ". None validated"
            found.append((path, _complaint(f"{fields.quote(path)} must validate all the schemas (allOf){none}")))

    return check


def _not(branch: Check) -> Check:
    def check(value: Any, path: str, found: Findings) -> None:
        inner: Findings = []
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
