"""CEL rules that make a CRD invalid, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.schema import parse, rulechecks, rules, structural
from steelyard.kube.schema.model import Schema

UPSTREAM = Path(__file__).parents[4] / "shared" / "crds"
PLACE = "spec.validation.openAPIV3Schema"


def said(property_: Object) -> list[str]:
    document: Object = {"type": "object", "properties": {"a": property_}}
    return [f"{cause.field}: {cause.message}" for cause in structural.check(document, PLACE)]


def ruled(type_: str, **rule: Any) -> Object:
    return {"type": type_, "x-kubernetes-validations": [rule]}


WHOLE = '"MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}'


@pytest.mark.parametrize(
    ("property_", "expected"),
    [
        pytest.param(
            ruled("integer", rule="self.b < 1"),
            f'rule: Invalid value: {{"Rule":"self.b \\u003c 1","Message":"",{WHOLE}: compilation failed: '
            "ERROR: <input>:1:5: type 'int' does not support field selection\n | self.b < 1\n | ....^",
            id="no-such-field",
        ),
        pytest.param(
            ruled("integer", rule="self", message="m"),
            f'rule: Invalid value: {{"Rule":"self","Message":"m",{WHOLE}: cel expression must evaluate to a bool',
            id="not-a-condition",
        ),
        pytest.param(
            ruled("integer", rule="true", messageExpression="self"),
            'messageExpression: Invalid value: {"Rule":"true","Message":"","MessageExpression":"self","Reason":null,'
            '"FieldPath":"","OptionalOldSelf":null}: messageExpression must evaluate to a string',
            id="message-that-is-no-text",
        ),
        pytest.param(
            ruled("integer", rule="self > 0", optionalOldSelf=True),
            "optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
            id="optional-old-self-without-use",
        ),
        pytest.param(ruled("integer", rule=" "), "rule: Required value: rule is not specified", id="empty-rule"),
        pytest.param(
            ruled("integer", rule="true", messageExpression=" "),
            "messageExpression: Required value: messageExpression must be non-empty if specified",
            id="empty-message-expression",
        ),
        pytest.param(
            ruled("integer", rule="true", reason="Bad"),
            'reason: Unsupported value: "Bad": supported values: "FieldValueDuplicate", "FieldValueForbidden", '
            '"FieldValueInvalid", "FieldValueRequired"',
            id="unknown-reason",
        ),
        pytest.param(
            ruled("object", rule="true", fieldPath=".b"),
            'fieldPath: Invalid value: ".b": must be a valid path',
            id="path-to-nowhere",
        ),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused(property_: Object, expected: str) -> None:
    assert said(property_) == [f"{PLACE}.properties[a].x-kubernetes-validations[0].{expected}"]


def test_old_values_cannot_be_asked_for_where_entries_do_not_correlate() -> None:
    found = said({"type": "array", "items": ruled("integer", rule="self == oldSelf")})
    assert found == [
        f"{PLACE}.properties[a].items.x-kubernetes-validations[0].rule: Invalid value: "
        '"self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within '
        f"{PLACE}.properties[a]"
    ]


def test_fields_without_a_schema_cannot_be_spoken_of() -> None:
    found = said(
        {
            "type": "object",
            "properties": {"free": {"x-kubernetes-preserve-unknown-fields": True}},
            "x-kubernetes-validations": [{"rule": "has(self.free)"}],
        }
    )
    assert "undefined field 'free'" in found[0]


def test_defaults_must_satisfy_the_rules() -> None:
    property_ = {**ruled("integer", rule="self > 1"), "default": 1}
    assert said(property_) == [
        f'{PLACE}.properties[a].default: Invalid value: "integer": failed rule: self > 1',
    ]


def _files() -> list[Any]:
    found = sorted(UPSTREAM.glob("*/*.yaml"))
    having = [path for path in found if "x-kubernetes-validations" in path.read_text()]
    absent = pytest.param(None, marks=pytest.mark.skip(f"no upstream CRDs under {UPSTREAM.name}"), id="absent")
    return [pytest.param(path, id=path.stem) for path in having] or [absent]


def _with_rules(schema: Schema, *, is_resource: bool = True) -> Iterator[tuple[Schema, bool]]:
    if schema.rules:
        yield schema, is_resource
    for child in (*schema.properties.values(), schema.additional, schema.items):
        if child is not None:
            yield from _with_rules(child, is_resource=child.embedded_resource)


def _sample(schema: Schema, depth: int = 0) -> Any:
    """A value with everything the schema describes."""
    match schema.type:
        case "object":
            if schema.additional is not None and not schema.properties:
                return {"key": _sample(schema.additional, depth + 1)}
            return {name: _sample(child, depth + 1) for name, child in schema.properties.items() if depth < 8}
        case "array":
            return [_sample(schema.items, depth + 1)] if schema.items is not None else []
        case "integer" | "number":
            return schema.minimum or 1
        case "boolean":
            return True
        case _:
            return schema.enum[0] if schema.enum else "text"


@pytest.mark.parametrize("path", _files())
def test_every_rule_of_upstream_crds_compiles_and_runs(path: Path) -> None:
    definition = yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    for version in definition["spec"]["versions"]:
        schema = parse.from_openapi(objects.mapping(version["schema"]["openAPIV3Schema"]))
        assert rulechecks.check(schema, "") == []
        for node, is_resource in _with_rules(schema):
            found: list[Any] = []
            sample = _sample(node)
            for old in (sample, _sample(node)):
                rules.validate(node, sample, old=old, found=found, is_resource=is_resource)
            assert not any("compile error" in cause.message for cause in found)
