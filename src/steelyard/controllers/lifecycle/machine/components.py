"""Health of what kubeadm runs on a control-plane machine, from the static pods that its cluster's API shows. Pure.

A cluster that shows no control-plane pods at all (one whose control plane runs elsewhere) has answered through its API
server, which is what can be known of it: its components count as running while the machine's Node is there.
"""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.verdicts import Verdict

_COMPONENTS = {
    "APIServerPodHealthy": "kube-apiserver",
    "ControllerManagerPodHealthy": "kube-controller-manager",
    "SchedulerPodHealthy": "kube-scheduler",
    "EtcdPodHealthy": "etcd",
}
ETCD_MEMBER = "EtcdMemberHealthy"
CONDITIONS = (*_COMPONENTS, ETCD_MEMBER)
POD_SELECTOR = "tier=control-plane"


def gates(*, manages_etcd: bool) -> list[Object]:
    """The readiness gates of a control-plane Machine."""
    wanted = CONDITIONS if manages_etcd else [name for name in CONDITIONS if not name.startswith("Etcd")]
    return [{"conditionType": name} for name in wanted]


def inspect(
    machine: Object, node: Object | None, pods: Sequence[Object], member: Verdict | None = None
) -> list[Verdict]:
    """One verdict for each of the Machine's gates that is about a component.

    `member` is what is known of its etcd member; None where the cluster offers no members to be seen.
    """
    wanted = [
        str(objects.mapping(gate).get("conditionType"))
        for gate in objects.sequence(objects.at(machine, "spec", "readinessGates"))
    ]
    types = [type_ for type_ in CONDITIONS if type_ in wanted]
    if objects.is_being_deleted(machine):
        return [verdicts.false(type_, "Deleting", "Machine is deleting") for type_ in types]
    if node is None:
        return [verdicts.unknown(type_, "InspectionFailed", "Waiting for the machine's Node") for type_ in types]
    by_name = {objects.name(pod): pod for pod in pods}
    found: list[Verdict] = []
    for type_ in types:
        component = _COMPONENTS.get(type_, "etcd")
        if type_ == ETCD_MEMBER and member is not None:
            found.append(member)
        elif not pods:
            found.append(_running(type_))
        else:
            found.append(_pod(type_, by_name.get(f"{component}-{objects.name(node)}")))
    return found


def is_asked_for(machine: Object, type_: str) -> bool:
    """Whether one of the Machine's gates is about it."""
    gates = map(objects.mapping, objects.sequence(objects.at(machine, "spec", "readinessGates")))
    return any(gate.get("conditionType") == type_ for gate in gates)


def _pod(type_: str, pod: Object | None) -> Verdict:
    if pod is None:
        return verdicts.false(type_, "DoesNotExist", "Pod does not exist")
    if objects.is_being_deleted(pod):
        return verdicts.false(type_, "Deleting", "Pod is deleting")
    phase = str(objects.at(pod, "status", "phase") or "Unknown")
    conditions = map(objects.mapping, objects.sequence(objects.at(pod, "status", "conditions")))
    is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    if phase == "Running" and is_ready:
        return _running(type_)
    if phase in ("Failed", "Succeeded"):
        return verdicts.false(type_, "Failed", f"Pod phase is {phase}")
    return verdicts.false(type_, "Provisioning", "Pod is not ready yet")


def _running(type_: str) -> Verdict:
    return verdicts.true(type_, "Healthy" if type_ == ETCD_MEMBER else "Running")
