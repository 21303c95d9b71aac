"""Conditions and phase of a Machine, from what its reconcile found. Pure."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from steelyard.controllers.lifecycle import pausing, summary
from steelyard.controllers.lifecycle.machine import node as nodes
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.verdicts import Verdict

READY = "Ready"
AVAILABLE = "Available"
UP_TO_DATE = "UpToDate"
BOOTSTRAP_READY = "BootstrapConfigReady"
INFRASTRUCTURE_READY = "InfrastructureReady"
DELETING = "Deleting"
HEALTH_CHECK = "HealthCheckSucceeded"
_GONE = ("ObjectDeleted", "ObjectDoesNotExist", "NodeDeleted", "NodeDoesNotExist")
_SLOW_DELETION = datetime.timedelta(minutes=15)


@dataclass(slots=True)
class Observed:
    """What one reconcile has learned about the things around the Machine."""

    cluster: Object | None
    """None for a machine that goes after its Cluster has gone."""
    bootstrap: Object | None = None
    infrastructure: Object | None = None
    node: Object | None = None
    is_connected: bool = False
    """Whether the workload cluster's Nodes are known. Until they are (after a restart), what was known last stands."""
    is_connecting: bool = False
    """Whether they will be in a moment."""
    connection_problem: str = ""
    """Why the cluster cannot be connected to until somebody does something."""
    deleting_reason: str = "Deleting"
    deleting_message: str = "Deletion started"
    up_to_date: Verdict | None = None
    components: list[Verdict] = field(default_factory=list[Verdict])
    shows_components: bool = False
    """Whether the cluster's API shows what runs on its control-plane machines."""


def update(machine: Object, observed: Observed, now: datetime.datetime) -> float | None:
    """Sets conditions and phase on the machine; returns in how many seconds `Available` may turn true by itself."""
    found = [
        _bootstrap(machine, observed.bootstrap),
        _infrastructure(machine, observed.infrastructure),
        *_node(machine, observed),
        _deleting(machine, observed),
        pausing.NOT_PAUSED,
        *observed.components,
    ]
    if observed.up_to_date is not None:
        found.append(observed.up_to_date)
    ready = _ready(machine, found, now)
    verdicts.record(machine, [*found, ready], now)
    available, wait = _available(machine, now)
    verdicts.record(machine, [available], now)
    _set_phase(machine, now)
    return wait


def phase_of(machine: Object) -> str:
    if objects.is_being_deleted(machine):
        return "Deleting"
    initialization = objects.mapping(objects.at(machine, "status", "initialization"))
    is_provisioned = bool(initialization.get("infrastructureProvisioned"))
    if objects.at(machine, "status", "nodeRef", "name") and is_provisioned:
        return "Running"
    if objects.at(machine, "spec", "providerID"):
        return "Provisioned"
    if initialization.get("bootstrapDataSecretCreated") and not is_provisioned:
        return "Provisioning"
    return "Pending"


def _set_phase(machine: Object, now: datetime.datetime) -> None:
    phase = phase_of(machine)
    if machine["status"].get("phase") != phase:
        machine["status"]["phase"] = phase
        machine["status"]["lastUpdated"] = clocks.rfc3339(now)


def _bootstrap(machine: Object, config: Object | None) -> Verdict:
    kind = objects.at(machine, "spec", "bootstrap", "configRef", "kind")
    if not kind:
        return verdicts.true(BOOTSTRAP_READY, "DataSecretProvided")
    is_created = bool(objects.at(machine, "status", "initialization", "bootstrapDataSecretCreated"))
    if config is not None:
        fallback = (
            verdicts.true(BOOTSTRAP_READY, "Ready")
            if is_created
            else verdicts.false(BOOTSTRAP_READY, "NotReady", f"{kind} status.initialization.dataSecretCreated is false")
        )
        return summary.mirror(BOOTSTRAP_READY, config, READY, fallback)
    if objects.is_being_deleted(machine) and is_created:
        return verdicts.false(BOOTSTRAP_READY, "ObjectDeleted", f"{kind} has been deleted")
    return verdicts.false(BOOTSTRAP_READY, "ObjectDoesNotExist", f"{kind} does not exist")


def _infrastructure(machine: Object, infrastructure: Object | None) -> Verdict:
    kind = objects.at(machine, "spec", "infrastructureRef", "kind")
    is_provisioned = bool(objects.at(machine, "status", "initialization", "infrastructureProvisioned"))
    if infrastructure is not None:
        fallback = (
            verdicts.true(INFRASTRUCTURE_READY, "Ready")
            if is_provisioned
            else verdicts.false(INFRASTRUCTURE_READY, "NotReady", f"{kind} status.initialization.provisioned is false")
        )
        return summary.mirror(INFRASTRUCTURE_READY, infrastructure, READY, fallback)
    if not is_provisioned:
        return verdicts.false(INFRASTRUCTURE_READY, "ObjectDoesNotExist", f"{kind} does not exist")
    suffix = "" if objects.is_being_deleted(machine) else " while the Machine still exists"
    return verdicts.false(INFRASTRUCTURE_READY, "ObjectDeleted", f"{kind} has been deleted{suffix}")


