"""Each call to libvirt in a thread, with a deadline, and no more than a few at once for one host.

A call that has begun cannot be taken back. One that is not answered in time goes on in its thread, which is a daemon:
it keeps nothing else from going on, nor the process from ending. What it was about must not be touched until it has
come back, or a definition that hung would take effect after the deletion that followed; `subject` says what that is.

A host that has left a call unanswered is asked one thing at a time until it answers one; whatever else is asked of it
fails at once, so that those who wait for it do not keep others waiting.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from steelyard.providers.kvm.libvirt.problems import Hung

T = TypeVar("T")

DEADLINE: Final = 30.0
AT_ONCE: Final = 8


class Around(Protocol):
    """Runs what it is given, in the call's own thread; tests let calls fail, hang or end the process there."""

    def __call__(self, what: str, work: Callable[[], Any]) -> Any: ...


def plainly(what: str, work: Callable[[], Any]) -> Any:
    return work()


class Calls:
    """Those to one host."""

    def __init__(self, host: str, *, around: Around = plainly, at_once: int = AT_ONCE) -> None:
        self.host = host
        self._around = around
        self._free = asyncio.Semaphore(at_once)
        self._hanging: dict[str, str] = {}
        self._is_silent = False
        self._trial = ""

    @property
    def hanging(self) -> list[str]:
        """Calls that were given up and have not come back."""
        return list(self._hanging.values())

    async def run(self, what: str, work: Callable[[], T], *, subject: str = "", deadline: float = DEADLINE) -> T:
        """Raises what the work raises, and `Hung`."""
        before = self._hanging.get(subject) if subject else None
        if before is not None:
            raise Hung(f"{self.host}: waiting for an earlier call to come back: {before}")
        if self._is_silent:
            if self._trial:
                raise Hung(f"{self.host}: does not answer; it was last asked to {self._trial}")
            self._trial = what
            try:
                return await self._run(what, work, subject, deadline)
            finally:
                self._trial = ""
        return await self._run(what, work, subject, deadline)

    async def _run(self, what: str, work: Callable[[], T], subject: str, deadline: float) -> T:
        begun = time.monotonic()
        try:
            async with asyncio.timeout(deadline):
                await self._free.acquire()
        except TimeoutError:
            raise Hung(
                f"{self.host}: {what}: all {AT_ONCE} calls that may be under way at once have not come back: "
                f"{'; '.join(self.hanging)}"
            ) from None
        done = self._started(what, work)
        try:
            remaining = max(deadline - (time.monotonic() - begun), deadline / 2)
            async with asyncio.timeout(remaining):
                return await asyncio.shield(done)
        except TimeoutError:
            self._is_silent = True
            raise Hung(f"{self.host}: {what}: not answered within {deadline:g} seconds") from None
        finally:
            # Also when whoever waits for it is cancelled.
            if done.done():
                self._is_silent = False
                self._free.release()
            else:
                key = subject or f"{what} {id(done)}"
                self._hanging[key] = what
                done.add_done_callback(lambda future: self._came_back(key, future))

    def _came_back(self, key: str, future: asyncio.Future[Any]) -> None:
        self._hanging.pop(key, None)
        self._is_silent = False
        self._free.release()
        if not future.cancelled():
            # Nobody waits for what it raised.
            future.exception()

    def _started(self, what: str, work: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def finish(result: T | None, error: BaseException | None) -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type] # T, as there was no error

        def run() -> None:
            result: T | None = None
            failed: BaseException | None = None
            try:
                result = self._around(what, work)
            except BaseException as error:
                failed = error
            try:
                loop.call_soon_threadsafe(finish, result, failed)
            except RuntimeError:
                # The loop has ended meanwhile, and with it everybody who waited.
                return

        threading.Thread(target=run, name=f"libvirt {self.host}: {what}", daemon=True).start()
        return future
