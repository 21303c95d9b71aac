"""Many API servers in one process: each with a space of its own in a shared store, a port and an authority of its own.

They share one database file and its one writer thread; each costs a listener and what its few objects take, no thread
and no timer. Serving certificates are renewed in place while the servers run.
"""

from __future__ import annotations

import asyncio
import datetime
import socket
import zlib
from dataclasses import dataclass

from steelyard.kube import pki
from steelyard.kube.pki import KeyPair
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.server.api import Api
from steelyard.kube.server.housekeeping import ownservice
from steelyard.kube.server.rights import accounttokens
from steelyard.kube.server.transport import http, tls
from steelyard.kube.server.transport.limits import Commons
from steelyard.kube.server.transport.portforward import Dial
from steelyard.kube.server.transport.renewal import Renewals
from steelyard.kube.server.webhooks import reach as reaches
from steelyard.kube.server.webhooks.reach import Reach
from steelyard.kube.store.store import Store

FIRST_PORT = 20000
LAST_PORT = 29999
"""Below the range that Linux hands out for outgoing connections, so that a port is still free after a restart."""
_LEAVE_OUT = "leave spec.controlPlaneEndpoint out, and a free one is chosen"
_WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to
_SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


def advertised(host: str) -> str:
    """The address under which a server is reached that listens on this one."""
    return "127.0.0.1" if host in _WILDCARDS else host


class PortTaken(Exception):
    """The port cannot be had: it is another's, or none that is given out. The message says what to do."""


@dataclass(slots=True)
class Server:
    """One that is running."""

    api: Api
    listener: http.Listener
    authority: bytes
    """Its certificate, as PEM."""


