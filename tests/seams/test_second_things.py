"""What was written for one kind on one infrastructure holds for a second of each, and for environments of any name."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest

from steelyard import app, settings
from steelyard.compose import identity
from steelyard.compose.composed import NOTHING, Observed
from steelyard.compose.effects import Disruption
from steelyard.installation.datadir import DataDir
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS, SECRETS, Resource
from steelyard.plan import changes, inventory, marks, offline, planning
from steelyard.settings import Platform
from tests.seams import note, paper
from tests.seams.note import CONFIG_MAPS, NOTE
from tests.seams.program import OFFERING, PROVIDERS
from tools import reference

NOTES = NOTE.resource("steelyard.dev")
CLUSTERS = OFFERING.kinds[0].resource("steelyard.dev")
WAIT = 60.0


@contextlib.asynccontextmanager
async def running(folder: Path, platform: str = "") -> AsyncGenerator[Client]:
    options = app.Options(
        DataDir(folder),
        "127.0.0.1",
        0,
        settings.parse(platform, infrastructures=OFFERING.infrastructure_names),
        offering=OFFERING,
        providers=PROVIDERS,
    )
    async with app.started(options) as platform_:
        yield platform_.client


def a_note(name: str = "list", connection: str = "", **parameters: object) -> Object:
    spec: Object = {"parameters": {"environment": "dev", "text": "milk", **parameters}}
    if connection:
        spec["writeConnectionSecretToRef"] = {"name": connection}
    return {
        "apiVersion": NOTES.api_version,
        "kind": "Note",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def a_cluster(**parameters: object) -> Object:
    return {
        "apiVersion": CLUSTERS.api_version,
        "kind": "WorkloadCluster",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"parameters": {"environment": "dev", **parameters}},
    }


async def until(what: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WAIT):
        while not await what():  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.02)


async def find(client: Client, resource: Resource, name: str) -> Object | None:
    try:
        return await client.get(resource, name, "default")
    except errors.NotFound:
        return None


async def becomes(client: Client, resource: Resource, name: str, state: str) -> Object:
    async def is_so() -> bool:
        return objects.at(await client.get(resource, name, "default"), "status", "state") == state

    await until(is_so)
    return await client.get(resource, name, "default")


async def names(client: Client, resource: Resource) -> list[str]:
    found = (await client.list(resource, "default")).items
    return sorted(objects.name(each) for each in found if "steelyard.dev/claim-name" in objects.labels(each))


async def test_a_claim_of_a_second_kind_becomes_ready_is_kept_so_and_is_changed(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        await client.create(NOTES, a_note(pages=2, connection="list-text"))
        ready = await becomes(client, NOTES, "list", "Ready")
        assert ready["status"]["pages"] == 2
        assert await names(client, CONFIG_MAPS) == ["list-cover", "list-page-1", "list-page-2"]
        secret = await client.get(SECRETS, "list-text", "default")
        assert base64.b64decode(secret["data"]["text"]) == b"milk"

        async def is_told() -> bool:
            events = [str(each["message"]) for each in (await client.list(EVENTS, "default")).items]
            return any(message.startswith("the note is ready") for message in events)

        await until(is_told)
        await client.patch(CONFIG_MAPS, "list-page-1", {"data": {"text": "scribbled over"}}, "default")

        async def is_mended() -> bool:
            return (await client.get(CONFIG_MAPS, "list-page-1", "default"))["data"]["text"] == "milk"

        await until(is_mended)
        await client.patch(NOTES, "list", {"spec": {"parameters": {"pages": 1}}}, "default")

        async def is_shorter() -> bool:
            return await names(client, CONFIG_MAPS) == ["list-cover", "list-page-1"]

        await until(is_shorter)


async def test_its_parts_go_in_the_order_that_it_says(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        await client.create(NOTES, a_note())
        await becomes(client, NOTES, "list", "Ready")
        await client.patch(CONFIG_MAPS, "list-cover", {"metadata": {"finalizers": ["example.org/held"]}}, "default")
        await client.delete(NOTES, "list", "default")

        async def waits_for_the_cover() -> bool:
            message = str(objects.at(await client.get(NOTES, "list", "default"), "status", "message"))
            return message == "waiting for the deletion of ConfigMap default/list-cover"

        await until(waits_for_the_cover)
        assert await names(client, CONFIG_MAPS) == ["list-cover", "list-page-1"], "the pages have to wait"
        await client.patch(CONFIG_MAPS, "list-cover", {"metadata": {"finalizers": None}}, "default")

        async def is_gone() -> bool:
            return await find(client, NOTES, "list") is None and not await names(client, CONFIG_MAPS)

        await until(is_gone)


async def test_what_all_claims_share_is_shared(tmp_path: Path) -> None:
    """The environment's name, whose object it is, pausing, protection."""
    async with running(tmp_path) as client:
        with pytest.raises(errors.Invalid, match="there is no environment deve; did you mean dev"):
            await client.create(NOTES, a_note(environment="deve"))
        taken: Object = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "list-cover", "namespace": "default"},
        }
        await client.create(CONFIG_MAPS, taken)
        await client.create(NOTES, a_note())
        failing = await becomes(client, NOTES, "list", "Failing")
        assert "ConfigMap default/list-cover: it exists and was not made for this claim" in failing["status"]["message"]
        await client.patch(NOTES, "list", {"metadata": {"annotations": {"crossplane.io/paused": "true"}}}, "default")
        await becomes(client, NOTES, "list", "Paused")
        await client.patch(NOTES, "list", {"metadata": {"annotations": {"steelyard.dev/protected": "true"}}}, "default")
        with pytest.raises(errors.Forbidden, match=r"Note list is protected .* kubectl annotate note list -n default"):
            await client.delete(NOTES, "list", "default")
        with pytest.raises(errors.Forbidden):
            await client.delete_collection(NOTES, "default")
        assert not objects.is_being_deleted(await client.get(NOTES, "list", "default"))


