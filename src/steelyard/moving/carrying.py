"""Carries a move out, phase by phase, from wherever it stands.

Every step looks at what is there, so that it can be taken again; a phase is recorded before it begins. The writes of a
move are such that whatever line the program dies at, each object is paused wherever it is until all are at the target
and none is left at the source.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from steelyard.api import authors, state, troubles
from steelyard.api.clusterapi import resources as capi
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES
from steelyard.kube.runtime.leadership import Terms
from steelyard.moving import belongings as selecting
from steelyard.moving import checking, copying, holding, reading, rewriting
from steelyard.moving import record as records
from steelyard.moving.belongings import Belongings, Thing
from steelyard.moving.preparing import CannotMove
from steelyard.moving.record import Record

_TRIES: Final = 5
_LOOK_AGAIN: Final = 0.2
_SHOWN: Final = 5
_ANOTHER: Final = (
    f"another process works on this move, or has ended it: ConfigMap {records.NAMESPACE}/{records.NAME} is not as it "
    "was left. Run the command again, to see how far it is"
)
_TELLING: Final = frozenset(
    each.kind
    for each in (
        capi.CLUSTERS, capi.KUBEADM_CONTROL_PLANES, capi.MACHINE_DEPLOYMENTS, capi.MACHINE_SETS, capi.MACHINES,
        capi.KUBEADM_CONFIGS,
    )
)  # fmt: skip
"""Kinds whose controllers, ours and upstream's, say that they have stopped."""


@frozen
class Manner:
    is_attended: bool = True
    """Whether controllers work at the source, who say that they have stopped."""
    patience: float = 60.0
    """Seconds to wait for that."""
    tell: Callable[[str], None] = lambda _: None
    terms: Terms = Terms()
    """By which one process at a time works on a move."""


@frozen
class Moved:
    moved: int
    left: tuple[str, ...]
    """What was made at the source in the meantime, and stayed."""


class Mover:
    """Both clients write as `rewriting.FIELD_MANAGER`."""

    def __init__(self, source: Client, target: Client, record: Record, manner: Manner) -> None:
        self._source = source
        self._target = target
        self._record = record
        self._manner = manner
        self._left: list[str] = []
        self._count = 0

    async def run(self) -> Moved:
        """To the end. Raises CannotMove and ApiError; then the same again goes on."""
        return await holding.alone(self._source, self._run, self._manner.tell, self._manner.terms)

    async def cancel(self) -> int:
        """Takes the copies away and lets the source go on; how many copies there were."""
        return await holding.alone(self._source, self._cancel, self._manner.tell, self._manner.terms)

    async def _run(self) -> Moved:
        await self._look_again()
        if self._record.phase == "cancelling":
            raise CannotMove("this move is being cancelled: finish that with --cancel")
        if self._record.phase == "pausing":
            await self._pause()
            await self._advance("copying")
        if self._record.phase == "copying":
            await self._copy()
            await self._advance("removing")
        if self._record.phase == "removing":
            await self._remove()
            await self._advance("resuming")
        await self._resume()
        await self._end()
        return Moved(self._count, tuple(self._left))

    async def _cancel(self) -> int:
        await self._look_again()
        if not self._record.can_be_cancelled:
            raise CannotMove(
                f"it is too late to cancel: the move is {self._record.phase}. Finish it, and move everything back"
            )
        await self._advance("cancelling")
        made = await self._made()
        copies = [each for each in made if not rewriting.is_shared(each)]
        for each in reversed(selecting.ordered(copies)):
            await self._vanish(self._target, each)
        for each in filter(rewriting.is_shared, made):
            # Somebody may have come to use it: it goes as if they deleted it.
            obj = each.object
            with contextlib.suppress(errors.NotFound, errors.Conflict):
                await self._target.delete(
                    each.resource, objects.name(obj), objects.namespace(obj), uid=objects.uid(obj)
                )
        for each in await self._everything():
            if objects.annotations(each.object).get(rewriting.MOVE) == self._record.id:
                await self._patch(self._source, each, rewriting.resumed(each))
        await self._end()
        return len(copies)

    async def _look_again(self) -> None:
        """How far it is, now that nobody else works on it."""
        found = await records.read(self._source)
        if found is None or found.id != self._record.id:
            raise CannotMove("another process has finished this move, or cancelled it: there is nothing left to do")
        self._record = found

    async def _advance(self, phase: records.Phase) -> None:
        if self._record.phase != phase:
            await self._write(dataclasses.replace(self._record, phase=phase))

    async def _write(self, record: Record) -> None:
        try:
            self._record = await records.write(self._source, record)
        except (errors.Conflict, errors.NotFound):
            raise CannotMove(_ANOTHER) from None

    async def _end(self) -> None:
        try:
            await records.remove(self._source, self._record)
        except errors.Conflict:
            raise CannotMove(_ANOTHER) from None

    async def _everything(self) -> list[Thing]:
        return await reading.everything(self._source, await reading.served(self._source))

    async def _belongings(self) -> Belongings:
        """What moves, with what has come to belong to it since; what somebody else has made in the namespaces stays."""
        return selecting.belonging_to(await self._everything(), self._record.roots, self._record.left_behind)

    async def _pause(self) -> None:
        moving = (await self._belongings()).moving
        self._manner.tell(f"Pausing {len(moving)} objects at the source.")
        await self._hold(moving)

    async def _hold(self, moving: Sequence[Thing]) -> None:
        """Pauses what is not: at first all of it, later what has come about since, or was let go on by somebody."""
        # What acts on others first: a claim that is paused changes no cluster any more.
        for each in moving:
            patch = rewriting.paused(each, self._record.id)
            if patch is not None:
                await self._patch(self._source, each, patch)
        if self._manner.is_attended:
            await self._wait_until_paused(moving)

    async def _wait_until_paused(self, moving: Sequence[Thing]) -> None:
        busy = list(moving)
        entries = await reading.served(self._source)
        uids = {objects.uid(each.object) for each in moving}
        try:
            async with asyncio.timeout(self._manner.patience):
                while busy:
                    kinds = dict.fromkeys(each.resource for each in busy)
                    found = await reading.everything(self._source, entries, kinds)
                    busy = [each for each in found if objects.uid(each.object) in uids and not _has_stopped(each)]
                    if busy:
                        await asyncio.sleep(_LOOK_AGAIN)
        except TimeoutError:
            raise CannotMove(
                f"no controller has said within {self._manner.patience:g} s that it leaves these alone. Do the "
                "controllers of the source run? If nobody works there, say so with --unattended; to give up, --cancel:",
                _some(map(str, busy)),
            ) from None

    async def _copy(self) -> None:
        await self._hold((await self._belongings()).moving)
        belongings = await self._belongings()
        deleted = [str(each) for each in belongings.moving if objects.is_being_deleted(each.object)]
        if deleted:
            raise CannotMove("somebody has deleted these in the meantime; --cancel, and they go:", _some(deleted))
        await self._record_kinds((*belongings.copied, *belongings.moving))
        self._manner.tell(f"Copying {len(belongings.moving)} objects to {self._record.server}.")
        for name in belongings.namespaces:
            await self._ensure_namespace(name)
        for each in belongings.copied:
            with contextlib.suppress(errors.AlreadyExists):
                await self._target.create(each.resource, rewriting.shared(each, self._record.id))
                self._manner.tell(f"{each} is copied, and stays at the source as well.")
        copier = copying.Copier(self._target, self._record.id, await checking.mover(self._target))
        for each in belongings.moving:
            await copier.copy(each)
        self._tell_of_authors(belongings, copier.mover)

    async def _record_kinds(self, things: Iterable[Thing]) -> None:
        """Before there are copies of them: only so are these found again."""
        kinds = tuple(dict.fromkeys([*self._record.kinds, *(each.resource for each in things)]))
        if kinds != self._record.kinds:
            await self._write(dataclasses.replace(self._record, kinds=kinds))

    def _tell_of_authors(self, belongings: Belongings, mover: authors.Author) -> None:
        for each in belongings.claims:
            if rewriting.acts_for_somebody(each.object):
                self._manner.tell(f"{each} acts with the rights of {mover.name} from now on, who moves it.")

    async def _ensure_namespace(self, name: str) -> None:
        try:
            await self._target.get(NAMESPACES, name)
        except errors.NotFound:
            original = await self._source.get(NAMESPACES, name)
            metadata: Object = {"name": name}
            for key in ("labels", "annotations"):
                if objects.metadata(original).get(key):
                    metadata[key] = objects.metadata(original)[key]
            body: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            with contextlib.suppress(errors.AlreadyExists):
                await self._target.create(NAMESPACES, body)

    async def _remove(self) -> None:
        copies = await self._copies()
        belongings = await self._copied(copies)
        await self._hold(belongings.moving)
        known = {objects.annotations(each.object).get(rewriting.SOURCE, "") for each in copies}
        copier = copying.Copier(self._target, self._record.id, await checking.mover(self._target))
        copier.know(copies)
        # What came late is read anew, since it has just been paused; owners are there before what they own.
        belongings = await self._copied(copies)
        mine = belongings.moving
        late = [each for each in mine if objects.uid(each.object) not in known]
        await self._record_kinds(late)
        for each in late:
            await copier.copy(each)
        self._manner.tell(f"Removing {len(mine)} objects at the source, without effect on what they stand for.")
        for each in reversed(mine):
            await self._vanish(self._source, each, copier)
        there = selecting.select(await self._everything(), self._record.namespaces, self._record.left_behind)
        self._left = [str(each) for each in there.moving]

    async def _copied(self, copies: Sequence[Thing]) -> Belongings:
        """What there is at the source of that which was copied, with what has come to belong to it since: by what the
        copies say, since what led to it may be gone. A copy speaks of an object of its own name only."""
        found = await self._everything()
        places: dict[str, tuple[str, str, str, str]] = {objects.uid(each.object): each.place for each in found}
        known = {
            uid
            for each in copies
            if places.get(uid := objects.annotations(each.object).get(rewriting.SOURCE, ""), each.place) == each.place
        }
        roots = [objects.uid(each.object) for each in found if _belongs(each, known)]
        return selecting.belonging_to(found, roots, self._record.left_behind)

    async def _vanish(self, client: Client, thing: Thing, copier: copying.Copier | None = None) -> None:
        """Takes an object away without anybody's noticing but by its absence: finalizers first, and only the state that
        was seen. With a `copier`, its copy is looked at before, and made anew where the object was changed since."""
        name, namespace, uid = objects.name(thing.object), objects.namespace(thing.object), objects.uid(thing.object)
        found = await _present(client, thing)
        for _ in range(_TRIES):
            if found is None:
                return
            seen = dataclasses.replace(thing, object=found)
            if copier is not None and not rewriting.is_held(seen):
                raise CannotMove(f"somebody has let {thing} go on at the source: the same command pauses it again")
            with contextlib.suppress(errors.Conflict):
                is_let_go = copier is not None and await copier.secure(seen)
                with contextlib.suppress(errors.NotFound):
                    if not is_let_go:
                        found = await self._patch(client, seen, rewriting.let_go(seen, self._record.id))
                    if not objects.is_being_deleted(found):
                        version = objects.resource_version(found)
                        await client.delete(
                            thing.resource, name, namespace, propagation="Background", uid=uid, resource_version=version
                        )
            found = await _present(client, thing)
        if found is not None:
            kept = ", ".join(objects.finalizers(found))
            raise CannotMove(
                f"{thing} is changed by somebody all the time, and could not be removed: see who that is"
                f"{f' and puts these finalizers on it: {kept}' if kept else ''}"
            )

    async def _resume(self) -> None:
        made = await self._made()
        for each in filter(rewriting.is_shared, made):
            with contextlib.suppress(errors.NotFound):
                await self._patch(self._target, each, rewriting.kept())
        copies = [each for each in made if not rewriting.is_shared(each)]
        self._count = max(self._count, len(copies))
        self._manner.tell(f"{len(copies)} objects go on at {self._record.server}.")
        ordered = selecting.ordered(copies)
        rest = [each for each in ordered if not each.is_claim and not each.is_cluster]
        clusters = [each for each in ordered if each.is_cluster]
        # A cluster begins when all of it does, and a claim when its cluster has.
        for each in (*rest, *clusters, *(each for each in ordered if each.is_claim)):
            with contextlib.suppress(errors.NotFound):
                await self._patch(self._target, each, rewriting.resumed(each))

    async def _copies(self) -> list[Thing]:
        return [each for each in await self._made() if not rewriting.is_shared(each)]

    async def _made(self) -> list[Thing]:
        """At the target by this move: copies, and what is only copied."""
        entries = await reading.served(self._target)
        label = f"{rewriting.MOVE}={self._record.id}"
        return await reading.everything(self._target, entries, self._record.kinds, label_selector=label)

    async def _patch(self, client: Client, thing: Thing, patch: Object) -> Object:
        obj = thing.object
        return await client.patch(thing.resource, objects.name(obj), patch, objects.namespace(obj))