def _node(machine: Object, observed: Observed) -> list[Verdict]:
    if observed.node is not None:
        return [nodes.readiness(observed.node), nodes.health(observed.node)]
    is_waited_for = observed.is_connecting or not objects.is_being_deleted(machine)
    if not observed.is_connected and not observed.connection_problem and is_waited_for:
        known = [verdicts.find(machine, type_) for type_ in (nodes.NODE_READY, nodes.NODE_HEALTHY)]
        if objects.at(machine, "status", "nodeRef", "name") and all(known):
            return [verdict for verdict in known if verdict is not None]
    status, reason, message = _without_node(machine, observed)
    return [Verdict(type_, status, reason, message) for type_ in (nodes.NODE_READY, nodes.NODE_HEALTHY)]


def _without_node(machine: Object, observed: Observed) -> tuple[verdicts.Status, str, str]:
    node_name = objects.at(machine, "status", "nodeRef", "name")
    provider_id = objects.at(machine, "spec", "providerID")
    if objects.is_being_deleted(machine):
        if node_name:
            return "False", "NodeDeleted", f"Node {node_name} has been deleted"
        return "Unknown", "NodeDoesNotExist", "Node does not exist"
    if provider_id and not observed.is_connected:
        return "Unknown", "ConnectionDown", observed.connection_problem or "Remote connection not established yet"
    if node_name:
        return "False", "NodeDeleted", f"Node {node_name} has been deleted while the Machine still exists"
    if provider_id:
        message = f"Waiting for a Node with spec.providerID {provider_id} to exist"
        return "Unknown", "InspectionFailed", message
    kind = objects.at(machine, "spec", "infrastructureRef", "kind")
    return "Unknown", "InspectionFailed", f"Waiting for {kind} to report spec.providerID"


def _deleting(machine: Object, observed: Observed) -> Verdict:
    if not objects.is_being_deleted(machine):
        return verdicts.false(DELETING, "NotDeleting")
    return verdicts.true(DELETING, observed.deleting_reason, observed.deleting_message)


def _ready(machine: Object, found: list[Verdict], now: datetime.datetime) -> Verdict:
    gates = [objects.mapping(gate) for gate in objects.sequence(objects.at(machine, "spec", "readinessGates"))]
    negative = {DELETING, *(str(gate["conditionType"]) for gate in gates if gate.get("polarity") == "Negative")}
    order = [DELETING, BOOTSTRAP_READY, INFRASTRUCTURE_READY, nodes.NODE_HEALTHY, HEALTH_CHECK]
    order.extend(str(gate.get("conditionType")) for gate in gates)
    parts = {verdict.type: verdict for verdict in found}
    for type_ in order:
        reported = verdicts.find(machine, type_)
        if type_ not in parts and reported is not None:
            parts[type_] = reported
    harmless: list[str] = []
    if objects.is_being_deleted(machine):
        parts[DELETING] = _deletion_in_short(machine, parts[DELETING], now)
        harmless = [type_ for type_, verdict in parts.items() if verdict.reason in _GONE]
    return summary.summarize(
        READY, parts, order, summary.READY, negative=negative, optional=(HEALTH_CHECK,), harmless=harmless
    )


def _deletion_in_short(machine: Object, deleting: Verdict, now: datetime.datetime) -> Verdict:
    since = clocks.parse_rfc3339(str(objects.metadata(machine)["deletionTimestamp"]))
    slow = " since more than 15m" if now - since > _SLOW_DELETION else ""
    return verdicts.true(DELETING, "Deleting", f"Machine deletion in progress{slow}, stage: {deleting.reason}")


def _available(machine: Object, now: datetime.datetime) -> tuple[Verdict, float | None]:
    ready = verdicts.find(machine, READY)
    if ready is None or not ready.is_true:
        return verdicts.false(AVAILABLE, "NotReady"), None
    wanted = float(objects.at(machine, "spec", "minReadySeconds") or 0)
    passed = (now - clocks.parse_rfc3339(ready.since)).total_seconds()
    if passed >= wanted:
        return verdicts.true(AVAILABLE, "Available"), None
    return verdicts.false(AVAILABLE, "WaitingForMinReadySeconds"), max(wanted - passed, 0.1)
