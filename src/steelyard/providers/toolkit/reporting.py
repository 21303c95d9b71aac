"""Writing back what became of an infrastructure object, as Cluster API's contract wants it."""

from __future__ import annotations

from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import conditions, patching
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.conditions import Status


async def report(
    client: Client,
    resource: Resource,
    obj: Object,
    *,
    provisioned: bool,
    ready: bool | Status,
    reason: str,
    message: str = "",
    more: Object | None = None,
    clock: Clock,
) -> Object:
    """One status patch, none where nothing differs. What was provisioned once stays so: Cluster API looks at it once.

    `more` are further fields of the status.
    """
    status: Object = {**objects.mapping(obj.get("status")), **(more or {})}
    was_provisioned = bool(objects.at(obj, "status", "initialization", "provisioned"))
    if provisioned or was_provisioned or "initialization" in status:
        status["initialization"] = {"provisioned": was_provisioned or provisioned}
    status["conditions"] = conditions.set_(
        obj,
        "Ready",
        ready,
        reason,
        message,
        now=clock.now(),
        observed_generation=objects.generation(obj),
    )
    return await patching.patch_status(client, resource, obj, status)
