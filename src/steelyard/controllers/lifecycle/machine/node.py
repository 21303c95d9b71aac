"""What a Machine puts onto its Node: labels, annotations and taints; and whether a Node is healthy. Pure.

The Node remembers in two annotations which labels and annotations came from its Machine, so that one taken off the
Machine is taken off the Node too, and labels of others are left alone.
"""

from __future__ import annotations

from typing import Any

from steelyard.api.clusterapi import wellknown
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.verdicts import Verdict

NODE_READY = "NodeReady"
NODE_HEALTHY = "NodeHealthy"
_BOOKKEEPING = (
    wellknown.CLUSTER_NAME_ANNOTATION,
    wellknown.CLUSTER_NAMESPACE_ANNOTATION,
    wellknown.MACHINE_ANNOTATION,
    wellknown.OWNER_KIND_ANNOTATION,
    wellknown.OWNER_NAME_ANNOTATION,
)
_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def patch_for(node: Object, machine: Object, *, outdated: bool, interruptible: bool) -> Object:
    """The merge patch that brings the Node in line with its Machine; empty where it is already."""
    wanted_labels = managed_labels(machine)
    if interruptible:
        wanted_labels[wellknown.INTERRUPTIBLE_LABEL] = ""
    wanted_annotations = managed_annotations(machine)
    have = objects.annotations(node)
    labels = _changes(objects.labels(node), wanted_labels, _remembered(have, wellknown.LABELS_FROM_MACHINE_ANNOTATION))
    before = [*_remembered(have, wellknown.ANNOTATIONS_FROM_MACHINE_ANNOTATION), *_BOOKKEEPING]
    wanted_annotations[wellknown.LABELS_FROM_MACHINE_ANNOTATION] = ",".join(sorted(wanted_labels))
    wanted_annotations[wellknown.ANNOTATIONS_FROM_MACHINE_ANNOTATION] = ",".join(
        sorted(name for name in managed_annotations(machine) if name not in _BOOKKEEPING)
    )
    annotations = _changes(have, wanted_annotations, before)
    taints = objects.sequence(objects.at(node, "spec", "taints"))
    wanted_taints = _taints(taints, outdated=outdated)
    patch: Object = {}
    if labels or annotations:
        patch["metadata"] = {name: value for name, value in (("labels", labels), ("annotations", annotations)) if value}
    if wanted_taints != taints:
        patch["spec"] = {"taints": wanted_taints}
        patch.setdefault("metadata", {})["resourceVersion"] = objects.resource_version(node)
    return patch


def managed_labels(machine: Object) -> dict[str, str]:
    """Labels of the Machine in the domains that belong on Nodes."""
    return {
        name: value
        for name, value in objects.labels(machine).items()
        if (domain := name.split("/")[0]) == wellknown.NODE_ROLE_DOMAIN
        or _is_within(domain, wellknown.NODE_RESTRICTION_DOMAIN)
        or _is_within(domain, wellknown.MANAGED_NODE_DOMAIN)
    }


def managed_annotations(machine: Object) -> dict[str, str]:
    found = {
        wellknown.CLUSTER_NAME_ANNOTATION: str(objects.at(machine, "spec", "clusterName") or ""),
        wellknown.CLUSTER_NAMESPACE_ANNOTATION: objects.namespace(machine),
        wellknown.MACHINE_ANNOTATION: objects.name(machine),
    }
    owner = objects.controller_of(machine)
    if owner:
        found[wellknown.OWNER_KIND_ANNOTATION] = str(owner.get("kind"))
        found[wellknown.OWNER_NAME_ANNOTATION] = str(owner.get("name"))
    own = objects.annotations(machine)
    return {
        **found,
        **{name: own[name] for name in own if _is_within(name.split("/")[0], wellknown.MANAGED_NODE_DOMAIN)},
    }


def readiness(node: Object) -> Verdict:
    condition = _condition(node, "Ready")
    if condition is None:
        return verdicts.unknown(NODE_READY, "NodeReadyUnknown", "* Node.Ready: Condition not yet reported")
    status = condition.get("status")
    message = str(condition.get("message") or "")
    text = f"* Node.Ready: {message}" if status != "True" and message else ""
    since = str(condition.get("lastTransitionTime") or "")
    if status == "True":
        return Verdict(NODE_READY, "True", "NodeReady", text, since)
    if status == "False":
        return Verdict(NODE_READY, "False", "NodeNotReady", text, since)
    return Verdict(NODE_READY, "Unknown", "NodeReadyUnknown", text, since)


def health(node: Object) -> Verdict:
    """Ready must be true and the pressures false; one that is not reported is unknown."""
    bad = unknown = 0
    lines: list[str] = []
    messages: set[str] = set()
    reported = 0
    for type_ in _REPORTED:
        condition = _condition(node, type_)
        if condition is None:
            lines.append(f"* Node.{type_}: Condition not yet reported")
            unknown += 1
            continue
        status = condition.get("status")
        if status == ("True" if type_ == "Ready" else "False"):
            continue
        message = str(condition.get("message") or f"Condition is {status}")
        lines.append(f"* Node.{type_}: {message}")
        messages.add(message)
        reported += 1
        if status == "Unknown":
            unknown += 1
        else:
            bad += 1
    if reported > 1 and len(messages) == 1:
        lines = [f"* Node.AllConditions: {messages.pop()}"]
    text = "\n".join(lines)
    if bad:
        return verdicts.false(NODE_HEALTHY, "NodeNotHealthy", text)
    if unknown:
        return verdicts.unknown(NODE_HEALTHY, "NodeHealthyUnknown", text)
    return verdicts.true(NODE_HEALTHY, "NodeHealthy")


def _changes(have: dict[str, str], wanted: dict[str, str], before: list[str]) -> Object:
    changes: Object = {name: value for name, value in wanted.items() if have.get(name) != value}
    for name in before:
        if name not in wanted and name in have:
            changes[name] = None
    return changes


def _taints(taints: list[Any], *, outdated: bool) -> list[Any]:
    ours = (wellknown.UNINITIALIZED_TAINT["key"], wellknown.OUTDATED_TAINT["key"])
    kept = [taint for taint in taints if objects.mapping(taint).get("key") not in ours]
    if not outdated:
        return kept
    present = [taint for taint in taints if objects.mapping(taint).get("key") == wellknown.OUTDATED_TAINT["key"]]
    return [*kept, *(present or [dict(wellknown.OUTDATED_TAINT)])]


def _remembered(annotations: dict[str, str], name: str) -> list[str]:
    return [each for each in annotations.get(name, "").split(",") if each]


def _is_within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


def _condition(node: Object, type_: str) -> Object | None:
    conditions = map(objects.mapping, objects.sequence(objects.at(node, "status", "conditions")))
    return next((condition for condition in conditions if condition.get("type") == type_), None)
