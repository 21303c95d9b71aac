"""The connection to one host: opened when it is first needed, watched, and opened again when it broke.

News (a domain that started, stopped or lost its disk's space; the connection itself) is handed to `on_news` on the
event loop. libvirt's own keep-alive ends a connection whose other side is stopped or unreachable, which brings calls
back that wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from steelyard.kube.runtime import logs
from steelyard.providers.kvm.libvirt import binding, calls, problems
from steelyard.providers.kvm.libvirt.calls import Around, Calls
from steelyard.providers.kvm.libvirt.problems import Away, Failed, Hung, Problem

T = TypeVar("T")

OPEN_DEADLINE: Final = 20.0
_CLOSE_DEADLINE: Final = 5.0
_KEEPALIVE: Final = (5, 4)
"""Seconds between two questions whether the other side is there, and how many it may leave unanswered."""
_PAUSE: Final = 5.0
"""Seconds for which a host that could not be connected to is not tried again: its machines all ask at once."""

_log = logs.get(__name__)

OnNews = Callable[[str], None]
"""Gets the UUID of a domain that has news, `BROKEN` where the connection broke, `OPENED` where there is a new one: what
happened before is not told again."""
BROKEN: Final = "broken"
OPENED: Final = "opened"


def _unheard(_: str) -> None:
    pass


class Connection:
    def __init__(
        self,
        host: str,
        uri: str,
        *,
        around: Around = calls.plainly,
        deadline: float = calls.DEADLINE,
        on_news: OnNews = _unheard,
    ) -> None:
        """`uri` as libvirt takes it; `deadline` in seconds."""
        self.host = host
        self.uri = uri
        self.on_news = on_news
        self._calls = Calls(host, around=around)
        self._deadline = deadline
        self._opening = asyncio.Lock()
        self._open: Any = None
        self._failed: tuple[float, Problem] | None = None
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        return self._open is not None

    @property
    def hanging(self) -> list[str]:
        return self._calls.hanging

    async def call(self, what: str, work: Callable[[Any, Any], T], *, subject: str = "", patience: float = 1.0) -> T:
        """What `work` makes of the connection and the binding, in a thread. Raises `Problem`s only.

        `patience` is how many times longer than others the call may take.
        """
        opened, libvirt = await self._ready()

        def run() -> T:
            try:
                return work(opened, libvirt)
            except libvirt.libvirtError as error:
                raise problems.of(error, libvirt, f"{self.host}: {what}") from error

        try:
            return await self._calls.run(what, run, subject=subject, deadline=self._deadline * patience)
        except Hung:
            # The others on this connection may be answered; where none is, libvirt's keep-alive ends it.
            raise
        except Away:
            self._drop(opened)
            raise
        except Problem:
            raise
        except Exception as error:
            raise Failed(f"{self.host}: {what}: {error}") from error

    async def _ready(self) -> tuple[Any, Any]:
        if self._is_closed:
            raise Away(f"{self.host}: the connection is being closed")
        libvirt = await self._binding()
        async with self._opening:
            if self._open is None:
                self._open = await self._connect(libvirt)
            return self._open, libvirt

    async def _binding(self) -> Any:
        try:
            return binding.load()
        except binding.NoBinding as error:
            raise Away(f"{self.host}: {error}") from error

    async def _connect(self, libvirt: Any) -> Any:
        if self._failed is not None and time.monotonic() - self._failed[0] < _PAUSE:
            raise Away(str(self._failed[1])) from None
        loop = asyncio.get_running_loop()

        def news(subject: str) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._heard, subject)

        def lifecycle(_: Any, domain: Any, *__: Any) -> None:
            news(str(domain.UUIDString()))

        def closed(connection: Any, *_: Any) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._broke, connection)

        def connect() -> Any:
            try:
                made = libvirt.open(self.uri)
                with contextlib.suppress(libvirt.libvirtError):
                    made.setKeepAlive(*_KEEPALIVE)
                made.registerCloseCallback(closed, None)
                for event in (libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, libvirt.VIR_DOMAIN_EVENT_ID_IO_ERROR):
                    made.domainEventRegisterAny(None, event, lifecycle, None)
            except libvirt.libvirtError as error:
                raise Away(f"{self.host}: cannot connect to {self.uri}: {error}") from error
            return made

        try:
            made = await self._calls.run("connect", connect, subject="connect", deadline=OPEN_DEADLINE)
        except (Away, Hung) as error:
            self._failed = (time.monotonic(), error)
            raise
        self._failed = None
        _log.debug("connected to libvirt", host=self.host)
        self._heard(OPENED)
        return made

    def _heard(self, subject: str) -> None:
        if not self._is_closed:
            self.on_news(subject)

    def _broke(self, connection: Any) -> None:
        if self._open is connection:
            _log.warning("the connection to libvirt broke", host=self.host)
            self._drop(connection)
            self._heard(BROKEN)

    def _drop(self, opened: Any) -> None:
        """It is not used any more. Calls that still wait on it keep it alive until they come back."""
        if self._open is opened:
            self._open = None
            threading.Thread(target=_end, args=(opened,), name=f"libvirt {self.host}: close", daemon=True).start()

    async def close(self) -> None:
        self._is_closed = True
        opened, self._open = self._open, None
        if opened is None:
            return

        with contextlib.suppress(Problem):
            await self._calls.run("close", lambda: _end(opened), deadline=_CLOSE_DEADLINE)


def _end(opened: Any) -> None:
    libvirt = binding.load()
    for end in (opened.unregisterCloseCallback, opened.close):
        with contextlib.suppress(libvirt.libvirtError):
            end()
