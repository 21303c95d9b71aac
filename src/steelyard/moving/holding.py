"""One process works on a move at a time: whoever has the Lease `kube-system/steelyard-move` at the source.

A second one, be it to go on or to cancel, would copy what the first removes. It waits until the first has ended, or
has been silent for as long as a Lease is valid; one that still works then is told of. Whoever cannot renew the Lease
stops where it stands.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import uuid
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from steelyard.kube.client.interface import Client
from steelyard.kube.runtime.leadership import Leadership, Lost, Terms
from steelyard.moving.preparing import CannotMove
from steelyard.moving.record import NAME, NAMESPACE

Result = TypeVar("Result")
_LONGER: Final = 10.0
"""Seconds to wait beyond the end of a Lease whose holder is gone."""


async def alone(
    source: Client, work: Callable[[], Awaitable[Result]], tell: Callable[[str], None], terms: Terms
) -> Result:
    """What the work gives, done while no other process works on a move out of this API. Raises CannotMove."""
    lease = Leadership(source, NAMESPACE, NAME, _identity(), terms=terms)
    async with contextlib.AsyncExitStack() as stack:
        waiting = f"Another process may be working on this move: waiting up to {terms.valid + _LONGER:g} s for its end."
        told = asyncio.get_running_loop().call_later(terms.pause, tell, waiting)
        try:
            async with asyncio.timeout(terms.valid + _LONGER):
                lost = await stack.enter_async_context(lease.held())
        except TimeoutError:
            raise CannotMove(_why(lease)) from None
        finally:
            told.cancel()
        working = asyncio.ensure_future(work())
        try:
            await asyncio.wait((working, lost), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise CannotMove(f"another process may work on this move now: {_reason(lost)}. The same command goes on")
        finally:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((working,))


def _why(lease: Leadership) -> str:
    if lease.problem:
        return f"the Lease {NAMESPACE}/{NAME} at the source could not be taken: {lease.problem}"
    return f"another process works on this move ({lease.holder}): let it end, or end it there, and run this again"


def _reason(lost: asyncio.Future[None]) -> str:
    found = lost.exception()
    return str(found) if isinstance(found, Lost) else "its Lease was lost"


def _identity() -> str:
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
