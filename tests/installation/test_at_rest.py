"""What lies in the files of a platform that has made a cluster: no token, key or kubeconfig in clear."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from steelyard.api.clusterapi import resources as capi
from steelyard.kube import errors, objects
from steelyard.kube.client.http import HttpClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from tests.harness import PlatformProcess

CLUSTERS = Resource("compute.steelyard.dev", "v1alpha1", "workloadclusters", "WorkloadCluster")
CLAIM: Object = {
    "apiVersion": CLUSTERS.api_version,
    "kind": CLUSTERS.kind,
    "metadata": {"name": "shop", "namespace": "default"},
    "spec": {"parameters": {"environment": "dev", "controlPlaneReplicas": 1, "workerReplicas": 2}},
}
TEMPLATE: Object = {
    "apiVersion": capi.KUBEADM_CONFIG_TEMPLATES.api_version,
    "kind": capi.KUBEADM_CONFIG_TEMPLATES.kind,
    "metadata": {"name": "own", "namespace": "default"},
    "spec": {
        "template": {
            "spec": {
                "users": [{"name": "operator", "passwd": "hash-of-a-password"}],
                "files": [{"path": "/etc/registry", "content": "password-of-a-registry"}],
            }
        }
    },
}
SESSION_SECONDS = 60.0


async def made_cluster(client: HttpClient) -> dict[str, bytes]:
    """Every secret that a cluster brings along, by where it was found."""
    try:
        await client.create(CLUSTERS, CLAIM)
        await client.create(capi.KUBEADM_CONFIG_TEMPLATES, TEMPLATE)
        await until_ready(client)
        found = {"password of a user": b"hash-of-a-password", "content of a file": b"password-of-a-registry"}
        for config in (await client.list(capi.KUBEADM_CONFIGS, "default")).items:
            token = objects.at(config, "spec", "joinConfiguration", "discovery", "bootstrapToken", "token")
            if token:
                found[f"token of {objects.name(config)}"] = str(token).partition(".")[2].encode()
        assert len(found) >= 4
        secrets = (await client.list(SECRETS)).items
        found |= dict(private_parts(secrets))
        [kubeconfig] = [each for each in secrets if objects.name(each) == "shop-kubeconfig"]
        inside = HttpClient.from_kubeconfig(base64.b64decode(str(objects.at(kubeconfig, "data", "value"))))
        try:
            for secret in (await inside.list(SECRETS)).items:
                if part := objects.at(secret, "data", "token-secret"):
                    found[f"token-secret of {objects.name(secret)}"] = base64.b64decode(str(part))
        finally:
            await inside.close()
        return found
    finally:
        await client.close()


async def until_ready(client: HttpClient) -> None:
    deadline = time.monotonic() + SESSION_SECONDS
    while time.monotonic() < deadline:
        machines = (await client.list(capi.MACHINES, "default")).items
        if len(machines) == 3 and all(objects.at(each, "status", "nodeRef", "name") for each in machines):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the cluster is not ready")


def private_parts(secrets: Sequence[Object]) -> Iterator[tuple[str, bytes]]:
    for secret in secrets:
        for key, value in objects.mapping(secret.get("data")).items():
            place = f"{objects.name(secret)}: {key}"
            content = base64.b64decode(str(value))
            if b"PRIVATE KEY" in content and key != "value":
                yield place, content.split(b"PRIVATE KEY-----\n")[1].split(b"\n")[0]
            elif key == "value" and b"client-key-data: " in content:
                yield place, content.split(b"client-key-data: ")[1].split(b"\n")[0][60:120]


def spellings(secret: bytes) -> set[bytes]:
    """As it is, and as base64 from each of the places where it can begin in a group of three bytes."""
    encoded = {base64.b64encode(b"\0" * offset + secret)[4 if offset else 0 : -4] for offset in range(3)}
    return {secret, *(each for each in encoded if len(each) >= 12)}


def holding(directory: Path, secret: bytes) -> list[str]:
    private = {"pki", "kubeconfig"}
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [
        path.name
        for path in files
        if not private & set(path.relative_to(directory).parts)
        and any(spelling in path.read_bytes() for spelling in spellings(secret))
    ]


def test_no_credential_of_a_cluster_lies_in_clear(tmp_path: Path) -> None:
    with PlatformProcess(tmp_path) as platform:
        platform.start()
        found = asyncio.run(made_cluster(platform.client()))
        token = platform.data_dir.kubeconfig.read_text().split("token: ")[1].strip().encode()
        platform.kill()
        root = platform.data_dir.root
        assert {path.name for path in root.glob("*.db*")} >= {"steelyard.db", "steelyard.db-wal", "simulated.db"}
        clear = {place: files for place, secret in found.items() if (files := holding(root, secret))}
        assert clear == {}
        assert holding(root, token) == []
        assert holding(root, b"kubernetes-admin") == []
        assert len(found) >= 10, found.keys()


async def test_other_objects_stay_readable(tmp_path: Path) -> None:
    """What the search above relies on: it would see something that is in clear."""
    with PlatformProcess(tmp_path) as platform:
        platform.start()
        client = platform.client()
        try:
            await client.create(CLUSTERS, CLAIM)
            await client.get(CLUSTERS, "shop", "default")
        except errors.ApiError as error:
            raise AssertionError(error.message) from error
        finally:
            await client.close()
        platform.kill()
        assert "steelyard.db-wal" in holding(platform.data_dir.root, b"controlPlaneReplicas")
