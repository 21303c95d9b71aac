"""delete and deletecollection: finalizers, preconditions, propagation."""

from __future__ import annotations

import asyncio
import errno
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, Resource
from steelyard.kube.server.bodies.options import DeleteOptions
from steelyard.kube.server.core import Core
from steelyard.kube.server.space import background
from steelyard.kube.server.verbs import deleting
from steelyard.kube.store.record import Record
from steelyard.kube.store.store import Store
from tests.kube.server.bench import (
    CLUSTER_PARTS,
    PARTS,
    WIDGETS,
    Bench,
    decoded,
    eventually,
    make,
    owned_by,
    take,
    widget,
)

JOBS = Resource("batch", "v1", "jobs", "Job")
HOLD = "example.com/hold"


async def test_a_deleted_object_is_gone(bench: Bench) -> None:
    created = await bench.create(WIDGETS, widget("a"))
    status = await bench.delete(WIDGETS, "a")
    assert status["status"] == "Success"
    assert status["details"] == {
        "name": "a", "group": "example.com", "kind": "widgets", "uid": objects.uid(created),
    }  # fmt: skip
    assert not await bench.exists(WIDGETS, "a")
    with pytest.raises(errors.NotFound):
        await bench.delete(WIDGETS, "a")


async def test_finalizers_hold_an_object_until_the_last_is_removed(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a", finalizers=[HOLD, "example.com/too"]))
    marked = await bench.delete(WIDGETS, "a")
    assert marked["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert objects.generation(marked) == 2
    bench.clock.advance(60)
    assert await bench.delete(WIDGETS, "a") == marked, "a second delete changes nothing"
    with pytest.raises(errors.Invalid, match="no new finalizers can be added"):
        await bench.patch(WIDGETS, "a", {"metadata": {"finalizers": [HOLD, "example.com/new"]}})
    kept = await bench.patch(WIDGETS, "a", {"metadata": {"finalizers": [HOLD], "deletionTimestamp": None}})
    assert objects.is_being_deleted(kept)
    last = await bench.patch(WIDGETS, "a", {"metadata": {"finalizers": None}})
    assert objects.finalizers(last) == []
    assert not await bench.exists(WIDGETS, "a")


async def test_preconditions(bench: Bench) -> None:
    created = await bench.create(WIDGETS, widget("a"))
    for wrong, told in (
        ({"uid": "other"}, "the UID in the precondition (other) does not match the UID in record"),
        ({"resourceVersion": "1"}, "the ResourceVersion in the precondition (1) does not match the ResourceVersion in"),
    ):
        with pytest.raises(errors.Conflict, match=re.escape(f'on Widget.example.com "a": {told}')):
            await bench.delete(WIDGETS, "a", body={"preconditions": wrong})
    right = {"uid": objects.uid(created), "resourceVersion": objects.resource_version(created)}
    await bench.delete(WIDGETS, "a", body={"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": right})
    assert not await bench.exists(WIDGETS, "a")


@pytest.mark.parametrize(
    "body, error",
    [
        ([], errors.BadRequest),
        ({"kind": "Widget"}, errors.BadRequest),
        ({"preconditions": "x"}, errors.BadRequest),
        ({"propagationPolicy": "Sideways"}, errors.Invalid),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, errors.Invalid),
        ({"dryRun": ["Some"]}, errors.Invalid),
        ({"preconditions": {"uid": 3}}, errors.BadRequest),
        ({"gracePeriodSeconds": "soon"}, errors.BadRequest),
    ],
)
async def test_bad_options_delete_nothing(bench: Bench, body: Any, error: type[Exception]) -> None:
    await bench.create(WIDGETS, widget("a"))
    with pytest.raises(error):
        await bench.delete(WIDGETS, "a", body=body)
    assert await bench.exists(WIDGETS, "a")


async def test_dry_run_deletes_nothing(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a"))
    await bench.delete(WIDGETS, "a", dryRun="All")
    await bench.delete(WIDGETS, "a", body={"dryRun": ["All"]})
    await bench.call("deletecollection", WIDGETS, dryRun="All")
    assert await bench.exists(WIDGETS, "a")


async def test_a_collection_is_deleted_by_selector_and_namespace(bench: Bench) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "other"))
    for index in range(4):
        await bench.create(WIDGETS, widget(f"w{index}", labels={"n": str(index % 2)}))
    await bench.create(WIDGETS, widget("held", finalizers=[HOLD], labels={"n": "0"}))
    await bench.create(WIDGETS, widget("b", labels={"n": "0"}), namespace="other")
    reply = decoded(await bench.call("deletecollection", WIDGETS, labelSelector="n=0"))
    assert reply["kind"] == "WidgetList"
    assert await bench.names(WIDGETS) == ["held", "w1", "w3"]
    assert objects.is_being_deleted(await bench.get(WIDGETS, "held"))
    assert await bench.names(WIDGETS, namespace="other") == ["b"]


