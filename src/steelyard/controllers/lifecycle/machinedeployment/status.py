"""Counters, phase and conditions of a MachineDeployment. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from steelyard.controllers.lifecycle import pausing
from steelyard.controllers.lifecycle.machinedeployment import plan
from steelyard.controllers.lifecycle.machineset import status as machines_status
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.verdicts import Verdict

_COUNTERS = ("replicas", "readyReplicas", "availableReplicas")


def update(
    deployment: Object,
    machine_sets: Sequence[Object],
    machines: Sequence[Object],
    *,
    blocked_by: Sequence[str],
    now: datetime.datetime,
) -> None:
    status = deployment.setdefault("status", {})
    status["selector"] = machines_status.selector_text(objects.mapping(objects.at(deployment, "spec", "selector")))
    for counter in _COUNTERS:
        status[counter] = _sum(counter, machine_sets)
    # What the machines say of themselves is about the template they last saw: those of another are out of date.
    current, _ = plan.split(deployment, machine_sets)
    status["upToDateReplicas"] = _sum("upToDateReplicas", [current] if current is not None else [])
    existing = int(status["replicas"])
    wanted = 0 if objects.is_being_deleted(deployment) else plan.replicas_of(deployment)
    status["phase"] = _phase(deployment, existing, wanted)
    verdicts.record(
        deployment,
        [
            _available(deployment, int(status["availableReplicas"])),
            machines_status.rolling_out(machines),
            machines_status.scaling_up(existing, wanted, blocked_by),
            machines_status.scaling_down(existing, wanted),
            machines_status.machines_ready(machines),
            machines_status.machines_up_to_date(machines),
            machines_status.remediating(machines),
            machines_status.deleting(deployment, len(machines)),
            pausing.NOT_PAUSED,
        ],
        now,
    )


def _sum(counter: str, machine_sets: Sequence[Object]) -> int:
    return sum(int(objects.at(each, "status", counter) or 0) for each in machine_sets)


def _available(deployment: Object, available: int) -> Verdict:
    strategy = plan.strategy_of(deployment)
    replicas = plan.replicas_of(deployment)
    unavailable = strategy.max_unavailable if strategy.kind == plan.ROLLING_UPDATE else 0
    needed = replicas - unavailable
    if available >= needed:
        return verdicts.true("Available", "Available")
    if objects.is_being_deleted(deployment):
        return verdicts.false("Available", "NotAvailable", "Deletion in progress")
    message = f"{available} available replicas, at least {needed} required"
    if strategy.kind == plan.ROLLING_UPDATE:
        message += f" (spec.strategy.rollout.maxUnavailable is {unavailable}, spec.replicas is {replicas})"
    return verdicts.false("Available", "NotAvailable", message)


def _phase(deployment: Object, existing: int, wanted: int) -> str:
    if objects.is_being_deleted(deployment) or wanted < existing:
        return "ScalingDown"
    return "Running" if wanted == existing else "ScalingUp"
