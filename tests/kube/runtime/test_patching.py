from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS
from steelyard.kube.runtime import finalizers, patching
from steelyard.kube.server.patch import mergepatch
from tests.kube.runtime.memory import MemoryClient, config_map

scalars = st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=1), inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(st.text("abc", max_size=1), values, max_size=4)


@given(documents, documents)
def test_patch_turns_one_document_into_the_other(before: Object, after: Object) -> None:
    patch = patching.merge_patch(before, after)
    result = mergepatch.apply(objects.copy(before), patch)
    assert result == after
    assert (patch == {}) == (_encoded(before) == _encoded(after))


def _encoded(document: Object) -> bytes:
    """Tells True from 1, which compare equal."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def test_null_means_absent() -> None:
    assert patching.merge_patch({"a": None}, {"b": None}) == {}
    assert patching.merge_patch({"a": 1}, {"a": None, "b": {"c": None, "d": 1}}) == {"a": None, "b": {"d": 1}}


def test_patch_holds_only_the_difference() -> None:
    before: Object = {"a": 1, "b": {"c": [1, 2], "d": 3}, "e": 4}
    after: Object = {"b": {"c": [1], "d": 3}, "e": 4, "f": {}}
    assert patching.merge_patch(before, after) == {"a": None, "b": {"c": [1]}, "f": {}}


async def test_status_that_is_as_wanted_makes_no_request() -> None:
    server = MemoryClient()
    obj = await server.create(CONFIG_MAPS, {**config_map("a"), "status": {"phase": "Ready"}})
    assert await patching.patch_status(server, CONFIG_MAPS, obj, {"phase": "Ready"}) is obj
    assert server.count("patch status") == 0


async def test_status_is_patched_once_and_fields_left_out_are_removed() -> None:
    server = MemoryClient()
    obj = await server.create(CONFIG_MAPS, {**config_map("a"), "status": {"phase": "Pending", "old": 1}})
    patched = await patching.patch_status(server, CONFIG_MAPS, obj, {"phase": "Ready"})
    assert patched["status"] == {"phase": "Ready"}
    assert server.count("patch status") == 1


async def test_patch_of_an_outdated_object_is_a_conflict() -> None:
    server = MemoryClient()
    obj = await server.create(CONFIG_MAPS, config_map("a"))
    await server.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, "default")
    with pytest.raises(errors.Conflict):
        await patching.patch(server, CONFIG_MAPS, obj, {**obj, "data": {"y": "2"}})
    patched = await patching.patch(server, CONFIG_MAPS, obj, {**obj, "data": {"y": "2"}}, optimistic=False)
    assert patched["data"] == {"x": "1", "y": "2"}


async def test_finalizer_is_added_once_and_removed_once() -> None:
    server = MemoryClient()
    obj = await server.create(CONFIG_MAPS, config_map("a"))
    held = await finalizers.ensure(server, CONFIG_MAPS, obj, "steelyard.dev/claim")
    assert finalizers.has(held, "steelyard.dev/claim")
    assert await finalizers.ensure(server, CONFIG_MAPS, held, "steelyard.dev/claim") is held
    freed = await finalizers.remove(server, CONFIG_MAPS, held, "steelyard.dev/claim")
    assert objects.finalizers(freed) == []
    assert await finalizers.remove(server, CONFIG_MAPS, freed, "steelyard.dev/claim") is freed
    assert server.count("patch") == 2


async def test_finalizer_of_another_added_meanwhile_is_not_lost() -> None:
    server = MemoryClient()
    outdated = await server.create(CONFIG_MAPS, config_map("a"))
    await finalizers.ensure(server, CONFIG_MAPS, outdated, "other/one")
    with pytest.raises(errors.Conflict):
        await finalizers.ensure(server, CONFIG_MAPS, outdated, "mine/one")
