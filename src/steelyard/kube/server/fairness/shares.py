"""Who gets how much of the one event loop that all servers of a process share.

A flow is a user of a cluster (the service accounts of a namespace are one). Requests enter when their body is there, so
nobody holds a seat by sending slowly. There are seats for reading and for writing; no flow takes more than half of
them, no hosted cluster either. Who finds none waits, in a queue of the flow that is bounded in length and time, and
turns go round clusters and then the users of each.

Seats bound what waits; they do not bound a step. So the time that a flow's requests have really used on the loop is its
debt, which time pays off. While others are about, requests of a flow in debt enter a few at a time, and after a long
step as much time as it took is everybody else's. A flow that is alone is never held up.

An object takes many times the memory of its JSON while it is read, checked and written. So those who write large ones
take turns, two at a time in each cluster, and hold no more than its bytes before.

`system:masters` of the platform always get through, as upstream: who can stop a flood must get an answer during it.
Those of a hosted cluster are masters of that cluster only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator
from time import perf_counter
from typing import Final

from steelyard.frozen import frozen
from steelyard.kube.server.call import SYSTEM_MASTERS, User
from steelyard.kube.server.fairness import rotation

QUEUE_LENGTH: Final = 50
"""Of one flow, as upstream."""
QUEUE_SECONDS: Final = 15.0
_LARGE_AT_ONCE: Final = 2
"""Of one cluster: the second is for whom a webhook asks while it is asked about the first."""
_FREE_DEBT: Final = 0.03
"""Seconds of the loop that a flow may use in a burst."""
_PAID_PER_SECOND: Final = 0.25
_AT_ONCE: Final = 0.01
"""How long the steps of those in debt may be, together, that are let in at once."""
_LONG_STEP: Final = 0.005
_LONGEST_PAUSE: Final = 0.25
_ALONE_SECONDS: Final = 10.0
_LEARNING: Final = 0.25
_MAX_FLOWS: Final = 1024
_ACCOUNT: Final = "system:serviceaccount:"


@frozen
class Limits:
    """Requests in flight in all servers together; 0 is no limit."""

    reading: int = 400
    writing: int = 200


class Seats:
    """For one kind of request."""

    __slots__ = ("each", "limit", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.each = max(1, (limit + 1) // 2)
        """How many a flow or a hosted cluster may have."""
        self.taken = 0


class Share:
    """One cluster's."""

    __slots__ = ("_flows", "is_platform", "large", "shares", "taken", "waiting")

    def __init__(self, shares: Shares, *, is_platform: bool) -> None:
        self.shares = shares
        self.is_platform = is_platform
        self.large = rotation.Rotation(_LARGE_AT_ONCE, QUEUE_LENGTH)
        self.taken: dict[Seats, int] = {}
        self._flows: dict[str, Flow] = {}
        self.waiting: dict[tuple[Flow, Seats], deque[asyncio.Future[None]]] = {}
        """In the order of their next turn; no queue is empty."""

    def flow(self, user: User) -> Flow:
        if self.is_platform and SYSTEM_MASTERS in user.groups:
            return self.shares.masters
        name = user.name
        if name.startswith(_ACCOUNT):
            name = name[: name.index(":", len(_ACCOUNT))] if name.count(":") > 2 else name
        found = self._flows.get(name)
        if found is None:
            if len(self._flows) >= _MAX_FLOWS:
                self._flows = {name: flow for name, flow in self._flows.items() if not flow.is_forgettable()}
            found = self._flows[name] = Flow(self)
        return found


