"""Strategies of apps: stored as data, with upstream's defaults and rules but for those of what is inside containers."""

from __future__ import annotations

import abc
from typing import Any, Final, cast

from steelyard.kube import fields, namerules, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.strategies import labelselectors, networking, podtemplates
from steelyard.kube.server.strategies.base import Strategy, default, immutable, non_negative, spec

TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
_MISMATCH: Final = "`selector` does not match template `labels`"
_OPEN_STATEFUL: Final = frozenset(
    {
        "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
    }
)  # fmt: skip
_STATEFUL_CHANGE: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


class WorkloadStrategy(Strategy, abc.ABC):
    """A selector, and a template whose labels it selects."""

    tracks_generation = True
    is_judged_by_schema = False
    noun = ""

    def prepare_create(self, obj: Object) -> None:
        self.set_defaults(spec(obj))
        podtemplates.set_defaults(template_spec(spec(obj)))

    @abc.abstractmethod
    def set_defaults(self, target: Object) -> None: ...

    def validate_create(self, obj: Object) -> list[Cause]:
        return self.validate_spec(objects.mapping(obj.get("spec")))

    @abc.abstractmethod
    def validate_spec(self, target: Object) -> list[Cause]: ...

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return self.validate_create(obj) + immutable(obj, old, ("spec", "selector"))

    def validate_selector(self, target: Object) -> list[Cause]:
        selector = target.get("selector")
        if not isinstance(selector, dict):
            return [fields.required("spec.selector")]
        wanted = objects.mapping(cast(Object, selector))
        return [*labelselectors.validate(wanted, "spec.selector"), *self.not_empty(wanted)]

    def not_empty(self, selector: Object) -> list[Cause]:
        if selector.get("matchLabels") or selector.get("matchExpressions"):
            return []
        return [fields.invalid("spec.selector", selector, f"empty selector is invalid for {self.noun}")]


