"""How far a cluster has come, read from its observed objects: counts, readiness, what is waited for, what was lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from steelyard.api import troubles
from steelyard.compose import comparing
from steelyard.compose.composed import Desired
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object

_VITAL = {
    "RemoteConnectionProbe": "the cluster's API does not answer",
    "InfrastructureReady": "the cluster's infrastructure is not ready",
    "ControlPlaneAvailable": "the control plane is not available",
}
"""Conditions of the Cluster without which nothing in it can be used. How its workers are, their machines tell."""


@frozen
class Counts:
    desired: int
    ready: int
    complete: bool
    """As many as desired, all of them ready and made from the current template."""
    is_counted: bool
    """The numbers are about what is asked for now."""
    is_up_to_date: bool
    """None is of an older template; there may be too few or too many of them."""

    def to_json(self) -> Object:
        return {"desired": self.desired, "ready": self.ready, "summary": str(self)}

    def __str__(self) -> str:
        return f"{self.ready}/{self.desired}"

    def serves_as_before(self, reported: Object) -> bool:
        """Whether no fewer are ready than were when this was last reported, as far as so many are wanted still."""
        return self.ready >= min(self.desired, int(reported.get("ready") or 0))


@frozen
class Progress:
    control_plane: Counts
    workers: Counts
    infrastructure_provisioned: bool
    control_plane_initialized: bool
    endpoint: str
    trouble: str
    """What had been there and was lost, the machine or the condition with its time; empty if nothing was."""
    waiting_for: str
    """Empty when the cluster is as asked for."""
    has_pools: bool = True
    """Whether it can have workers at all."""

    @property
    def numbers(self) -> str:
        return f"control plane {self.control_plane}" + (f", workers {self.workers}" if self.has_pools else "")


def of(
    desired: Mapping[str, Desired],
    observed: Mapping[str, Object],
    machines: Sequence[Object],
    *,
    workers: Sequence[str] = ("workers",),
) -> Progress:
    """`desired` and `observed` by resource name; `workers` are the names of those that have the workers of a pool."""
    cluster = observed.get("cluster")
    initialization = objects.mapping(objects.at(cluster, "status", "initialization"))
    progress = Progress(
        control_plane=_counts(desired["control-plane"].object, observed.get("control-plane")),
        workers=_sum([_counts(desired[name].object, observed.get(name)) for name in workers]),
        infrastructure_provisioned=bool(initialization.get("infrastructureProvisioned")),
        control_plane_initialized=bool(initialization.get("controlPlaneInitialized")),
        endpoint=_endpoint(cluster),
        trouble=_lost(machines) or _unavailable(cluster),
        waiting_for="",
        has_pools=bool(workers),
    )
    return dataclasses.replace(progress, waiting_for=_waiting_for(progress, cluster, machines))


def _counts(desired: Object, observed: Object | None) -> Counts:
    replicas_asked = _replicas(desired, observed)
    status = objects.mapping(objects.at(observed, "status"))
    ready = int(status.get("readyReplicas") or 0)
    replicas = int(status.get("replicas") or 0)
    up_to_date = int(status.get("upToDateReplicas") or 0)
    is_current = _is_current(desired, observed)
    return Counts(
        desired=replicas_asked,
        ready=ready,
        complete=is_current and replicas == ready == up_to_date == replicas_asked,
        is_counted=is_current,
        is_up_to_date=replicas == up_to_date,
    )


def _replicas(desired: Object, observed: Object | None) -> int:
    """Where an autoscaler decides, what it has decided."""
    asked = objects.at(desired, "spec", "replicas")
    return int(objects.at(observed, "spec", "replicas") or 0) if asked is None else int(asked)


def _sum(pools: Sequence[Counts]) -> Counts:
    return Counts(
        desired=sum(pool.desired for pool in pools),
        ready=sum(pool.ready for pool in pools),
        complete=all(pool.complete for pool in pools),
        is_counted=all(pool.is_counted for pool in pools),
        is_up_to_date=all(pool.is_up_to_date for pool in pools),
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


def _lost(machines: Sequence[Object]) -> str:
    """The first in words, the others counted: each change of the words is a write."""
    found = [trouble for each in objects.by_name(machines) if (trouble := troubles.of(each)) is not None]
    if not found:
        return ""
    others = f"; {len(found) - 1} more in trouble" if len(found) > 1 else ""
    return f"{found[0]}{others}"


def _unavailable(cluster: Object | None) -> str:
    for type_, what in _VITAL.items():
        condition = troubles.condition(cluster, type_)
        if condition.get("status") == "False":
            return _told(what, condition)
    available = troubles.condition(cluster, "Available")
    is_for_workers = troubles.condition(cluster, "WorkersAvailable").get("status") not in (None, "True")
    if available.get("status") == "False" and not is_for_workers:
        return _told("the cluster is not available", available)
    return ""


def _told(what: str, condition: Object) -> str:
    because = f": {troubles.words(condition)}" if troubles.words(condition) else ""
    since = f", since {condition['lastTransitionTime']}" if condition.get("lastTransitionTime") else ""
    return f"{what}{because}{since}"


def _waiting_for(progress: Progress, cluster: Object | None, machines: Sequence[Object]) -> str:
    if cluster is None:
        return "the cluster's objects are being created"
    if lost := _lost(machines):
        return lost
    if not progress.infrastructure_provisioned:
        problem = troubles.problem_of(cluster)
        return "waiting for the cluster's infrastructure" + (f": {problem}" if problem else "")
    if not (progress.control_plane.complete and progress.workers.complete and _are_all_there(progress, machines)):
        return _waiting_for_machines(machines)
    if not progress.control_plane_initialized:
        return "waiting for the control plane"
    return progress.trouble


def _are_all_there(progress: Progress, machines: Sequence[Object]) -> bool:
    """The counts come a moment after the machines that they count: a cluster is complete where both say so. Where none
    is seen, nobody looked."""
    is_one_missing = 0 < len(machines) < progress.control_plane.desired + progress.workers.desired
    return not is_one_missing and all(map(troubles.is_ready, machines))


def _waiting_for_machines(machines: Sequence[Object]) -> str:
    leaving = objects.by_name(machine for machine in machines if objects.is_being_deleted(machine))
    coming = objects.by_name(
        machine for machine in machines if not troubles.is_ready(machine) and not objects.is_being_deleted(machine)
    )
    # One is named, with a problem if any has one, and the rest left to the counts: each change of the words is a write.
    if coming:
        named = next(filter(troubles.problem_of, coming), coming[0])
        problem = troubles.problem_of(named)
        return f"waiting for machine {objects.name(named)}" + (f": {problem}" if problem else "")
    if leaving:
        named = next(filter(troubles.held_by, leaving), leaving[0])
        held = troubles.held_by(named)
        return f"waiting for the removal of machine {objects.name(named)}" + (f": {held}" if held else "")
    return "waiting for machines"