async def _present(client: Client, thing: Thing) -> Object | None:
    """As it is now; None where it is gone, or another has its name."""
    try:
        found = await client.get(thing.resource, objects.name(thing.object), objects.namespace(thing.object))
    except errors.NotFound:
        return None
    return found if objects.uid(found) == objects.uid(thing.object) else None


def _belongs(thing: Thing, known: set[str]) -> bool:
    """Whether it was copied, or came about since for something that was."""
    owners = {str(each.get("uid")) for each in objects.owner_references(thing.object)}
    return objects.uid(thing.object) in known or bool(owners & known)


def _has_stopped(thing: Thing) -> bool:
    """Whether its controller says so; true for kinds whose controllers say nothing."""
    obj = thing.object
    if thing.is_claim:
        return troubles.condition(obj, "Synced").get("reason") == state.PAUSED_REASON
    if thing.resource.group in (capi.CORE_GROUP, capi.CONTROL_PLANE_GROUP, capi.BOOTSTRAP_GROUP):
        return thing.resource.kind not in _TELLING or troubles.condition(obj, "Paused").get("status") == "True"
    return True


def _some(names: Iterable[str]) -> list[str]:
    listed = list(names)
    more = [f"and {len(listed) - _SHOWN} more"] if len(listed) > _SHOWN else []
    return [*listed[:_SHOWN], *more]
