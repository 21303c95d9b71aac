"""Namespaces: the ones that always exist, and how one ends."""

from __future__ import annotations

import asyncio

import pytest

from steelyard.kube import errors, objects
from steelyard.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS
from steelyard.kube.store.store import Store
from tests.kube.server.bench import WIDGETS, Bench, eventually, make, widget

HOLD = "example.com/hold"


async def test_a_new_server_has_the_system_namespaces(store: Store) -> None:
    bench = await Bench.start(store, define=False)
    assert await bench.names(NAMESPACES) == ["default", "kube-node-lease", "kube-public", "kube-system"]
    await bench.api.close()
    revision = store.revision
    again = await Bench.start(store, define=False)
    assert store.revision == revision, "a restart writes nothing"
    await again.api.close()


async def test_spaces_of_one_store_do_not_see_each_other(store: Store) -> None:
    one, two = await Bench.start(store, space="one"), await Bench.start(store, space="two", define=False)
    await one.create(CONFIG_MAPS, make(CONFIG_MAPS, "c"))
    assert await two.names(CONFIG_MAPS) == []
    with pytest.raises(errors.NotFound):
        await two.list(WIDGETS)
    await one.api.close()
    await two.api.close()


async def test_a_deleted_namespace_takes_everything_in_it_along(bench: Bench) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "n"))
    await bench.create(CONFIG_MAPS, make(CONFIG_MAPS, "c"), namespace="n")
    await bench.create(SECRETS, make(SECRETS, "s"), namespace="n")
    await bench.create(WIDGETS, widget("w"), namespace="n")
    await bench.create(WIDGETS, widget("elsewhere"))
    marked = await bench.delete(NAMESPACES, "n")
    assert marked["status"]["phase"] == "Terminating"
    await eventually(lambda: _gone(bench, "n"))
    assert await bench.names(WIDGETS, namespace="") == ["elsewhere"]
    assert await bench.names(SECRETS, namespace="") == []


async def test_a_terminating_namespace_takes_nothing_new_and_says_what_holds_it(bench: Bench) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "n"))
    await bench.create(WIDGETS, widget("w", finalizers=[HOLD]), namespace="n")
    await bench.delete(NAMESPACES, "n")
    with pytest.raises(errors.Forbidden) as caught:
        await bench.create(WIDGETS, widget("late"), namespace="n")
    assert caught.value.causes[0].reason == "NamespaceTerminating"

    async def reports() -> bool:
        return bool(objects.at(await bench.get(NAMESPACES, "n"), "status", "conditions"))

    await eventually(reports)
    messages = {each["type"]: each["message"] for each in (await bench.get(NAMESPACES, "n"))["status"]["conditions"]}
    assert "widgets.example.com has 1 resource instances" in messages["NamespaceContentRemaining"]
    assert f"{HOLD} in 1 resource instances" in messages["NamespaceFinalizersRemaining"]
    await asyncio.sleep(0.02)
    revision = bench.store.revision
    await asyncio.sleep(0.05)
    assert bench.store.revision == revision, "waiting writes nothing"
    await bench.patch(WIDGETS, "w", {"metadata": {"finalizers": None}}, namespace="n")
    await eventually(lambda: _gone(bench, "n"))


async def test_termination_resumes_after_a_restart(bench: Bench) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "n"))
    await bench.create(WIDGETS, widget("w", finalizers=[HOLD]), namespace="n")
    await bench.delete(NAMESPACES, "n")
    await bench.api.close()
    again = await Bench.start(bench.store, define=False)
    await again.patch(WIDGETS, "w", {"metadata": {"finalizers": None}}, namespace="n")
    await eventually(lambda: _gone(again, "n"))
    await again.api.close()


async def test_a_namespace_has_finalizers_of_its_own_too(bench: Bench) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "n", finalizers=[HOLD]))
    await bench.delete(NAMESPACES, "n")

    async def is_emptied() -> bool:
        return (await bench.get(NAMESPACES, "n"))["spec"] == {}

    await eventually(is_emptied)
    await bench.patch(NAMESPACES, "n", {"metadata": {"finalizers": None}})
    assert await _gone(bench, "n")


async def test_finalize_removes_what_a_namespace_controller_is_done_with(bench: Bench) -> None:
    body = make(NAMESPACES, "n", {"finalizers": ["example.com/mine"]})
    created = await bench.create(NAMESPACES, body)
    assert created["spec"]["finalizers"] == ["example.com/mine", "kubernetes"]
    unchanged = await bench.update(NAMESPACES, {**created, "spec": {}})
    assert unchanged["spec"] == created["spec"]
    await bench.delete(NAMESPACES, "n")

    async def is_mine_alone() -> bool:
        return (await bench.get(NAMESPACES, "n"))["spec"] == {"finalizers": ["example.com/mine"]}

    await eventually(is_mine_alone)
    current = await bench.get(NAMESPACES, "n")
    await bench.update(NAMESPACES, {**current, "spec": {"finalizers": []}}, subresource="finalize")
    assert await _gone(bench, "n")


async def test_namespaces_that_clients_rely_on_stay(bench: Bench) -> None:
    with pytest.raises(errors.Forbidden, match="may not be deleted"):
        await bench.delete(NAMESPACES, "kube-system")


async def _gone(bench: Bench, name: str) -> bool:
    return not await bench.exists(NAMESPACES, name)


async def test_the_phase_of_a_namespace_follows_its_deletion(bench: Bench) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "n"))
    with pytest.raises(errors.Invalid) as caught:
        await bench.patch(NAMESPACES, "n", {"status": {"phase": "Terminating"}}, subresource="status")
    assert caught.value.message == (
        'Namespace "n" is invalid: status.Phase: Invalid value: "Terminating": may only be \'Active\' if '
        "`deletionTimestamp` is empty"
    )


async def test_a_generated_name_is_a_label_but_not_one_of_the_client(bench: Bench) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "n-"}}
    created = await bench.create(NAMESPACES, body)
    assert objects.labels(created)["kubernetes.io/metadata.name"] == objects.name(created)
    assert "f:labels" not in created["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]


async def test_a_namespace_is_in_no_namespace(bench: Bench) -> None:
    created = await bench.create(NAMESPACES, make(NAMESPACES, "n", namespace="other"))
    assert "namespace" not in created["metadata"]


async def test_finalizing_keeps_the_label_that_every_namespace_has(bench: Bench) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "n"))
    body = make(NAMESPACES, "n", {"finalizers": ["kubernetes", "example.com/a"]})
    finalized = await bench.update(NAMESPACES, body, subresource="finalize")
    assert objects.labels(finalized) == {"kubernetes.io/metadata.name": "n"}
    with pytest.raises(errors.Invalid, match=r"spec.finalizers\[0\]: Invalid value: \"mine\": name is neither"):
        await bench.update(NAMESPACES, make(NAMESPACES, "n", {"finalizers": ["mine"]}), subresource="finalize")
