"""JSON patches: each operation, upstream's peculiarities, and the answers to patches that do not fit."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.kube import errors, objects
from steelyard.kube.server.patch import jsonpatch

DOC: dict[str, Any] = {"a": {"b": 1, "n": None}, "l": [1, 2, 3], "s/l~h": "x", "deep": [{"k": [{"v": 1}]}]}


def op(kind: str, path: str, **rest: Any) -> dict[str, Any]:
    return {"op": kind, "path": path, **({"from": rest.pop("source")} if "source" in rest else {}), **rest}


@pytest.mark.parametrize(
    "operations, path, expected",
    [
        pytest.param([op("add", "/a/c", value=2)], ("a", "c"), 2, id="add a key"),
        pytest.param([op("add", "/a/b", value=2)], ("a", "b"), 2, id="add over a key"),
        pytest.param([op("add", "/l/1", value=9)], ("l",), [1, 9, 2, 3], id="add inserts"),
        pytest.param([op("add", "/l/-", value=9)], ("l",), [1, 2, 3, 9], id="add appends"),
        pytest.param([op("add", "/l/3", value=9)], ("l",), [1, 2, 3, 9], id="add at the end"),
        pytest.param([op("add", "/l/-1", value=9)], ("l",), [1, 2, 3, 9], id="add counts from the end"),
        pytest.param([op("add", "/a/c")], ("a",), {"b": 1, "n": None, "c": None}, id="a missing value is null"),
        pytest.param([op("remove", "/a/b")], ("a",), {"n": None}, id="remove a key"),
        pytest.param([op("remove", "/l/0")], ("l",), [2, 3], id="remove an item"),
        pytest.param([op("remove", "/l/-1")], ("l",), [1, 2], id="remove the last item"),
        pytest.param([op("replace", "/a/b", value="x")], ("a", "b"), "x", id="replace a key"),
        pytest.param([op("replace", "/a/new", value="x")], ("a", "new"), "x", id="replace adds a missing key"),
        pytest.param([op("replace", "/l/1", value="x")], ("l",), [1, "x", 3], id="replace an item"),
        pytest.param([op("replace", "/s~1l~0h", value="y")], ("s/l~h",), "y", id="escaped steps"),
        pytest.param([op("replace", "", value={"z": 1})], ("z",), 1, id="replace the document"),
        pytest.param([op("move", "/m", source="/a/b")], ("m",), 1, id="move"),
        pytest.param([op("move", "/l/0", source="/l/2")], ("l",), [3, 1, 2], id="move within a list"),
        pytest.param([op("copy", "/m", source="/l")], ("m",), [1, 2, 3], id="copy"),
        pytest.param([op("copy", "/a/m", source="/none")], ("a",), {"b": 1, "n": None, "m": None}, id="copy nothing"),
        pytest.param([op("test", "/a/b", value=1)], ("a", "b"), 1, id="test passes"),
        pytest.param([op("test", "/a/n", value=None)], ("a", "b"), 1, id="test of null"),
        pytest.param([op("test", "/a/none")], ("a", "b"), 1, id="test of a missing key against nothing"),
        pytest.param([op("test", "", value=DOC)], ("a", "b"), 1, id="test the document"),
        pytest.param([op("add", "x/y", value=1)], ("y",), 1, id="what precedes the first slash is not looked at"),
        pytest.param(
            [op("copy", "/deep/0/k/-", source="/deep/0/k/0"), op("replace", "/deep/0/k/1/v", value=2)],
            ("deep", 0, "k"),
            [{"v": 1}, {"v": 2}],
            id="a copy is a value of its own",
        ),
        pytest.param([], ("a", "b"), 1, id="no operations"),
    ],
)
def test_operations(operations: list[Any], path: tuple[str | int, ...], expected: Any) -> None:
    before = objects.copy({"doc": DOC, "patch": operations})
    assert objects.at(jsonpatch.apply(DOC, operations), *path) == expected
    assert {"doc": DOC, "patch": operations} == before, "the arguments are left as they were"


@pytest.mark.parametrize(
    "operation, message",
    [
        pytest.param(op("test", "/a/b", value=2), "testing value /a/b failed: test failed", id="test fails"),
        pytest.param(op("test", "/a/b", value=1.0), "test failed", id="1 is not 1.0"),
        pytest.param(op("test", "/a/b", value=True), "test failed", id="1 is not true"),
        pytest.param(op("test", "/a", value={"b": 1}), "test failed", id="test of an object with fewer keys"),
        pytest.param(op("test", "/a/b", value=None), "test failed", id="test of a value against null"),
        pytest.param(op("remove", "/a/none"), "Unable to remove nonexistent key: none", id="remove a missing key"),
        pytest.param(op("remove", "/l/3"), "invalid index", id="remove past the end"),
        pytest.param(op("remove", "/l/-4"), "invalid index", id="remove before the beginning"),
        pytest.param(op("remove", "/none/x"), "doc is missing path", id="missing parent"),
        pytest.param(op("add", "/a/b/c", value=1), "doc is missing path", id="below a scalar"),
        pytest.param(op("add", "/a/n/c", value=1), "doc is missing path", id="below null"),
        pytest.param(op("add", "/l/4", value=1), "invalid index", id="add past the end"),
        pytest.param(op("add", "/l/x", value=1), "invalid index", id="not an index"),
        pytest.param(op("add", "/l/" + "9" * 5000, value=1), "invalid index", id="an absurd index"),
        pytest.param(op("add", "", value={}), "doc is missing path", id="add of the document"),
        pytest.param(op("replace", "/l/-", value=1), "invalid index", id="replace after the end"),
        pytest.param(op("replace", "", value=1), "must be object or array", id="a document that is a scalar"),
        pytest.param(op("move", "/a/b/c", source="/a/b"), "doc is missing path", id="move into itself"),
        pytest.param(op("move", "/m", source="/none"), "nonexistent key", id="move of a missing key"),
        pytest.param(op("move", "/m"), "missing from field", id="move from nowhere"),
        pytest.param(op("merge", "/a"), "Unexpected kind: merge", id="unknown operation"),
        pytest.param({"path": "/a"}, "Unexpected kind: unknown", id="no operation"),
        pytest.param({"op": "add", "value": 1}, "failed to decode path", id="no path"),
    ],
)
def test_a_patch_that_does_not_fit_is_invalid_and_says_why(operation: Any, message: str) -> None:
    with pytest.raises(errors.Invalid) as raised:
        jsonpatch.apply(DOC, [operation])
    assert raised.value.message == "the server rejected our request due to an error in our request"
    assert message in raised.value.__notes__[0]


MALFORMED: list[tuple[Any, bool, str]] = [
    ({}, True, "object into Go value of type []handlers.jsonPatchOp"),
    ("x", True, "string into Go value of type []handlers.jsonPatchOp"),
    ([1], True, "number into Go value of type handlers.jsonPatchOp"),
    ([{"op": 1}], True, "number into Go struct field jsonPatchOp.op of type string"),
    ([{"op": "add", "path": []}], True, "array into Go struct field jsonPatchOp.path of type string"),
    ({}, False, "object into Go value of type jsonpatch.Patch"),
    ([True], False, "bool into Go value of type jsonpatch.Operation"),
]


@pytest.mark.parametrize(("patch", "is_strict", "message"), MALFORMED)
def test_a_malformed_patch_is_a_bad_request(patch: Any, is_strict: bool, message: str) -> None:
    with pytest.raises(errors.BadRequest) as raised:
        jsonpatch.operations(patch, is_strict=is_strict)
    prefix = "error decoding patch: " if is_strict else ""
    assert raised.value.message == f"{prefix}json: cannot unmarshal {message}"


def test_null_is_a_patch_without_operations() -> None:
    assert jsonpatch.operations(None) == []
    assert jsonpatch.operations([None]) == [{}]


def test_too_many_operations_are_refused() -> None:
    with pytest.raises(errors.TooLarge, match="maximum operations in a JSON patch is 10000, got 10001"):
        jsonpatch.apply({}, [op("test", "/a")] * 10_001)


def test_copies_cannot_grow_a_document_without_end() -> None:
    doubling = [op("copy", "/l/-", source="/l")] * 40
    with pytest.raises(errors.Invalid) as raised:
        jsonpatch.apply({"l": ["x" * 100]}, doubling)
    assert "exceeding the limit" in raised.value.__notes__[0]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "replace", "remove", "copy", "move"]),
            st.sampled_from(["/a", "/a/b", "/l/0", "/l/-", "/deep/0/k", "/deep/0/k/0/v", "/new"]),
            st.sampled_from(["/a", "/l", "/deep/0", "/deep/0/k/0"]),
            st.sampled_from([1, {"b": {"c": 1}}, [1, 2]]),
        ),
        max_size=8,
    )
)
def test_no_sequence_of_operations_changes_the_arguments(steps: list[tuple[str, str, str, Any]]) -> None:
    operations = [op(kind, path, source=source, value=value) for kind, path, source, value in steps]
    before = objects.copy({"doc": DOC, "patch": operations})
    one_by_one: Any = objects.copy(DOC)
    try:
        patched = jsonpatch.apply(DOC, operations)
    except errors.Invalid:
        patched = None
    assert {"doc": DOC, "patch": operations} == before
    if patched is not None:
        for operation in operations:
            one_by_one = objects.copy(jsonpatch.apply(one_by_one, [operation]))
        assert patched == one_by_one
