"""The real thing: etcd, kube-apiserver and kube-controller-manager on loopback, in a folder that goes away.

Of the controllers only those run that a control plane without pods has: garbage collection, namespace termination,
aggregation of ClusterRoles. All three programs are ended, whatever happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import signal
import socket
import subprocess
from collections.abc import AsyncGenerator, Generator, Sequence
from pathlib import Path
from typing import Final

import aiohttp

from steelyard.kube import pki
from tests.conformance import keys, replay
from tests.conformance.ours import EVENT_TTL, TOKENS, known_tokens
from tests.conformance.replay import Server
from tests.harness import built

PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-controller-manager")
_READY_SECONDS: Final = 90.0
_CONTROLLERS: Final = "garbage-collector-controller,namespace-controller,clusterrole-aggregation-controller"


class DidNotStart(Exception):
    pass


def programs() -> list[str]:
    return built(*PROGRAMS)


def free_ports(count: int) -> list[int]:
    """Free a moment ago; all held at once, so that none is given twice."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.asynccontextmanager
async def running(folder: Path, shared: Path) -> AsyncGenerator[Server]:
    etcd, apiserver, controllers = programs()
    client, peer, secure, unused = free_ports(4)
    write_keys(folder, secure)
    with contextlib.ExitStack() as stack:
        stack.enter_context(started(folder, etcd, [*etcd_flags(folder, client, peer), "--unsafe-no-fsync"]))
        limits = ("--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000")
        stack.enter_context(started(folder, apiserver, [*apiserver_flags(folder, shared, client, secure), *limits]))
        server = Server("upstream", f"https://127.0.0.1:{secure}", known_tokens(), keys.contexts(shared))
        async with replay.session() as http:
            await _ready(http, server, folder)
            await replay.prepare(http, server)
        stack.enter_context(started(folder, controllers, controller_flags(folder, unused)))
        yield server


@contextlib.contextmanager
def started(folder: Path, program: str, flags: Sequence[str]) -> Generator[None]:
    """Its log is `<program>.log` in the folder; it is ended, whatever happens."""
    with (folder / f"{Path(program).name}.log").open("wb") as log:
        process = subprocess.Popen([program, *flags], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def write_keys(folder: Path, port: int) -> None:
    """Certificates, tokens, and the administrator's kubeconfig for a server on that port."""
    now = datetime.datetime.now(datetime.UTC)
    authority = pki.new_authority("conformance", now=now)
    serving = pki.issue_serving(authority, "kube-apiserver", ["127.0.0.1", "localhost"], now=now)
    (folder / "ca.crt").write_bytes(authority.certificate)
    (folder / "server.crt").write_bytes(serving.certificate)
    (folder / "server.key").write_bytes(serving.key)
    lines = [
        f'{token},{user},{user},"{",".join(groups)}"' if groups else f"{token},{user},{user}"
        for user, (token, groups) in TOKENS.items()
    ]
    (folder / "tokens.csv").write_text("\n".join(lines) + "\n")
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "clusters": [
            {"name": "a", "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": "ca.crt"}}
        ],
        "users": [{"name": "a", "user": {"token": TOKENS["admin"][0]}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    }
    (folder / "kubeconfig").write_text(json.dumps(kubeconfig))


def etcd_flags(folder: Path, client: int, peer: int) -> list[str]:
    """One member on loopback; durable, which the corpus does without."""
    return [
        "--name=a",
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{client}",
        f"--advertise-client-urls=http://127.0.0.1:{client}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=a=http://127.0.0.1:{peer}",
        "--log-level=warn",
    ]


def apiserver_flags(folder: Path, shared: Path, etcd: int, port: int) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        f"--client-ca-file={shared / keys.AUTHORITY}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        f"--service-account-issuer={keys.ISSUER}",
        f"--service-account-jwks-uri={keys.ADDRESS}/openid/v1/jwks",
        f"--service-account-key-file={shared / 'accounts.pub'}",
        f"--service-account-signing-key-file={shared / keys.ACCOUNTS}",
        "--service-cluster-ip-range=10.96.0.0/12",
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        f"--event-ttl={EVENT_TTL.total_seconds():.0f}s",
        "--endpoint-reconciler-type=none",
    ]


def controller_flags(folder: Path, port: int) -> list[str]:
    return [
        f"--kubeconfig={folder / 'kubeconfig'}",
        f"--controllers={_CONTROLLERS}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--concurrent-namespace-syncs=20",
    ]


async def _ready(http: aiohttp.ClientSession, server: Server, folder: Path) -> None:
    headers = {"Authorization": f"Bearer {server.tokens['admin']}"}
    deadline = asyncio.get_running_loop().time() + _READY_SECONDS
    while asyncio.get_running_loop().time() < deadline:
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async with http.get(server.url + "/readyz", headers=headers) as response:
                if response.status == 200:
                    return
        await asyncio.sleep(0.1)
    raise DidNotStart(f"kube-apiserver was not ready within {_READY_SECONDS:.0f} s:\n{_logs(folder)}")


def _logs(folder: Path) -> str:
    return "\n".join(path.read_text(errors="replace")[-3000:] for path in sorted(folder.glob("*.log")))
