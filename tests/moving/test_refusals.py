"""What stands against a move is told at once and before anything is written; what is protected moves all the same."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from steelyard.api.claims import PROTECTED
from steelyard.api.clusterapi import wellknown
from steelyard.api.clusterapi.resources import CLUSTER_RESOURCE_SETS, CLUSTERS, KUBEADM_CONFIG_TEMPLATES, MACHINES
from steelyard.api.resources import SIMULATED_CLUSTERS
from steelyard.cli.exits import Exit
from steelyard.cli.main import app
from steelyard.compose import offering
from steelyard.kube import errors, objects, permits
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SECRETS, Resource
from steelyard.kube.runtime.leadership import Terms
from steelyard.moving import kinds, preparing, reading, rewriting
from steelyard.moving import record as records
from steelyard.moving.belongings import Thing
from steelyard.moving.carrying import Manner, Mover
from steelyard.moving.copying import Copier
from steelyard.moving.preparing import CannotMove
from tests.inprocess import CLAIMS, claim
from tests.management import clusters
from tests.moving import worlds
from tests.moving.killing import Fate, Killed, Mortal

DEADLINE: Final = 120.0
UNATTENDED: Final = Manner(is_attended=False, terms=worlds.PATIENT)
PASSIVE = {
    "ClusterRoleBinding", "ConfigMap", "Deployment", "Namespace", "NetworkPolicy", "Password", "Role", "RoleBinding",
    "Secret", "Service", "ServiceAccount", "ServiceEntry",
}  # fmt: skip
"""Kinds on which nothing acts that a move would have to hold: what reads them does the same at either end."""


@contextlib.asynccontextmanager
async def two(folder: Path) -> AsyncGenerator[tuple[HttpClient, HttpClient]]:
    """Nobody works at either."""
    async with (
        clusters.management(folder / "one") as (_, one),
        clusters.management(folder / "two", name="two") as (_, other),
    ):
        made = [HttpClient(each, field_manager=rewriting.FIELD_MANAGER) for each in (one, other)]
        try:
            yield made[0], made[1]
        finally:
            for each in made:
                await each.close()


async def add(client: Client, resource: Resource, name: str, namespace: str = "default", **content: object) -> Object:
    metadata: Object = {"name": name, "namespace": namespace}
    body: Object = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}
    made = await client.create(resource, body)
    if "status" not in content:
        return made
    return await client.update(resource, {**made, "status": content["status"]}, subresource="status")


async def add_cluster(client: Client, name: str = "own") -> Object:
    reference = {"apiGroup": SIMULATED_CLUSTERS.group, "kind": SIMULATED_CLUSTERS.kind, "name": name}
    done = {"initialization": {"infrastructureProvisioned": True, "controlPlaneInitialized": True}}
    return await add(client, CLUSTERS, name, spec={"infrastructureRef": reference}, status=done)


async def refused(source: Client, target: Client) -> list[str]:
    with pytest.raises(CannotMove) as caught:
        await preparing.prepare(source, target, "there", None, leaves_behind=False)
    assert await records.read(source) is None, "nothing was written"
    return caught.value.problems or [str(caught.value)]


async def test_whatever_stands_against_it_is_told_before_anything_is_written(tmp_path: Path) -> None:
    async with two(tmp_path) as (source, target):
        assert await refused(source, target) == [
            "there is nothing to move: no claims, and nothing of Cluster API, in what was named"
        ]
        await add_cluster(source)
        (told,) = await refused(source, source)
        assert "are the same API" in told

        await add(
            source,
            MACHINES,
            "m",
            spec={
                "clusterName": "own",
                "bootstrap": {"dataSecretName": "x"},
                "infrastructureRef": {"apiGroup": "a", "kind": "b", "name": "c"},
            },
        )
        (told,) = await refused(source, target)
        assert told == "Machine default/m has no Node yet: wait until it is done"
        await source.delete(MACHINES, "m", "default")

        await add(target, CLUSTERS, "own", spec={"infrastructureRef": {"apiGroup": "a", "kind": "b", "name": "c"}})
        (told,) = await refused(source, target)
        assert told.startswith("Cluster default/own is there already at the target, and is somebody else's")
        await target.delete(CLUSTERS, "own", "default")

        await target.delete(CUSTOM_RESOURCE_DEFINITIONS, CLUSTERS.group_resource)
        (told,) = await refused(source, target)
        assert told.startswith("the target does not know the kind Cluster (clusters.cluster.x-k8s.io, v1beta2)")


async def test_rights_that_are_missing_are_named(tmp_path: Path) -> None:
    async with (
        clusters.management(tmp_path / "one") as (_, one),
        clusters.management(tmp_path / "two", name="two") as (there, two_),
    ):
        await clusters.install(there, clusters.rights([]))
        source, target = HttpClient(one), HttpClient(await clusters.account(two_))
        try:
            await add_cluster(source)
            # Who may not even look there is told so by the API.
            with pytest.raises((CannotMove, errors.Forbidden), match=r"forbidden|may not"):
                await preparing.prepare(source, target, "there", None, leaves_behind=False)
            assert await records.read(source) is None
        finally:
            await source.close()
            await target.close()


async def test_the_right_to_report_is_asked_for_before_anything_is_paused(tmp_path: Path) -> None:
    async with (
        clusters.management(tmp_path / "one") as (_, one),
        clusters.management(tmp_path / "two", name="two") as (there, two_),
    ):
        source = HttpClient(one)
        await add_cluster(source)
        known = [each.resource for each in await reading.served(there)]
        enough = permits.only(("get", "list", "create", "update", "patch", "delete"), *known)
        await clusters.install(there, clusters.rights(enough))
        target = HttpClient(await clusters.account(two_))
        try:
            (told,) = await refused(source, target)
            assert "may not update clusters.cluster.x-k8s.io/status at the target" in told
        finally:
            await source.close()
            await target.close()


async def test_what_is_protected_moves_and_is_protected_there(tmp_path: Path) -> None:
    async with two(tmp_path) as (source, target):
        asked = claim(workerReplicas=1)
        asked["metadata"] |= {
            "namespace": "team-a",
            "annotations": {PROTECTED: "true"},
            "finalizers": ["steelyard.dev/claim"],
        }
        asked["spec"]["parameters"]["deletionProtection"] = True
        await source.create(
            NAMESPACES,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": {"team": "a"}}},
        )
        made = await source.create(CLAIMS, asked)
        conditions = [
            {
                "type": kind,
                "status": "True",
                "reason": reason,
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for kind, reason in (("Synced", "ReconcileSuccess"), ("Ready", "Available"))
        ]
        await source.update(CLAIMS, {**made, "status": {"conditions": conditions}}, subresource="status")
        with pytest.raises(errors.Forbidden, match="is protected"):
            await source.delete(CLAIMS, "shop", "team-a")
        prepared = await preparing.prepare(source, target, "there", ["team-a"], leaves_behind=False)
        record = await preparing.begin(source, prepared)
        await Mover(source, target, record, UNATTENDED).run()
        assert not (await source.list(CLAIMS)).items
        moved = await target.get(CLAIMS, "shop", "team-a")
        assert objects.annotations(moved)[PROTECTED] == "true"
        assert moved["spec"]["parameters"]["deletionProtection"] is True
        assert moved["status"]["conditions"] == conditions
        assert objects.labels(await target.get(NAMESPACES, "team-a"))["team"] == "a"


async def test_what_somebody_changes_while_it_moves_comes_along_and_what_they_make_stays(tmp_path: Path) -> None:
    async with two(tmp_path) as (source, target):
        owner = await add_cluster(source)
        secret = await add(source, SECRETS, "own-ca", stringData={"tls.crt": "old"})
        prepared = await preparing.prepare(source, target, "there", None, leaves_behind=False)
        record = await preparing.begin(source, prepared)
        changes = iter((True,))

        def tell(text: str) -> None:
            told.append(text)

        told: list[str] = []

        class Busy(Mover):
            async def _remove(self) -> None:
                if next(changes, False):
                    await source.patch(SECRETS, "own-ca", {"stringData": {"tls.crt": "new"}}, "default")
                    reference = objects.owner_reference(owner)
                    body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
                    metadata: Object = {"name": "late", "namespace": "default", "ownerReferences": [reference]}
                    await source.create(CONFIG_MAPS, {**body, "metadata": metadata})
                    await add_cluster(source, "later")
                await super()._remove()

        moved = await Busy(source, target, record, Manner(is_attended=False, tell=tell)).run()
        assert moved.left == ("Cluster default/later",)
        assert (await target.get(SECRETS, "own-ca", "default"))["data"] != secret["data"]
        late = await target.get(CONFIG_MAPS, "late", "default")
        arrived = await target.get(CLUSTERS, "own", "default")
        assert objects.owner_references(late)[0]["uid"] == objects.uid(arrived)
        assert not objects.at(arrived, "spec", "paused")
        with pytest.raises(errors.NotFound):
            await source.get(CONFIG_MAPS, "late", "default")


async def begun(source: Client, target: Client, *namespaces: str) -> records.Record:
    prepared = await preparing.prepare(source, target, "there", list(namespaces) or None, leaves_behind=False)
    return await preparing.begin(source, prepared)


async def test_what_is_changed_after_it_was_let_go_comes_along(tmp_path: Path) -> None:
    async with two(tmp_path) as (source, target):
        await add_cluster(source)
        kept = {"name": "own-ca", "namespace": "default", "finalizers": ["example.com/kept"]}
        await add(source, SECRETS, "own-ca", metadata=kept, stringData={"tls.crt": "old"})

        class Meddling(Mortal):
            is_done = False

            async def delete(self, resource: Resource, name: str, namespace: str = "", **how: Any) -> Object:
                if resource == SECRETS and not self.is_done:
                    self.is_done = True
                    await source.patch(SECRETS, name, {"stringData": {"tls.crt": "new"}}, namespace)
                return await super().delete(resource, name, namespace, **how)

        record = await begun(source, target)
        await Mover(Meddling(source, Fate()), target, record, UNATTENDED).run()
        arrived = await target.get(SECRETS, "own-ca", "default")
        assert base64.b64decode(arrived["data"]["tls.crt"]) == b"new"
        assert objects.finalizers(arrived) == ["example.com/kept"]


async def test_who_says_that_an_object_was_let_go_does_not_block_the_move(tmp_path: Path) -> None:
    async with two(tmp_path) as (source, target):
        await add_cluster(source)
        record = await begun(source, target)
        mark: Object = {"finalizers": ["example.com/kept"], "annotations": {rewriting.LET_GO: record.id}}
        await source.patch(CLUSTERS, "own", {"metadata": mark}, "default")
        await Mover(source, target, record, UNATTENDED).run()
        assert not (await source.list(CLUSTERS)).items
        arrived = await target.get(CLUSTERS, "own", "default")
        assert objects.finalizers(arrived) == ["example.com/kept"]
        assert rewriting.LET_GO not in objects.annotations(arrived)


async def test_who_puts_finalizers_on_again_and_again_is_told_of_by_them(tmp_path: Path) -> None:
    async with two(tmp_path) as (source, target):
        await add_cluster(source)

        class Holding(Mortal):
            async def delete(self, resource: Resource, name: str, namespace: str = "", **how: Any) -> Object:
                if resource == CLUSTERS:
                    await source.patch(CLUSTERS, name, {"metadata": {"finalizers": ["example.com/kept"]}}, namespace)
                return await super().delete(resource, name, namespace, **how)

        record = await begun(source, target)
        with pytest.raises(CannotMove, match=r"puts these finalizers on it: example\.com/kept"):
            await Mover(Holding(source, Fate()), target, record, UNATTENDED).run()


async def test_a_move_is_not_cancelled_while_it_runs_elsewhere(tmp_path: Path) -> None:
    async with two(tmp_path) as (source, target):
        await add_cluster(source)
        labels = {wellknown.CLUSTER_NAME_LABEL: "own"}
        names = {f"s{number}" for number in range(5)}
        for name in names:
            metadata: Object = {"name": name, "namespace": "default", "labels": labels}
            await add(source, SECRETS, name, metadata=metadata, stringData={"key": "the only one"})
        record = await begun(source, target)
        copied, tried = asyncio.Event(), asyncio.Event()

        class Slow(Mover):
            async def _copy(self) -> None:
                await super()._copy()
                copied.set()
                await tried.wait()

        async def cancel() -> None:
            await copied.wait()
            found = await records.read(source)
            assert found is not None
            assert found.can_be_cancelled
            waits = Manner(is_attended=False, tell=lambda _: tried.set(), terms=Terms(pause=0.1))
            with pytest.raises(CannotMove, match="another process has finished this move"):
                await Mover(source, target, found, waits).cancel()

        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            group.create_task(cancel())
            moved = await Slow(source, target, record, UNATTENDED).run()
        assert moved.moved == 6
        assert {objects.name(each) for each in (await target.list(SECRETS, "default")).items} >= names


async def test_a_record_that_another_has_written_stops_a_move_before_it_removes_anything(tmp_path: Path) -> None:
    async with two(tmp_path) as (source, target):
        await add_cluster(source)
        record = await begun(source, target)

        class Overtaken(Mover):
            async def _copy(self) -> None:
                await super()._copy()
                found = await records.read(source)
                assert found is not None
                await records.write(source, dataclasses.replace(found, phase="cancelling"))

        with pytest.raises(CannotMove, match="another process works on this move"):
            await Overtaken(source, target, record, UNATTENDED).run()
        assert (await source.list(CLUSTERS)).items
        assert await Mover(source, target, record, UNATTENDED).cancel() == 1
        assert not (await target.list(CLUSTERS)).items
        assert not objects.at(await source.get(CLUSTERS, "own", "default"), "spec", "paused")


async def test_nothing_is_removed_whose_copy_is_gone(tmp_path: Path) -> None:
    async with two(tmp_path) as (source, target):
        await add_cluster(source)
        await add(source, SECRETS, "own-ca", stringData={"tls.key": "the only one"})
        record = await begun(source, target)

        class Robbed(Mover):
            async def _vanish(self, client: Client, thing: Thing, copier: Copier | None = None) -> None:
                if thing.resource == SECRETS:
                    await target.delete(SECRETS, "own-ca", "default")
                await super()._vanish(client, thing, copier)

        await Robbed(source, target, record, UNATTENDED).run()
        assert await target.get(SECRETS, "own-ca", "default")


async def test_what_is_made_after_the_check_stays_and_keeps_nothing_from_moving(tmp_path: Path) -> None:
    async with two(tmp_path) as (source, target):
        await add_cluster(source)

        class Busy(Mover):
            async def _pause(self) -> None:
                await add_cluster(source, "early")
                await super()._pause()
                await add_cluster(source, "late")
                await source.create(CLAIMS, claim("young"))

        moved = await Busy(source, target, await begun(source, target), UNATTENDED).run()
        assert sorted(moved.left) == ["Cluster default/early", "Cluster default/late", "WorkloadCluster default/young"]
        assert [objects.name(each) for each in (await target.list(CLUSTERS)).items] == ["own"]
        assert not (await target.list(CLAIMS)).items
        for name in ("early", "late"):
            assert not objects.at(await source.get(CLUSTERS, name, "default"), "spec", "paused")


async def test_what_somebody_lets_go_on_is_paused_again_before_it_goes(tmp_path: Path) -> None:
    async with two(tmp_path) as (source, target):
        await add_cluster(source)
        meddling = iter((True,))

        class Meddled(Mover):
            async def _vanish(self, client: Client, thing: Thing, copier: Copier | None = None) -> None:
                if next(meddling, False):
                    await source.patch(CLUSTERS, "own", {"spec": {"paused": None}}, "default")
                await super()._vanish(client, thing, copier)

        record = await begun(source, target)
        with pytest.raises(CannotMove, match="somebody has let Cluster default/own go on at the source"):
            await Meddled(source, target, record, UNATTENDED).run()
        assert (await Mover(source, target, record, UNATTENDED).run()).moved == 1
        assert not objects.at(await target.get(CLUSTERS, "own", "default"), "spec", "paused")


async def test_a_secret_known_by_its_name_goes_though_its_cluster_went_before(tmp_path: Path) -> None:
    async with two(tmp_path) as (source, target):
        await add_cluster(source)
        await add(source, SECRETS, "own-ca", stringData={"tls.key": "the only one"})

        class Killing(Mover):
            async def _vanish(self, client: Client, thing: Thing, copier: Copier | None = None) -> None:
                assert thing.resource == SECRETS, "the Secret goes before its Cluster"
                await source.delete(CLUSTERS, "own", "default")
                raise Killed

        record = await begun(source, target)
        with pytest.raises(Killed):
            await Killing(source, target, record, UNATTENDED).run()
        await Mover(source, target, record, UNATTENDED).run()
        with pytest.raises(errors.NotFound):
            await source.get(SECRETS, "own-ca", "default")
        assert await target.get(SECRETS, "own-ca", "default")


async def test_what_comes_late_of_another_kind_is_resumed_as_well(tmp_path: Path) -> None:
    async with two(tmp_path) as (source, target):
        owner = await add_cluster(source)

        class Busy(Mover):
            async def _remove(self) -> None:
                reference = objects.owner_reference(owner)
                metadata: Object = {"name": "late", "namespace": "default", "ownerReferences": [reference]}
                spec: Object = {"clusterSelector": {"matchLabels": {"a": "b"}}, "resources": []}
                spec["resources"].append({"kind": "Secret", "name": "x"})
                await add(source, CLUSTER_RESOURCE_SETS, "late", metadata=metadata, spec=spec)
                await super()._remove()

        await Busy(source, target, await begun(source, target), UNATTENDED).run()
        late = await target.get(CLUSTER_RESOURCE_SETS, "late", "default")
        assert rewriting.MOVE not in objects.labels(late)
        assert wellknown.PAUSED_ANNOTATION not in objects.annotations(late)


async def test_what_is_only_copied_stays_after_a_move_and_goes_when_it_is_cancelled(tmp_path: Path) -> None:
    async with two(tmp_path) as (source, target):
        await add_cluster(source)
        reference = {"secret": {"name": "files", "key": "a"}}
        spec: Object = {"template": {"spec": {"files": [{"path": "/a", "contentFrom": reference}]}}}
        await add(source, KUBEADM_CONFIG_TEMPLATES, "own", spec=spec)
        for name, client in (("files", source), ("others", target)):
            await add(client, SECRETS, name, stringData={"a": "b"})

        class Stopped(Mover):
            async def _advance(self, phase: records.Phase) -> None:
                if phase == "removing":
                    raise Killed
                await super()._advance(phase)

        record = await begun(source, target)
        with pytest.raises(Killed):
            await Stopped(source, target, record, UNATTENDED).run()
        assert await target.get(SECRETS, "files", "default")
        assert await Mover(source, target, record, UNATTENDED).cancel() == 2
        assert [objects.name(each) for each in (await target.list(SECRETS, "default")).items] == ["others"]
        moved = await Mover(source, target, await begun(source, target), UNATTENDED).run()
        assert moved.moved == 2
        for client in (source, target):
            assert rewriting.MOVE not in objects.labels(await client.get(SECRETS, "files", "default"))


@pytest.mark.parametrize("kind", offering.STANDARD.kinds, ids=lambda kind: str(kind.noun))
def test_every_kind_that_claims_are_made_of_is_paused_or_passive_or_stays(kind: offering.ClaimKind) -> None:
    """A kind that is new here needs a decision in `moving/kinds.py`."""
    undecided = [
        each.kind
        for each in kind.makes
        if kinds.pause(each) is None and not kinds.why_it_stays(each) and each.kind not in PASSIVE
    ]
    assert undecided == []


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["-n", "a", "-A"], Exit.USAGE, "-n names namespaces, and -A means all of them"),
        ([], Exit.USAGE, "no such file"),
    ],
    ids=["two scopes", "no target"],
)
def test_the_command_says_what_is_wrong_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: Exit, told: str
) -> None:
    monkeypatch.setenv("STEELYARD_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "source").write_text(
        '{"clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}], '
        '"users": [{"name": "a", "user": {}}], '
        '"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "current-context": "a"}'
    )
    words = ["move", "--kubeconfig", str(tmp_path / "source"), "--to-kubeconfig", str(tmp_path / "none"), *arguments]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == code
    assert told.lower() in done.stderr.lower()
