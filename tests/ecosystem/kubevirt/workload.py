"""What `kubeadm init` leaves behind on the first machine of a control plane, as far as Cluster API looks at it: an API
server at the cluster's endpoint with the keys of the machine's cloud-init data, and kubeadm's own ConfigMap in it.

There are no pods: nobody finds etcd's or the API server's, so that Cluster API never calls the control plane healthy.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Final

import yaml

from steelyard.kube import errors, pki
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair
from steelyard.kube.resources import CONFIG_MAPS, NAMESPACES, NODES, Resource
from tests.conformance import upstream
from tests.ecosystem.kubevirt.guest import Guest
from tests.harness import built

_PKI: Final = "/etc/kubernetes/pki/"
_READY_SECONDS: Final = 60.0
_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure")
_CONTROL_PLANE: Final = {"node-role.kubernetes.io/control-plane": ""}


@contextlib.asynccontextmanager
async def begun(folder: Path, guest: Guest) -> AsyncGenerator[HttpClient]:
    """As an administrator of the new cluster."""
    told = guest.cloud_init.kubeadm["ClusterConfiguration"]
    host, _, port = str(told["controlPlaneEndpoint"]).rpartition(":")
    connection = await asyncio.to_thread(_write_keys, folder, guest.cloud_init.files, host, port)
    etcd, apiserver = await asyncio.to_thread(built, "etcd", "kube-apiserver")
    client_port, peer = upstream.free_ports(2)
    flags = _flags(folder, host, int(port), client_port, str(told["networking"]["serviceSubnet"]))
    with contextlib.ExitStack() as stack:
        etcd_flags = [*upstream.etcd_flags(folder, client_port, peer), "--unsafe-no-fsync"]
        stack.enter_context(upstream.started(folder, etcd, etcd_flags))
        stack.enter_context(upstream.started(folder, apiserver, flags))
        client = HttpClient(connection)
        try:
            await _ready(client)
            await client.create(CONFIG_MAPS, _kubeadm_config(told))
            yield client
        finally:
            await client.close()


async def joined(guest: Guest, authority: bytes) -> str:
    """Who a machine that joins is to the API of the cluster, with the token that it was told."""
    discovery = guest.cloud_init.kubeadm["JoinConfiguration"]["discovery"]["bootstrapToken"]
    assert discovery["caCertHashes"] == [pki.key_hash(authority)], discovery
    server = f"https://{discovery['apiServerEndpoint']}"
    client = HttpClient(Connection(server, certificate_authority=authority, token=str(discovery["token"])))
    try:
        review = await client.create(_REVIEWS, {"apiVersion": _REVIEWS.api_version, "kind": _REVIEWS.kind})
    finally:
        await client.close()
    return str(review["status"]["userInfo"]["username"])


async def register(client: HttpClient, guest: Guest, version: str) -> None:
    """As the kubelet does; Ready, as if the cluster's network plugin had come."""
    first = guest.cloud_init.begins_a_cluster
    node: Object = {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {"name": guest.name, "labels": _CONTROL_PLANE if first else {}},
        "status": {
            "addresses": [{"type": "InternalIP", "address": guest.address}],
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady"},
                *({"type": each, "status": "False", "reason": "KubeletHasSufficient"} for each in _PRESSURES),
            ],
            "nodeInfo": _node_info(version),
        },
    }
    await client.create(NODES, node)


def _write_keys(folder: Path, files: Mapping[str, str], host: str, port: str) -> Connection:
    """Gives the way in for an administrator."""
    folder.mkdir(parents=True)
    for name in ("ca.crt", "sa.key", "sa.pub"):
        (folder / name).write_text(files[_PKI + name])
    now = datetime.datetime.now(datetime.UTC)
    authority = KeyPair(files[f"{_PKI}ca.crt"].encode(), files[f"{_PKI}ca.key"].encode())
    serving = pki.issue_serving(authority, "kube-apiserver", [host], now=now)
    (folder / "server.crt").write_bytes(serving.certificate)
    (folder / "server.key").write_bytes(serving.key)
    admin = pki.issue_client(authority, "kubernetes-admin", ["system:masters"], now=now)
    return Connection(
        f"https://{host}:{port}",
        certificate_authority=authority.certificate,
        client_certificate=admin.certificate,
        client_key=admin.key,
    )


def _node_info(version: str) -> Mapping[str, str]:
    unknown = (
        "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeProxyVersion",
    )  # fmt: skip
    return {
        **dict.fromkeys(unknown, ""),
        "kubeletVersion": version,
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def _kubeadm_config(told: Object) -> Object:
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {"name": "kubeadm-config", "namespace": "kube-system"},
        "data": {"ClusterConfiguration": yaml.safe_dump(told)},
    }


def _flags(folder: Path, host: str, port: int, etcd: int, services: str) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        f"--bind-address={host}",
        f"--advertise-address={host}",
        f"--secure-port={port}",
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        "--authorization-mode=Node,RBAC",
        "--enable-bootstrap-token-auth",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'sa.pub'}",
        f"--service-account-signing-key-file={folder / 'sa.key'}",
        f"--service-cluster-ip-range={services}",
        "--endpoint-reconciler-type=none",
    ]


async def _ready(client: HttpClient) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    problem: errors.ApiError | None = None
    while time.monotonic() < deadline:
        try:
            await client.get(NAMESPACES, "kube-system")
            return
        except errors.ApiError as error:
            problem = error
        await asyncio.sleep(0.2)
    raise AssertionError(f"the cluster's API was not there in {_READY_SECONDS:.0f} s: {problem}")