@pytest.mark.parametrize("is_default", [True, False], ids=["of the platform file", "of the claim"])
async def test_a_cluster_on_a_second_infrastructure_lives_and_goes(tmp_path: Path, is_default: bool) -> None:
    platform = "infrastructure: paper" if is_default else ""
    async with running(tmp_path, platform) as client:
        claim = a_cluster() if is_default else a_cluster(infrastructure="paper")
        await client.create(CLUSTERS, claim)
        ready = await becomes(client, CLUSTERS, "shop", "Ready")
        assert ready["status"]["parameters"]["infrastructure"] == "paper"
        machines = (await client.list(paper.PAPER_MACHINES, "default")).items
        assert [machine["spec"]["sheets"] for machine in machines] == [8, 8, 8]
        await client.patch(CLUSTERS, "shop", {"spec": {"parameters": {"workerReplicas": 3}}}, "default")

        async def is_larger() -> bool:
            found = await client.get(CLUSTERS, "shop", "default")
            return objects.at(found, "status", "workers", "ready") == 3

        await until(is_larger)
        await client.delete(CLUSTERS, "shop", "default")

        async def is_gone() -> bool:
            return await find(client, CLUSTERS, "shop") is None

        await until(is_gone)
        for resource in (paper.PAPER_CLUSTERS, paper.PAPER_MACHINES, paper.PAPER_TEMPLATES):
            assert await names(client, resource) == []


async def test_an_infrastructure_that_nobody_offers_is_refused_by_name(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        with pytest.raises(errors.Invalid, match="cannot make machines of cardboard; it offers: simulated, paper"):
            await client.create(CLUSTERS, a_cluster(infrastructure="cardboard"))


async def test_an_environment_of_ones_own_gives_its_sizes_and_outlives_its_entry(tmp_path: Path) -> None:
    own = "environments: {load-test: {like: dev, workerReplicas: 1, cpuCores: 3}}\ninfrastructure: paper\n"
    async with running(tmp_path, own) as client:
        await client.create(CLUSTERS, a_cluster(environment="load-test"))
        ready = await becomes(client, CLUSTERS, "shop", "Ready")
        used = ready["status"]["parameters"]
        assert (used["environment"], used["workerReplicas"], used["cpuCores"]) == ("load-test", 1, 3)
    with pytest.raises(app.CannotStart, match="the platform file has no environment load-test"):
        async with running(tmp_path, "infrastructure: paper\n"):
            pass
    closed = own.replace("like: dev", "like: dev, enabled: false")
    async with running(tmp_path, closed) as client:
        with pytest.raises(errors.Invalid, match="there is no environment load-test"):
            await client.create(NOTES, a_note(environment="load-test"))
        patched = await client.patch(CLUSTERS, "shop", {"metadata": {"labels": {"kept": "yes"}}}, "default")
        assert patched["spec"]["parameters"]["environment"] == "load-test", "what is there is not refused"
        await becomes(client, CLUSTERS, "shop", "Ready")


async def test_previews_and_aliases_are_environments_too(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        await client.create(NOTES, a_note("one", environment="pr-17"))
        await client.create(NOTES, a_note("two", environment="prod"))
        await becomes(client, NOTES, "one", "Ready")
        await becomes(client, NOTES, "two", "Ready")


def test_the_list_of_changes_is_decided_without_doing_anything() -> None:
    claim = {**a_note(pages=2), "metadata": {"name": "list", "namespace": "default", "uid": "1"}}
    before = identity.of_claim(claim, note.compose(claim, NOTHING, Platform()))
    cover = before.desired["cover"].object
    applied = {**cover, "metadata": {**cover["metadata"], "annotations": {**cover["metadata"]["annotations"]}}}
    applied["metadata"]["annotations"][marks.DIGEST] = marks.digest(cover)
    shorter = {**claim, "spec": {"parameters": {"environment": "dev", "text": "milk", "pages": 1}}}
    composed = identity.of_claim(shorter, note.compose(shorter, NOTHING, Platform()))

    decided = changes.decide(composed, Observed(resources={"cover": applied}), inventory.wanted(before), {})

    assert [str(change) for change in decided] == [
        "keep ConfigMap default/list-cover",
        "create ConfigMap default/list-page-1",
        "delete ConfigMap default/list-page-2",
    ]


def test_the_second_kind_has_a_reference_page_and_the_first_keeps_its_own() -> None:
    pages = reference.pages(OFFERING)

    page = pages["docs/reference/note.md"]()
    assert "# Note" in page
    assert "spec.parameters.text" in page
    assert "the cover goes before the pages" in page
    first = reference.pages()["docs/reference/workloadcluster.md"]()
    assert pages["docs/reference/workloadcluster.md"]() == first


def test_a_second_kind_tells_in_a_plan_what_only_it_knows() -> None:
    platform = settings.Platform()
    three, one = (offline.render(NOTE, a_note(pages=pages), platform) for pages in (3, 1))

    plan = planning.between(NOTE, a_note(pages=1), three.parts, one.composed, a_note(pages=3))

    assert plan.disruption is Disruption.DATA_LOSS
    assert [str(each) for each in plan.effects] == [
        "page-2: data loss: what is written on it is lost",
        "page-3: data loss: what is written on it is lost",
    ]
    assert [step.verb for step in plan.steps] == ["change", "delete", "delete"]
