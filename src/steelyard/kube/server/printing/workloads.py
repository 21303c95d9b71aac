"""Tables of what runs, or would run: pods, the kinds that make them, and their disruption and scaling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from steelyard.kube import ages, objects
from steelyard.kube.objects import Object
from steelyard.kube.server.printing import cells
from steelyard.kube.server.printing.cells import NONE, UNSET, Cell, Cells


def _statuses(obj: Object, field: str = "containerStatuses") -> list[Object]:
    return [objects.mapping(status) for status in objects.sequence(objects.at(obj, "status", field))]


def _sidecars(obj: Object) -> set[str]:
    """Init containers that go on running beside the others."""
    listed = map(objects.mapping, objects.sequence(objects.at(obj, "spec", "initContainers")))
    return {str(each.get("name")) for each in listed if each.get("restartPolicy") == "Always"}


def _ended(terminated: Object) -> str:
    reason = terminated.get("reason")
    if reason:
        return str(reason)
    signal = terminated.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{terminated.get('exitCode') or 0}"


def _unfinished(obj: Object) -> tuple[int, Object] | None:
    """The first init container that the pod still waits for, with its place."""
    sidecars = _sidecars(obj)
    for place, status in enumerate(_statuses(obj, "initContainerStatuses")):
        terminated = objects.at(status, "state", "terminated")
        is_done = terminated is not None and not terminated.get("exitCode")
        is_running = status.get("name") in sidecars and status.get("started")
        if not is_done and not is_running:
            return place, status
    return None


def _is_initializing(obj: Object) -> bool:
    return _unfinished(obj) is not None and not cells.is_met(obj, "Initialized")


def _running(obj: Object) -> Iterator[Object]:
    return (each for each in _statuses(obj) if each.get("ready") and objects.at(each, "state", "running") is not None)


def _pod_ready(obj: Object, now: datetime) -> Any:
    sidecars = _sidecars(obj)
    ready = sum(
        1
        for each in _statuses(obj, "initContainerStatuses")
        if each.get("name") in sidecars and each.get("started") and each.get("ready")
    )
    if not _is_initializing(obj):
        ready += sum(1 for _ in _running(obj))
    return f"{ready}/{len(objects.sequence(objects.at(obj, 'spec', 'containers'))) + len(sidecars)}"


def _pod_status(obj: Object, now: datetime) -> Any:
    phase = str(objects.at(obj, "status", "phase") or "")
    told = str(objects.at(obj, "status", "reason") or "")
    if objects.is_being_deleted(obj):
        if told == "NodeLost":
            return "Unknown"
        if phase not in {"Failed", "Succeeded"}:
            return "Terminating"
    reason = told or phase
    if cells.conditions(obj).get("PodScheduled", {}).get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    if (unfinished := _unfinished(obj)) is not None:
        reason = _init_reason(obj, *unfinished)
    return reason if _is_initializing(obj) else _main_reason(obj, reason)


def _init_reason(obj: Object, place: int, status: Object) -> str:
    terminated = objects.at(status, "state", "terminated")
    if terminated is not None:
        return f"Init:{_ended(terminated)}"
    waiting = str(objects.at(status, "state", "waiting", "reason") or "")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{place}/{len(objects.sequence(objects.at(obj, 'spec', 'initContainers')))}"


def _main_reason(obj: Object, reason: str) -> str:
    for status in reversed(_statuses(obj)):
        waiting = objects.at(status, "state", "waiting", "reason")
        terminated = objects.at(status, "state", "terminated")
        if waiting:
            reason = str(waiting)
        elif terminated is not None:
            reason = _ended(terminated)
    if reason == "Completed" and any(True for _ in _running(obj)):
        return "Running" if cells.is_met(obj, "Ready") else "NotReady"
    return reason


def _pod_restarts(obj: Object, now: datetime) -> Any:
    sidecars = _sidecars(obj)
    counted = _statuses(obj, "initContainerStatuses")
    if not _is_initializing(obj):
        counted = [each for each in counted if each.get("name") in sidecars] + _statuses(obj)
    restarts = sum(int(each.get("restartCount") or 0) for each in counted)
    ends = [str(objects.at(each, "lastState", "terminated", "finishedAt") or "") for each in counted]
    last = max(ends, default="")
    return f"{restarts} ({ages.since(last, now)} ago)" if restarts and last else str(restarts)


def _readiness_gates(obj: Object, now: datetime) -> Any:
    gates = [objects.mapping(gate) for gate in objects.sequence(objects.at(obj, "spec", "readinessGates"))]
    met = sum(1 for gate in gates if cells.is_met(obj, str(gate.get("conditionType"))))
    return f"{met}/{len(gates)}" if gates else NONE


def _containers(field: str, *path: str) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        containers = map(objects.mapping, objects.sequence(objects.at(obj, *path, "spec", "containers")))
        return ",".join(str(container.get(field) or "") for container in containers)

    return cell


def _template(*path: str, selector: Cell | None = None) -> Cells:
    made: dict[str, Cell] = {"Containers": _containers("name", *path), "Images": _containers("image", *path)}
    return {**made, "Selector": selector} if selector is not None else made


def _job_status(obj: Object, now: datetime) -> Any:
    for condition in ("Complete", "Failed"):
        if cells.is_met(obj, condition):
            return condition
    if objects.is_being_deleted(obj):
        return "Terminating"
    later = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((condition for condition in later if cells.is_met(obj, condition)), "Running")


def _job_completions(obj: Object, now: datetime) -> Any:
    succeeded = objects.at(obj, "status", "succeeded") or 0
    completions = objects.at(obj, "spec", "completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = objects.at(obj, "spec", "parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(obj: Object, now: datetime) -> Any:
    started = ages.parse(objects.at(obj, "status", "startTime"))
    if started is None:
        return ""
    return ages.human(((ages.parse(objects.at(obj, "status", "completionTime")) or now) - started).total_seconds())


def _suspended(obj: Object, now: datetime) -> Any:
    suspend = objects.at(obj, "spec", "suspend")
    return UNSET if suspend is None else "True" if suspend else "False"


def _scaled(obj: Object, now: datetime) -> Any:
    target = objects.mapping(objects.at(obj, "spec", "scaleTargetRef"))
    return f"{target.get('kind') or ''}/{target.get('name') or ''}"


def _targets(obj: Object, now: datetime) -> Any:
    specs = [objects.mapping(spec) for spec in objects.sequence(objects.at(obj, "spec", "metrics"))]
    current = [objects.mapping(each) for each in objects.sequence(objects.at(obj, "status", "currentMetrics"))]
    percentage = objects.at(obj, "spec", "targetCPUUtilizationPercentage")
    if percentage is not None:
        # The form of autoscaling/v1.
        used = objects.at(obj, "status", "currentCPUUtilizationPercentage")
        return f"cpu: {f'{used}%' if used is not None else ages.UNKNOWN}/{percentage}%"
    shown = [_target(spec, current[place] if place < len(current) else {}) for place, spec in enumerate(specs)]
    return cells.shortened(shown, 2, separator=", ", default=NONE)


_SOURCES: Final = {
    "External": "external", "Pods": "pods", "Object": "object", "Resource": "resource",
    "ContainerResource": "containerResource",
}  # fmt: skip


def _target(spec: Object, status: Object) -> str:
    kind = str(spec.get("type") or "")
    field = _SOURCES.get(kind)
    if field is None:
        return "<unknown type>"
    source = objects.mapping(spec.get(field))
    target = objects.mapping(source.get("target"))
    current = objects.mapping(objects.at(status, field, "current"))
    average = target.get("averageValue")
    if field.endswith("esource"):
        if average is not None:
            shown = f"{current.get('averageValue') or ages.UNKNOWN}/{average}"
        else:
            shown = f"{_percent(current, ages.UNKNOWN)}/{_percent(target, '<auto>')}"
        return f"{source.get('name')}: {shown}"
    if average is None:
        return f"{current.get('value') or ages.UNKNOWN}/{target.get('value')}"
    shown = f"{current.get('averageValue') or ages.UNKNOWN}/{average}"
    return shown if field == "pods" else f"{shown} (avg)"


def _percent(fields: Object, default: str) -> str:
    value = fields.get("averageUtilization")
    return default if value is None else f"{value}%"


_MATCHED: Final = cells.selector_at("spec", "selector")
_COUNTED: Final[Cells] = {
    "Desired": cells.number_at("spec", "replicas"),
    "Current": cells.number_at("status", "replicas"),
    "Ready": cells.number_at("status", "readyReplicas"),
}
_READY: Final[Cells] = {"Ready": cells.ratio(("status", "readyReplicas"), ("spec", "replicas"))}

CELLS: Final[Mapping[str, Cells]] = {
    "/pods": {
        "Ready": _pod_ready,
        "Status": _pod_status,
        "Restarts": _pod_restarts,
        "IP": cells.at("status", "podIPs", 0, "ip", default=NONE),
        "Node": cells.at("spec", "nodeName", default=NONE),
        "Nominated Node": cells.at("status", "nominatedNodeName", default=NONE),
        "Readiness Gates": _readiness_gates,
    },
    "/podtemplates": {**_template("template"), "Pod Labels": cells.labels_at("template", "metadata", "labels")},
    "/replicationcontrollers": {
        **_COUNTED,
        **_template("spec", "template", selector=cells.labels_at("spec", "selector")),
    },
    "apps/replicasets": {**_COUNTED, **_template("spec", "template", selector=_MATCHED)},
    "apps/deployments": {
        **_READY,
        "Up-to-date": cells.number_at("status", "updatedReplicas"),
        "Available": cells.number_at("status", "availableReplicas"),
        **_template("spec", "template", selector=cells.selector_at("spec", "selector", default="")),
    },
    "apps/statefulsets": {**_READY, **_template("spec", "template")},
    "apps/daemonsets": {
        "Desired": cells.number_at("status", "desiredNumberScheduled"),
        "Current": cells.number_at("status", "currentNumberScheduled"),
        "Ready": cells.number_at("status", "numberReady"),
        "Up-to-date": cells.number_at("status", "updatedNumberScheduled"),
        "Available": cells.number_at("status", "numberAvailable"),
        "Node Selector": cells.labels_at("spec", "template", "spec", "nodeSelector"),
        **_template("spec", "template", selector=_MATCHED),
    },
    "batch/jobs": {
        "Status": _job_status,
        "Completions": _job_completions,
        "Duration": _job_duration,
        **_template("spec", "template", selector=_MATCHED),
    },
    "batch/cronjobs": {
        "Schedule": cells.at("spec", "schedule"),
        "Timezone": cells.at("spec", "timeZone", default=NONE),
        "Suspend": _suspended,
        "Active": cells.length("status", "active"),
        "Last Schedule": cells.since("status", "lastScheduleTime", default=NONE),
        **_template("spec", "jobTemplate", "spec", "template"),
        "Selector": cells.selector_at("spec", "jobTemplate", "spec", "selector"),
    },
    "autoscaling/horizontalpodautoscalers": {
        "Reference": _scaled,
        "Targets": _targets,
        "MinPods": cells.text_at("spec", "minReplicas", default=UNSET),
        "MaxPods": cells.number_at("spec", "maxReplicas"),
        "Replicas": cells.number_at("status", "currentReplicas"),
    },
    "policy/poddisruptionbudgets": {
        "Min Available": cells.text_at("spec", "minAvailable", default="N/A"),
        "Max Unavailable": cells.text_at("spec", "maxUnavailable", default="N/A"),
        "Allowed Disruptions": cells.number_at("status", "disruptionsAllowed"),
    },
}
