"""Which of a MachineSet's machines that failed a health check are replaced now. Pure.

One is replaced by being deleted: the set then makes another, so none is while no machine could be made. Of a
MachineDeployment, only machines of its newest revision are, the rest go with its rollout; and no more at a time than
`spec.remediation.maxInFlight` says, counting those that are on their way out for it. First go those that somebody has
marked, then the newest, which are the least likely to run anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import marks
from steelyard.controllers.lifecycle.machinedeployment import plan as rollout
from steelyard.controllers.lifecycle.machinehealthcheck import limits
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.verdicts import Verdict

_DELETING: Final = "MachineDeleting"
_FIELD: Final = "spec.remediation.maxInFlight of the MachineDeployment"


@frozen
class Decision:
    told: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    """What each machine's condition is to say, by name."""
    delete: Sequence[str] = ()
    recovered: Sequence[str] = ()
    """Those of which nothing is asked any more."""


def decide(
    machines: Sequence[Object], machine_set: Object, deployment: Object | None, early: Sequence[str] = ()
) -> Decision:
    """`early` says why no machine can be made yet."""
    staying = [each for each in machines if not objects.is_being_deleted(each)]
    recovered = [objects.name(each) for each in staying if _has_recovered(each)]
    patients = sorted((each for each in staying if marks.is_to_be_remediated(each)), key=objects.name)
    patients.sort(key=_created, reverse=True)
    patients.sort(key=lambda each: wellknown.REMEDIATE_MACHINE_ANNOTATION not in objects.annotations(each))
    names = [objects.name(each) for each in patients]
    if not names:
        return Decision(recovered=recovered)
    if deployment is not None and rollout.revision(deployment) != rollout.revision(machine_set):
        message = "Machine won't be remediated because it is pending removal due to rollout"
        return Decision(dict.fromkeys(names, _told("CannotBeRemediated", message)), recovered=recovered)
    if early:
        message = "\n".join(f"* {each}" for each in early)
        return Decision(dict.fromkeys(names, _told("RemediationDeferred", message)), recovered=recovered)
    try:
        free = _free(deployment, machines, len(names))
    except limits.BadLimit as error:
        return Decision(dict.fromkeys(names, _told("RemediationDeferred", str(error))), recovered=recovered)
    wanted = objects.at(deployment, "spec", "remediation", "maxInFlight")
    waits = _told(
        "RemediationDeferred",
        f"Waiting because there are already too many remediations in progress ({_FIELD} is {wanted})",
    )
    chosen = names[:free]
    told = {name: _told(_DELETING, "Machine is deleting") if name in chosen else waits for name in names}
    return Decision(told, chosen, recovered)


def _free(deployment: Object | None, machines: Sequence[Object], patients: int) -> int:
    """How many more may be under way."""
    limit = objects.at(deployment, "spec", "remediation", "maxInFlight")
    if limit is None:
        return patients
    most = limits.scaled(limit, rollout.replicas_of(objects.mapping(deployment)), _FIELD, round_up=True)
    return max(most - sum(map(_is_under_way, machines)), 0)


def _is_under_way(machine: Object) -> bool:
    found = verdicts.find(machine, marks.OWNER_REMEDIATED)
    return objects.is_being_deleted(machine) and found is not None and found.reason == _DELETING


def _has_recovered(machine: Object) -> bool:
    return verdicts.is_true(machine, marks.HEALTH_CHECK) and verdicts.is_false(machine, marks.OWNER_REMEDIATED)


def _told(reason: str, message: str) -> Verdict:
    return verdicts.false(marks.OWNER_REMEDIATED, reason, message)


def _created(machine: Object) -> str:
    return str(objects.metadata(machine).get("creationTimestamp") or "")
