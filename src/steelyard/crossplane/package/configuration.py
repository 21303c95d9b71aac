"""The packages: definitions of composites with Compositions that call the function, and the function's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.api import xrd
from steelyard.api.crossplane import COMPOSITIONS
from steelyard.api.model import Kind
from steelyard.api.xrd import Form
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.offering import Offering
from steelyard.crossplane import inputs
from steelyard.crossplane.package.references import CROSSPLANE, FUNCTION, PROVIDERS, References
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform

_META: Final = "meta.pkg.crossplane.io/v1"
_PACKAGES: Final = "pkg.crossplane.io/v1"
_LABEL: Final = 63
_EXAMPLE: Final = ("shop", "team-a")


def function(references: References) -> Mapping[str, Sequence[Object]]:
    about: Object = {
        "meta.crossplane.io/license": "Apache-2.0",
        "meta.crossplane.io/description": "Composes claims of Steelyard: clusters, databases, caches.",
    }
    package: Object = {
        "apiVersion": _META,
        "kind": "Function",
        "metadata": {"name": FUNCTION, "annotations": about},
        "spec": {"capabilities": ["composition"], "crossplane": {"version": CROSSPLANE}},
    }
    return {"function/crossplane.yaml": [package], "function/input.yaml": [_input_definition()]}


def of_kinds(offering: Offering, platform: Platform, references: References) -> Mapping[str, Sequence[Object]]:
    files: dict[str, Sequence[Object]] = {}
    for form in xrd.FORMS:
        files[f"{form}/crossplane.yaml"] = [_package(form, references)]
        for each in offering.kinds:
            kind = each.definition(platform.domain)
            name = kind.resource.plural
            files[f"{form}/definitions/{name}.yaml"] = [xrd.definition(kind, form)]
            files[f"{form}/compositions/{name}.yaml"] = [composition(kind, form, platform, references)]
            files[f"{form}/examples/{name}.yaml"] = [example(each, kind, form)]
    return files


def composition(kind: Kind, form: Form, platform: Platform, references: References) -> Object:
    """One for each kind. Its labels are those that the documents' claims select by."""
    resource = kind.resource
    definition = f"x{resource.plural}.{resource.group}"
    labels = {"provider": platform.infrastructure}
    if len(definition) <= _LABEL:
        labels["crossplane.io/xrd"] = definition
    spec: Object = {
        "compositeTypeRef": {"apiVersion": resource.api_version, "kind": xrd.composite_kind(kind, form)},
        "mode": "Pipeline",
        "pipeline": [
            {"step": "compose", "functionRef": {"name": FUNCTION}, "input": inputs.document(platform)},
        ],
    }
    if form == xrd.LEGACY:
        spec["writeConnectionSecretsToNamespace"] = references.namespace
    prefix = "x" if form == xrd.LEGACY else ""
    return {
        "apiVersion": COMPOSITIONS.api_version,
        "kind": COMPOSITIONS.kind,
        "metadata": {"name": f"{prefix}{resource.group_resource}", "labels": labels},
        "spec": spec,
    }


def example(described: ClaimKind, kind: Kind, form: Form) -> Object:
    """A legacy claim's connection Secret is in the claim's namespace, where fewer names are free than elsewhere."""
    name, namespace = _EXAMPLE
    spec = dict(described.guide.example)
    reference = objects.mapping(spec.get("writeConnectionSecretToRef"))
    if form == xrd.LEGACY and "namespace" in reference:
        spec["writeConnectionSecretToRef"] = {"name": f"{name}-connection"}
    return {
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def _package(form: Form, references: References) -> Object:
    depends: list[Object] = [
        {
            "apiVersion": _PACKAGES,
            "kind": "Function",
            "package": references.function_source,
            "version": f">={references.function_version}",
        }
    ]
    for name, version in PROVIDERS.items():
        package = f"{references.providers}/{name}"
        depends.append({"apiVersion": _PACKAGES, "kind": "Provider", "package": package, "version": f">={version}"})
    return {
        "apiVersion": _META,
        "kind": "Configuration",
        "metadata": {"name": f"steelyard-{form}"},
        "spec": {"crossplane": {"version": CROSSPLANE}, "dependsOn": depends},
    }


def _input_definition() -> Object:
    """For editors and `crossplane` commands; no API server serves it."""
    group, _, version = inputs.API_VERSION.partition("/")
    schema: Object = {
        "type": "object",
        "description": "What a Composition says to the function.",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "platform": {
                "type": "object",
                "description": "The platform file. Default: the one that the function was started with.",
                "x-kubernetes-preserve-unknown-fields": True,
            },
            "extraResources": {
                "type": "boolean",
                "description": "Ask for required resources by the name that Crossplane before v2 has for them.",
            },
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"inputs.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": inputs.KIND, "listKind": f"{inputs.KIND}List", "plural": "inputs", "singular": "input"},
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }
