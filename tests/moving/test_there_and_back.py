"""A living cluster goes to another API and comes back: nothing that runs notices."""

from __future__ import annotations

from pathlib import Path

from steelyard.api import state
from steelyard.api.clusterapi.resources import CLUSTERS, MACHINES
from steelyard.api.resources import SIMULATED_CLUSTERS
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import conditions
from steelyard.moving import carrying, preparing
from steelyard.moving.carrying import Manner, Mover
from tests import inprocess
from tests.inprocess import CLAIMS
from tests.moving import worlds
from tests.moving.worlds import Side


async def move(source: Side, target: Side) -> carrying.Moved:
    prepared = await preparing.prepare(
        source.mover, target.mover, target.connection.server, ["default"], leaves_behind=False
    )
    record = await preparing.begin(source.mover, prepared)
    return await Mover(source.mover, target.mover, record, Manner(terms=worlds.PATIENT)).run()


async def workers(side: Side, count: int) -> None:
    await worlds.eventually(
        lambda: side.client.get(CLAIMS, "shop", "default"),
        lambda it: (
            state.of(it).word == state.READY and objects.at(it, "status", "workers", "summary") == f"{count}/{count}"
        ),
    )


async def answered(side: Side) -> Object:
    """Once the machines, which begin anew with each process, serve the cluster's API again."""
    found: Object = await worlds.eventually(lambda: worlds.seen(side.client, "shop"), bool)
    return found


async def test_a_cluster_goes_there_and_back_and_no_machine_notices(tmp_path: Path) -> None:
    async with worlds.side(tmp_path / "here") as here, worlds.side(tmp_path / "there") as there:
        async with worlds.machines(tmp_path / "world", here):
            await here.client.create(CLAIMS, inprocess.claim(workerReplicas=2))
            await workers(here, 2)
            before = await worlds.seen(here.client, "shop")
            original = await here.client.get(CLAIMS, "shop", "default")
            moved = await move(here, there)
            assert moved.moved > 20
            assert moved.left == ()
        for resource in (CLAIMS, CLUSTERS, MACHINES):
            assert not (await here.client.list(resource)).items
        async with worlds.machines(tmp_path / "world", there):
            await workers(there, 2)
            assert await answered(there) == before
            claim = await there.client.get(CLAIMS, "shop", "default")
            assert objects.uid(claim) != objects.uid(original)
            assert claim["status"]["inventory"] == original["status"]["inventory"]
            await there.client.patch(CLAIMS, "shop", {"spec": {"parameters": {"workerReplicas": 3}}}, "default")
            await workers(there, 3)
            grown = await worlds.seen(there.client, "shop")
            assert before["machines"].items() < grown["machines"].items()
            await move(there, here)
        async with worlds.machines(tmp_path / "world", here):
            await workers(here, 3)
            assert await answered(here) == grown
            await here.client.delete(CLAIMS, "shop", "default")
            await worlds.eventually(lambda: here.client.list(CLAIMS), lambda listed: not listed.items)
            assert not (await here.client.list(MACHINES)).items


async def test_machines_of_a_platform_that_ended_go_on_from_its_data_directory(tmp_path: Path) -> None:
    async with worlds.side(tmp_path / "there") as there:
        async with worlds.side(tmp_path / "here", without=frozenset()) as here:
            await here.client.create(CLAIMS, inprocess.claim(workerReplicas=1))
            await workers(here, 1)
            before = await answered(here)
            await move(here, there)
            assert await worlds.nodes(there.client, "shop") == before["nodes"], "until then they go on where they were"
        async with worlds.machines(tmp_path / "here" / "data", there):
            assert await answered(there) == before
            await there.client.patch(CLAIMS, "shop", {"spec": {"parameters": {"workerReplicas": 2}}}, "default")
            await workers(there, 2)


async def test_a_platform_serves_no_empty_cluster_where_the_machines_are_elsewhere(tmp_path: Path) -> None:
    async with worlds.side(tmp_path / "there", without=frozenset()) as there:
        async with worlds.side(tmp_path / "here", without=frozenset()) as here:
            await here.client.create(CLAIMS, inprocess.claim(workerReplicas=1))
            await workers(here, 1)
            before = await answered(here)
            await move(here, there)
        found = await worlds.eventually(
            lambda: there.client.get(SIMULATED_CLUSTERS, "shop", "default"),
            lambda it: conditions.reason_of(it, "Ready") == "MachinesElsewhere",
        )
        assert "--data-dir DIR (docs/moving.md)" in conditions.message_of(found, "Ready")
        claim = await worlds.eventually(
            lambda: there.client.get(CLAIMS, "shop", "default"), lambda it: state.of(it).word != state.READY
        )
        assert "steelyard controllers --with simulated" in str(claim["status"]["conditions"])
    async with worlds.side(tmp_path / "there") as there, worlds.machines(tmp_path / "here" / "data", there):
        await workers(there, 1)
        assert await answered(there) == before
