"""Volumes that are still attached to a Node: its machine goes only without them, or a disk could go with it.

Those of pods that stay on the Node, as of DaemonSets, are not waited for.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from steelyard.controllers.lifecycle.machine import drain
from steelyard.controllers.lifecycle.workload import Connection
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

ATTACHMENTS = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
_NAMES_SHOWN = 3


async def attached(connection: Connection, node: Object, now: datetime.datetime) -> str:
    """What is waited for, a line for each kind; empty where nothing is."""
    reported = {
        str(each.get("name"))
        for each in map(objects.mapping, objects.sequence(objects.at(node, "status", "volumesAttached")))
    }
    named = {
        str(objects.at(each, "spec", "source", "persistentVolumeName") or objects.name(each))
        for each in await _all(connection, ATTACHMENTS)
        if objects.at(each, "spec", "nodeName") == objects.name(node) and objects.at(each, "status", "attached")
    }
    if not reported and not named:
        return ""
    staying = await _claims_that_stay(connection, node, now)
    claims: set[str] = set()
    unclaimed: set[str] = set()
    for volume in await _all(connection, VOLUMES):
        handle = _handle(volume)
        if handle not in reported and objects.name(volume) not in named:
            continue
        reported.discard(handle)
        named.discard(objects.name(volume))
        claim = objects.mapping(objects.at(volume, "spec", "claimRef"))
        if claim.get("kind") == "PersistentVolumeClaim":
            claims.add(f"{claim.get('namespace')}/{claim.get('name')}")
        else:
            unclaimed.add(objects.name(volume))
    return "".join(
        f"\n* {title}: {_listed(names)}"
        for title, names in (
            ("PersistentVolumeClaims", claims - staying),
            ("PersistentVolumes without a .spec.claimRef to a PersistentVolumeClaim", unclaimed),
            ("Node with .status.volumesAttached entries not matching a PersistentVolume", reported),
            ("VolumeAttachment with .spec.source.persistentVolumeName not matching a PersistentVolume", named),
        )
        if names
    )


async def _claims_that_stay(connection: Connection, node: Object, now: datetime.datetime) -> set[str]:
    return {
        f"{objects.namespace(pod)}/{name}"
        for pod, behaviour in await drain.pods_of(connection, node, now)
        if behaviour == "stay"
        for volume in map(objects.mapping, objects.sequence(objects.at(pod, "spec", "volumes")))
        if (name := objects.at(volume, "persistentVolumeClaim", "claimName"))
    }


async def _all(connection: Connection, resource: Resource) -> Iterable[Object]:
    try:
        return (await connection.client.list(resource)).items
    except errors.NotFound:
        return ()


def _handle(volume: Object) -> str:
    """As a Node names it."""
    csi = objects.mapping(objects.at(volume, "spec", "csi"))
    return f"kubernetes.io/csi/{csi.get('driver')}^{csi.get('volumeHandle')}" if csi else ""


def _listed(names: set[str]) -> str:
    more = f", ... ({len(names) - _NAMES_SHOWN} more)" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(sorted(names)[:_NAMES_SHOWN]) + more