class Hosting:
    def __init__(
        self,
        store: Store,
        *,
        host: str,
        clock: Clock,
        reach: Reach = reaches.PUBLIC,
        renewals: Renewals | None = None,
        quota: int = 0,
        commons: Commons | None = None,
    ) -> None:
        """`reach` is where webhooks of the servers may be, whose administrators are not the platform's.

        `renewals` renews the servers' certificates; without, they are renewed by a timer of its own. `quota` is how
        many bytes the objects of each may have together; 0 is no limit. `commons` is what all servers of the process
        share, so that none takes more than its part.
        """
        self.advertised_host = advertised(host)
        self._store = store
        self._host = host
        self._clock = clock
        self._reach = reach
        self._renewals = renewals or Renewals(clock)
        self._quota = quota
        self._promised: dict[str, int] = {}
        self._owners: dict[int, str] = {}
        self._commons = commons or Commons()
        self._reserved: dict[str, socket.socket] = {}
        self._servers: dict[str, Server] = {}
        self._starting: dict[str, asyncio.Lock] = {}

    def promise(self, name: str, port: int) -> bool:
        """Keeps the port for the server of this name, whether it is up or not; False if it is another's already.

        Everything that was promised before a restart is to be promised again before anything is reserved: a server
        that has not come up yet holds no socket that would tell.
        """
        if self._owners.setdefault(port, name) != name:
            return False
        self._promised[name] = port
        return True

    async def reserve(self, name: str, port: int = 0) -> int:
        """Holds a port for the server of this name: the promised one, else the given, else a free one. Again: the same.

        Raises PortTaken.
        """
        held = self._reserved.get(name)
        if held is None:
            port = self._promised.get(name) or self._asked_for(name, port)
            held = self._bind(port) if port else self._bind_free(name)
            self._reserved[name] = held
            self.promise(name, int(held.getsockname()[1]))
        return int(held.getsockname()[1])

    def _asked_for(self, name: str, port: int) -> int:
        """The port that somebody chose, if it may be chosen."""
        if not port:
            return 0
        if self._owners.get(port, name) != name:
            raise PortTaken(f"port {port} belongs to another cluster; {_LEAVE_OUT}")
        if not FIRST_PORT <= port <= LAST_PORT:
            raise PortTaken(f"port {port} is not between {FIRST_PORT} and {LAST_PORT}; {_LEAVE_OUT}")
        return port

    def holds(self, name: str) -> bool:
        """Whether there is anything of the server of this name, running or not."""
        return name in self._reserved or self._store.count(f"{name}/") > 0

    def running(self, name: str) -> Api | None:
        server = self._servers.get(name)
        return server.api if server else None

    def port(self, name: str) -> int:
        """0 where it has none."""
        return self._promised.get(name, 0)

    def owns(self, host: str, port: int) -> bool:
        """Whether a server of this is reached there, or will be."""
        return host == self.advertised_host and port in self._owners

    def at(self, host: str, port: int) -> Server | None:
        """The one that is running."""
        return self._servers.get(self._owners.get(port, "")) if self.owns(host, port) else None

    def authority_certificate(self, name: str) -> bytes:
        return self._servers[name].authority

    async def serve(
        self,
        name: str,
        authority: KeyPair,
        *,
        service_cidr: str = "",
        service_account_key: bytes = b"",
        version: str = http.DEFAULT_VERSION,
        dial: Dial | None = None,
    ) -> Api:
        """Starts the server on its reserved port; it serves what its space holds. A running one is left as it is.

        Without a key of its own for them, tokens of service accounts end with the process. `version` is what it says it
        is; that changes on a running one, too. `dial` reaches what is behind the ports of its pods.
        """
        async with self._starting.setdefault(name, asyncio.Lock()):
            server = self._servers.get(name)
            if server is None:
                server = await self._start(name, authority, service_cidr, dial)
                if service_account_key:
                    server.api.access.signer = accounttokens.Signer(lambda: service_account_key)
                self._servers[name] = server
            server.listener.health.tell_version(version)
            return server.api

    async def stop(self, name: str) -> None:
        """Closes the listener; the objects stay, and the port stays reserved."""
        server = self._servers.pop(name, None)
        if server is not None:
            self._renewals.remove(name)
            await server.listener.close()
            await server.api.close()

    async def erase(self, name: str) -> None:
        """Stops the server and removes every object of it; nothing of this name is left."""
        await self.stop(name)
        held = self._reserved.pop(name, None)
        if held is not None:
            held.close()
        self._owners.pop(self._promised.pop(name, 0), None)
        self._starting.pop(name, None)
        records = self._store.scan(f"{name}/")
        await asyncio.gather(*(self._store.delete(record.key, expect=None) for record in records))

    async def close(self) -> None:
        for name in list(self._servers):
            await self.stop(name)
        for held in self._reserved.values():
            held.close()
        self._reserved.clear()

    async def _start(self, name: str, authority: KeyPair, service_cidr: str, dial: Dial | None) -> Server:
        port = await self.reserve(name)
        hosts = [*_SERVER_NAMES, "127.0.0.1", self.advertised_host, *ownservice.first_addresses(service_cidr)]

        def issue(now: datetime.datetime) -> KeyPair:
            return pki.issue_serving(authority, "kube-apiserver", hosts, now=now)

        def renew(now: datetime.datetime) -> bytes:
            made = issue(now)
            listener.present(made)
            return made.certificate

        certificate = issue(self._clock.now())
        api = await Api.start(
            self._store, space=name, reach=self._reach, quota=self._quota, service_networks=service_cidr
        )
        api.access.address = f"https://{self.advertised_host}:{port}"
        serving = tls.ServingTls(certificate, client_authority=authority.certificate)
        try:
            listener = await http.listen(
                api,
                self._host,
                port,
                tls=serving,
                authenticator=api.access,
                authorizer=api.access.rbac,
                commons=self._commons,
                is_platform=False,
                dial=dial,
            )
        except OSError as error:
            await api.close()
            raise _port_taken(self._host, port) from error
        self._renewals.add(name, certificate.certificate, renew)
        await api.own_service.publish(self.advertised_host, port)
        return Server(api, listener, authority.certificate)

    def _bind_free(self, name: str) -> socket.socket:
        """Starts looking at a place derived from the name, so that many servers do not all try the same ports."""
        span = LAST_PORT - FIRST_PORT + 1
        start = zlib.crc32(name.encode()) % span
        for offset in range(span):
            port = FIRST_PORT + (start + offset) % span
            if port in self._owners:
                # The system would not tell: it lets several sockets hold a port as long as only one listens on it.
                continue
            try:
                return self._bind(port)
            except PortTaken:
                continue
        raise PortTaken(f"every port from {FIRST_PORT} to {LAST_PORT} is in use")

    def _bind(self, port: int) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        held = socket.socket(family, socket.SOCK_STREAM)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            held.bind((self._host, port))
        except OSError as error:
            held.close()
            raise _port_taken(self._host, port) from error
        held.setblocking(False)
        return held


def _port_taken(host: str, port: int) -> PortTaken:
    return PortTaken(
        f"port {port} on {host} is in use by another process; end that process, the cluster's API comes back by itself"
    )
