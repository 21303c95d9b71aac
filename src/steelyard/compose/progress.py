"""How far a cluster has come, read from its observed objects: counts, readiness, and in words what is waited for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from steelyard.compose import comparing
from steelyard.compose.composed import Desired
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object


@frozen
class Counts:
    desired: int
    ready: int
    complete: bool
    """As many as desired, all of them ready and made from the current template."""

    def to_json(self) -> Object:
        return {"desired": self.desired, "ready": self.ready, "summary": str(self)}

    def __str__(self) -> str:
        return f"{self.ready}/{self.desired}"


@frozen
class Progress:
    control_plane: Counts
    workers: Counts
    infrastructure_provisioned: bool
    control_plane_initialized: bool
    available: bool
    """False only where the Cluster itself says so."""
    endpoint: str
    waiting_for: str
    """Empty when the cluster is as asked for."""


def of(
    desired: Mapping[str, Desired],
    observed: Mapping[str, Object],
    machines: Sequence[Object],
) -> Progress:
    """`desired` and `observed` by resource name; of the desired parts, `control-plane` and `workers` are looked at."""
    cluster = observed.get("cluster")
    initialization = objects.mapping(objects.at(cluster, "status", "initialization"))
    progress = Progress(
        control_plane=_counts(desired["control-plane"].object, observed.get("control-plane")),
        workers=_counts(desired["workers"].object, observed.get("workers")),
        infrastructure_provisioned=bool(initialization.get("infrastructureProvisioned")),
        control_plane_initialized=bool(initialization.get("controlPlaneInitialized")),
        available=_condition(cluster, "Available").get("status") != "False",
        endpoint=_endpoint(cluster),
        waiting_for="",
    )
    return dataclasses.replace(progress, waiting_for=_waiting_for(progress, cluster, machines))


def is_machine_ready(machine: Object) -> bool:
    return _condition(machine, "Ready").get("status") == "True" and not objects.is_being_deleted(machine)


def has_machine_failed(machine: Object) -> bool:
    return objects.at(machine, "status", "phase") == "Failed"


def _counts(desired: Object, observed: Object | None) -> Counts:
    replicas_asked = int(desired["spec"]["replicas"])
    status = objects.mapping(objects.at(observed, "status"))
    ready = int(status.get("readyReplicas") or 0)
    replicas = int(status.get("replicas") or 0)
    up_to_date = int(status.get("upToDateReplicas") or 0)
    return Counts(
        desired=replicas_asked,
        ready=ready,
        complete=_is_current(desired, observed) and replicas == ready == up_to_date == replicas_asked,
    )


def _is_current(desired: Object, observed: Object | None) -> bool:
    """Whether the counts are about what is desired now: it has been applied, and its controller has seen it."""
    if observed is None or objects.is_being_deleted(observed) or not observed.get("status"):
        return False
    if not comparing.covers(observed.get("spec"), desired["spec"]):
        return False
    seen = objects.at(observed, "status", "observedGeneration")
    return seen is None or int(seen) >= objects.generation(observed)


def _endpoint(cluster: Object | None) -> str:
    endpoint = objects.mapping(objects.at(cluster, "spec", "controlPlaneEndpoint"))
    host, port = endpoint.get("host"), endpoint.get("port")
    if not host or not port:
        return ""
    return f"https://[{host}]:{port}" if ":" in str(host) else f"https://{host}:{port}"


def _waiting_for(progress: Progress, cluster: Object | None, machines: Sequence[Object]) -> str:
    if cluster is None:
        return "the cluster's objects are being created"
    failed = [machine for machine in machines if has_machine_failed(machine)]
    if failed:
        return f"machine {objects.name(failed[0])} has failed{_because(failed[0])}"
    if not progress.infrastructure_provisioned:
        return "waiting for the cluster's infrastructure"
    if not (progress.control_plane.complete and progress.workers.complete):
        return _waiting_for_machines(machines)
    if not progress.control_plane_initialized:
        return "waiting for the control plane"
    if not progress.available:
        return f"the cluster is not available{_because(cluster, 'Available')}"
    return ""


def _waiting_for_machines(machines: Sequence[Object]) -> str:
    leaving = objects.by_name(machine for machine in machines if objects.is_being_deleted(machine))
    coming = objects.by_name(
        machine for machine in machines if not is_machine_ready(machine) and not objects.is_being_deleted(machine)
    )
    # One is named and the rest left to the counts: each change of the words is a write.
    if coming:
        return f"waiting for machine {objects.name(coming[0])}"
    if leaving:
        return f"waiting for the removal of machine {objects.name(leaving[0])}"
    return "waiting for machines"


def _because(obj: Object, condition: str = "Ready") -> str:
    message = str(_condition(obj, condition).get("message") or "")
    return f": {message}" if message else ""


def _condition(obj: Object | None, type_: str) -> Object:
    conditions = map(objects.mapping, objects.sequence(objects.at(obj, "status", "conditions")))
    return next((condition for condition in conditions if condition.get("type") == type_), dict[str, object]())
