"""Merge patches: the RFC's own examples, and that a patch made from two documents turns the one into the other."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.kube import errors, objects
from steelyard.kube.server.patch import mergepatch

SCALARS = st.one_of(st.booleans(), st.integers(-5, 5), st.text("ab", max_size=2))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


@pytest.mark.parametrize(
    "doc, patch, expected",
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="a scalar is replaced"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="a key is added"),
        pytest.param({"a": "b"}, {"a": None}, {}, id="null removes"),
        pytest.param({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}, id="null removes only its key"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="a list gives way to a scalar"),
        pytest.param({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}, id="a scalar gives way to a list"),
        pytest.param({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="objects merge"),
        pytest.param({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}, id="lists are replaced"),
        pytest.param({"e": None}, {"a": 1}, {"e": None, "a": 1}, id="a null that was there stays"),
        pytest.param({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}, id="nulls of a new object are dropped"),
        pytest.param({}, {"a": [{"b": None, "c": 1}]}, {"a": [{"c": 1}]}, id="also inside a new list"),
        pytest.param({"a": {"x": 1}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}, id="not where an object was"),
        pytest.param({"a": 1}, {"a": {"b": None}}, {"a": {}}, id="an object replaces a scalar without its nulls"),
        pytest.param({"a": 1}, {}, {"a": 1}, id="an empty patch changes nothing"),
    ],
)
def test_merge_patch_gives_what_upstream_gives(doc: Any, patch: Any, expected: Any) -> None:
    before = objects.copy({"doc": doc, "patch": patch})
    assert mergepatch.apply(doc, patch) == expected
    assert {"doc": doc, "patch": patch} == before


@pytest.mark.parametrize("patch", ["x", None, 3])
def test_a_merge_patch_that_is_a_scalar_is_a_bad_request(patch: Any) -> None:
    with pytest.raises(errors.BadRequest, match="Invalid JSON Patch"):
        mergepatch.apply({}, patch)


def test_a_list_takes_the_place_of_the_document() -> None:
    assert mergepatch.apply({"a": 1}, [{"b": None, "c": 1}]) == [{"c": 1}]


@given(DOCUMENTS, DOCUMENTS)
def test_the_difference_of_two_documents_turns_one_into_the_other(before: Any, after: Any) -> None:
    patched = mergepatch.apply(before, mergepatch.diff(before, after))
    assert patched == after


@given(DOCUMENTS, DOCUMENTS)
def test_applying_a_merge_patch_twice_is_applying_it_once(doc: Any, patch: Any) -> None:
    once = mergepatch.apply(doc, patch)
    assert mergepatch.apply(once, patch) == once


@given(DOCUMENTS)
def test_equal_documents_differ_by_the_empty_patch(doc: Any) -> None:
    assert mergepatch.diff(doc, objects.copy(doc)) == {}