async def test_dependents_go_with_their_owner(bench: Bench) -> None:
    owner = await bench.create(WIDGETS, widget("owner"))
    child = await bench.create(PARTS, make(PARTS, "child", ownerReferences=owned_by(owner)))
    await bench.create(PARTS, make(PARTS, "grandchild", ownerReferences=owned_by(child)))
    await bench.create(PARTS, make(PARTS, "bystander"))
    await bench.delete(WIDGETS, "owner")
    await eventually(lambda: _is(bench, ["bystander"]))


async def test_a_dependent_whose_owner_never_was_is_collected(bench: Bench) -> None:
    owner: Object = {**widget("ghost"), "metadata": {"name": "ghost", "uid": "0000"}}
    await bench.create(PARTS, make(PARTS, "child", ownerReferences=owned_by(owner)))
    await eventually(lambda: _is(bench, []))


async def test_an_owner_with_the_same_name_is_another(bench: Bench) -> None:
    owner = await bench.create(WIDGETS, widget("owner"))
    await bench.delete(WIDGETS, "owner")
    await bench.create(WIDGETS, widget("owner"))
    await bench.create(PARTS, make(PARTS, "child", ownerReferences=owned_by(owner)))
    await eventually(lambda: _is(bench, []))


async def test_one_of_two_owners_is_enough_to_stay(bench: Bench) -> None:
    first, second = await bench.create(WIDGETS, widget("one")), await bench.create(WIDGETS, widget("two"))
    await bench.create(PARTS, make(PARTS, "child", ownerReferences=owned_by(first) + owned_by(second)))
    await bench.delete(WIDGETS, "one")

    async def only_second_is_left() -> bool:
        references = objects.owner_references(await bench.get(PARTS, "child"))
        return [reference["name"] for reference in references] == ["two"]

    await eventually(only_second_is_left)


async def test_owners_of_unknown_kinds_and_across_scopes_are_left_alone(bench: Bench) -> None:
    unknown: Object = {"apiVersion": "nobody.example.com/v1", "kind": "Nothing", "name": "x", "uid": "1"}
    await bench.create(PARTS, make(PARTS, "a", ownerReferences=[unknown]))
    owner = await bench.create(WIDGETS, widget("owner"))
    await bench.create(CLUSTER_PARTS, make(CLUSTER_PARTS, "b", ownerReferences=owned_by(owner)))
    await bench.delete(WIDGETS, "owner")
    await _settled(bench)
    assert await bench.exists(PARTS, "a")
    assert await bench.exists(CLUSTER_PARTS, "b")


async def test_an_owner_in_another_namespace_is_none(bench: Bench) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "other"))
    owner = await bench.create(WIDGETS, widget("owner"), namespace="other")
    await bench.create(PARTS, make(PARTS, "child", ownerReferences=owned_by(owner)))
    await eventually(lambda: _is(bench, []))


async def test_foreground_deletion_waits_for_the_dependents_that_block(bench: Bench) -> None:
    owner = await bench.create(WIDGETS, widget("owner"))
    blocking = make(PARTS, "held", finalizers=[HOLD], ownerReferences=owned_by(owner, block=True))
    await bench.create(PARTS, blocking)
    await bench.create(PARTS, make(PARTS, "free", ownerReferences=owned_by(owner)))
    marked = await bench.delete(WIDGETS, "owner", propagationPolicy="Foreground")
    assert objects.finalizers(marked) == ["foregroundDeletion"]

    async def the_held_one_is_being_deleted() -> bool:
        return objects.is_being_deleted(await bench.get(PARTS, "held"))

    await eventually(the_held_one_is_being_deleted)
    await eventually(lambda: _is(bench, ["held"]))
    assert await bench.exists(WIDGETS, "owner")
    await bench.patch(PARTS, "held", {"metadata": {"finalizers": None}})
    await eventually(lambda: _gone(bench, "owner"))
    assert not await bench.exists(PARTS, "held")


async def test_foreground_deletion_without_dependents_is_immediate(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("owner"))
    await bench.delete(WIDGETS, "owner", body={"propagationPolicy": "Foreground"})
    await eventually(lambda: _gone(bench, "owner"))


