"""ValidatingAdmissionPolicies and their bindings, read from what is stored and ready to be asked.

A policy without a binding says nothing. Its expressions are compiled when the first request meets it, and stay so until
the policy changes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

from steelyard.frozen import frozen
from steelyard.kube import objects, selectors
from steelyard.kube.objects import Object
from steelyard.kube.selectors import LabelSelector
from steelyard.kube.server.catalogue.matching import Criteria, Rule
from steelyard.kube.server.expressions import compiling, matchconditions
from steelyard.kube.server.expressions.compiling import Compiled, of

POLICIES: Final = "validatingadmissionpolicies"
BINDINGS: Final = "validatingadmissionpolicybindings"


@frozen
class ParamReference:
    name: str
    namespace: str
    selector: LabelSelector | None
    must_exist: bool


@frozen
class Binding:
    name: str
    criteria: Criteria | None
    """None for a binding that adds nothing to what the policy is concerned with."""
    actions: tuple[str, ...]
    reference: ParamReference | None


class Policy:
    """One policy with its bindings; the same object until one of them changes."""

    def __init__(self, stored: Object, bindings: Iterable[Binding]) -> None:
        self.spec = objects.mapping(stored.get("spec"))
        self.name = objects.name(stored)
        self.bindings = tuple(bindings)
        self.criteria = criteria(objects.mapping(self.spec.get("matchConstraints")))
        self.ignores_failure = self.spec.get("failurePolicy") == "Ignore"
        self.conditions = tuple(
            (str(each.get("name") or ""), str(each.get("expression") or "").strip())
            for each in matchconditions.of(self.spec)
        )
        kind = objects.mapping(self.spec.get("paramKind"))
        self.param_kind = (str(kind.get("apiVersion") or ""), str(kind.get("kind") or "")) if kind else None

    @functools.cached_property
    def compiled(self) -> Compiled:
        return compiling.compile_(self.spec)


def criteria(given: Object) -> Criteria:
    return Criteria(
        rules=tuple(rule(each) for each in of(given, "resourceRules")),
        is_exact=given.get("matchPolicy") == "Exact",
        namespaces=selectors.from_object(objects.mapping(given.get("namespaceSelector"))),
        objects=selectors.from_object(objects.mapping(given.get("objectSelector"))),
        excluded=tuple(rule(each) for each in of(given, "excludeResourceRules")),
        is_open=True,
    )


def rule(given: Object) -> Rule:
    resources = (str(each).partition("/") for each in objects.sequence(given.get("resources")))
    return Rule(
        frozenset(map(str, objects.sequence(given.get("operations")))),
        frozenset(map(str, objects.sequence(given.get("apiGroups")))),
        frozenset(map(str, objects.sequence(given.get("apiVersions")))),
        tuple((plural, subresource) for plural, _, subresource in resources),
        str(given.get("scope") or "*"),
        frozenset(map(str, objects.sequence(given.get("resourceNames")))),
    )


def binding(stored: Object) -> tuple[str, Binding]:
    """The binding, and the name of its policy."""
    spec = objects.mapping(stored.get("spec"))
    resources = spec.get("matchResources")
    reference = objects.mapping(spec.get("paramRef"))
    selector = reference.get("selector")
    return str(spec.get("policyName") or ""), Binding(
        objects.name(stored),
        criteria(objects.mapping(resources)) if resources is not None else None,
        tuple(map(str, objects.sequence(spec.get("validationActions")))),
        ParamReference(
            str(reference.get("name") or ""),
            str(reference.get("namespace") or ""),
            selectors.from_object(objects.mapping(selector)) if selector is not None else None,
            reference.get("parameterNotFoundAction") == "Deny",
        )
        if reference
        else None,
    )
