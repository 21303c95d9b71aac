"""Counters, phase and conditions of a Cluster. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field

from steelyard.controllers.lifecycle import contract, pausing, summary
from steelyard.controllers.lifecycle.machineset import status as machines_status
from steelyard.controllers.lifecycle.summary import Reasons
from steelyard.controllers.lifecycle.view import is_control_plane_machine
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.verdicts import Verdict

_COUNTERS = ("replicas", "readyReplicas", "availableReplicas", "upToDateReplicas")
_ROLLING_OUT = Reasons("RollingOut", "RollingOutUnknown", "NotRollingOut")
_SCALING_UP = Reasons("ScalingUp", "ScalingUpUnknown", "NotScalingUp")
_SCALING_DOWN = Reasons("ScalingDown", "ScalingDownUnknown", "NotScalingDown")
_REMEDIATING = Reasons("Remediating", "RemediatingUnknown", "NotRemediating")
_GONE = ("ObjectDeleted", "ObjectDoesNotExist")


@dataclass(slots=True)
class Observed:
    """What one reconcile has learned about the parts of the Cluster."""

    infrastructure: Object | None = None
    control_plane: Object | None = None
    machine_deployments: Sequence[Object] = ()
    machine_sets: Sequence[Object] = ()
    machines: Sequence[Object] = ()
    is_connected: bool = False
    connection_problem: str = ""
    """Why the cluster cannot be reached, and what to do where somebody has to do something."""
    problems: list[str] = field(default_factory=list[str])
    deleting_reason: str = "Deleting"
    deleting_message: str = ""

    @property
    def workers(self) -> list[Object]:
        return [each for each in self.machines if not is_control_plane_machine(each)]

    @property
    def control_plane_machines(self) -> list[Object]:
        return [each for each in self.machines if is_control_plane_machine(each)]


def update(cluster: Object, observed: Observed, now: datetime.datetime) -> None:
    status = cluster.setdefault("status", {})
    status["phase"] = phase_of(cluster)
    _count(cluster, observed)
    parts = [each for each in (observed.control_plane, *observed.machine_deployments) if each is not None]
    found = [
        _connection(cluster, observed),
        _infrastructure(cluster, observed),
        _initialized(cluster),
        _control_plane(cluster, observed),
        _workers(observed),
        machines_status.machines_ready(observed.control_plane_machines, "ControlPlaneMachinesReady"),
        machines_status.machines_ready(observed.workers, "WorkerMachinesReady"),
        machines_status.machines_up_to_date(observed.control_plane_machines, "ControlPlaneMachinesUpToDate"),
        machines_status.machines_up_to_date(observed.workers, "WorkerMachinesUpToDate"),
        _merged("RollingOut", parts, _ROLLING_OUT),
        _merged("ScalingUp", parts, _SCALING_UP),
        _merged("ScalingDown", parts, _SCALING_DOWN),
        _merged("Remediating", parts, _REMEDIATING),
        _deleting(cluster, observed),
        pausing.NOT_PAUSED,
    ]
    verdicts.record(cluster, [*found, _available(cluster, found)], now)


def phase_of(cluster: Object) -> str:
    if objects.is_being_deleted(cluster):
        return "Deleting"
    is_provisioned = objects.at(cluster, "status", "initialization", "infrastructureProvisioned")
    if is_provisioned and contract.endpoint(cluster):
        return "Provisioned"
    spec = objects.mapping(cluster.get("spec"))
    return "Provisioning" if spec.get("infrastructureRef") or spec.get("controlPlaneRef") else "Pending"


def _count(cluster: Object, observed: Observed) -> None:
    status = cluster["status"]
    control_plane = observed.control_plane
    if control_plane is not None:
        counted: Object = {name: objects.at(control_plane, "status", name) for name in _COUNTERS}
        counted["desiredReplicas"] = objects.at(control_plane, "spec", "replicas")
        status["controlPlane"] = {name: value for name, value in counted.items() if value is not None}
    else:
        status.pop("controlPlane", None)
    groups = [*observed.machine_deployments]
    groups.extend(each for each in observed.machine_sets if objects.controller_of(each) is None)
    if groups:
        workers: Object = {
            name: sum(int(objects.at(group, "status", name) or 0) for group in groups) for name in _COUNTERS
        }
        workers["desiredReplicas"] = sum(
            1 if (value := objects.at(group, "spec", "replicas")) is None else int(value) for group in groups
        )
        status["workers"] = workers
    else:
        status.pop("workers", None)


def _connection(cluster: Object, observed: Observed) -> Verdict:
    type_ = "RemoteConnectionProbe"
    if observed.connection_problem:
        return verdicts.false(type_, "ProbeFailed", observed.connection_problem)
    if observed.is_connected:
        return verdicts.true(type_, "ProbeSucceeded")
    before = verdicts.find(cluster, type_)
    if before is not None:
        return before
    return verdicts.false(type_, "ProbeFailed", "Remote connection not established yet")


def _infrastructure(cluster: Object, observed: Observed) -> Verdict:
    type_ = "InfrastructureReady"
    kind = objects.at(cluster, "spec", "infrastructureRef", "kind")
    is_provisioned = bool(objects.at(cluster, "status", "initialization", "infrastructureProvisioned"))
    if not kind:
        return verdicts.true(type_, "Ready")
    if observed.infrastructure is not None:
        fallback = (
            verdicts.true(type_, "Ready")
            if is_provisioned
            else verdicts.false(type_, "NotReady", f"{kind} status.initialization.provisioned is false")
        )
        return summary.mirror(type_, observed.infrastructure, "Ready", fallback)
    return _missing(cluster, type_, str(kind), existed=is_provisioned, problems=observed.problems)


def _control_plane(cluster: Object, observed: Observed) -> Verdict:
    type_ = "ControlPlaneAvailable"
    kind = objects.at(cluster, "spec", "controlPlaneRef", "kind")
    is_initialized = bool(objects.at(cluster, "status", "initialization", "controlPlaneInitialized"))
    if observed.control_plane is not None:
        fallback = (
            verdicts.true(type_, "Available")
            if is_initialized
            else verdicts.false(type_, "NotAvailable", f"{kind} status.initialization.controlPlaneInitialized is false")
        )
        return summary.mirror(type_, observed.control_plane, "Available", fallback)
    if not kind:
        return (
            verdicts.true(type_, "Available")
            if is_initialized
            else verdicts.false(type_, "NotAvailable", "Waiting for the first control plane machine to have a Node")
        )
    return _missing(cluster, type_, str(kind), existed=is_initialized, problems=observed.problems)


def _missing(cluster: Object, type_: str, kind: str, *, existed: bool, problems: Sequence[str]) -> Verdict:
    if not existed:
        return verdicts.false(type_, "ObjectDoesNotExist", "; ".join(problems) or f"{kind} does not exist")
    suffix = "" if objects.is_being_deleted(cluster) else " while the cluster still exists"
    return verdicts.false(type_, "ObjectDeleted", f"{kind} has been deleted{suffix}")


def _initialized(cluster: Object) -> Verdict:
    if objects.at(cluster, "status", "initialization", "controlPlaneInitialized"):
        return verdicts.true("ControlPlaneInitialized", "Initialized")
    return verdicts.false("ControlPlaneInitialized", "NotInitialized", "Control plane not yet initialized")


def _workers(observed: Observed) -> Verdict:
    if not observed.machine_deployments:
        return verdicts.true("WorkersAvailable", "NoWorkers")
    return summary.aggregate("WorkersAvailable", observed.machine_deployments, "Available", summary.AVAILABLE)


def _merged(type_: str, parts: Sequence[Object], reasons: Reasons) -> Verdict:
    """A condition for which true is the exception: what is happening, in any part of the cluster."""
    reporting = [each for each in parts if verdicts.find(each, type_) is not None]
    if not reporting:
        return verdicts.false(type_, reasons.good)
    return summary.aggregate(type_, reporting, type_, reasons, negative=True, target_is_negative=True)


def _deleting(cluster: Object, observed: Observed) -> Verdict:
    if not objects.is_being_deleted(cluster):
        return verdicts.false("Deleting", "NotDeleting")
    return verdicts.true("Deleting", observed.deleting_reason, observed.deleting_message)


def _available(cluster: Object, found: Sequence[Verdict]) -> Verdict:
    gates = [objects.mapping(gate) for gate in objects.sequence(objects.at(cluster, "spec", "availabilityGates"))]
    negative = {"Deleting", *(str(gate["conditionType"]) for gate in gates if gate.get("polarity") == "Negative")}
    order = [
        "Deleting",
        "RemoteConnectionProbe",
        "InfrastructureReady",
        "ControlPlaneAvailable",
        "WorkersAvailable",
        *(str(gate.get("conditionType")) for gate in gates),
    ]
    parts = {verdict.type: verdict for verdict in found}
    for type_ in order:
        reported = verdicts.find(cluster, type_)
        if type_ not in parts and reported is not None:
            parts[type_] = reported
    harmless: list[str] = []
    if objects.is_being_deleted(cluster):
        harmless = [type_ for type_, verdict in parts.items() if verdict.reason in _GONE]
        harmless.append("RemoteConnectionProbe")
    return summary.summarize("Available", parts, order, summary.AVAILABLE, negative=negative, harmless=harmless)
