"""What a cluster must know of a new version or configuration before the first machine with it joins.

kubeadm reads what a joining control plane is to be like from a ConfigMap in the cluster, and what runs on every Node is
in there with the image of the version that the cluster was made with. Machines that carry their images with them have
only those of their own version: so a Node gets kube-proxy of the version that its machine has, old ones keep theirs
until they are replaced, and CoreDNS follows when the whole control plane has the new version. Of these objects
simulated clusters have the ConfigMap alone; what a cluster has not is not told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import yaml

from steelyard.controllers.lifecycle import contract
from steelyard.controllers.lifecycle.kubeadmconfig import kubeadm
from steelyard.kube import errors, objects, plainyaml
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, Resource
from steelyard.kube.runtime import logs

SKIP_KUBE_PROXY: Final = "controlplane.cluster.x-k8s.io/skip-kube-proxy"
SKIP_COREDNS: Final = "controlplane.cluster.x-k8s.io/skip-coredns"
_NAMESPACE: Final = "kube-system"
_CONFIGURATION: Final = "kubeadm-config"
_DOCUMENT: Final = "ClusterConfiguration"
_DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet")
_DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
_FOLLOWING: Final = (
    "kubernetesVersion",
    "apiServer",
    "controllerManager",
    "scheduler",
    "imageRepository",
    "featureGates",
)
"""Fields of kubeadm's configuration in which a control plane may change; its name, networks and address never do."""

_log = logs.get(__name__)


class NotTold(Exception):
    """The cluster does not know of the change yet, so no machine with it may join; the message says why."""


async def announce(client: Client, control_plane: Object, cluster: Object) -> None:
    """To be called before a machine joins; writes nothing where the cluster knows already."""
    try:
        await _configure(client, control_plane, cluster)
        if SKIP_KUBE_PROXY not in objects.annotations(control_plane):
            await _change_kube_proxy(client, _version(control_plane))
    except errors.ServiceUnavailable as error:
        raise NotTold(f"the cluster cannot be told of the new machine: {error.message}") from error


async def follow(client: Client, control_plane: Object, nodes: Sequence[Object]) -> None:
    """What comes after the last old control-plane machine is gone. `nodes` are those of the new ones."""
    if SKIP_COREDNS in objects.annotations(control_plane) or not nodes:
        return
    found = await _find(client, _DEPLOYMENTS, "coredns")
    current = _image_of(found, "coredns")
    carried = [_carried(node, "coredns") for node in nodes]
    offered = set(carried[0]).intersection(*carried[1:])
    if not current or not offered or current in offered:
        return
    # The newest that all of them have; where it is fetched instead of carried, nothing here concerns it.
    wanted = max(offered, key=lambda image: [int(part) if part.isdigit() else 0 for part in _tag(image).split(".")])
    await _change_image(client, _DEPLOYMENTS, found, "coredns", wanted)


async def _configure(client: Client, control_plane: Object, cluster: Object) -> None:
    held = await _find(client, CONFIG_MAPS, _CONFIGURATION)
    text = str(objects.at(held, "data", _DOCUMENT) or "")
    if not text:
        return
    try:
        current = objects.mapping(plainyaml.load(text))
    except plainyaml.Unreadable as error:
        raise NotTold(
            f"ConfigMap {_NAMESPACE}/{_CONFIGURATION} in the cluster is not readable, and kubeadm could not join with "
            f"it: {error}. Correct it"
        ) from error
    wanted = _followed(current, control_plane, cluster)
    if wanted != current:
        document = yaml.dump(wanted, Dumper=yaml.CSafeDumper, sort_keys=True, allow_unicode=True)
        patch: Object = {
            "metadata": {"resourceVersion": objects.resource_version(held)},
            "data": {_DOCUMENT: document},
        }
        await client.patch(CONFIG_MAPS, _CONFIGURATION, patch, _NAMESPACE)
        _log.info("kubeadm's configuration in the cluster follows", version=_version(control_plane))


def _followed(current: Object, control_plane: Object, cluster: Object) -> Object:
    """The cluster's configuration with what the control plane says now; what kubeadm has filled in stays."""
    spec = objects.mapping(objects.at(control_plane, "spec", "kubeadmConfigSpec"))
    wanted = kubeadm.cluster_document(
        spec, cluster, version=_version(control_plane), endpoint=contract.endpoint_text(cluster)
    )
    result: Object = {**current, "apiVersion": wanted["apiVersion"]}
    for name in _FOLLOWING:
        if wanted.get(name):
            result[name] = wanted[name]
        elif name != "imageRepository":
            # kubeadm writes an empty one, or none.
            result = {**result, name: {}} if current.get(name) else result
    local = objects.mapping(objects.at(wanted, "etcd", "local"))
    if local:
        etcd = objects.mapping(objects.at(current, "etcd", "local"))
        kept = {name: etcd[name] for name in ("dataDir",) if name in etcd}
        result["etcd"] = {"local": {**kept, **local}}
    if wanted.get("dns"):
        result["dns"] = wanted["dns"]
    return result


async def _change_kube_proxy(client: Client, version: str) -> None:
    found = await _find(client, _DAEMON_SETS, "kube-proxy")
    current = _image_of(found, "kube-proxy")
    wanted = f"{_repository(current)}:{version.replace('+', '_')}"
    if current and current != wanted:
        # On Nodes that exist nothing changes: they may not have the image.
        strategy: Object = {"type": "OnDelete", "rollingUpdate": None}
        await _change_image(client, _DAEMON_SETS, found, "kube-proxy", wanted, more={"updateStrategy": strategy})


async def _change_image(
    client: Client, resource: Resource, found: Object, container: str, image: str, *, more: Object | None = None
) -> None:
    containers = [
        {**each, "image": image} if each.get("name") == container else each for each in map(dict, _containers(found))
    ]
    patch: Object = {
        "metadata": {"resourceVersion": objects.resource_version(found)},
        "spec": {**(more or {}), "template": {"spec": {"containers": containers}}},
    }
    await client.patch(resource, objects.name(found), patch, _NAMESPACE)
    _log.info("image of what the cluster itself runs follows", name=container, image=image)


async def _find(client: Client, resource: Resource, name: str) -> Object:
    """Empty where there is none."""
    try:
        return await client.get(resource, name, _NAMESPACE)
    except errors.NotFound:
        return {}


def _containers(found: Object) -> list[Object]:
    listed = objects.sequence(objects.at(found, "spec", "template", "spec", "containers"))
    return [objects.mapping(each) for each in listed]


def _image_of(found: Object, container: str) -> str:
    return next((str(each.get("image") or "") for each in _containers(found) if each.get("name") == container), "")


def _carried(node: Object, name: str) -> list[str]:
    listed = cast("list[object]", objects.sequence(objects.at(node, "status", "images")))
    names = [str(image) for each in listed for image in objects.sequence(objects.mapping(each).get("names"))]
    return [image for image in names if _repository(image).endswith(f"/{name}") and "@" not in image]


def _repository(image: str) -> str:
    """
    >>> _repository("registry.k8s.io/kube-proxy:v1.34.4")
    'registry.k8s.io/kube-proxy'
    """
    before, _, after = image.partition("@")[0].rpartition(":")
    return before if before and "/" not in after else image


def _tag(image: str) -> str:
    return image[len(_repository(image)) + 1 :].removeprefix("v")


def _version(control_plane: Object) -> str:
    return str(objects.at(control_plane, "spec", "version") or "")
