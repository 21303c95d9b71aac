"""Strategies of the kinds that grant rights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import orjson

from steelyard.kube import fields, namerules, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.strategies import labelselectors
from steelyard.kube.server.strategies.base import Strategy, default

GROUP: Final = "rbac.authorization.k8s.io"


class RoleStrategy(Strategy):
    creates_on_update = True
    is_judged_by_schema = False

    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced

    def validate_create(self, obj: Object) -> list[Cause]:
        found: list[Cause] = []
        for index, rule in enumerate(map(objects.mapping, objects.sequence(obj.get("rules")))):
            found += self._validate_rule(rule, f"rules[{index}]")
        aggregation = obj.get("aggregationRule")
        if isinstance(aggregation, dict) and not objects.at(aggregation, "clusterRoleSelectors"):
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            found.append(fields.required("aggregationRule.clusterRoleSelectors", text))
        for index, selector in enumerate(objects.sequence(objects.at(aggregation or {}, "clusterRoleSelectors"))):
            place = f"aggregationRule.clusterRoleSelectors[{index}]"
            wrong = list(labelselectors.validate(objects.mapping(selector), place))
            if wrong:
                found += [*wrong, Cause(place, "FieldValueInvalid", "Invalid value: null: invalid label selector.")]
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        """Upstream judges the whole role in both of the two steps that an update has."""
        del old
        return self.validate_create(obj) * 2

    def _validate_rule(self, rule: Object, path: str) -> Iterable[Cause]:
        if not rule.get("verbs"):
            yield fields.required(f"{path}.verbs", "verbs must contain at least one value")
        urls = objects.sequence(rule.get("nonResourceURLs"))
        if urls:
            place = f"{path}.nonResourceURLs"
            if self._namespaced:
                yield fields.invalid(place, urls, "namespaced rules cannot apply to non-resource URLs")
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                yield fields.invalid(place, urls, text)
            return
        if not rule.get("apiGroups"):
            yield fields.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield fields.required(f"{path}.resources", "resource rules must supply at least one resource")


class BindingStrategy(Strategy):
    creates_on_update = True
    is_judged_by_schema = False

    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced

    def prepare_create(self, obj: Object) -> None:
        if isinstance(obj.get("roleRef"), dict):
            default(objects.mapping(obj["roleRef"]), "apiGroup", GROUP)
        for subject in map(objects.mapping, objects.sequence(obj.get("subjects"))):
            if subject.get("kind") in ("User", "Group"):
                default(subject, "apiGroup", GROUP)

    def validate_create(self, obj: Object) -> list[Cause]:
        role = objects.mapping(obj.get("roleRef"))
        found: list[Cause] = []
        if role.get("apiGroup") != GROUP:
            found.append(fields.not_supported("roleRef.apiGroup", role.get("apiGroup") or "", (GROUP,)))
        kinds = ("Role", "ClusterRole") if self._namespaced else ("ClusterRole",)
        if role.get("kind") not in kinds:
            found.append(fields.not_supported("roleRef.kind", role.get("kind") or "", kinds))
        name = str(role.get("name") or "")
        if not name:
            found.append(fields.required("roleRef.name"))
        found += [fields.invalid("roleRef.name", name, text) for text in namerules.path_segment(name)]
        for index, subject in enumerate(map(objects.mapping, objects.sequence(obj.get("subjects")))):
            found += self._validate_subject(subject, f"subjects[{index}]")
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found = self.validate_create(obj) * 2
        role = objects.mapping(obj.get("roleRef"))
        if role != objects.mapping(old.get("roleRef")):
            shown = {"APIGroup": role.get("apiGroup"), "Kind": role.get("kind"), "Name": role.get("name")}
            text = f"Invalid value: {orjson.dumps(shown).decode()}: cannot change roleRef"
            found.append(Cause("roleRef", "FieldValueInvalid", text))
        return found

    def _validate_subject(self, subject: Object, path: str) -> Iterable[Cause]:
        name, kind, group = str(subject.get("name") or ""), subject.get("kind"), subject.get("apiGroup") or ""
        if not name:
            yield fields.required(f"{path}.name")
        if kind == "ServiceAccount":
            if name:
                for text in namerules.dns_subdomain(name):
                    yield fields.invalid(f"{path}.name", name, text)
            if group:
                yield fields.not_supported(f"{path}.apiGroup", group, ("",))
            if not self._namespaced and not subject.get("namespace"):
                yield fields.required(f"{path}.namespace")
        elif kind in ("User", "Group"):
            if group != GROUP:
                yield fields.not_supported(f"{path}.apiGroup", group, (GROUP,))
        else:
            yield fields.not_supported(f"{path}.kind", kind or "", ("ServiceAccount", "User", "Group"))
