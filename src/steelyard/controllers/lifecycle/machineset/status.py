"""Counters and conditions of a MachineSet. Pure.

The functions about many machines serve MachineDeployments, control planes and clusters as well: all say it the same
way.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from steelyard.controllers.lifecycle import marks, pausing, summary
from steelyard.controllers.lifecycle.machine import status as machine_status
from steelyard.kube import objects, selectors
from steelyard.kube.objects import Object
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.verdicts import Verdict


def update(
    machine_set: Object, machines: Sequence[Object], *, blocked_by: Sequence[str], now: datetime.datetime
) -> None:
    status = machine_set.setdefault("status", {})
    status["selector"] = selector_text(objects.mapping(objects.at(machine_set, "spec", "selector")))
    status.update(counters(machines))
    wanted = 0 if objects.is_being_deleted(machine_set) else int(objects.at(machine_set, "spec", "replicas") or 0)
    verdicts.record(
        machine_set,
        [
            scaling_up(len(machines), wanted, blocked_by),
            scaling_down(len(machines), wanted),
            machines_ready(machines),
            machines_up_to_date(machines),
            remediating(machines),
            deleting(machine_set, len(machines)),
            pausing.NOT_PAUSED,
        ],
        now,
    )


NOT_REMEDIATING = verdicts.false("Remediating", "NotRemediating")
_REMEDIATING = summary.Reasons("Remediating", "Remediating", "NotRemediating")
_NAMES_SHOWN = 3


def remediating(machines: Sequence[Object]) -> Verdict:
    """Of machines that failed a health check: those that are being replaced, or else those that nobody replaces."""
    affected = [each for each in machines if marks.is_to_be_remediated(each)]
    if affected:
        found = summary.aggregate("Remediating", affected, marks.OWNER_REMEDIATED, _REMEDIATING)
        return verdicts.true("Remediating", "Remediating", found.message)
    unhealthy = sorted(objects.name(each) for each in machines if marks.is_unhealthy(each))
    if not unhealthy:
        return NOT_REMEDIATING
    more = f", ... ({len(unhealthy) - _NAMES_SHOWN} more)" if len(unhealthy) > _NAMES_SHOWN else ""
    shown = ", ".join(unhealthy[:_NAMES_SHOWN])
    subject = f"Machine {shown} is" if len(unhealthy) == 1 else f"Machines {shown}{more} are"
    return verdicts.false("Remediating", "NotRemediating", f"{subject} not healthy (not to be remediated by the owner)")


def counters(machines: Sequence[Object]) -> Object:
    return {
        "replicas": len(machines),
        "readyReplicas": sum(verdicts.is_true(each, machine_status.READY) for each in machines),
        "availableReplicas": sum(verdicts.is_true(each, machine_status.AVAILABLE) for each in machines),
        "upToDateReplicas": sum(verdicts.is_true(each, machine_status.UP_TO_DATE) for each in machines),
    }


def selector_text(selector: Object) -> str:
    """As the scale subresource wants it; expressions other than equality are left out."""
    return selectors.format_labels(
        {name: str(value) for name, value in objects.mapping(selector.get("matchLabels")).items()}
    )


def scaling_up(existing: int, wanted: int, blocked_by: Sequence[str] = ()) -> Verdict:
    if existing >= wanted:
        return verdicts.false("ScalingUp", "NotScalingUp")
    message = f"Scaling up from {existing} to {wanted} replicas"
    if blocked_by:
        message += " is blocked because:\n" + "\n".join(f"* {reason}" for reason in blocked_by)
    return verdicts.true("ScalingUp", "ScalingUp", message)


def scaling_down(existing: int, wanted: int, blocked_by: Sequence[str] = ()) -> Verdict:
    if existing <= wanted:
        return verdicts.false("ScalingDown", "NotScalingDown")
    message = f"Scaling down from {existing} to {wanted} replicas"
    if blocked_by:
        message += " is blocked because:\n" + "\n".join(f"* {reason}" for reason in blocked_by)
    return verdicts.true("ScalingDown", "ScalingDown", message)


def machines_ready(machines: Sequence[Object], type_: str = "MachinesReady") -> Verdict:
    if not machines:
        return verdicts.true(type_, "NoReplicas")
    return summary.aggregate(type_, machines, machine_status.READY, summary.READY)


def machines_up_to_date(machines: Sequence[Object], type_: str = "MachinesUpToDate") -> Verdict:
    """Machines so new that nothing has been said about them yet are left out."""
    reported = [each for each in machines if verdicts.find(each, machine_status.UP_TO_DATE) is not None]
    if not reported:
        return verdicts.true(type_, "NoReplicas")
    return summary.aggregate(type_, reported, machine_status.UP_TO_DATE, summary.UP_TO_DATE)


def rolling_out(machines: Sequence[Object]) -> Verdict:
    outdated = [found for each in machines if (found := verdicts.find(each, machine_status.UP_TO_DATE)) is not None]
    outdated = [found for found in outdated if found.status == "False"]
    if not outdated:
        return verdicts.false("RollingOut", "NotRollingOut")
    reasons = {line for found in outdated for line in found.message.split("\n") if line}
    in_order = sorted(reasons, key=lambda line: (not line.startswith("* Version"), line))
    message = f"Rolling out {len(outdated)} not up-to-date replicas"
    return verdicts.true("RollingOut", "RollingOut", "\n".join([message, *in_order]))


def deleting(obj: Object, machines: int) -> Verdict:
    if not objects.is_being_deleted(obj):
        return verdicts.false("Deleting", "NotDeleting")
    message = f"Deleting {machines} Machine{'' if machines == 1 else 's'}" if machines else "Deletion completed"
    return verdicts.true("Deleting", "Deleting", message)
