"""Counters and conditions of a KubeadmControlPlane. Pure."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import marks, pausing, summary
from steelyard.controllers.lifecycle.kubeadmcontrolplane import remediation
from steelyard.controllers.lifecycle.kubeadmcontrolplane.plan import Step
from steelyard.controllers.lifecycle.kubeadmcontrolplane.remediation import Record
from steelyard.controllers.lifecycle.machine import components
from steelyard.controllers.lifecycle.machineset import status as machines_status
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.verdicts import Verdict

_ETCD = ("EtcdPodHealthy", components.ETCD_MEMBER)
_REMEDIATING = "Remediating"
_NUMBERS = re.compile(r"\d+")


@dataclass(slots=True)
class Progress:
    """How far one reconcile came."""

    waiting_for: str = ""
    """What the cluster does not have yet, so that no machine can be made."""
    has_certificates: bool = False
    certificates_problem: str = ""
    lost_certificates: str = ""
    """What to do about certificates that machines run with and that nobody has any more."""
    etcd_problems: tuple[str, ...] = ()
    """What is wrong with etcd that is no machine's."""
    holds_member: str = ""
    """Why the etcd member of a machine that goes cannot leave yet."""
    step: Step | None = None
    blocked_by: tuple[str, ...] = ()
    deleting_reason: str = "Deleting"
    deleting_message: str = "Deletion started"


def update(control_plane: Object, machines: Sequence[Object], progress: Progress, now: datetime.datetime) -> None:
    status = control_plane.setdefault("status", {})
    cluster_name = objects.labels(control_plane).get(wellknown.CLUSTER_NAME_LABEL, "")
    status["selector"] = f"{wellknown.CLUSTER_NAME_LABEL}={cluster_name},{wellknown.CONTROL_PLANE_LABEL}"
    versions = [str(objects.at(each, "spec", "version")) for each in machines if objects.at(each, "spec", "version")]
    if versions:
        status["version"] = min(versions, key=_version_key)
    status.update(machines_status.counters(machines))
    if any(objects.at(each, "status", "nodeRef", "name") for each in machines):
        status["initialization"] = {"controlPlaneInitialized": True}
    last_remediation = _last_remediation(control_plane, machines)
    if last_remediation is not None:
        status["lastRemediation"] = last_remediation
    is_initialized = bool(objects.at(control_plane, "status", "initialization", "controlPlaneInitialized"))
    wanted = 0 if objects.is_being_deleted(control_plane) else replicas_of(control_plane)
    blocked = [*progress.blocked_by, *(progress.step.blocked_by if progress.step else ())]
    verdicts.record(
        control_plane,
        [
            _available(machines, is_initialized=is_initialized),
            verdicts.true("Initialized", "Initialized")
            if is_initialized
            else verdicts.false("Initialized", "NotInitialized"),
            *_certificates(progress),
            _health(
                "EtcdClusterHealthy",
                machines,
                _ETCD,
                progress,
                is_initialized=is_initialized,
                problems=progress.etcd_problems,
                remark=progress.holds_member,
            ),
            _health(
                "ControlPlaneComponentsHealthy",
                machines,
                [type_ for type_ in components.CONDITIONS if type_ not in _ETCD],
                progress,
                is_initialized=is_initialized,
            ),
            machines_status.machines_ready(machines),
            machines_status.machines_up_to_date(machines),
            machines_status.rolling_out(machines),
            machines_status.scaling_up(len(machines), wanted, blocked),
            machines_status.scaling_down(len(machines), wanted, blocked),
            _remediating(machines),
            _deleting(control_plane, progress),
            pausing.NOT_PAUSED,
        ],
        now,
    )


def replicas_of(control_plane: Object) -> int:
    value = objects.at(control_plane, "spec", "replicas")
    return 1 if value is None else int(value)


def problems_of(machine: Object) -> tuple[str, ...]:
    """What keeps the control plane from being changed: gates about components that are not true."""
    gates = [objects.mapping(gate) for gate in objects.sequence(objects.at(machine, "spec", "readinessGates"))]
    wanted = {str(gate.get("conditionType")) for gate in gates}
    found: list[str] = []
    for type_ in components.CONDITIONS:
        if type_ not in wanted:
            continue
        condition = verdicts.find(machine, type_)
        if condition is None:
            found.append(f"{type_} is not reported")
        elif not condition.is_true:
            found.append(f"{type_} is {condition.status.lower()} ({condition.message or condition.reason})")
    return tuple(found)


