"""The hosts that are connected to: one connection each, which all machines on a host share."""

from __future__ import annotations

import asyncio
import collections
import functools
from collections.abc import Callable

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.providers.kvm.libvirt import calls
from steelyard.providers.kvm.libvirt.calls import Around
from steelyard.providers.kvm.libvirt.connection import BROKEN, OPENED, Connection


def _as_it_is(uri: str) -> str:
    return uri


def _unheard(_: str) -> None:
    pass


class Fleet:
    def __init__(
        self,
        *,
        reached_by: Callable[[str], str] = _as_it_is,
        around: Around = calls.plainly,
        deadline: float = calls.DEADLINE,
    ) -> None:
        """`reached_by` gives the URI for libvirt's client; that of a KVMHost may have no parameters, and tests have a
        libvirtd of their own. `around` is what each call is made through."""
        self.wake_machine: Callable[[str], None] = _unheard
        """Gets the UUID of a machine that has news."""
        self.wake_host: Callable[[str], None] = _unheard
        """Gets the name of one whose connection broke."""
        self.wake_all_on: Callable[[str], None] = _unheard
        """Gets the name of one that was connected to: of what is there, anything may have changed."""
        self._reached_by = reached_by
        self._around = around
        self._deadline = deadline
        self._connections: dict[str, Connection] = {}
        self._networks: dict[tuple[str, str], asyncio.Lock] = collections.defaultdict(asyncio.Lock)
        self._closing: set[asyncio.Task[None]] = set()
        self.choosing = asyncio.Lock()
        """Held while somebody decides who gets what of a host, until that is written down."""

    def connection(self, host: Object) -> Connection:
        """To a KVMHost. Nothing is opened before the first call."""
        name, uri = objects.name(host), self._reached_by(str(objects.at(host, "spec", "uri")))
        known = self._connections.get(name)
        if known is not None and known.uri != uri:
            self.forget(name)
            known = None
        if known is None:
            known = Connection(
                name,
                uri,
                around=self._around,
                deadline=self._deadline,
                on_news=functools.partial(self._heard, name),
            )
            self._connections[name] = known
        return known

    def _heard(self, host: str, news: str) -> None:
        if news == BROKEN:
            self.wake_host(host)
        elif news == OPENED:
            self.wake_all_on(host)
        else:
            self.wake_machine(news)

    def network(self, host: str, name: str) -> asyncio.Lock:
        """Held while an address of the network is chosen and written down."""
        return self._networks[host, name]

    def connected(self) -> list[Connection]:
        return list(self._connections.values())

    def forget(self, name: str) -> None:
        known = self._connections.pop(name, None)
        if known is not None:
            task = asyncio.create_task(known.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._connections.values()), *self._closing)
        self._connections.clear()
