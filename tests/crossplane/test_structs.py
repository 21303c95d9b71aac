"""Objects in protobuf's Struct and back: whatever JSON says, and whole numbers stay whole."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format, struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from steelyard.crossplane import structs

_SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.floats(-1e6, 1e6)
_JSON = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)


@given(st.dictionaries(st.text(max_size=8), _JSON, max_size=5))
def test_any_object_comes_back_as_it_was(obj: dict[str, Any]) -> None:
    struct = struct_pb2.Struct()
    structs.write(struct, obj)

    assert structs.read(struct_pb2.Struct.FromString(struct.SerializeToString())) == obj


@given(st.dictionaries(st.text(max_size=8), _JSON, max_size=5))
def test_it_is_what_protobufs_own_library_makes(obj: dict[str, Any]) -> None:
    struct = struct_pb2.Struct()
    structs.write(struct, obj)

    assert struct == json_format.ParseDict(obj, struct_pb2.Struct())
    assert structs.read(struct) == json_format.MessageToDict(struct)


def test_a_whole_number_is_no_fraction() -> None:
    struct = struct_pb2.Struct()
    structs.write(struct, {"replicas": 3, "share": 0.5})

    assert repr(structs.read(struct)["replicas"]) == "3"
    assert structs.read(struct)["share"] == 0.5


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError, match="no JSON value"):
        structs.write(struct_pb2.Struct(), {"a": object()})
