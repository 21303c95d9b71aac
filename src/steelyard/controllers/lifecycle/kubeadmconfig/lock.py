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
from steelyard.kube.runtime.informer import Informer
from steelyard.kube.runtime.keys import Key

LABEL = wellknown.CLUSTER_NAME_LABEL
"""Every lock has it, and of all ConfigMaps only those with it are watched."""
_INFORMATION = "lock-information"


async def acquire(client: Client, locks: Informer, cluster: Object, machine: Object) -> bool:
    """True when the machine holds the lock now. A lock whose machine no longer exists is taken away first."""
    key = _key(cluster)
    lock = locks.get(*key)
    if lock is None:
        if await _create(client, cluster, machine):
            return True
        lock = await client.get(resources.CONFIG_MAPS, key.name, key.namespace)
    holder = _holder(lock)
    if holder == objects.name(machine):
        return True
    try:
        await client.get(capi.MACHINES, holder, objects.namespace(cluster))
    except errors.NotFound:
        await _delete(client, cluster)
        return await _create(client, cluster, machine)
    return False


async def release(client: Client, locks: Informer, cluster: Object, machine: Object) -> None:
    """The cluster is initialized: its first machine lets go. Nothing happens where it does not hold the lock."""
    lock = locks.get(*_key(cluster))
    if lock is not None and _holder(lock) == objects.name(machine):
        await _delete(client, cluster)


def _key(cluster: Object) -> Key:
    return Key(objects.namespace(cluster), spelling.init_lock_name(objects.name(cluster)))


def _holder(lock: Object) -> str:
    information = objects.mapping(orjson.loads(str(objects.at(lock, "data", _INFORMATION) or "{}")))
    return str(information.get("machineName") or "")


async def _create(client: Client, cluster: Object, machine: Object) -> bool:
    """False where another was faster."""
    try:
        await client.create(resources.CONFIG_MAPS, _config_map(cluster, machine))
    except errors.AlreadyExists:
        return False
    return True


async def _delete(client: Client, cluster: Object) -> None:
    key = _key(cluster)
    with contextlib.suppress(errors.NotFound):
        await client.delete(resources.CONFIG_MAPS, key.name, key.namespace)


def _config_map(cluster: Object, machine: Object) -> Object:
    key = _key(cluster)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {LABEL: objects.name(cluster)},
            "ownerReferences": [objects.owner_reference(cluster)],
        },
        "data": {_INFORMATION: orjson.dumps({"machineName": objects.name(machine)}).decode()},
    }
