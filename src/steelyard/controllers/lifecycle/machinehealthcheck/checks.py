"""Whether a machine is healthy, and when it may turn out not to be. Pure.

| the machine                                         | is                                            |
|-----------------------------------------------------|-----------------------------------------------|
| is marked by cluster.x-k8s.io/remediate-machine     | unhealthy                                     |
| had a Node, which is gone                           | unhealthy                                     |
| is a worker before the control plane is initialized | not judged                                    |
| is of a cluster whose infrastructure is not ready   | not judged                                    |
| has no Node yet                                     | unhealthy after nodeStartupTimeoutSeconds     |
| has a Node with one of the unhealthyNodeConditions  | unhealthy once that has lasted timeoutSeconds |
| has another Node                                    | healthy                                       |
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Final

from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import marks
from steelyard.controllers.lifecycle.kubeadmconfig.kubeadm import duration
from steelyard.controllers.lifecycle.view import is_control_plane_machine
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.verdicts import Verdict

_STARTUP_SECONDS: Final = 600


@frozen
class Checks:
    """`spec.checks` of a MachineHealthCheck."""

    startup_seconds: int = _STARTUP_SECONDS
    """0 where a Node may take as long as it likes."""
    conditions: Sequence[tuple[str, str, int]] = ()
    """Type, status, and the seconds for which a Node may report that."""

    @classmethod
    def of(cls, check: Object) -> Checks:
        spec = objects.mapping(objects.at(check, "spec", "checks"))
        startup = spec.get("nodeStartupTimeoutSeconds")
        found = map(objects.mapping, objects.sequence(spec.get("unhealthyNodeConditions")))
        return cls(
            _STARTUP_SECONDS if startup is None else int(startup),
            [(str(each["type"]), str(each["status"]), int(each.get("timeoutSeconds") or 0)) for each in found],
        )


@frozen
class Finding:
    """Neither healthy nor unhealthy is a machine that is still given time, or that is not looked at."""

    machine: Object
    is_healthy: bool = False
    verdict: Verdict | None = None
    """What the machine's condition is to say; None where nothing is known yet."""
    look_again: float | None = None
    """Seconds until time runs out."""

    @property
    def is_unhealthy(self) -> bool:
        return self.verdict is not None and self.verdict.status == "False"


def targets(machines: Sequence[Object]) -> list[Object]:
    """Those of the machines that the check may judge: neither paused nor exempt."""
    exempt = (wellknown.PAUSED_ANNOTATION, wellknown.SKIP_REMEDIATION_ANNOTATION)
    return [each for each in machines if not any(name in objects.annotations(each) for name in exempt)]


def examine(machine: Object, node: Object | None, cluster: Object, checks: Checks, now: datetime.datetime) -> Finding:
    """`node` is the machine's; None where the cluster has none of it."""
    if wellknown.REMEDIATE_MACHINE_ANNOTATION in objects.annotations(machine):
        message = f"marked for remediation via {wellknown.REMEDIATE_MACHINE_ANNOTATION} annotation"
        return _unhealthy(machine, "HasRemediateAnnotation", message)
    node_name = objects.at(machine, "status", "nodeRef", "name")
    is_initialized = bool(objects.at(cluster, "status", "initialization", "controlPlaneInitialized"))
    if is_initialized and node_name and node is None:
        return _unhealthy(machine, "NodeDeleted", f"Node {node_name} has been deleted")
    may_be_judged = is_initialized or is_control_plane_machine(machine)
    if not may_be_judged or not verdicts.is_true(cluster, "InfrastructureReady"):
        return Finding(machine)
    if node is None:
        return _without_node(machine, cluster, checks.startup_seconds, now)
    return _with_node(machine, node, checks, now)


def _without_node(machine: Object, cluster: Object, seconds: int, now: datetime.datetime) -> Finding:
    if not seconds:
        return Finding(machine)
    since = _waits_since(machine, cluster, now)
    left = seconds - (now - since).total_seconds()
    if left > 0:
        return Finding(machine, look_again=left)
    return _unhealthy(machine, "NodeStartupTimeout", f"Node failed to report startup in {duration(seconds)}")


def _waits_since(machine: Object, cluster: Object, now: datetime.datetime) -> datetime.datetime:
    """Since it was made, or since the last thing was there that it needed before it could start."""
    created = objects.metadata(machine).get("creationTimestamp")
    moments = [clocks.parse_rfc3339(str(created)) if created else now]
    for obj, type_ in (
        (cluster, "ControlPlaneInitialized"),
        (cluster, "InfrastructureReady"),
        (machine, "InfrastructureReady"),
    ):
        found = verdicts.find(obj, type_)
        if found is not None and found.is_true and found.since:
            moments.append(clocks.parse_rfc3339(found.since))
    return max(moments)


def _with_node(machine: Object, node: Object, checks: Checks, now: datetime.datetime) -> Finding:
    reported = {
        str(each.get("type")): each
        for each in map(objects.mapping, objects.sequence(objects.at(node, "status", "conditions")))
    }
    waits: list[float] = []
    for type_, status, seconds in checks.conditions:
        condition = objects.mapping(reported.get(type_))
        if condition.get("status") != status:
            continue
        since = condition.get("lastTransitionTime") or objects.metadata(node).get("creationTimestamp")
        left = seconds - (now - clocks.parse_rfc3339(str(since))).total_seconds() if since else 0.0
        if left <= 0:
            message = f"Condition {type_} on Node is reporting status {status} for more than {duration(seconds)}"
            return _unhealthy(machine, "UnhealthyNode", message)
        waits.append(left)
    if waits:
        return Finding(machine, look_again=min(waits))
    if objects.is_being_deleted(machine):
        return Finding(machine)
    return Finding(machine, is_healthy=True, verdict=verdicts.true(marks.HEALTH_CHECK, "HealthCheckSucceeded"))


def _unhealthy(machine: Object, reason: str, message: str) -> Finding:
    return Finding(machine, verdict=verdicts.false(marks.HEALTH_CHECK, reason, f"Health check failed: {message}"))
