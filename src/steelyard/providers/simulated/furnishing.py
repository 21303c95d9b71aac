"""What kubeadm leaves in a cluster for others to find: its configuration, and the pods of a control-plane machine.

Nothing runs in these pods. They are what Cluster API's own control-plane manager looks at before it goes on: the
configuration says that the cluster is there, pods that are ready say how a machine is, and the names of the pods are
where it forwards ports to (`podports.py`). Our own lifecycle is told by a label not to do that: to ask each cluster's
one member through its API would be nothing but work.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Coroutine, Sequence
from typing import Any, Final

import yaml

from steelyard.api.clusterapi import wellknown
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, Resource
from steelyard.kube.runtime import logs

NAMESPACE: Final = "kube-system"
API_SERVER, ETCD = "kube-apiserver", "etcd"
_COMPONENTS: Final = (API_SERVER, "kube-controller-manager", "kube-scheduler")
_CONFIGURATION: Final = "kubeadm-config"
_DOCUMENT: Final = "ClusterConfiguration"
_PODS: Final = Resource("", "v1", "pods", "Pod")
_RUNNING: Final = "Running"
_RAN: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")

_PATIENCE_SECONDS: Final = 5.0

_log = logs.get(__name__)


def pod_name(component: str, node: str) -> str:
    return f"{component}-{node}"


async def is_configured(client: Client) -> bool:
    try:
        await client.get(CONFIG_MAPS, _CONFIGURATION, NAMESPACE)
    except errors.NotFound:
        return False
    return True


async def configure(client: Client, configuration: Object) -> None:
    """kubeadm's ConfigMap, from its ClusterConfiguration. One that is there stays as it is."""
    text = yaml.dump(configuration, Dumper=yaml.CSafeDumper, sort_keys=True, allow_unicode=True)
    found: Object = {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {"name": _CONFIGURATION, "namespace": NAMESPACE},
        "data": {_DOCUMENT: text},
    }
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(CONFIG_MAPS, found)


def minimal(*, version: str, endpoint: str, service_networks: str) -> Object:
    """The configuration of a cluster of which nothing else is known any more."""
    return {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": _DOCUMENT,
        "kubernetesVersion": version,
        "controlPlaneEndpoint": endpoint,
        "networking": {"serviceSubnet": service_networks} if service_networks else {},
    }


async def add_pods(
    client: Client, node: str, address: str, *, version: str, with_etcd: bool, now: datetime.datetime
) -> None:
    """Those of a control-plane machine, all ready. Again: only what is missing of it happens."""
    components = (*_COMPONENTS, ETCD) if with_etcd else _COMPONENTS
    await asyncio.gather(*(_add(client, _pod(each, node, address, version, now)) for each in components))


async def remove_pods(client: Client, node: str) -> None:
    """When the machine is gone; nothing else notices that they are."""
    await asyncio.gather(*(_remove(client, pod_name(each, node)) for each in (*_COMPONENTS, ETCD)))


async def attempt(work: Coroutine[Any, Any, None]) -> bool:
    """Whether it was done. On a real machine these pods do not depend on what the cluster's webhooks say of them: no
    machine waits for it, and what was refused or took too long is tried again."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await work
    except (errors.ApiError, TimeoutError) as error:
        _log.warning("pods of a control plane cannot be written", error=str(error) or "the cluster's API is slow")
        return False
    return True


async def _add(client: Client, pod: Object) -> None:
    try:
        found = await client.create(_PODS, pod)
    except errors.AlreadyExists:
        found = await client.get(_PODS, objects.name(pod), NAMESPACE)
    if objects.at(found, "status", "phase") != _RUNNING:
        # What comes with a new pod is dropped, as by any API server; a process that ended here left it at that.
        status: Object = {"status": pod["status"]}
        await client.patch(_PODS, objects.name(pod), status, NAMESPACE, subresource="status")


async def _remove(client: Client, name: str) -> None:
    with contextlib.suppress(errors.NotFound):
        await client.delete(_PODS, name, NAMESPACE)


def _pod(component: str, node: str, address: str, version: str, now: datetime.datetime) -> Object:
    """As the kubelet shows what it runs from a file."""
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    image = f"registry.k8s.io/{component}:{version.replace('+', '_') if component != ETCD else 'simulated'}"
    conditions: Sequence[Object] = [{"type": type_, "status": "True", "lastTransitionTime": time} for type_ in _RAN]
    container: Object = {"name": component, "image": image, "imageID": "", "ready": True, "restartCount": 0}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(component, node),
            "namespace": NAMESPACE,
            "labels": {
                "component": component,
                "tier": "control-plane",
                **({wellknown.ETCD_LABEL: wellknown.UNASKED} if component == ETCD else {}),
            },
            "annotations": {
                "kubernetes.io/config.mirror": "simulated",
                "kubernetes.io/config.source": "file",
            },
        },
        "spec": {
            "nodeName": node,
            "hostNetwork": True,
            "containers": [{"name": component, "image": image}],
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {
            "phase": _RUNNING,
            "hostIP": address,
            "podIP": address,
            "startTime": time,
            "conditions": conditions,
            "containerStatuses": [{**container, "started": True, "state": {"running": {"startedAt": time}}}],
        },
    }
