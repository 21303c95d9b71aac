"""Strategies of apps and batch: stored as data, with the defaults and the rules that users of kubectl meet."""

from __future__ import annotations

import abc
from typing import Final, cast

from steelyard.kube import fields, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.strategies import podtemplates
from steelyard.kube.server.strategies.base import Strategy, default, immutable, non_negative, spec

_COUNTS: Final = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")


class WorkloadStrategy(Strategy, abc.ABC):
    """A selector, and a template whose labels it selects."""

    tracks_generation = True
    noun = ""

    def prepare_create(self, obj: Object) -> None:
        self.set_defaults(spec(obj))
        podtemplates.set_defaults(_template_spec(spec(obj)))

    @abc.abstractmethod
    def set_defaults(self, target: Object) -> None: ...

    def validate_create(self, obj: Object) -> list[Cause]:
        target = objects.mapping(obj.get("spec"))
        found = non_negative(target, "spec", _COUNTS)
        found += _validate_selector(target, self.noun)
        found += podtemplates.validate(objects.mapping(objects.at(target, "template", "spec")), "spec.template.spec")
        restart = objects.at(target, "template", "spec", "restartPolicy")
        if restart != "Always":
            found.append(fields.not_supported("spec.template.spec.restartPolicy", restart, ("Always",)))
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return self.validate_create(obj) + immutable(obj, old, ("spec", "selector"))


class DeploymentStrategy(WorkloadStrategy):
    noun = "deployment"

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

    def validate_create(self, obj: Object) -> list[Cause]:
        found = super().validate_create(obj)
        strategy = objects.mapping(objects.at(obj, "spec", "strategy"))
        if strategy.get("type") not in ("Recreate", "RollingUpdate"):
            found.append(fields.not_supported("spec.strategy", strategy, ("Recreate", "RollingUpdate")))
        elif strategy["type"] == "Recreate" and strategy.get("rollingUpdate") is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            found.append(fields.forbidden("spec.strategy.rollingUpdate", text))
        deadline = objects.at(obj, "spec", "progressDeadlineSeconds")
        if isinstance(deadline, int) and deadline <= int(objects.at(obj, "spec", "minReadySeconds") or 0):
            text = "must be greater than minReadySeconds"
            found.append(fields.invalid("spec.progressDeadlineSeconds", deadline, text))
        return found


class ReplicaSetStrategy(WorkloadStrategy):
    noun = "replicaset"

    def set_defaults(self, target: Object) -> None:
        default(target, "replicas", 1)


class DaemonSetStrategy(WorkloadStrategy):
    noun = "daemonset"

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

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        unchanged = (("spec", "volumeClaimTemplates"), ("spec", "serviceName"), ("spec", "podManagementPolicy"))
        return super().validate_update(obj, old) + immutable(obj, old, *unchanged)


class JobStrategy(Strategy):
    tracks_generation = True

    def prepare_create(self, obj: Object) -> None:
        _job_defaults(spec(obj))

    def validate_create(self, obj: Object) -> list[Cause]:
        return _validate_job(objects.mapping(obj.get("spec")), "spec")

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return self.validate_create(obj) + immutable(obj, old, ("spec", "selector"), ("spec", "completionMode"))


class CronJobStrategy(Strategy):
    tracks_generation = True

    def prepare_create(self, obj: Object) -> None:
        target = spec(obj)
        default(target, "concurrencyPolicy", "Allow")
        default(target, "suspend", False)
        default(target, "successfulJobsHistoryLimit", 3)
        default(target, "failedJobsHistoryLimit", 1)
        template = objects.mapping(target.get("jobTemplate"))
        if isinstance(template.get("spec"), dict):
            podtemplates.set_defaults(_template_spec(objects.mapping(template["spec"])))

    def validate_create(self, obj: Object) -> list[Cause]:
        target = objects.mapping(obj.get("spec"))
        found = [] if target.get("schedule") else [fields.required("spec.schedule")]
        inner = objects.mapping(objects.at(target, "jobTemplate", "spec"))
        return found + _validate_job(inner, "spec.jobTemplate.spec")


def _job_defaults(target: Object) -> None:
    if target.get("completions") is None and target.get("parallelism") is None:
        target["completions"] = target["parallelism"] = 1
    default(target, "parallelism", 1)
    default(target, "backoffLimit", 6)
    default(target, "completionMode", "NonIndexed")
    default(target, "suspend", False)
    default(target, "manualSelector", False)
    default(target, "podReplacementPolicy", "TerminatingOrFailed")
    podtemplates.set_defaults(_template_spec(target))


def _validate_job(target: Object, path: str) -> list[Cause]:
    found = non_negative(target, path, ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"))
    pod = objects.mapping(objects.at(target, "template", "spec"))
    found += podtemplates.validate(pod, f"{path}.template.spec")
    restart = pod.get("restartPolicy")
    place = f"{path}.template.spec.restartPolicy"
    if restart in (None, "", "Always"):
        found.append(fields.required(place, 'valid values: "OnFailure", "Never"'))
    elif restart not in ("OnFailure", "Never"):
        found.append(fields.not_supported(place, restart, ("OnFailure", "Never")))
    return found


def _template_spec(target: Object) -> Object:
    """The pod's spec inside a workload's, to be changed in place."""
    template = cast(Object, target["template"]) if isinstance(target.get("template"), dict) else {}
    target["template"] = template
    return spec(template)


def _validate_selector(target: Object, noun: str) -> list[Cause]:
    selector = target.get("selector")
    labels = objects.mapping(objects.at(target, "template", "metadata", "labels"))
    mismatch = "`selector` does not match template `labels`"
    if not isinstance(selector, dict):
        # No selector selects nothing, not even a template without labels.
        return [
            fields.required("spec.selector"),
            fields.invalid("spec.template.metadata.labels", labels or None, mismatch),
        ]
    wanted = objects.mapping(cast(Object, selector))
    expressions = [objects.mapping(entry) for entry in objects.sequence(wanted.get("matchExpressions"))]
    if not wanted.get("matchLabels") and not expressions:
        return [fields.invalid("spec.selector", wanted, f"empty selector is invalid for {noun}")]
    fits = all(labels.get(key) == value for key, value in objects.mapping(wanted.get("matchLabels")).items())
    if fits and all(_fits(expression, labels) for expression in expressions):
        return []
    return [fields.invalid("spec.template.metadata.labels", labels or None, mismatch)]


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