async def test_orphans_lose_their_owner_and_stay(bench: Bench) -> None:
    owner = await bench.create(WIDGETS, widget("owner"))
    await bench.create(PARTS, make(PARTS, "child", ownerReferences=owned_by(owner)))
    marked = await bench.delete(WIDGETS, "owner", propagationPolicy="Orphan")
    assert objects.finalizers(marked) == ["orphan"]
    await eventually(lambda: _gone(bench, "owner"))
    await _settled(bench)
    assert objects.owner_references(await bench.get(PARTS, "child")) == []


async def test_collection_resumes_after_a_restart(bench: Bench) -> None:
    owner = await bench.create(WIDGETS, widget("owner"))
    waiting = await bench.create(WIDGETS, widget("waiting"))
    await bench.create(PARTS, make(PARTS, "child", ownerReferences=owned_by(owner)))
    await bench.create(PARTS, make(PARTS, "orphan", ownerReferences=owned_by(waiting)))
    await bench.api.close()
    # As if the process had ended between the deletions and what follows from them.
    for name, changed in (("owner", None), ("waiting", ["orphan"])):
        record = bench.store.get(f"main/example.com/widgets/default/{name}")
        assert record is not None
        if changed is None:
            await bench.store.delete(record.key)
        else:
            metadata = {**record.object["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": changed}
            marked = {**record.object, "metadata": metadata}
            await bench.store.put(record.key, lambda _, obj=marked: _encoded(obj))
    again = await Bench.start(bench.store, define=False)
    await eventually(lambda: _is(again, ["orphan"]))
    await eventually(lambda: _gone(again, "waiting"))
    assert objects.owner_references(await again.get(PARTS, "orphan")) == []
    await again.api.close()


async def test_hundreds_of_dependents(bench: Bench) -> None:
    owner = await bench.create(WIDGETS, widget("owner"))
    bodies = [make(PARTS, f"p{index}", ownerReferences=owned_by(owner)) for index in range(300)]
    await asyncio.gather(*(bench.create(PARTS, body) for body in bodies))
    await bench.delete(WIDGETS, "owner")
    await eventually(lambda: _is(bench, []))


async def test_a_server_that_cannot_keep_up_starts_over(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "lagging.db", fsync=False, lag_limit=3)
    bench = await Bench.start(store)
    owner = await bench.create(WIDGETS, widget("owner"))
    bodies = [make(PARTS, f"p{index}", ownerReferences=owned_by(owner)) for index in range(50)]
    await asyncio.gather(*(bench.create(PARTS, body) for body in bodies))
    await bench.delete(WIDGETS, "owner")
    await eventually(lambda: _is(bench, []))
    await bench.api.close()
    await store.close()


async def test_work_waits_for_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_RETRY_SECONDS", 0.01)
    fills_after, refused = 0, 0

    def before_commit(revision: int) -> None:
        nonlocal refused
        if fills_after and revision > fills_after:
            refused += 1
            raise OSError(errno.ENOSPC, "No space left on device")

    store = await Store.open(tmp_path / "full.db", fsync=False, before_commit=before_commit)
    bench = await Bench.start(store)
    owner = await bench.create(WIDGETS, widget("owner"))
    await bench.create(PARTS, make(PARTS, "child", ownerReferences=owned_by(owner)))
    fills_after = store.revision + 1
    await bench.delete(WIDGETS, "owner")
    await eventually(lambda: refused > 2)
    assert await bench.exists(PARTS, "child")
    fills_after = 0
    await eventually(lambda: _is(bench, []))
    await bench.api.close()
    await store.close()


def _encoded(obj: Object) -> bytes:
    return orjson.dumps(obj)


async def _is(bench: Bench, names: list[str]) -> bool:
    return await bench.names(PARTS) == names


async def _gone(bench: Bench, name: str) -> bool:
    return not await bench.exists(WIDGETS, name)


async def _settled(bench: Bench) -> None:
    """Long enough for the server to have done what it would do."""
    for _ in range(5):
        await asyncio.sleep(0.01)


async def test_a_collection_of_large_objects_is_deleted_in_portions(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on its way to the disk is in memory."""
    monkeypatch.setattr(deleting, "_BYTES_AT_ONCE", 20_000)
    for number in range(20):
        await bench.create(WIDGETS, widget(f"w{number}", annotations={"text": "x" * 6000}))
    begun: list[asyncio.Future[Record]] = []
    unwritten: list[int] = []
    start = deleting.start

    def noted(core: Core, record: Record, wanted: DeleteOptions) -> asyncio.Future[Record] | None:
        write = start(core, record, wanted)
        if write is not None:
            begun.append(write)
        unwritten.append(sum(not each.done() for each in begun))
        return write

    monkeypatch.setattr(deleting, "start", noted)
    await bench.call("deletecollection", WIDGETS)
    assert await bench.names(WIDGETS) == []
    assert len(begun) == 20
    assert 1 < max(unwritten) <= 4


async def test_a_collection_is_deleted_in_one_namespace_only(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a"))
    with pytest.raises(errors.NotFound):
        await bench.call("deletecollection", WIDGETS, namespace="")
    with pytest.raises(errors.MethodNotAllowed):
        await bench.call("deletecollection", CONFIG_MAPS, namespace="")
    assert await bench.names(WIDGETS) == ["a"]


async def test_watchers_of_a_removal_see_the_last_stored_state(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a", finalizers=[HOLD]))
    marked = await bench.delete(WIDGETS, "a")
    stream = await bench.watch(WIDGETS, resourceVersion=objects.resource_version(marked))
    answered = await bench.patch(WIDGETS, "a", {"metadata": {"finalizers": None}})
    assert objects.finalizers(answered) == []
    assert objects.resource_version(answered) == objects.resource_version(marked), "it was never stored"
    (event,) = await take(stream, 1)
    assert (event.type, objects.finalizers(event.object)) == ("DELETED", [HOLD])
    stream.close()


async def test_some_kinds_answer_with_what_went_and_others_with_a_status(bench: Bench) -> None:
    await bench.create(SERVICE_ACCOUNTS, make(SERVICE_ACCOUNTS, "a"))
    assert (await bench.delete(SERVICE_ACCOUNTS, "a"))["kind"] == "ServiceAccount"
    await bench.create(WIDGETS, widget("a"))
    assert (await bench.delete(WIDGETS, "a"))["kind"] == "Status"


async def test_the_dependents_of_a_job_stay_unless_the_client_says_otherwise(bench: Bench) -> None:
    container = {"name": "c", "image": "i"}
    spec: Object = {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    await bench.create(JOBS, make(JOBS, "a", spec))
    reply = await bench.call("delete", JOBS, "a", dryRun="All")
    assert objects.finalizers(decoded(reply)) == ["orphan"]
    assert reply.warnings[0].startswith("child pods are preserved by default when jobs are deleted")
    reply = await bench.call("delete", JOBS, "a", dryRun="All", propagationPolicy="Background")
    assert (decoded(reply)["kind"], reply.warnings) == ("Status", ())


async def test_dry_run_shows_how_an_object_would_be_marked(bench: Bench) -> None:
    created = await bench.create(WIDGETS, widget("a", finalizers=[HOLD]))
    marked = await bench.delete(WIDGETS, "a", dryRun="All")
    assert objects.is_being_deleted(marked)
    assert objects.resource_version(marked) == objects.resource_version(created)
    assert not objects.is_being_deleted(await bench.get(WIDGETS, "a"))


async def test_a_deletion_told_not_to_orphan_is_accepted_while_something_holds_the_object(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a", finalizers=[HOLD]))
    assert (await bench.call("delete", WIDGETS, "a", orphanDependents="false")).code == 202


async def test_a_precondition_counts_for_each_of_a_collection(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a"))
    with pytest.raises(errors.Conflict):
        await bench.call("deletecollection", WIDGETS, body={"preconditions": {"uid": "other"}})
    assert await bench.names(WIDGETS) == ["a"]


async def test_a_namespace_is_marked_once_and_shows_it_in_its_phase(bench: Bench) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "n"))
    marked = await bench.delete(NAMESPACES, "n", dryRun="All")
    assert marked["status"]["phase"] == "Terminating"
    assert "deletionGracePeriodSeconds" not in marked["metadata"]
    assert (await bench.get(NAMESPACES, "n"))["status"]["phase"] == "Active"
    with pytest.raises(errors.Conflict, match='on namespaces "n": Precondition failed: UID in precondition: x, UID in'):
        await bench.delete(NAMESPACES, "n", body={"preconditions": {"uid": "x"}})


async def test_a_grace_period_is_a_number(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a"))
    with pytest.raises(errors.BadRequest, match='parsing "soon": invalid syntax'):
        await bench.delete(WIDGETS, "a", gracePeriodSeconds="soon")
