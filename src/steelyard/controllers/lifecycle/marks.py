"""Conditions on a Machine that others than its own controller write: what a health check found, and what its owner
makes of it. Each writer sees what the others wrote, or is refused: a list of conditions is written as a whole.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection
from typing import Final

from steelyard.api.clusterapi.resources import MACHINES
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.verdicts import Verdict

HEALTH_CHECK: Final = "HealthCheckSucceeded"
OWNER_REMEDIATED: Final = "OwnerRemediated"
EXTERNALLY_REMEDIATED: Final = "ExternallyRemediated"


def is_unhealthy(machine: Object) -> bool:
    return verdicts.is_false(machine, HEALTH_CHECK)


def is_to_be_remediated(machine: Object) -> bool:
    """Whether a health check leaves it to the owner to replace the machine."""
    return is_unhealthy(machine) and verdicts.is_false(machine, OWNER_REMEDIATED)


async def put(
    client: Client,
    machine: Object,
    wanted: Collection[Verdict],
    now: datetime.datetime,
    *,
    without: Collection[str] = (),
) -> bool:
    """One patch where anything differs; says whether there was one. A machine that has gone since it was read needs
    none. Raises `errors.Conflict` where it has changed."""
    changed = objects.copy(machine)
    verdicts.record(changed, wanted, now)
    conditions = [each for each in changed["status"]["conditions"] if each.get("type") not in without]
    if conditions == objects.sequence(objects.at(machine, "status", "conditions")):
        return False
    identity = {"uid": objects.uid(machine), "resourceVersion": objects.resource_version(machine)}
    patch: Object = {"metadata": identity, "status": {"conditions": conditions}}
    try:
        await client.patch(MACHINES, objects.name(machine), patch, objects.namespace(machine), subresource="status")
    except errors.NotFound:
        return False
    return True
