"""Strategies of batch: Jobs, which get a selector of their own, and the CronJobs that make them."""

from __future__ import annotations

import re
import zoneinfo
from typing import Any, Final, cast

from steelyard.kube import fields, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.strategies import labelselectors, podtemplates, schedules, workloads
from steelyard.kube.server.strategies.base import Strategy, default, immutable, non_negative, spec

_UID_LABEL: Final = "batch.kubernetes.io/controller-uid"
_COUNTS: Final = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_ZONE: Final = re.compile("[A-Za-z0-9.\\-_+]{1,14}")
_LONGEST_CRON_NAME: Final = 52


class JobStrategy(Strategy):
    tracks_generation = True
    is_judged_by_schema = False

    def prepare_create(self, obj: Object) -> None:
        target = spec(obj)
        _set_defaults(target)
        podtemplates.set_defaults(workloads.template_spec(target))
        labels = objects.at(target, "template", "metadata", "labels")
        if labels and not objects.labels(obj):
            cast(Object, obj["metadata"])["labels"] = {**objects.mapping(labels)}

    def complete_create(self, obj: Object) -> None:
        """Selects the pods by the job's uid, unless the client says that it knows better."""
        target = spec(obj)
        if target.get("manualSelector"):
            return
        template = objects.mapping(target.get("template"))
        template["metadata"] = objects.mapping(template.get("metadata"))
        name, uid = objects.name(obj), objects.uid(obj)
        own = {"job-name": name, "batch.kubernetes.io/job-name": name, "controller-uid": uid, _UID_LABEL: uid}
        labels = {**own, **objects.mapping(template["metadata"].get("labels"))}
        template["metadata"]["labels"] = labels
        selector = objects.mapping(target.get("selector"))
        selector["matchLabels"] = {_UID_LABEL: uid, **objects.mapping(selector.get("matchLabels"))}
        target["selector"] = selector
        if not objects.labels(obj):
            cast(Object, obj["metadata"])["labels"] = {**labels}

    def validate_create(self, obj: Object) -> list[Cause]:
        target = objects.mapping(obj.get("spec"))
        found: list[Cause] = []
        selector = target.get("selector")
        if not target.get("manualSelector") and selector != {"matchLabels": {_UID_LABEL: objects.uid(obj)}}:
            found.append(fields.invalid("spec.selector", selector, "`selector` not auto-generated"))
        found += _validate_job(target, "spec")
        if not isinstance(selector, dict):
            found.append(fields.required("spec.selector"))
        else:
            found += labelselectors.validate(objects.mapping(cast(Object, selector)), "spec.selector")
        labels = objects.at(target, "template", "metadata", "labels")
        if not workloads.selects(selector, objects.mapping(labels)):
            text = "`selector` does not match template `labels`"
            found.append(fields.invalid("spec.template.metadata.labels", labels, text))
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return self.validate_create(obj) + immutable(obj, old, ("spec", "selector"), ("spec", "completionMode"))


class CronJobStrategy(Strategy):
    tracks_generation = True
    is_judged_by_schema = False

    def prepare_create(self, obj: Object) -> None:
        target = spec(obj)
        default(target, "concurrencyPolicy", "Allow")
        default(target, "suspend", False)
        default(target, "successfulJobsHistoryLimit", 3)
        default(target, "failedJobsHistoryLimit", 1)
        template = objects.mapping(target.get("jobTemplate"))
        if isinstance(template.get("spec"), dict):
            podtemplates.set_defaults(workloads.template_spec(objects.mapping(template["spec"])))

    def validate_create(self, obj: Object) -> list[Cause]:
        found = self._validate(obj, None)
        name = objects.name(obj)
        if len(name) > _LONGEST_CRON_NAME:
            found.append(fields.invalid("metadata.name", name, f"must be no more than {_LONGEST_CRON_NAME} characters"))
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return self._validate(obj, objects.mapping(old.get("spec")))

    def _validate(self, obj: Object, before: Object | None) -> list[Cause]:
        target = objects.mapping(obj.get("spec"))
        found = _validate_schedule(target, before) + non_negative(target, "spec", ("startingDeadlineSeconds",))
        if before is None or before.get("timeZone") != target.get("timeZone"):
            found += _validate_zone(target.get("timeZone"))
        policy = target.get("concurrencyPolicy")
        if policy not in ("Allow", "Forbid", "Replace"):
            found.append(fields.not_supported("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace")))
        inner, place = objects.mapping(objects.at(target, "jobTemplate", "spec")), "spec.jobTemplate.spec"
        found += _validate_job(inner, place)
        if (selector := inner.get("selector")) is not None:
            found.append(fields.invalid(f"{place}.selector", selector, "`selector` will be auto-generated"))
        if inner.get("manualSelector"):
            found.append(fields.not_supported(f"{place}.manualSelector", True, ("nil", "false")))
        return found + non_negative(target, "spec", ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"))


def _validate_schedule(target: Object, before: Object | None) -> list[Cause]:
    text = str(target.get("schedule") or "")
    if not text:
        return [fields.required("spec.schedule")]
    wrong = schedules.problem(text)
    found = [fields.invalid("spec.schedule", text, wrong)] if wrong else []
    had_zone = before is not None and "TZ" in str(before.get("schedule") or "")
    if "TZ" in text and not had_zone:
        told = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        found.append(fields.invalid("spec.schedule", text, told))
    elif "TZ" in text and target.get("timeZone") is not None:
        told = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        found.append(fields.invalid("spec.schedule", text, told))
    return found


def _validate_zone(zone: Any) -> list[Cause]:
    if zone is None:
        return []
    place, text = "spec.timeZone", str(zone)
    if not text:
        return [fields.invalid(place, text, "timeZone must be nil or non-empty string")]
    for part in text.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE.fullmatch(part):
            return [fields.invalid(place, text, f"unknown time zone {text}")]
    if text.lower() == "local":
        told = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [fields.invalid(place, text, told)]
    try:
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return [fields.invalid(place, text, f"unknown time zone {text}")]
    return []


def _set_defaults(target: Object) -> None:
    if target.get("completions") is None and target.get("parallelism") is None:
        target["completions"] = target["parallelism"] = 1
    default(target, "parallelism", 1)
    default(target, "backoffLimit", 6)
    default(target, "completionMode", "NonIndexed")
    default(target, "suspend", False)
    default(target, "manualSelector", False)
    default(target, "podReplacementPolicy", "TerminatingOrFailed")


def _validate_job(target: Object, place: str) -> list[Cause]:
    found = non_negative(target, place, _COUNTS)
    mode = target.get("completionMode")
    if mode is not None and mode not in ("NonIndexed", "Indexed"):
        found.append(fields.not_supported(f"{place}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed" and target.get("completions") is None:
        found.append(fields.required(f"{place}.completions", "when completion mode is Indexed"))
    if mode in (None, "NonIndexed"):
        for key in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if (value := target.get(key)) is not None:
                found.append(fields.invalid(f"{place}.{key}", value, "requires indexed completion mode"))
    pod = objects.mapping(objects.at(target, "template", "spec"))
    found += podtemplates.validate(pod, f"{place}.template.spec")
    restart, here = pod.get("restartPolicy"), f"{place}.template.spec.restartPolicy"
    if restart in (None, "", "Always"):
        found.append(fields.required(here, 'valid values: "OnFailure", "Never"'))
    elif restart not in ("OnFailure", "Never"):
        found.append(fields.not_supported(here, restart, ("OnFailure", "Never")))
    return found
