"""Objects of a ClusterResourceSet on Kubernetes' own API server: created in an order in which they can be, left alone,
made as the manifests have them when these change, and left as they are by the other strategy.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from steelyard.controllers.lifecycle.clusterresourceset import binding, manifests
from steelyard.controllers.lifecycle.clusterresourceset.applying import Applying
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.resources import CONFIG_MAPS, SERVICES, Resource
from tests.conformance import keys, upstream
from tests.ecosystem.outcome import Outcome

_NAME: Final = "Objects of ClusterResourceSets on kube-apiserver"
_DEFINED_SECONDS: Final = 20.0
"""In which a kind that one of them defines is served."""
_DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet")
_WIDGETS: Final = Resource("example.com", "v1", "widgets", "Widget", namespaced=False)
_TEXT: Final = """\
apiVersion: example.com/v1
kind: Widget
metadata: {name: w}
spec: {size: 1}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: net, namespace: kube-net, labels: {app: net}}
spec:
  selector: {matchLabels: {app: net}}
  template:
    metadata: {labels: {app: net}}
    spec:
      tolerations: [{operator: Exists}]
      containers:
      - name: c
        image: registry.example.org/net:v1
        env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: kube-net}
spec: {ports: [{port: 80}], selector: {app: net}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: cm, namespace: kube-net, creationTimestamp: null}
data: {key: one}
---
apiVersion: v1
kind: Secret
metadata: {name: sec, namespace: kube-net}
stringData: {a: b}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: net}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: v1
kind: Namespace
metadata: {name: kube-net, labels: {pod-security.kubernetes.io/enforce: privileged}}
"""
_CHANGES: Final = {"net:v1": "net:v2", "key: one": "other: two", "port: 80": "port: 81", "size: 1": "sizes: 2"}


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    return asyncio.run(_told(folder))


async def _told(folder: Path) -> Outcome:
    done: list[str] = []
    try:
        async for step in _steps(folder):
            done.append(step)  # noqa: PERF401 (those before a failure count)
    except Exception as error:  # whatever keeps a step from its end is the story
        return Outcome(_NAME, len(done), 1, "; ".join(done), f"{type(error).__name__}: {error}")
    return Outcome(_NAME, len(done), 0, "; ".join(done))


async def _steps(folder: Path) -> AsyncIterator[str]:
    (folder / "upstream").mkdir()
    keys.write(folder / "shared")
    async with upstream.running(folder / "upstream", folder / "shared") as server:
        authority = (folder / "upstream" / "ca.crt").read_bytes()
        client = HttpClient(
            Connection(server=server.url, certificate_authority=authority, token=server.tokens["admin"])
        )
        try:
            async for step in _story(client):
                yield step
        finally:
            await client.close()


async def _story(client: HttpClient) -> AsyncIterator[str]:
    async with asyncio.timeout(_DEFINED_SECONDS):
        while await _apply(client, _TEXT):  # noqa: ASYNC110 (what is waited for is seen from outside)
            await asyncio.sleep(0.5)
    yield "they are created, with a kind that one of them defines"

    service = await client.get(SERVICES, "s", "kube-net")
    assert not await _apply(client, _TEXT)
    assert (await client.get(SERVICES, "s", "kube-net"))["spec"]["clusterIP"] == service["spec"]["clusterIP"]
    yield "applying them again is no problem"

    changed = _TEXT
    for before, after in _CHANGES.items():
        assert before in changed
        changed = changed.replace(before, after)
    assert not await _apply(client, changed)
    assert (await client.get(CONFIG_MAPS, "cm", "kube-net"))["data"] == {"other": "two"}
    now = (await client.get(SERVICES, "s", "kube-net"))["spec"]
    assert (now["clusterIP"], now["ports"][0]["port"]) == (service["spec"]["clusterIP"], 81)
    daemons = await client.get(_DAEMON_SETS, "net", "kube-net")
    assert daemons["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":v2")
    assert (await client.get(_WIDGETS, "w"))["spec"] == {"sizes": 2}
    yield "what changes is changed, what is no longer said goes, and what the server chose stays"

    assert not await _apply(client, _TEXT, binding.APPLY_ONCE)
    assert (await client.get(CONFIG_MAPS, "cm", "kube-net"))["data"] == {"other": "two"}
    yield "what is there is left alone where it is to be applied once"


async def _apply(client: HttpClient, text: str, strategy: str = binding.RECONCILE) -> list[str]:
    return await Applying(client, strategy).apply(await manifests.read([text.encode()], "test"))
