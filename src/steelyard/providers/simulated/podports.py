"""What is behind the ports of a simulated cluster's pods: the member of etcd, and the cluster's own API.

That is all that a port-forward reaches. A member is handed one end of a pair of sockets, so that nothing is connected
to; the API is the one through which the port is being forwarded. No name or address that anybody wrote into the cluster
is gone to.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from steelyard.frozen import frozen
from steelyard.kube import errors
from steelyard.kube.pki import KeyPair
from steelyard.kube.server.transport.portforward import Dial, Ends, Unreachable
from steelyard.providers.simulated import boot, furnishing
from steelyard.providers.simulated.ensembles import Ensembles, Host
from steelyard.providers.simulated.memberserver import PORT as ETCD_PORT

API_PORT: Final = 6443
_CHUNK: Final = 1 << 16

Authority: TypeAlias = Callable[[Host], Awaitable[KeyPair | None]]
"""That of the cluster's etcd; None where there is none."""


@frozen
class Ports:
    """Of one cluster."""

    cluster_id: str
    ensembles: Ensembles
    hosts: Callable[[], Sequence[Host]]
    """The control-plane machines whose member of etcd runs."""
    authority: Authority
    api: Callable[[], tuple[str, int]]
    """Where the cluster's API listens."""

    def dial(self) -> Dial:
        return self._reach

    async def _reach(self, namespace: str, pod: str, port: int) -> Ends:
        for host in self.hosts() if namespace == furnishing.NAMESPACE else ():
            if (pod, port) == (furnishing.pod_name(furnishing.ETCD, host.name), ETCD_PORT):
                return await self._member(host)
            if pod == furnishing.pod_name(furnishing.API_SERVER, host.name) and port in (API_PORT, self.api()[1]):
                try:
                    return await asyncio.open_connection(*self.api(), limit=_CHUNK)
                except OSError as error:
                    raise Unreachable(f"the cluster's API does not answer: {error.strerror or error}") from error
        raise Unreachable(f"nothing listens on port {port} of pod {namespace}/{pod}: connection refused")

    async def _member(self, host: Host) -> Ends:
        try:
            authority = await self.authority(host)
        except (boot.BadBootstrapData, errors.ApiError) as error:
            raise Unreachable(f"machine {host.name} cannot start its member of etcd: {error}") from error
        if authority is None:
            raise Unreachable(f"machine {host.name} runs no member of etcd")
        try:
            ends, theirs = await _pair()
        except OSError as error:
            raise Unreachable(f"machine {host.name} takes no connection: {error.strerror or error}") from error
        serving = asyncio.create_task(self._serve(host, authority, theirs), name="etcd by port-forward")
        _SERVING.add(serving)
        serving.add_done_callback(_SERVING.discard)
        return ends

    async def _serve(self, host: Host, authority: KeyPair, connection: socket.socket) -> None:
        """The handshake, which fails by itself when the other side goes, and then the member's own task."""
        try:
            await self.ensembles.reach(self.cluster_id, host, authority, connection)
        except (OSError, EOFError, TimeoutError):
            connection.close()


async def _pair() -> tuple[Ends, socket.socket]:
    """Raises OSError."""
    ours, theirs = socket.socketpair()
    try:
        ours.setblocking(False)
        theirs.setblocking(False)
        return await asyncio.open_connection(sock=ours, limit=_CHUNK), theirs
    except BaseException:
        ours.close()
        theirs.close()
        raise


_SERVING: Final[set[asyncio.Task[None]]] = set()
"""Event loops keep no task alive."""