class DeploymentStrategy(WorkloadStrategy):
    noun = "deployment"
    counts_annotations = True

    def set_defaults(self, target: Object) -> None:
        default(target, "replicas", 1)
        strategy = objects.mapping(target.get("strategy"))
        target["strategy"] = strategy
        default(strategy, "type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = objects.mapping(strategy.get("rollingUpdate"))
            strategy["rollingUpdate"] = rolling
            default(rolling, "maxUnavailable", "25%")
            default(rolling, "maxSurge", "25%")
        default(target, "revisionHistoryLimit", 10)
        default(target, "progressDeadlineSeconds", 600)

    def validate_spec(self, target: Object) -> list[Cause]:
        found = non_negative(target, "spec", ("replicas",)) + self.validate_selector(target)
        found += validate_template(target, "spec") + _validate_rollout(objects.mapping(target.get("strategy")))
        found += non_negative(target, "spec", ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"))
        deadline = target.get("progressDeadlineSeconds")
        if isinstance(deadline, int) and deadline <= int(target.get("minReadySeconds") or 0):
            text = "must be greater than minReadySeconds"
            found.append(fields.invalid("spec.progressDeadlineSeconds", deadline, text))
        return found


def _validate_rollout(strategy: Object) -> list[Cause]:
    rolling, place = strategy.get("rollingUpdate"), "spec.strategy.rollingUpdate"
    match strategy.get("type"):
        case "Recreate":
            text = "may not be specified when strategy `type` is 'Recreate'"
            return [fields.forbidden(place, text)] if rolling is not None else []
        case "RollingUpdate":
            steps = objects.mapping(rolling)
            away, more = steps.get("maxUnavailable"), steps.get("maxSurge")
            found = networking.share(away, f"{place}.maxUnavailable") + networking.share(more, f"{place}.maxSurge")
            if _is_none(away) and _is_none(more):
                found.append(fields.invalid(f"{place}.maxUnavailable", away, "may not be 0 when `maxSurge` is 0"))
            return found + networking.at_most_all(away, f"{place}.maxUnavailable")
        case _:
            return [fields.not_supported("spec.strategy", _shown(strategy), ("Recreate", "RollingUpdate"))]


def _is_none(value: Any) -> bool:
    return value in (0, "0%") or value is None


def _shown(strategy: Object) -> fields.Ordered:
    """A way to roll out as Go prints it, by the names that it has inside kube-apiserver."""
    rolling = strategy.get("rollingUpdate")
    if isinstance(rolling, dict):
        steps = objects.mapping(strategy["rollingUpdate"])
        rolling = {"MaxUnavailable": steps.get("maxUnavailable"), "MaxSurge": steps.get("maxSurge")}
    return fields.Ordered({"Type": strategy.get("type"), "RollingUpdate": rolling})


class ReplicaSetStrategy(WorkloadStrategy):
    noun = "replicaset"

    def set_defaults(self, target: Object) -> None:
        default(target, "replicas", 1)

    def validate_spec(self, target: Object) -> list[Cause]:
        found = non_negative(target, "spec", ("replicas", "minReadySeconds"))
        return found + self.validate_selector(target) + validate_template(target, "spec")


class DaemonSetStrategy(WorkloadStrategy):
    noun = "daemonset"

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        _count_templates(obj, 1)

    def prepare_update(self, obj: Object, old: Object) -> None:
        super().prepare_create(obj)
        known = str(objects.annotations(old).get(TEMPLATE_GENERATION) or "")
        count = int(known) if known.isdigit() else 1
        is_changed = objects.at(obj, "spec", "template") != objects.at(old, "spec", "template")
        _count_templates(obj, count + is_changed)

    def set_defaults(self, target: Object) -> None:
        update = objects.mapping(target.get("updateStrategy"))
        target["updateStrategy"] = update
        default(update, "type", "RollingUpdate")
        if update["type"] == "RollingUpdate":
            rolling = objects.mapping(update.get("rollingUpdate"))
            update["rollingUpdate"] = rolling
            default(rolling, "maxUnavailable", 1)
            default(rolling, "maxSurge", 0)
        default(target, "revisionHistoryLimit", 10)

    def validate_spec(self, target: Object) -> list[Cause]:
        selector = objects.mapping(target.get("selector"))
        found = list(labelselectors.validate(selector, "spec.selector"))
        found += _validate_match(target, "spec", is_strict=True)
        if isinstance(target.get("selector"), dict):
            found += self.not_empty(selector)
        found += _validate_pod(target, "spec")
        found += non_negative(target, "spec", ("minReadySeconds",))
        found += _validate_daemons(objects.mapping(target.get("updateStrategy")))
        return found + non_negative(target, "spec", ("revisionHistoryLimit",))


def _count_templates(obj: Object, count: int) -> None:
    cast(Object, obj["metadata"])["annotations"] = {**objects.annotations(obj), TEMPLATE_GENERATION: str(count)}


def _validate_daemons(update: Object) -> list[Cause]:
    place = "spec.updateStrategy.rollingUpdate"
    match update.get("type"):
        case "OnDelete":
            return []
        case "RollingUpdate":
            steps = objects.mapping(update.get("rollingUpdate"))
            away, more = steps.get("maxUnavailable"), steps.get("maxSurge")
            found: list[Cause] = []
            for check in (networking.share, networking.at_most_all):
                found += check(away, f"{place}.maxUnavailable") + check(more, f"{place}.maxSurge")
            if not _is_none(away) and not _is_none(more):
                found.append(
                    fields.invalid(f"{place}.maxSurge", more, "may not be set when maxUnavailable is non-zero")
                )
            elif _is_none(away) and _is_none(more):
                found.append(fields.required(f"{place}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
            return found
        case _:
            return [fields.not_supported("spec.updateStrategy", _shown(update), ("RollingUpdate", "OnDelete"))]


class StatefulSetStrategy(WorkloadStrategy):
    noun = "statefulset"

    def set_defaults(self, target: Object) -> None:
        default(target, "podManagementPolicy", "OrderedReady")
        update = objects.mapping(target.get("updateStrategy"))
        target["updateStrategy"] = update
        if not update.get("type"):
            update["type"] = "RollingUpdate"
            update.setdefault("rollingUpdate", {})
        if update["type"] == "RollingUpdate" and isinstance(update.get("rollingUpdate"), dict):
            default(objects.mapping(update["rollingUpdate"]), "partition", 0)
        retention = objects.mapping(target.get("persistentVolumeClaimRetentionPolicy"))
        target["persistentVolumeClaimRetentionPolicy"] = retention
        default(retention, "whenDeleted", "Retain")
        default(retention, "whenScaled", "Retain")
        default(target, "replicas", 1)
        default(target, "revisionHistoryLimit", 10)

    def validate_spec(self, target: Object) -> list[Cause]:
        found: list[Cause] = []
        policy, update = target.get("podManagementPolicy"), objects.mapping(target.get("updateStrategy"))
        if policy not in ("OrderedReady", "Parallel"):
            found.append(fields.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
        if update.get("type") not in ("RollingUpdate", "OnDelete"):
            text = "must be 'RollingUpdate' or 'OnDelete'"
            found.append(fields.invalid("spec.updateStrategy", _shown(update), text))
        elif update["type"] == "OnDelete" and (rolling := update.get("rollingUpdate")) is not None:
            text = "only allowed for updateStrategy 'RollingUpdate'"
            found.append(fields.invalid("spec.updateStrategy.rollingUpdate", rolling, text))
        for key, value in objects.mapping(target.get("persistentVolumeClaimRetentionPolicy")).items():
            if value not in ("Retain", "Delete"):
                place = f"spec.persistentVolumeClaimRetentionPolicy.{key}"
                found.append(fields.not_supported(place, value, ("Retain", "Delete")))
        found += non_negative(target, "spec", ("replicas", "minReadySeconds"))
        if name := str(target.get("serviceName") or ""):
            found += [fields.invalid("spec.serviceName", name, text) for text in namerules.dns_label(name)]
        return found + self.validate_selector(target) + validate_template(target, "spec")

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found = self.validate_create(obj)
        now, before = objects.mapping(obj.get("spec")), objects.mapping(old.get("spec"))
        if any(now.get(key) != before.get(key) for key in (now.keys() | before.keys()) - _OPEN_STATEFUL):
            found.append(fields.forbidden("spec", _STATEFUL_CHANGE))
        return found


def template_spec(target: Object) -> Object:
    """The pod's spec inside a workload's, to be changed in place."""
    template = cast(Object, target["template"]) if isinstance(target.get("template"), dict) else {}
    target["template"] = template
    return spec(template)


def validate_template(target: Object, place: str) -> list[Cause]:
    """Of a workload that keeps its pods running."""
    return _validate_match(target, place) + _validate_pod(target, place)


def _validate_pod(target: Object, place: str) -> list[Cause]:
    here = f"{place}.template.spec"
    pod = objects.mapping(objects.at(target, "template", "spec"))
    found = podtemplates.validate(pod, here)
    if pod.get("restartPolicy") != "Always":
        found.append(fields.not_supported(f"{here}.restartPolicy", pod.get("restartPolicy"), ("Always",)))
    return found


def _validate_match(target: Object, place: str, *, is_strict: bool = False) -> list[Cause]:
    """`is_strict` says that a selector that selects everything is looked at too."""
    selector, labels = target.get("selector"), objects.at(target, "template", "metadata", "labels")
    is_empty = isinstance(selector, dict) and not any(objects.mapping(target["selector"]).values())
    if selects(selector, objects.mapping(labels)) or (is_empty and not is_strict):
        return []
    return [fields.invalid(f"{place}.template.metadata.labels", labels, _MISMATCH)]


def selects(selector: Any, labels: Object) -> bool:
    """No selector selects nothing."""
    if not isinstance(selector, dict):
        return False
    wanted = objects.mapping(cast(Object, selector))
    expressions = map(objects.mapping, objects.sequence(wanted.get("matchExpressions")))
    fits = all(labels.get(key) == value for key, value in objects.mapping(wanted.get("matchLabels")).items())
    return fits and all(_fits(expression, labels) for expression in expressions)


def _fits(expression: Object, labels: Object) -> bool:
    key, values = str(expression.get("key") or ""), objects.sequence(expression.get("values"))
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False
