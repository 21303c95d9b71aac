"""What apply makes of a schema."""

from __future__ import annotations

import gc

from steelyard.kube.schema.model import Schema
from steelyard.kube.server.apply import shape


def shapes_for(name: str) -> int:
    gc.collect()
    return sum(1 for each in gc.get_objects() if isinstance(each, Schema) and name in each.properties)


def test_a_shape_is_made_once_and_goes_with_its_schema() -> None:
    schema = Schema(type="object", properties={"only-here": Schema(type="string")})

    assert shape.of(schema) is shape.of(schema)
    assert shapes_for("only-here") == 2
    del schema
    assert shapes_for("only-here") == 0
