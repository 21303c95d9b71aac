"""One attempt to fill a database, from an empty one that is ours to a closed one that is done.

    end what an earlier attempt has left -> take the target, empty it -> logins -> let them in
      -> carry the data, turning out whoever else comes in -> close -> end the logins -> statistics, mark: done

Whatever happens in between, the target is closed at the end; after a failure it is emptied as well. A platform that is
killed leaves the mark `filling`, by which the next attempt knows what it may remove.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncGenerator
from typing import Final

from steelyard.api.databases import DatabaseCopySpec
from steelyard.frozen import frozen
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import logs
from steelyard.kube.runtime.clock import Clock
from steelyard.providers.postgres.copies import carrying, visitors
from steelyard.providers.postgres.copies.carrying import NotAllowed
from steelyard.providers.postgres.copies.target import Counts, Target
from steelyard.providers.postgres.copies.visitors import Visitor
from steelyard.providers.postgres.dumps.folder import DumpFolder, Side
from steelyard.providers.postgres.parts import Tools
from steelyard.providers.postgres.problems import Invalid, Missing, Problem

_WATCHED_EVERY: Final = 0.5
_LOGINS_LIVE: Final = datetime.timedelta(hours=8)

_log = logs.get(__name__)


class Progress:
    """How far an attempt is; read by the reconciler."""

    def __init__(self) -> None:
        self.stage = ""
        self.rows = 0

    def tell(self, stage: str, rows: int) -> None:
        self.stage, self.rows = stage, rows


@frozen
class Filled:
    counts: Counts
    snapshot_at: str
    """Of which moment the data is; empty where that is not known any more."""


class Filling:
    def __init__(self, tools: Tools, spec: DatabaseCopySpec, uid: str, key: str) -> None:
        """`key` is for masking; unused without."""
        self._tools = tools
        self._servers = tools.servers
        self._clock: Clock = tools.clock
        self._spec = spec
        self._uid = uid
        self._key = key
        self.progress = Progress()
        self._target = Target(self._servers, spec.provider_config_ref.name, spec.database, uid)

    async def run(self) -> Filled:
        """Raises a `Problem`, or `NotAllowed`; then there is nothing in the target."""
        if await self._target.is_done():
            await self.clean_up()
            return Filled(await self._target.counts(), "")
        await self.clean_up()
        dump = await self._checked_dump()
        await self._target.take()
        try:
            snapshot_at = await self._fill(dump)
        except (Problem, NotAllowed):
            with contextlib.suppress(Problem):
                await self._target.empty()
            raise
        return Filled(await self._target.finish(), snapshot_at)

    async def abandon(self) -> None:
        """For good: nobody of ours is left on the servers, and a target that is not done stays closed."""
        with contextlib.suppress(Missing):
            if await self._target.is_being_filled():
                await self._target.close()
        for config in self._configs:
            # A server that nobody knows the way to any more keeps no copy from being deleted.
            with contextlib.suppress(Missing):
                await visitors.end_all(self._servers, config, self._uid)

    async def clean_up(self) -> None:
        """The logins of any attempt, on both servers."""
        for config in self._configs:
            await visitors.end_all(self._servers, config, self._uid)

    async def _fill(self, dump: tuple[DumpFolder, Side] | None) -> str:
        until = self._clock.now() + _LOGINS_LIVE
        config = self._spec.provider_config_ref.name
        writer = await visitors.writer(self._servers, config, self._uid, self._spec.owner, until)
        try:
            await self._target.open()
            at = clocks.rfc3339(self._clock.now())
            async with self._guarded(writer):
                if dump is not None:
                    at = dump[1].at
                    await carrying.out_of_dump(self._servers, *dump, self._target, writer)
                else:
                    await self._carry(writer, until)
        except BaseException:
            with contextlib.suppress(Problem):
                await self._shut()
            raise
        await self._shut()
        return at

    async def _shut(self) -> None:
        await self._target.close()
        await self.clean_up()

    async def _carry(self, writer: Visitor, until: datetime.datetime) -> None:
        source, rules = self._spec.source, self._spec.masking
        assert source.database is not None
        if rules is None:
            await carrying.out_of_database(self._servers, self._source_config, source.database, self._target, writer)
            return
        reader = await visitors.reader(self._servers, self._source_config, self._uid, source.database, until)
        await carrying.masked(
            self._servers,
            reader,
            source.database,
            self._target,
            writer,
            owner=self._spec.owner,
            rules=rules,
            key=self._key,
            source_config=self._source_config,
            tell=self.progress.tell,
        )

    async def _checked_dump(self) -> tuple[DumpFolder, Side] | None:
        source = self._spec.source
        if source.dump is None:
            if source.database is None:
                raise Invalid("spec.source names neither a database nor a dump")
            return None
        if self._spec.masking is not None:
            raise Invalid("a dump cannot be masked: masking happens in the source database; copy that one instead")
        folder = DumpFolder(self._tools.folder, source.dump.backup)
        side = await asyncio.to_thread(folder.find, source.dump.name)
        await asyncio.to_thread(folder.check, side)
        return folder, side

    @property
    def _configs(self) -> list[str]:
        return sorted({self._spec.provider_config_ref.name, self._source_config})

    @property
    def _source_config(self) -> str:
        reference = self._spec.source.provider_config_ref
        return (reference or self._spec.provider_config_ref).name

    @contextlib.asynccontextmanager
    async def _guarded(self, writer: Visitor) -> AsyncGenerator[None]:
        """Nobody but the writer is in the target while it is filled."""
        guard = asyncio.create_task(self._guard(writer))
        try:
            yield
        finally:
            guard.cancel()
            await asyncio.wait([guard])

    async def _guard(self, writer: Visitor) -> None:
        while True:
            with contextlib.suppress(Problem):
                turned_out = await self._target.turn_out((writer.name,))
                if turned_out:
                    _log.warning("sessions were ended in a database that is being filled", count=turned_out)
            await asyncio.sleep(_WATCHED_EVERY)
