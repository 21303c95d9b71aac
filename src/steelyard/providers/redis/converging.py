"""Brings the servers of one RedisServer to what it asks for: who leads, who runs, what each is told.

    primary gone, a replica has all that it wrote   ->   the replica leads, at the same address; the lost one follows it
    primary gone, none has                          ->   it comes back from its own files
    more replicas, fewer, more memory, a password   ->   told to those that run

One pass does what can be done at once and says what is missing; the caller comes back. Nothing is begun before its
intent is recorded (`Journal`): a primary's name before it leads, the end of a history before another may begin.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from steelyard.frozen import frozen
from steelyard.providers.redis import replication
from steelyard.providers.redis.configuration import Role
from steelyard.providers.redis.fleet import Group
from steelyard.providers.redis.processes import CannotStart
from steelyard.providers.redis.recorded import Member, State
from steelyard.providers.redis.replication import Seen
from steelyard.providers.redis.server import PortTaken, Server, Wanted
from steelyard.providers.redis.wire import Refused, Unreachable

_SOON: Final = 0.5


class Journal(Protocol):
    """Where intents and news of one RedisServer go."""

    async def record(self, state: State, lost: str) -> None:
        """Before it is acted on. `lost` is told as the reason for which it cannot be used at the moment."""
        ...

    def warn(self, reason: str, message: str) -> None: ...

    def tell(self, reason: str, message: str) -> None: ...


@frozen
class Outcome:
    state: State
    members: tuple[Member, ...]
    seen: Seen | None
    """The primary, where it answers as one."""
    online: int
    """Replicas that have everything."""
    expected: int
    problems: tuple[str, ...] = ()
    """What is not as it should be, the gravest first."""
    pending: str = ""
    """What takes its time."""
    again_in: float | None = None
    """Seconds after which to come back, if something is under way."""

    @property
    def is_complete(self) -> bool:
        return self.seen is not None and self.online == self.expected and not self.problems


Wish = Callable[[Role], Wanted]


async def converge(group: Group, state: State, replicas: int, wish: Wish, journal: Journal) -> Outcome:
    """`wish` says what a server of a role should be."""
    return await _Pass(group, state, replicas, wish, journal).run()


class _Pass:
    def __init__(self, group: Group, state: State, replicas: int, wish: Wish, journal: Journal) -> None:
        self._group = group
        self._state: State = state
        self._replicas = replicas
        self._wish = wish
        self._journal = journal
        self._seen: dict[int, Seen] = {}
        self._states: dict[int, str] = {}
        self._problems: list[str] = []
        self._pending: list[str] = []
        self._again: list[float] = []

    async def run(self) -> Outcome:
        group = self._group
        await self._settle_primary()
        group.primary = self._state.primary
        members = replication.members(self._state.primary, self._replicas)
        for ordinal in members:
            server = group.server(ordinal)
            if server.is_running and not server.is_whole and ordinal != self._state.primary:
                await server.kill()
        await self._bring_up(members[:1])
        await self._bring_up(members[1:])
        leading = self._seen.get(self._state.primary)
        if leading is not None and leading.is_primary:
            self._state = dataclasses.replace(self._state, history=leading.history)
            for ordinal in [each for each in group.servers if each not in members]:
                await group.remove(ordinal)
        self._tell_news(members)
        online = leading.online if leading is not None else 0
        expected = len(members) - 1
        if leading is None or online < expected:
            self._again.append(_SOON)
        return Outcome(
            state=self._state,
            members=tuple(self._member(each) for each in members),
            seen=leading if leading is not None and leading.is_primary else None,
            online=min(online, expected),
            expected=expected,
            problems=tuple(dict.fromkeys(self._problems)),
            pending="; ".join(dict.fromkeys(self._pending)),
            again_in=min(self._again) if self._again else None,
        )

    async def _settle_primary(self) -> None:
        """Names another primary where the present one is lost and another one has all that it wrote."""
        state, server = self._state, self._group.server(self._state.primary)
        if server.is_running and server.is_whole:
            return
        heir = await self._heir()
        if heir is not None:
            cause = self._cause(server)
            self._state = dataclasses.replace(state, primary=heir, history="")
            told = f"the primary, server {state.primary}, {cause}; server {heir} takes its place"
            await self._journal.record(self._state, told)
            self._journal.warn("PrimaryLost", told)
            await server.kill()
            server.losses.clear()
        elif server.is_running:
            self._problems.append(
                f"the directory of server {server.ordinal} is gone: what it holds is in memory alone, and is lost when "
                "it ends. Ask for replicas: one of them takes it over"
            )
        else:
            cause = self._cause(server) if server.losses else "is not running"
            if state.history or server.losses:
                self._state = dataclasses.replace(state, history="")
                await self._journal.record(self._state, f"server {server.ordinal} {cause}; it is started again")
            if server.losses:
                self._journal.warn("ServerLost", f"server {server.ordinal} {cause}; it is started again")
            server.losses.clear()

    async def _heir(self) -> int | None:
        state = self._state
        others = [each for each in self._group.servers.values() if each.ordinal != state.primary]
        running = [each for each in others if each.is_running]
        await self._look(running)
        found = replication.heir(state.primary, state.history, self._seen.values())
        lost = self._group.server(state.primary)
        if found is not None or running or not state.history or lost.is_running or lost.folder.has_data:
            return found
        # Nobody runs and the primary's files are gone. Who wrote last has the most of it, and an empty primary would
        # make the others empty as well.
        written = {each.ordinal: each.folder.last_written() for each in others}
        return max(written, key=lambda each: written[each]) if any(written.values()) else None

    def _cause(self, server: Server) -> str:
        if server.losses:
            return server.losses[-1]
        return "has lost its directory" if not server.is_whole else "is not running"

    async def _bring_up(self, ordinals: Sequence[int]) -> None:
        await asyncio.gather(*(self._start(self._group.server(each)) for each in ordinals))
        await self._look([server for each in ordinals if (server := self._group.server(each)).is_running])

    async def _start(self, server: Server) -> None:
        if server.is_running:
            return
        wanted = self._wanted(server)
        self._tell_loss(server)
        if server.start_in > 0:
            self._problems.append(
                f"server {server.ordinal} keeps ending and is started again in {server.start_in:.0f} s: "
                f"{server.folder.last_words() or 'it said nothing'}"
            )
            self._again.append(server.start_in)
            return
        try:
            if not await server.adopt():
                await server.start(wanted)
            await self._answering(server, wanted)
        except (CannotStart, PortTaken) as error:
            self._problems.append(f"server {server.ordinal} cannot be started: {error}")
            self._again.append(5.0)
        except (Unreachable, Refused) as error:
            self._problems.append(f"server {server.ordinal} does not come up: {error}")
            self._again.append(max(_SOON, server.start_in))

    async def _answering(self, server: Server, wanted: Wanted) -> None:
        try:
            if not await server.await_answer(wanted):
                self._states[server.ordinal] = "loading"
                self._pending.append(f"server {server.ordinal} is reading its files")
                self._again.append(1.0)
        except Refused as refused:
            if refused.word not in ("WRONGPASS", "NOAUTH"):
                raise
            await self._renew(server, wanted)

    async def _renew(self, server: Server, wanted: Wanted) -> None:
        """It runs with passwords that nobody has any more: it is started again with those that there are."""
        self._journal.warn("PasswordsLost", f"server {server.ordinal} had other passwords and is started again")
        await server.stop()
        await server.start(wanted)
        await server.await_answer(wanted)

    async def _look(self, servers: Sequence[Server]) -> None:
        async def one(server: Server) -> None:
            wanted = self._wanted(server)
            try:
                seen = self._seen[server.ordinal] = await server.look(wanted)
                self._states.pop(server.ordinal, None)
                if not seen.can_write:
                    self._problems.append(f"server {server.ordinal} cannot write to its file; is the disk full?")
            except Unreachable as error:
                self._seen.pop(server.ordinal, None)
                self._problems.append(f"server {server.ordinal} does not answer: {error}")
                self._again.append(_SOON)
            except PortTaken as error:
                self._problems.append(str(error))
                self._again.append(5.0)
            except Refused as refused:
                await self._refused(server, wanted, refused)

        await asyncio.gather(*(one(each) for each in servers))

    async def _refused(self, server: Server, wanted: Wanted, refused: Refused) -> None:
        self._seen.pop(server.ordinal, None)
        self._again.append(1.0)
        match refused.word:
            case "LOADING":
                self._states[server.ordinal] = "loading"
                self._pending.append(f"server {server.ordinal} is reading its files")
            case "BUSY":
                self._problems.append(
                    f"server {server.ordinal} has been running a script for more than five seconds and does nothing "
                    "else; SCRIPT KILL ends it"
                )
            case "WRONGPASS" | "NOAUTH":
                await self._renew(server, wanted)
            case _:
                self._problems.append(f"server {server.ordinal} refused what it was told: {refused}")

    def _wanted(self, server: Server) -> Wanted:
        """And what it is to be told when it is next started."""
        wanted = self._wish(Role(server.ordinal, self._state.primary))
        if server.is_running and server.is_whole:
            server.folder.configure(wanted.text)
        return wanted

    def _tell_loss(self, server: Server) -> None:
        if server.losses:
            self._journal.warn("ServerLost", f"server {server.ordinal} {server.losses[-1]}; it is started again")
            server.losses.clear()

    def _tell_news(self, members: Sequence[int]) -> None:
        for ordinal in members:
            server = self._group.server(ordinal)
            if server.was_promoted:
                self._journal.tell("Promoted", f"server {ordinal} is the primary now")
                server.was_promoted = False
            for what in server.put_right:
                self._journal.warn("PutRight", f"{what} of server {ordinal} had been changed, and were put back")
            server.put_right.clear()

    def _member(self, ordinal: int) -> Member:
        server, seen = self._group.server(ordinal), self._seen.get(ordinal)
        is_primary = ordinal == self._state.primary
        if not server.is_running:
            how = "down"
        elif ordinal in self._states:
            how = "loading"
        elif seen is None:
            how = "down"
        else:
            how = "running" if is_primary or (seen.is_linked and not seen.is_copying) else "copying"
        return Member(ordinal, "primary" if is_primary else "replica", server.address, server.pid, how)
