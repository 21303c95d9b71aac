"""Makes the copy of an object at the target, complete: what it is, how it is, and who manages which of its fields."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from steelyard.api import authors
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.moving import rewriting
from steelyard.moving.belongings import Thing
from steelyard.moving.preparing import CannotMove

_TRIES: Final = 8
_PAUSE: Final = 0.05
_TAKEN: Final = "is there already at the target, and was not made by this move: delete it there, or --cancel"


class Copier:
    def __init__(self, target: Client, move: str, mover: authors.Author) -> None:
        self.mover = mover
        self._target = target
        self._move = move
        self._owners: dict[str, str] = {}
        self._contents: dict[str, str] = {}
        """Of originals that were copied whole by this process, by their UIDs."""
        self._reported: dict[str, str] = {}
        """The same of those whose status has been written."""

    def know(self, copies: Iterable[Thing]) -> None:
        """Copies that were made before: perhaps not whole, when somebody was killed."""
        self._owners |= rewriting.sources([each.object for each in copies])

    async def secure(self, thing: Thing) -> bool:
        """Sees to it that an original may go: its copy is there, is this move's, and as the original is now. Whether
        the original has been let go for that copy."""
        copied = await self._found(thing)
        known, uid = "", objects.uid(thing.object)
        if copied is not None and self._is_copy(copied, uid):
            known = objects.annotations(copied).get(rewriting.CONTENT, "")
            if rewriting.was_let_go(thing.object, self._move, known):
                return True
            thing = rewriting.restored(thing, self._move, copied)
        if not known or not known == self._contents.get(uid) == rewriting.content(thing.object):
            await self.copy(thing)
        return False

    def _is_copy(self, copied: Object, uid: str) -> bool:
        is_of_this_move = objects.labels(copied).get(rewriting.MOVE) == self._move
        return is_of_this_move and objects.annotations(copied).get(rewriting.SOURCE) == uid

    async def copy(self, thing: Thing) -> None:
        """Each step is left out where it has been taken: what is complete and up to date costs one look. A controller
        of the target may be saying of a copy that it is paused, at the same time: then it is tried again."""
        for attempt in range(1, _TRIES + 1):
            try:
                await self._complete(thing)
                return
            except errors.Conflict:
                if attempt == _TRIES:
                    raise
                await asyncio.sleep(attempt * _PAUSE)

    async def _complete(self, thing: Thing) -> None:
        content, uid = rewriting.content(thing.object), objects.uid(thing.object)
        wanted = rewriting.copy(thing, self._move, self._owners, self.mover)
        found = await self._made(thing, wanted)
        self._owners[uid] = objects.uid(found)
        if self._reported.get(uid) != content:
            found = await self._report(thing, wanted, found)
            self._reported[uid] = content
        await self._manage(thing, found)
        self._contents[uid] = content

    async def _found(self, thing: Thing) -> Object | None:
        try:
            return await self._target.get(thing.resource, objects.name(thing.object), objects.namespace(thing.object))
        except errors.NotFound:
            return None

    async def _made(self, thing: Thing, wanted: Object) -> Object:
        found = await self._found(thing)
        if found is None:
            return await self._target.create(thing.resource, wanted)
        if objects.labels(found).get(rewriting.MOVE) != self._move:
            raise CannotMove(f"{thing} {_TAKEN}")
        annotations = objects.annotations(found)
        meant = objects.annotations(wanted)
        if all(annotations.get(key) == meant[key] for key in (rewriting.SOURCE, rewriting.CONTENT)):
            return found
        metadata: Object = {**objects.metadata(wanted), "resourceVersion": objects.resource_version(found)}
        return await self._target.update(thing.resource, {**wanted, "metadata": metadata})

    async def _report(self, thing: Thing, wanted: Object, found: Object) -> Object:
        """The status as it was. What a controller of the target says afterwards follows from this one."""
        status = wanted.get("status")
        if not status or objects.same(status, found.get("status")):
            return found
        try:
            return await self._target.update(thing.resource, {**found, "status": status}, subresource="status")
        except errors.NotFound:
            # A kind whose status is a field like any other: it was created with it.
            return found

    async def _manage(self, thing: Thing, found: Object) -> None:
        """Last, since every write above counts as the mover's."""
        wanted = rewriting.managed(thing.object, self._owners)
        if wanted and not objects.same(wanted, objects.metadata(found).get("managedFields")):
            patch: Object = {"metadata": {"managedFields": wanted}}
            await self._target.patch(thing.resource, objects.name(found), patch, objects.namespace(found))
