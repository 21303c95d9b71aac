"""What has become of a machine that had been well: its Node lost or not ready, its infrastructure gone, itself failed.

A machine on its way up is in no trouble: what it waits for is told as such. Read from Cluster API's conditions alone,
so that the claim's controller, `steelyard describe` and `steelyard doctor` name the same cause.
"""

from __future__ import annotations

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object


@frozen
class Trouble:
    machine: str
    what: str
    """After "machine x": `its Node x was deleted`."""
    since: str
    node: str = ""
    """The Node, where there is still one to look at."""

    def __str__(self) -> str:
        return f"machine {self.machine}: {self.what}" + (f", since {self.since}" if self.since else "")


def of(machine: Object) -> Trouble | None:
    """None for a machine that is well, comes up, or is being deleted."""
    if objects.is_being_deleted(machine):
        return None
    name = objects.name(machine)
    infrastructure = condition(machine, "InfrastructureReady")
    if objects.at(machine, "status", "phase") == "Failed":
        ready = condition(machine, "Ready")
        because = f": {words(ready)}" if words(ready) else ""
        return Trouble(name, f"it has failed{because}", _since(ready))
    if infrastructure.get("status") == "False" and infrastructure.get("reason") == "ObjectDeleted":
        kind = objects.at(machine, "spec", "infrastructureRef", "kind") or "infrastructure"
        return Trouble(name, f"its {kind} was deleted", _since(infrastructure))
    node = str(objects.at(machine, "status", "nodeRef", "name") or "")
    return _with_node(machine, node) if node else None


def _with_node(machine: Object, node: str) -> Trouble | None:
    name = objects.name(machine)
    healthy, ready = condition(machine, "NodeHealthy"), condition(machine, "NodeReady")
    if "NodeDeleted" in (healthy.get("reason"), ready.get("reason")):
        return Trouble(name, f"its Node {node} was deleted", _since(ready or healthy))
    for each, what in ((ready, "is not ready"), (healthy, "is not healthy"), (condition(machine, "Ready"), "")):
        if each.get("status") in ("False", "Unknown") and _since(each) > _running_since(machine):
            subject = f"its Node {node} {what}" if what else "it is not ready"
            because = f": {words(each)}" if words(each) else ""
            return Trouble(name, f"{subject}{because}", _since(each), node)
    return None


def problem_of(machine: Object | None) -> str:
    """What a machine on its way up, or a cluster, reports about its infrastructure, where that says more than that it
    is not ready."""
    infrastructure = condition(machine, "InfrastructureReady")
    has_reported = infrastructure.get("status") == "False" and infrastructure.get("reason") not in _NOTHING_REPORTED
    return words(infrastructure) if has_reported else ""


def held_by(machine: Object) -> str:
    """What keeps a machine that is to go, where somebody may have to see to it; empty for nothing."""
    deleting = condition(machine, "Deleting")
    return words(deleting) if deleting.get("reason") in _HELD else ""


def is_ready(machine: Object) -> bool:
    return condition(machine, "Ready").get("status") == "True" and not objects.is_being_deleted(machine)


def condition(obj: Object | None, type_: str) -> Object:
    """An empty one where the object does not report it."""
    conditions = map(objects.mapping, objects.sequence(objects.at(obj, "status", "conditions")))
    return next((each for each in conditions if each.get("type") == type_), Object())


def words(reported: Object) -> str:
    """A condition's message on one line, without the bullets and names of what it was made from.

    >>> words({"message": "* Node.Ready: kubelet stopped posting"})
    'kubelet stopped posting'
    >>> words({"message": "Drain not completed yet:\\n* Pod shop/web: waiting for completion"})
    'Drain not completed yet: Pod shop/web: waiting for completion'
    """
    lines = (line.strip().removeprefix("* ") for line in str(reported.get("message") or "").splitlines())
    said = "; ".join(line.removeprefix("Node.Ready: ").removeprefix("NodeHealthy: ") for line in lines if line)
    return said.replace(":; ", ": ")


_HELD = ("DrainingNode", "WaitingForVolumeDetach")
_NOTHING_REPORTED = ("NotReady", "ObjectDoesNotExist", "NoReasonReported")


def _since(reported: Object) -> str:
    return str(reported.get("lastTransitionTime") or "")


def _running_since(machine: Object) -> str:
    """When it got its Node. What turned bad before that never was good: the machine is still coming up.

    Both are times of one format in UTC, which sort as texts.
    """
    return str(objects.at(machine, "status", "lastUpdated") or "")
