"""Configurations of validating and mutating webhooks: upstream's defaults and rules.

An update may keep what was accepted once under weaker rules, as upstream lets it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from steelyard.kube import fields, namerules, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.expressions import matchconditions
from steelyard.kube.server.strategies import labelselectors
from steelyard.kube.server.strategies.base import Strategy, default
from steelyard.kube.server.webhooks import clientconfig

_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_HARMLESS: Final = ("None", "NoneOnDryRun")
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun", "Some", "Unknown")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")


class WebhookStrategy(Strategy):
    tracks_generation = True
    is_judged_by_schema = False

    def __init__(self, *, mutating: bool) -> None:
        self._mutating = mutating

    def prepare_create(self, obj: Object) -> None:
        for hook in _hooks(obj):
            default(hook, "failurePolicy", "Fail")
            default(hook, "matchPolicy", "Equivalent")
            default(hook, "timeoutSeconds", 10)
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            if self._mutating:
                default(hook, "reinvocationPolicy", "Never")
            for rule in map(objects.mapping, objects.sequence(hook.get("rules"))):
                default(rule, "scope", "*")
            service = objects.at(hook, "clientConfig", "service")
            if isinstance(service, dict):
                default(cast(Object, service), "port", 443)

    def validate_create(self, obj: Object) -> list[Cause]:
        return list(self._validate(obj, None))

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return list(self._validate(obj, old))

    def _validate(self, obj: Object, old: Object | None) -> Iterable[Cause]:
        before = _hooks(old) if old is not None else []
        is_unique = len({hook.get("name") for hook in before}) == len(before)
        is_known = all(set(_REVIEW_VERSIONS) & set(_texts(hook, "admissionReviewVersions")) for hook in before)
        is_harmless = all(hook.get("sideEffects") in _HARMLESS for hook in before)
        known_conditions = [None, *(hook.get("matchConditions") for hook in before)]
        seen: set[str] = set()
        for index, hook in enumerate(_hooks(obj)):
            place = f"webhooks[{index}]"
            yield from _name(str(hook.get("name") or ""), f"{place}.name")
            for number, rule in enumerate(map(objects.mapping, objects.sequence(hook.get("rules")))):
                yield from rule_problems(rule, f"{place}.rules[{number}]")
            yield from supported(hook, "failurePolicy", ("Fail", "Ignore"), place)
            yield from supported(hook, "matchPolicy", ("Equivalent", "Exact"), place)
            yield from _side_effects(hook, place, _HARMLESS if is_harmless else _SIDE_EFFECTS)
            seconds = hook.get("timeoutSeconds")
            if isinstance(seconds, int) and not 1 <= seconds <= 30:
                text = "the timeout value must be between 1 and 30 seconds"
                yield fields.invalid(f"{place}.timeoutSeconds", seconds, text)
            for key in ("namespaceSelector", "objectSelector"):
                yield from labelselectors.validate(objects.mapping(hook.get(key)), f"{place}.{key}")
            if self._mutating:
                yield from supported(hook, "reinvocationPolicy", ("IfNeeded", "Never"), place)
            yield from clientconfig.validate(objects.mapping(hook.get("clientConfig")), f"{place}.clientConfig")
            if hook.get("matchConditions") not in known_conditions:
                yield from matchconditions.validate(matchconditions.of(hook), f"{place}.matchConditions")
            yield from _review_versions(_texts(hook, "admissionReviewVersions"), place, must_know=is_known)
            name = str(hook.get("name") or "")
            if name and is_unique and name in seen:
                yield fields.duplicate(f"{place}.name", name)
            seen.add(name)


def _hooks(obj: Object) -> list[Object]:
    return [objects.mapping(hook) for hook in objects.sequence(obj.get("webhooks"))]


def _texts(target: Object, key: str) -> list[str]:
    return [str(each) for each in objects.sequence(target.get(key))]


def _name(name: str, place: str) -> Iterable[Cause]:
    if not name:
        yield fields.required(place)
    elif wrong := namerules.dns_subdomain(name):
        yield fields.invalid(place, name, ",".join(wrong))
    elif len(name.split(".")) < 3:
        yield fields.invalid(place, name, "should be a domain with at least three segments separated by dots")


def supported(hook: Object, key: str, accepted: tuple[str, ...], place: str) -> Iterable[Cause]:
    if hook.get(key) is not None and hook[key] not in accepted:
        yield fields.not_supported(f"{place}.{key}", hook[key], accepted)


def _side_effects(hook: Object, place: str, accepted: tuple[str, ...]) -> Iterable[Cause]:
    if hook.get("sideEffects") is None:
        yield fields.required(f"{place}.sideEffects", f"must specify one of {', '.join(accepted)}")
    else:
        yield from supported(hook, "sideEffects", accepted, place)


def rule_problems(rule: Object, place: str) -> Iterable[Cause]:
    operations = _texts(rule, "operations")
    yield from _listed(operations, f"{place}.operations", "operations")
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield fields.not_supported(f"{place}.operations[{index}]", operation, _OPERATIONS)
    yield from _listed(_texts(rule, "apiGroups"), f"{place}.apiGroups", "API groups")
    versions = _texts(rule, "apiVersions")
    yield from _listed(versions, f"{place}.apiVersions", "API versions")
    for index, version in enumerate(versions):
        if not version:
            yield fields.required(f"{place}.apiVersions[{index}]")
    yield from _resources(_texts(rule, "resources"), f"{place}.resources")
    if rule.get("scope") is not None and rule["scope"] not in _SCOPES:
        yield fields.not_supported(f"{place}.scope", rule["scope"], _SCOPES)


def _listed(values: list[str], place: str, what: str) -> Iterable[Cause]:
    if not values:
        yield fields.required(place)
    elif len(values) > 1 and "*" in values:
        yield fields.invalid(place, values, f"if '*' is present, must not specify other {what}")


def _resources(resources: list[str], place: str) -> Iterable[Cause]:
    if not resources:
        yield fields.required(place)
    any_subresource: set[str] = set()
    any_resource: set[str] = set()
    has_plain = False
    for index, text in enumerate(resources):
        if not text:
            yield fields.required(f"{place}[{index}]")
            continue
        resource, slash, subresource = text.partition("/")
        if not slash:
            has_plain = text != "*"
            continue
        if resource in any_subresource:
            yield fields.invalid(f"{place}[{index}]", text, f"if '{resource}/*' is present, must not specify {text}")
        if subresource in any_resource:
            yield fields.invalid(f"{place}[{index}]", text, f"if '*/{subresource}' is present, must not specify {text}")
        if subresource == "*":
            any_subresource.add(resource)
        if resource == "*":
            any_resource.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        yield fields.invalid(place, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and has_plain:
        text = "if '*' is present, must not specify other resources without subresources"
        yield fields.invalid(place, resources, text)


def _review_versions(versions: list[str], place: str, *, must_know: bool) -> Iterable[Cause]:
    place = f"{place}.admissionReviewVersions"
    if not versions:
        yield fields.required(place, f"must specify one of {', '.join(_REVIEW_VERSIONS)}")
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield fields.invalid(f"{place}[{index}]", version, "duplicate version")
            continue
        for text in namerules.dns1035_label(version):
            yield fields.invalid(f"{place}[{index}]", version, text)
    if must_know and not set(_REVIEW_VERSIONS) & set(versions):
        yield fields.invalid(place, versions, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")