def _available(machines: Sequence[Object], *, is_initialized: bool) -> Verdict:
    if not is_initialized:
        return verdicts.false("Available", "NotAvailable", "Control plane not yet initialized")
    # One that has never had a Node is no member of etcd yet, and one that is deleted leaves it first: neither takes
    # anything from those that are.
    members = [
        each
        for each in machines
        if objects.at(each, "status", "nodeRef", "name") and not objects.is_being_deleted(each)
    ]
    well = [each for each in members if not problems_of(each)]
    quorum = len(members) // 2 + 1
    if len(well) >= quorum:
        return verdicts.true("Available", "Available")
    message = f"* {len(well)} of {len(members)} Machines are healthy, at least {quorum} required for etcd quorum"
    return verdicts.false("Available", "NotAvailable", message)


def _certificates(progress: Progress) -> list[Verdict]:
    if progress.lost_certificates:
        return [verdicts.false("CertificatesAvailable", "NotAvailable", progress.lost_certificates)]
    if progress.certificates_problem:
        return [verdicts.unknown("CertificatesAvailable", "InternalError", progress.certificates_problem)]
    return [verdicts.true("CertificatesAvailable", "Available")] if progress.has_certificates else []


def _health(
    type_: str,
    machines: Sequence[Object],
    parts: Sequence[str],
    progress: Progress,
    *,
    is_initialized: bool,
    problems: Sequence[str] = (),
    remark: str = "",
) -> Verdict:
    """`remark` is told in any case."""
    if progress.waiting_for:
        return verdicts.unknown(type_, "InspectionFailed", progress.waiting_for)
    if not is_initialized:
        return verdicts.unknown(type_, "InspectionFailed", "Waiting for the control plane to be initialized")
    bad = [f"* {each}" for each in problems]
    unknown: list[str] = []
    for machine in machines:
        for part in parts:
            found = verdicts.find(machine, part)
            if found is not None and not found.is_true:
                line = f"* Machine {objects.name(machine)}: {part}: {found.message or found.reason}"
                (bad if found.status == "False" else unknown).append(line)
    remarks = [f"* {remark}"] if remark else []
    if bad:
        return verdicts.false(type_, "NotHealthy", "\n".join([*bad, *unknown, *remarks]))
    if unknown:
        return verdicts.unknown(type_, "HealthUnknown", "\n".join([*unknown, *remarks]))
    return verdicts.true(type_, "Healthy", "\n".join(remarks))


def _remediating(machines: Sequence[Object]) -> Verdict:
    ours = [each for each in machines if marks.is_to_be_remediated(each)]
    if ours:
        told = summary.aggregate(_REMEDIATING, ours, marks.OWNER_REMEDIATED, summary.READY)
        return verdicts.true(_REMEDIATING, "Remediating", told.message)
    names = sorted(objects.name(each) for each in machines if marks.is_unhealthy(each))
    if not names:
        return machines_status.NOT_REMEDIATING
    listed = ", ".join(names[:3]) + (f", ... ({len(names) - 3} more)" if len(names) > 3 else "")
    subject = f"Machine {listed} is" if len(names) == 1 else f"Machines {listed} are"
    message = f"{subject} not healthy (not to be remediated by KubeadmControlPlane)"
    return verdicts.false(_REMEDIATING, "NotRemediating", message)


def _last_remediation(control_plane: Object, machines: Sequence[Object]) -> Object | None:
    """The one that goes on, or of those that machines remember the latest."""
    current = remediation.in_progress(control_plane)
    if current is not None:
        return current.to_status()
    annotations = (objects.annotations(each).get(wellknown.REMEDIATION_FOR_ANNOTATION) for each in machines)
    known = [record for each in annotations if (record := Record.of(each)) is not None]
    return max(known, key=lambda record: record.time).to_status() if known else None


def _deleting(control_plane: Object, progress: Progress) -> Verdict:
    if not objects.is_being_deleted(control_plane):
        return verdicts.false("Deleting", "NotDeleting")
    return verdicts.true("Deleting", progress.deleting_reason, progress.deleting_message)


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBERS.findall(version)[:3])
