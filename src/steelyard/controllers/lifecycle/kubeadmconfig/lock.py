"""The ConfigMap `<cluster>-lock` names the one machine that may run `kubeadm init`: a cluster starts only once."""

from __future__ import annotations

import contextlib

import orjson

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import spelling
from steelyard.kube import errors, objects, resources
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object

_INFORMATION = "lock-information"


async def acquire(client: Client, cluster: Object, machine: Object) -> bool:
    """True when the machine holds the lock now. A lock whose machine no longer exists is taken away first."""
    holder = await _holder(client, cluster)
    if holder is None:
        try:
            await client.create(resources.CONFIG_MAPS, _config_map(cluster, machine))
        except errors.AlreadyExists:
            return await _holder(client, cluster) == objects.name(machine)
        return True
    if holder == objects.name(machine):
        return True
    try:
        await client.get(capi.MACHINES, holder, objects.namespace(cluster))
    except errors.NotFound:
        await _delete(client, cluster)
        return await acquire(client, cluster, machine)
    return False


async def release(client: Client, cluster: Object, machine: Object) -> None:
    """The cluster is initialized: its first machine lets go. Nothing happens where it does not hold the lock."""
    if await _holder(client, cluster) == objects.name(machine):
        await _delete(client, cluster)


async def _holder(client: Client, cluster: Object) -> str | None:
    try:
        found = await client.get(
            resources.CONFIG_MAPS, spelling.init_lock_name(objects.name(cluster)), objects.namespace(cluster)
        )
    except errors.NotFound:
        return None
    information = objects.mapping(orjson.loads(str(objects.at(found, "data", _INFORMATION) or "{}")))
    return str(information.get("machineName") or "")


async def _delete(client: Client, cluster: Object) -> None:
    with contextlib.suppress(errors.NotFound):
        await client.delete(
            resources.CONFIG_MAPS, spelling.init_lock_name(objects.name(cluster)), objects.namespace(cluster)
        )


def _config_map(cluster: Object, machine: Object) -> Object:
    name = objects.name(cluster)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": spelling.init_lock_name(name),
            "namespace": objects.namespace(cluster),
            "labels": {wellknown.CLUSTER_NAME_LABEL: name},
            "ownerReferences": [objects.owner_reference(cluster)],
        },
        "data": {_INFORMATION: orjson.dumps({"machineName": objects.name(machine)}).decode()},
    }
