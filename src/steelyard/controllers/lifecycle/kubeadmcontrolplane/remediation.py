"""Which unhealthy control-plane machine is replaced, and whether now: upstream's rules. Pure.

A machine is unhealthy when a MachineHealthCheck says so (HealthCheckSucceeded is false), and this control plane's to
replace when that leaves it to the owner (OwnerRemediated is false). It is replaced by being deleted: its member leaves
etcd, and the next step of the control plane makes another one.

| the control plane           | the machine                                                                        |
|-----------------------------|------------------------------------------------------------------------------------|
| was replacing one, and the new one is not made yet | waits                                                       |
| retried too soon, too often | waits for retryPeriodSeconds; stays where maxRetry is reached                      |
| is not initialized          | is replaced: nothing can be lost yet                                               |
| has one machine             | stays: nobody could take over from it                                              |
| provisions, deletes another | waits                                                                              |
| would lose etcd's quorum    | stays                                                                              |
| otherwise                   | is replaced                                                                        |
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import orjson

from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import marks
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import verdicts

CANNOT = "CannotBeRemediated"
DEFERRED = "RemediationDeferred"
_MIN_HEALTHY_SECONDS = 3600.0
_ORDER = (
    "EtcdMemberHealthy",
    "EtcdPodHealthy",
    "APIServerPodHealthy",
    "ControllerManagerPodHealthy",
    "SchedulerPodHealthy",
)


@frozen
class Record:
    """What is remembered of a replacement: first on the control plane, then on the machine that was made for it."""

    machine: str
    """The one that was unhealthy."""
    time: str
    retries: int = 0
    """How many in a row had been unhealthy before it."""

    @classmethod
    def of(cls, text: str | None) -> Record | None:
        """None where there is none, or one that cannot be read: counting then starts anew, as upstream has it."""
        try:
            found = objects.mapping(orjson.loads(text or "{}"))
            time = str(found.get("timestamp") or "")
            clocks.parse_rfc3339(time)
            return cls(str(found.get("machine") or ""), time, int(found.get("retryCount") or 0))
        except ValueError:
            return None

    def to_json(self) -> str:
        return orjson.dumps({"machine": self.machine, "timestamp": self.time, "retryCount": self.retries}).decode()

    def to_status(self) -> Object:
        return {"machine": self.machine, "time": self.time, "retryCount": self.retries}


@frozen
class Limits:
    """`spec.remediation` of the control plane."""

    max_retry: int | None = None
    retry_seconds: float = 0.0
    min_healthy_seconds: float = _MIN_HEALTHY_SECONDS

    @classmethod
    def of(cls, control_plane: Object) -> Limits:
        found = objects.mapping(objects.at(control_plane, "spec", "remediation"))
        max_retry, min_healthy = found.get("maxRetry"), found.get("minHealthyPeriodSeconds")
        return cls(
            None if max_retry is None else int(max_retry),
            float(found.get("retryPeriodSeconds") or 0),
            _MIN_HEALTHY_SECONDS if min_healthy is None else float(min_healthy),
        )


@frozen
class Decision:
    machine: str = ""
    """The one it is about; empty where there is nothing to do."""
    record: Record | None = None
    """Set where it is to be replaced, provided that etcd can do without its member."""
    reason: str = ""
    message: str = ""
    """Why it is not replaced now."""
    retry_after: float | None = None


def has_recovered(machine: Object) -> bool:
    """Whether what was asked of its owner is no longer needed."""
    is_settled = verdicts.is_true(machine, marks.HEALTH_CHECK) and verdicts.is_false(machine, marks.OWNER_REMEDIATED)
    return is_settled and not objects.is_being_deleted(machine)


def in_progress(control_plane: Object) -> Record | None:
    return Record.of(objects.annotations(control_plane).get(wellknown.REMEDIATION_IN_PROGRESS_ANNOTATION))


def is_over(record: Record, machines: Sequence[Object]) -> bool:
    """Whether the machine that takes the place has been made, or there is nothing to replace any more."""
    text = record.to_json()
    stayed = [each for each in machines if objects.name(each) == record.machine]
    if any(not objects.is_being_deleted(each) and not marks.is_to_be_remediated(each) for each in stayed):
        return True
    return any(
        objects.annotations(each).get(wellknown.REMEDIATION_FOR_ANNOTATION) == text
        or str(objects.metadata(each).get("creationTimestamp") or "") > record.time
        for each in machines
    )


def decide(
    machines: Sequence[Object],
    limits: Limits,
    current: Record | None,
    *,
    is_initialized: bool,
    now: datetime.datetime,
) -> Decision:
    """`current` is the replacement that is going on."""
    patients = [each for each in machines if marks.is_to_be_remediated(each)]
    if not patients:
        return Decision()
    patient = min(patients, key=_urgency)
    name = objects.name(patient)
    if objects.is_being_deleted(patient):
        return Decision()
    if current is not None and is_over(current, machines):
        current = None
    is_resumed = current is not None and current.machine == name
    if current is not None and not is_resumed:
        return Decision()
    # What was written down before it could be done counts as the same try.
    refusal = None if is_resumed else _retried(patient, limits, now)
    if refusal is None and is_initialized:
        refusal = _unsafe(patient, machines)
    record = current if is_resumed else Record(name, clocks.rfc3339(now), _retries(patient, limits, now))
    return refusal or Decision(name, record)


def _urgency(machine: Object) -> tuple[bool | str, ...]:
    """Least for the one that is worst off: of several, it keeps most from coming back."""
    return (
        wellknown.REMEDIATE_MACHINE_ANNOTATION not in objects.annotations(machine),
        bool(objects.at(machine, "status", "nodeRef", "name")),
        *(verdicts.is_true(machine, type_) for type_ in _ORDER),
        str(objects.metadata(machine).get("creationTimestamp") or ""),
        objects.name(machine),
    )


def _last(machine: Object) -> Record | None:
    return Record.of(objects.annotations(machine).get(wellknown.REMEDIATION_FOR_ANNOTATION))


def _is_retry(last: Record | None, limits: Limits, now: datetime.datetime) -> bool:
    """Whether the machine, itself a replacement, was not healthy long enough to count as one that worked."""
    if last is None:
        return False
    since = (now - clocks.parse_rfc3339(last.time)).total_seconds()
    return since < limits.min_healthy_seconds


def _retries(machine: Object, limits: Limits, now: datetime.datetime) -> int:
    last = _last(machine)
    return last.retries + 1 if last is not None and _is_retry(last, limits, now) else 0


def _retried(machine: Object, limits: Limits, now: datetime.datetime) -> Decision | None:
    last, name = _last(machine), objects.name(machine)
    if last is None or not _is_retry(last, limits, now):
        return None
    left = limits.retry_seconds - (now - clocks.parse_rfc3339(last.time)).total_seconds()
    said = "KubeadmControlPlane can't remediate this machine because the operation already failed"
    if left > 0:
        message = f"{said} in the latest {_duration(limits.retry_seconds)} (RetryPeriodSeconds)"
        return Decision(name, reason=DEFERRED, message=message, retry_after=left)
    if limits.max_retry is not None and last.retries >= limits.max_retry:
        return Decision(name, reason=CANNOT, message=f"{said} {limits.max_retry} times (MaxRetry)")
    return None


def _unsafe(machine: Object, machines: Sequence[Object]) -> Decision | None:
    name = objects.name(machine)
    if len(machines) <= 1:
        message = "KubeadmControlPlane can't remediate if current replicas are less or equal to 1"
        return Decision(name, reason=CANNOT, message=message)
    waiting = "KubeadmControlPlane waiting for control plane Machine {} to complete before triggering remediation"
    if any(not marks.is_unhealthy(each) and not objects.at(each, "status", "nodeRef", "name") for each in machines):
        return Decision(name, reason=DEFERRED, message=waiting.format("provisioning"))
    if any(objects.is_being_deleted(each) for each in machines):
        return Decision(name, reason=DEFERRED, message=waiting.format("deletion"))
    return None


def _duration(seconds: float) -> str:
    """As Go writes it: `1h0m0s`."""
    hours, rest = divmod(int(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