class Flow:
    """What one user of a cluster does and has done. Also the key under which it waits elsewhere."""

    __slots__ = ("_indebted", "_paid_at", "_share", "_shares", "debt", "expected", "is_unbounded", "taken")

    def __init__(self, share: Share, *, is_unbounded: bool = False) -> None:
        self._share = share
        self._shares = share.shares
        self.is_unbounded = is_unbounded
        self.taken: dict[Seats, int] = {}
        self.debt = 0.0
        self.expected = 0.0
        """Seconds on the loop of a step, as far as is known."""
        self._paid_at = 0.0
        self._indebted: list[float] = []
        """What each request was expected to take that was let in although the flow was in debt."""

    def is_forgettable(self) -> bool:
        is_waiting = any(flow is self for flow, _ in self._share.waiting)
        return not any(self.taken.values()) and not is_waiting and not self.is_in_debt()

    def is_in_debt(self) -> bool:
        if self.debt <= _FREE_DEBT:
            return False
        self._pay(perf_counter())
        return self.debt > _FREE_DEBT

    def _pay(self, now: float) -> None:
        self.debt = max(0.0, self.debt - (now - self._paid_at) * _PAID_PER_SECOND)
        self._paid_at = now

    def charge(self, seconds: float, now: float) -> None:
        """For a step on the loop, or as good as on it, that has just ended."""
        if self.is_unbounded:
            return
        self._pay(now)
        self.debt += seconds
        self.expected += (seconds - self.expected) * _LEARNING
        if seconds > _LONG_STEP:
            self._shares.pause(seconds, now)

    def enters(self, seats: Seats) -> bool:
        """Takes a seat if there is one for it now. Who gets one must `leave`; who does not must `wait`."""
        shares = self._shares
        if shares.last is not self:
            shares.notice(self)
        if self.is_unbounded:
            return True
        waiting = self._share.waiting
        if (waiting and (self, seats) in waiting) or not self._may_enter(seats):
            return False
        self._take(seats)
        return True

    def _may_enter(self, seats: Seats) -> bool:
        if seats.limit:
            if seats.taken >= seats.limit or self.taken.get(seats, 0) >= seats.each:
                return False
            share = self._share
            if not share.is_platform and share.taken.get(seats, 0) >= seats.each:
                return False
        return self.debt <= _FREE_DEBT or not self.is_in_debt() or self._shares.admits_debtor(self)

    def _take(self, seats: Seats) -> None:
        seats.taken += 1
        self.taken[seats] = self.taken.get(seats, 0) + 1
        self._share.taken[seats] = self._share.taken.get(seats, 0) + 1
        if self.debt > _FREE_DEBT:
            self._indebted.append(self.expected)
            self._shares.let_in(self.expected)

    def gives(self, seats: Seats) -> bool:
        """The same as `enters`, for one who waits."""
        if not self._may_enter(seats):
            return False
        self._take(seats)
        return True

    @contextlib.asynccontextmanager
    async def large(self) -> AsyncGenerator[None]:
        """A turn at writing something large, for who has a seat. Raises Overloaded."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(QUEUE_SECONDS):
                    await stack.enter_async_context(self._share.large.turn(self, patient=True))
            except TimeoutError:
                raise rotation.too_many() from None
            yield

    async def turn(self) -> None:
        """Until it is the flow's turn, for the next step of something that lasts and has no seat. Who calls it bounds
        how many there are of these."""
        watching = self._shares.watching
        if not self.enters(watching):
            await self.wait(watching, patient=True)
        self.leave(watching)

    async def wait(self, seats: Seats, *, patient: bool = False) -> None:
        """Until there is a seat, which is then taken. Raises Overloaded, unless this one would rather wait: it has been
        let in before."""
        waiting = self._share.waiting.setdefault((self, seats), deque())
        if len(waiting) >= QUEUE_LENGTH and not patient:
            raise rotation.too_many()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(ready)
        self._shares.queue(self._share)
        try:
            async with asyncio.timeout(None if patient else QUEUE_SECONDS):
                await ready
        except BaseException as error:
            if ready.done() and not ready.cancelled():
                self.leave(seats)
            else:
                ready.cancel()
            if isinstance(error, TimeoutError):
                raise rotation.too_many() from None
            raise

    def leave(self, seats: Seats) -> None:
        if self.is_unbounded:
            return
        seats.taken -= 1
        self.taken[seats] -= 1
        self._share.taken[seats] -= 1
        shares = self._shares
        if self._indebted:
            shares.let_out(self._indebted.pop())
        if shares.waiting:
            shares.dispatch()


class Shares:
    """Of all servers of a process."""

    def __init__(self, limits: Limits) -> None:
        self.reading = Seats(limits.reading)
        self.writing = Seats(limits.writing)
        self.watching = Seats(0)
        """A watch waits most of the time: it takes no seat, but starts when it is its turn."""
        self.masters = Flow(Share(self, is_platform=True), is_unbounded=True)
        self.waiting: dict[Share, None] = {}
        """In the order of their next turn."""
        self.last: Flow | None = None
        self.changed_at = 0.0
        """When somebody else than the last one was last about."""
        self._debtors = 0
        self._indebted = 0.0
        """How many were let in although in debt, and how long they are expected to take."""
        self._paused_until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def notice(self, flow: Flow) -> None:
        """Somebody else than the last one is about."""
        if self.last is not None:
            self.changed_at = perf_counter()
        self.last = flow

    def share(self, *, is_platform: bool) -> Share:
        return Share(self, is_platform=is_platform)

    def pause(self, seconds: float, now: float) -> None:
        """Nobody in debt is let in for as long as somebody has just been at work."""
        self._paused_until = min(max(now, self._paused_until) + seconds, now + _LONGEST_PAUSE)

    def admits_debtor(self, flow: Flow) -> bool:
        now = perf_counter()
        if now - self.changed_at > _ALONE_SECONDS:
            return True
        if now < self._paused_until:
            return False
        return not self._debtors or self._indebted + flow.expected <= _AT_ONCE

    def let_in(self, expected: float) -> None:
        self._debtors += 1
        self._indebted += expected

    def let_out(self, expected: float) -> None:
        self._debtors -= 1
        self._indebted = self._indebted - expected if self._debtors else 0.0

    def queue(self, share: Share) -> None:
        self.waiting.setdefault(share)
        self._schedule()

    def dispatch(self) -> None:
        """Gives seats to those who wait: each cluster in turn, and in each every user."""
        is_stuck = False
        while self.waiting and not is_stuck:
            is_stuck = True
            for share in list(self.waiting):
                if self._serve_one(share):
                    is_stuck = False
                    if share.waiting:
                        del self.waiting[share]
                        self.waiting[share] = None
                if not share.waiting:
                    del self.waiting[share]
        if self.waiting:
            self._schedule()

    def _serve_one(self, share: Share) -> bool:
        for (flow, seats), queue in list(share.waiting.items()):
            while queue and queue[0].done():
                queue.popleft()
            is_served = bool(queue) and flow.gives(seats)
            if is_served:
                queue.popleft().set_result(None)
            if is_served or not queue:
                del share.waiting[flow, seats]
                if queue:
                    share.waiting[flow, seats] = queue
            if is_served:
                return True
        return False

    def _schedule(self) -> None:
        """Debts are paid by time alone, so somebody must look. Runs only while somebody waits."""
        if self._timer is None:
            delay = min(max(self._paused_until - perf_counter(), 0.002), 0.1)
            self._timer = asyncio.get_running_loop().call_later(delay, self._look)

    def _look(self) -> None:
        self._timer = None
        self.dispatch()
