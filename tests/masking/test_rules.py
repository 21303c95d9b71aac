"""The rules as part of a kind: their schema has bounds and descriptions, and what a user writes is read."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from steelyard.api import crd
from steelyard.masking.rules import ColumnRule, MaskingRules


def test_the_schema_fits_into_a_definition_with_bounds_and_descriptions() -> None:
    schema = crd.model_schema(MaskingRules)
    assert schema["properties"]["unclassified"]["default"] == "refuse"
    tables = schema["properties"]["tables"]
    assert tables["maxProperties"] == 2000
    columns = tables["additionalProperties"]["properties"]["columns"]
    assert columns["additionalProperties"]["required"] == ["action"]
    assert "fakeEmail" in columns["additionalProperties"]["properties"]["action"]["enum"]
    assert [name for name, each in schema["properties"].items() if not each.get("description")] == []


@pytest.mark.parametrize(
    "written",
    [{"action": "scramble"}, {"action": "shiftDates", "days": 0}, {"action": "constant", "value": "x" * 2000}, {}],
    ids=["an unknown action", "no days", "a constant without end", "no action"],
)
def test_what_is_out_of_bounds_is_not_read(written: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ColumnRule.model_validate(written)


def test_names_are_written_as_the_api_writes_them() -> None:
    rules = MaskingRules.model_validate({"knownLiterals": ["none"], "tables": {"a.b": {"rows": "none"}}})
    assert rules.to_json() == {
        "knownLiterals": ["none"],
        "tables": {"a.b": {"columns": {}, "rows": "none"}},
        "unclassified": "refuse",
    }
