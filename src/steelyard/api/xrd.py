"""A kind's declaration to its Crossplane CompositeResourceDefinition: the same fields as in its CRD.

    legacy        XWorkloadCluster, without a namespace, and the claim WorkloadCluster in one, as the documents have it
    namespaced    WorkloadCluster, a composite in a namespace (Crossplane v2), written as the claim is

Crossplane adds the fields that are its own (`OWN_FIELDS`), and makes CRDs of it. It takes over what is said of spec and
status, and nothing that is said of a whole object; those rules are in an admission policy (`rules_of_whole`), judged of
the same objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

from steelyard.api import crd, policies
from steelyard.api.crossplane import COMPOSITE_DEFINITIONS
from steelyard.api.model import Kind
from steelyard.kube import objects
from steelyard.kube.objects import Object

Form: TypeAlias = Literal["legacy", "namespaced"]
LEGACY: Final = "legacy"
NAMESPACED: Final = "namespaced"
FORMS: Final[tuple[Form, ...]] = (LEGACY, NAMESPACED)
OWN_FIELDS: Final = frozenset(
    {
        "claimRef",
        "compositeDeletePolicy",
        "compositionRef",
        "compositionRevisionRef",
        "compositionRevisionSelector",
        "compositionSelector",
        "compositionUpdatePolicy",
        "crossplane",
        "resourceRef",
        "resourceRefs",
    }
)
"""Of a claim's or a composite's spec: what Crossplane adds by itself."""
_OF_LEGACY: Final = frozenset({"writeConnectionSecretToRef"})
"""There it is Crossplane's too, and has no namespace; of a composite in a namespace it is ours."""
_COLUMNS_OF_CROSSPLANE: Final = frozenset({"Ready", "Synced", "Age"})


def definition(kind: Kind, form: Form) -> Object:
    """`defaultCompositionUpdatePolicy: Manual`: another platform file or version is another revision of a Composition,
    and replaces nobody's machines before somebody names it in the claim. `Foreground`: a claim is gone when everything
    that was made for it is."""
    resource = kind.resource
    spec: Object = {"group": resource.group, "names": _names(kind, form)}
    spec["scope"] = "LegacyCluster" if form == LEGACY else "Namespaced"
    if form == LEGACY:
        spec["claimNames"] = _claim_names(kind)
        spec["defaultCompositeDeletePolicy"] = "Foreground"
    spec["defaultCompositionUpdatePolicy"] = "Manual"
    spec["versions"] = [
        {
            "name": resource.version,
            "served": True,
            "referenceable": True,
            "schema": {"openAPIV3Schema": schema(kind, form)},
            "additionalPrinterColumns": [
                column.to_json() for column in kind.columns if column.name not in _COLUMNS_OF_CROSSPLANE
            ],
        }
    ]
    version = "v1" if form == LEGACY else "v2"
    return {
        "apiVersion": f"{COMPOSITE_DEFINITIONS.group}/{version}",
        "kind": COMPOSITE_DEFINITIONS.kind,
        "metadata": {"name": f"{spec['names']['plural']}.{resource.group}"},
        "spec": spec,
    }


def composite_kind(kind: Kind, form: Form) -> str:
    return f"X{kind.resource.kind}" if form == LEGACY else kind.resource.kind


def schema(kind: Kind, form: Form) -> Object:
    """Without the fields that Crossplane adds."""
    whole = crd.object_schema(kind)
    properties = objects.mapping(whole["properties"])
    spec = objects.mapping(properties["spec"])
    crossplanes = OWN_FIELDS | _OF_LEGACY if form == LEGACY else OWN_FIELDS
    spec["properties"] = {name: each for name, each in spec["properties"].items() if name not in crossplanes}
    result: Object = {"type": "object", "description": kind.description, "properties": {"spec": spec}}
    if "status" in properties:
        status = objects.mapping(properties["status"])
        status["properties"] = {name: each for name, each in status["properties"].items() if name != "conditions"}
        result["properties"]["status"] = status
    return result


def rules_of_whole(kind: Kind) -> tuple[Object, Object] | None:
    """The rules of a kind that are about whole objects, as a policy with its binding; None where it has none."""
    validations = list(_validations(kind))
    if not validations:
        return None
    resource = kind.resource
    policy: Object = {
        "apiVersion": policies.POLICIES.api_version,
        "kind": policies.POLICIES.kind,
        "metadata": {"name": f"rules.{resource.group_resource}"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": policies.constraints([resource]),
            "validations": validations,
        },
    }
    return policy, policies.binding(policy)


def _names(kind: Kind, form: Form) -> Object:
    resource = kind.resource
    if form == NAMESPACED:
        return _claim_names(kind)
    return {"kind": f"X{resource.kind}", "plural": f"x{resource.plural}", "singular": f"x{kind.singular}"}


def _claim_names(kind: Kind) -> Object:
    """Crossplane adds the category `claim`, or `composite`, by itself."""
    resource = kind.resource
    names: Object = {"kind": resource.kind, "plural": resource.plural, "singular": kind.singular}
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    names["categories"] = [each for each in kind.categories if each != "claim"]
    return names


def _validations(kind: Kind) -> Iterator[Object]:
    """The length of a name is among them since in a definition it would hold for composites too, whose names are those
    of their claims and some characters more."""
    length, pattern = kind.name_schema.get("maxLength"), kind.name_schema.get("pattern")
    if length is not None:
        yield {
            "expression": f"request.operation != 'CREATE' || size(object.metadata.name) <= {length}",
            "message": f"metadata.name: may not be longer than {length} characters",
            "reason": "Invalid",
        }
    if pattern is not None:
        yield {
            "expression": f"request.operation != 'CREATE' || object.metadata.name.matches('{pattern}')",
            "message": f"metadata.name: must match {pattern}",
            "reason": "Invalid",
        }
    for rule in kind.rules.get("", ()):
        yield _validation(rule)


def _validation(rule: dict[str, Any]) -> Object:
    """A rule of a CRD is judged of an update only, where it compares with what was."""
    text = str(rule["rule"])
    is_of_change = "oldSelf" in text and not rule.get("optionalOldSelf")
    expression = _translated(text)
    found: Object = {"expression": f"oldObject == null || ({expression})" if is_of_change else expression}
    where = str(rule.get("fieldPath") or "").removeprefix(".")
    if "message" in rule:
        found["message"] = f"{where}: {rule['message']}" if where else rule["message"]
    if "messageExpression" in rule:
        said = _translated(str(rule["messageExpression"]))
        found["messageExpression"] = f"'{where}: ' + ({said})" if where else said
    return {**found, "reason": "Invalid"}


def _translated(expression: str) -> str:
    """From what a CRD's rules call the object to what an admission policy's do."""
    for said, means in (
        (r"\boldSelf\.hasValue\(\)", "(oldObject != null)"),
        (r"\boldSelf\.value\(\)", "oldObject"),
        (r"\boldSelf\b", "oldObject"),
        (r"\bself\b", "object"),
    ):
        expression = re.sub(said, means, expression)
    return expression
