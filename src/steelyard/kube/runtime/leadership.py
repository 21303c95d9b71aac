"""One of several processes does the work, and another goes on when it ends: leader election by a Lease.

The holder writes the Lease again and again. Whoever sees it unchanged for as long as it is valid, by their own clock,
takes it over; of several who try, the API server lets one through. A holder that cannot renew stops working well before
the others may begin: two at once would undo each other's work. Client programs of Kubernetes do it the same way, so
that `kubectl get lease` tells who holds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncGenerator
from typing import Final

from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import LEASES
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import logs
from steelyard.kube.runtime.clock import Clock

_log = logs.get(__name__)

_ANSWER_SECONDS: Final = 5.0
_HELD_UP_SECONDS: Final = 1.0
"""So much later than wanted, a timer says that this program had no processor, or did something else all the time."""


class Lost(Exception):
    """Somebody else may have the Lease by now. Nothing more must be written."""


@frozen
class Terms:
    """In seconds, as client-go has them."""

    valid: float = 15.0
    """Others wait so long after the last sign of life."""
    renew_within: float = 10.0
    """Without success for so long, the holder gives up."""
    pause: float = 2.0
    """Between two attempts."""


@frozen
class _Seen:
    """The Lease as it was last seen, and when that was first so."""

    version: str
    at: float


class Leadership:
    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        terms: Terms | None = None,
        clock: Clock = clocks.SYSTEM,
    ) -> None:
        """`identity` is this process's, and no other's."""
        self._client = client
        self._place = (name, namespace)
        self._identity = identity
        self._terms = terms or Terms()
        self._clock = clock
        self._seen = _Seen("", 0.0)
        self._holder = ""
        self._renewed = 0.0
        """When the last attempt that succeeded began."""
        self.is_held = False
        self.problem = ""
        """Why the last attempt failed, where nobody else was the reason."""

    @property
    def holder(self) -> str:
        """Who had it when it was last looked at; nothing for nobody."""
        return self._holder

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncGenerator[asyncio.Future[None]]:
        """Once it is ours; the future fails with `Lost` when it no longer is. Given back at the end."""
        await self._acquire()
        _log.info("leading", lease="/".join(reversed(self._place)), identity=self._identity)
        keeping = asyncio.create_task(self._keep(), name="leadership")
        try:
            yield keeping
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError, Lost):
                await keeping
            if self.is_held:
                self.is_held = False
                await self._release()

    async def _acquire(self) -> None:
        while True:
            begun = self._clock.monotonic()
            if await self._attempt():
                break
            await self._clock.sleep(self._terms.pause)
        self._renewed = begun
        self.is_held = True

    async def _keep(self) -> None:
        """Others count from when they saw the Lease written, which was after the attempt began: so does the holder, and
        whatever it waits for then, it gives up in time."""
        renewing = asyncio.ensure_future(self._renew())
        try:
            while not renewing.done():
                left = self._renewed + self._terms.renew_within - self._clock.monotonic()
                if left <= 0:
                    break
                await self._wait(renewing, left)
        finally:
            renewing.cancel()
        self.is_held = False
        if renewing.done():
            renewing.result()
        raise Lost(
            f"the lease {'/'.join(reversed(self._place))} could not be renewed: {self._why()}; another may lead now"
        )

    def _why(self) -> str:
        late = self._clock.monotonic() - self._renewed - self._terms.renew_within
        if self._holder not in ("", self._identity):
            return f"{self._holder} has it"
        if late > _HELD_UP_SECONDS:
            return f"this program was held up for {late:.0f} s or more"
        return self.problem or "the API has not answered in time"

    async def _wait(self, renewing: asyncio.Future[None], seconds: float) -> None:
        over = asyncio.Event()
        timer = self._clock.call_later(seconds, over.set)
        waiting = asyncio.ensure_future(over.wait())
        try:
            await asyncio.wait((renewing, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            waiting.cancel()

    async def _renew(self) -> None:
        """Again and again, until it is another's."""
        while True:
            await self._clock.sleep(self._terms.pause)
            begun = self._clock.monotonic()
            if await self._attempt():
                self._renewed = begun
            elif self._holder not in ("", self._identity):
                return

    async def _attempt(self) -> bool:
        """Takes or renews it, if that can be; failures of the API count as if it could not."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                is_ours = await self._take()
            self.problem = ""
            return is_ours
        except (errors.ApiError, TimeoutError) as error:
            problem = str(error) or "the API does not answer"
            # A conflict is another's gain, and no problem.
            if problem != self.problem and not isinstance(error, errors.Conflict | errors.AlreadyExists):
                _log.warning("lease cannot be taken", lease="/".join(reversed(self._place)), error=problem)
            self.problem = problem
            return False

    async def _take(self) -> bool:
        name, namespace = self._place
        try:
            found = await self._client.get(LEASES, name, namespace)
        except errors.NotFound:
            await self._client.create(LEASES, self._signed({"metadata": {"name": name, "namespace": namespace}}))
            return True
        self._holder = holder = str(objects.at(found, "spec", "holderIdentity") or "")
        if holder and holder != self._identity:
            if objects.resource_version(found) != self._seen.version:
                self._seen = _Seen(objects.resource_version(found), self._clock.monotonic())
            valid = float(objects.at(found, "spec", "leaseDurationSeconds") or self._terms.valid)
            if self._clock.monotonic() - self._seen.at < valid:
                return False
        # Of several who try now, all but one have seen an older version than the one that is there then.
        await self._client.update(LEASES, self._signed(found, is_new=holder != self._identity))
        self._holder = self._identity
        return True

    def _signed(self, lease: Object, *, is_new: bool = True) -> Object:
        now = _micro(self._clock.now())
        spec: Object = {
            **objects.mapping(lease.get("spec")),
            "holderIdentity": self._identity,
            "leaseDurationSeconds": round(self._terms.valid),
            "renewTime": now,
        }
        if is_new:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        return {**lease, "apiVersion": LEASES.api_version, "kind": LEASES.kind, "spec": spec}

    async def _release(self) -> None:
        """So that the next need not wait. Where that fails, it waits."""
        name, namespace = self._place
        with contextlib.suppress(errors.ApiError, TimeoutError):
            async with asyncio.timeout(_ANSWER_SECONDS):
                found = await self._client.get(LEASES, name, namespace)
                if objects.at(found, "spec", "holderIdentity") == self._identity:
                    spec = {**objects.mapping(found.get("spec")), "holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._client.update(LEASES, {**found, "spec": spec})


def _micro(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
