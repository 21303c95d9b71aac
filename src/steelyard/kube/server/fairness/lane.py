"""One thread for the pure stages of large objects: decoding, pruning, defaulting, judging.

The event loop goes on meanwhile. Python lets a thread that runs bytecode be interrupted, so what is done here must be
made of many small steps; the steps of C code that hold Python's lock are bounded by what a body may hold. While
something is done the lock is passed on ten times as often as usual, because the event loop asks for it at every
turn, and no garbage is looked for: JSON has no cycles, and a full collection would hold the lock. Whoever waits takes
turns by flow, so that one who sends many large objects waits for himself.

What is decided in here was decided on the state of a moment ago: a write checks that it still stands, as it does after
asking webhooks.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, Final, ParamSpec, TypeVar

from steelyard.kube.server.fairness.rotation import Rotation
from steelyard.kube.server.fairness.shares import Flow

P = ParamSpec("P")
T = TypeVar("T")

_USUAL_SECONDS: Final = sys.getswitchinterval()
_BUSY_SECONDS: Final = 0.0005
_WAITING_PER_FLOW: Final = 16


class Lane:
    """For one event loop at a time; the thread starts with the first job and stays."""

    def __init__(self) -> None:
        self._rotation = Rotation(1, _WAITING_PER_FLOW)
        self._threads: ThreadPoolExecutor | None = None

    async def run(self, flow: Flow | None, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The job's result, or what it raised. Raises Overloaded if too much of the flow waits already."""
        async with self._rotation.turn(flow):
            if self._threads is None:
                self._threads = ThreadPoolExecutor(1, "lane")
            started = perf_counter()
            call = asyncio.get_running_loop().run_in_executor(self._threads, _quickly, job, args, kwargs)
            # The next job must not start before this one is done, even if nobody waits for its result any more.
            try:
                return await asyncio.shield(call)
            finally:
                if not call.done():
                    await asyncio.wait([call])
                if flow is not None:
                    ended = perf_counter()
                    flow.charge(ended - started, ended)


def _quickly(job: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    sys.setswitchinterval(_BUSY_SECONDS)
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        return job(*args, **kwargs)
    finally:
        sys.setswitchinterval(_USUAL_SECONDS)
        if was_collecting:
            gc.enable()


SHARED: Final = Lane()
"""Of all servers of the process."""
