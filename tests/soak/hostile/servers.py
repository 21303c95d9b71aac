"""The two that are attacked, each in processes of its own: our platform as `steelyard up` runs it, with a few simulated
clusters, and one etcd, kube-apiserver and kube-controller-manager.

Both get the same users by the same requests. A life with few file descriptors shows what connections alone can do.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
import yaml

from bench.client import Target
from bench.servers import Upstream
from tests.conformance import upstream
from tests.harness import PlatformProcess
from tests.soak.hostile.field import CROWD, KNOWN, PEACEFUL, THEIRS, Field, Identity, config_map, config_maps
from tests.soak.hostile.wire import Answer, Line

FEW_DESCRIPTORS: Final = 512
_CLUSTERS: Final = ("tenant", "neighbour", "bystander")
_READY_SECONDS: Final = 90.0
_CLAIMS: Final = "/apis/compute.steelyard.dev/v1alpha1/namespaces/default/workloadclusters"
_MACHINES: Final = "bootSeconds: 0, joinSeconds: 0, deleteSeconds: 0"
_PLATFORM: Final = f"simulated: {{{_MACHINES}, webhookNetworks: [127.0.0.0/8]}}\n"


class DidNotPrepare(Exception):
    pass


def limited(descriptors: int) -> Sequence[str]:
    """What goes before a command to run it with as many file descriptors; 0 leaves them as they are."""
    return ("sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh") if descriptors else ()


@contextlib.asynccontextmanager
async def ours(folder: Path, *, descriptors: int = 0, crowd: int = CROWD) -> AsyncGenerator[Field]:
    with PlatformProcess(folder / "platform", platform=_PLATFORM, wrapper=limited(descriptors)) as platform:
        await asyncio.to_thread(platform.start)
        assert platform.process is not None
        target = Target.of(platform.data_dir.kubeconfig)
        admin = Identity(target.host, target.port, target.token)
        clusters = await _bring_up(admin, folder)
        yield await _peopled("ours", admin, clusters["tenant"], clusters["neighbour"], (platform.process.pid,), crowd)
        with contextlib.suppress(Exception):
            await asyncio.to_thread(platform.terminate)


@contextlib.asynccontextmanager
async def theirs(folder: Path, *, descriptors: int = 0, crowd: int = CROWD) -> AsyncGenerator[Field]:
    """Tenants of a kube-apiserver share it: each is an administrator of the whole."""
    server = Upstream(folder / "upstream", wrapper=limited(descriptors))
    try:
        await asyncio.to_thread(server.start)
        flags = upstream.controller_flags(folder / "upstream", upstream.free_ports(1)[0])
        with upstream.started(folder / "upstream", upstream.programs()[2], flags):
            target = Target.of(server.kubeconfig)
            admin = Identity(target.host, target.port, target.token)
            yield await _peopled("upstream", admin, admin, admin, tuple(server.processes()), crowd)
    finally:
        await asyncio.to_thread(server.stop)


async def _bring_up(admin: Identity, folder: Path) -> Mapping[str, Identity]:
    """Claims the clusters; the administrators of those, by name."""
    line = await Line.open(admin)
    try:
        for name in _CLUSTERS:
            parameters = {"environment": "dev", "controlPlaneReplicas": 1, "workerReplicas": 1}
            body = {"apiVersion": "compute.steelyard.dev/v1alpha1", "kind": "WorkloadCluster"}
            body |= {"metadata": {"name": name}, "spec": {"parameters": parameters}}
            await _must(line, admin, "POST", _CLAIMS, body)
        try:
            async with asyncio.timeout(_READY_SECONDS):
                return {name: await _administrator(line, admin, name, folder) for name in _CLUSTERS}
        except TimeoutError:
            claims = (await line.ask(admin.request("GET", _CLAIMS))).body.decode(errors="replace")
            raise DidNotPrepare(f"not all clusters are Ready after {_READY_SECONDS:.0f} s: {claims[:4000]}") from None
    finally:
        line.close()


async def _administrator(line: Line, admin: Identity, name: str, folder: Path) -> Identity:
    while True:
        found = await line.ask(admin.request("GET", f"{_CLAIMS}/{name}"))
        conditions = orjson.loads(found.body).get("status", {}).get("conditions", [])
        if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
            break
        await asyncio.sleep(0.1)
    secret = await line.ask(admin.request("GET", f"/api/v1/namespaces/default/secrets/{name}-kubeconfig"))
    config: Any = yaml.safe_load(base64.b64decode(orjson.loads(secret.body)["data"]["value"]))
    shown = config["users"][0]["user"]
    path = folder / f"{name}.pem"
    path.write_bytes(base64.b64decode(shown["client-certificate-data"]) + base64.b64decode(shown["client-key-data"]))
    path.chmod(0o600)
    where = urlsplit(str(config["clusters"][0]["cluster"]["server"]))
    return Identity(where.hostname or "", where.port or 0, certificate=str(path))


async def _peopled(
    name: str, admin: Identity, tenant: Identity, neighbour: Identity, processes: tuple[int, ...], crowd: int
) -> Field:
    user = await _account(admin, THEIRS)
    innocent = await _account(admin, PEACEFUL)
    for who in dict.fromkeys((admin, neighbour)):
        await _known(who, PEACEFUL)
    for who in dict.fromkeys((admin, tenant)):
        await _known(who, THEIRS)
    await _crowd(admin, crowd)
    stranger = Identity(admin.host, admin.port)
    return Field(name, stranger, user, tenant, admin, innocent, neighbour, processes)


async def _account(admin: Identity, namespace: str) -> Identity:
    """A namespace, and a service account that may edit there."""
    line = await Line.open(admin)
    rbac = "rbac.authorization.k8s.io"
    try:
        await _namespace(line, admin, namespace)
        within = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "someone"}}
        await _must(line, admin, "POST", within, account)
        binding = {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": {"name": "someone"}}
        binding |= {"subjects": [{"kind": "ServiceAccount", "name": "someone", "namespace": namespace}]}
        binding |= {"roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "edit"}}
        await _must(line, admin, "POST", f"/apis/{rbac}/v1/namespaces/{namespace}/rolebindings", binding)
        wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
        answer = await _must(line, admin, "POST", f"{within}/someone/token", wanted)
        someone = Identity(admin.host, admin.port, orjson.loads(answer.body)["status"]["token"])
        await _until_allowed(line, someone, namespace)
        return someone
    finally:
        line.close()


async def _until_allowed(line: Line, who: Identity, namespace: str) -> None:
    """The role that the binding names is put together by a controller, which may not have done so yet."""
    async with asyncio.timeout(_READY_SECONDS):
        while (await line.ask(who.request("GET", config_maps(namespace)))).code != 200:  # noqa: ASYNC110 - a request each time
            await asyncio.sleep(0.1)


async def _known(who: Identity, namespace: str) -> None:
    line = await Line.open(who)
    try:
        await _namespace(line, who, namespace)
        await _must(line, who, "POST", config_maps(namespace), config_map(KNOWN, data={"text": "x" * 200}))
    finally:
        line.close()


async def _namespace(line: Line, who: Identity, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await _must(line, who, "POST", "/api/v1/namespaces", body, or_=409)


async def _crowd(admin: Identity, count: int) -> None:
    numbers = iter(range(count))

    async def some() -> None:
        line = await Line.open(admin)
        for number in numbers:
            body = config_map(f"crowd-{number}", data={"text": "x" * 100})
            body["metadata"]["labels"] = {"number": str(number), "app": "crowd"}
            await _must(line, admin, "POST", config_maps(THEIRS), body)
        line.close()

    await asyncio.gather(*(some() for _ in range(8)))


async def _must(line: Line, who: Identity, method: str, path: str, body: Any, or_: int = 201) -> Answer:
    answer = await line.ask(who.request(method, path, orjson.dumps(body)))
    if answer.code not in (200, 201, or_):
        raise DidNotPrepare(f"{method} {path}: {answer.code} {answer.body[:500].decode(errors='replace')}")
    return answer
