"""Cluster API's kinds as CustomResourceDefinitions, reduced to facts.

From each upstream definition only the v1beta2 version is kept, without descriptions and without validation rules
written in CEL; what remains is names, types, bounds, defaults, list types, subresources and printer columns.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, cast

import modules
import yaml

Json: TypeAlias = dict[str, Any]

VERSION: Final = "v1beta2"
PROVIDERS: Final = {
    "cluster-api": ("config/crd/bases", "cluster.x-k8s.io"),
    "bootstrap-kubeadm": ("bootstrap/kubeadm/config/crd/bases", "bootstrap.cluster.x-k8s.io"),
    "control-plane-kubeadm": ("controlplane/kubeadm/config/crd/bases", "controlplane.cluster.x-k8s.io"),
}
PLURALS: Final = {
    "cluster-api": ("clusters", "machines", "machinesets", "machinedeployments", "machinehealthchecks"),
    "bootstrap-kubeadm": ("kubeadmconfigs", "kubeadmconfigtemplates"),
    "control-plane-kubeadm": ("kubeadmcontrolplanes", "kubeadmcontrolplanetemplates"),
}
_DROPPED: Final = frozenset({"description", "x-kubernetes-validations"})
_MAPS_OF_SCHEMAS: Final = frozenset({"properties", "patternProperties", "definitions"})
_SCHEMAS: Final = frozenset({"items", "additionalProperties", "not"})
_LISTS_OF_SCHEMAS: Final = frozenset({"allOf", "anyOf", "oneOf"})


def bare(schema: Any) -> Any:
    """The schema without prose and rules. Keywords are told from fields of the same name by where they stand."""
    if not isinstance(schema, dict):
        return schema
    kept: Json = {}
    for keyword, value in sorted(cast(Json, schema).items()):
        if keyword in _DROPPED:
            continue
        if keyword in _MAPS_OF_SCHEMAS:
            kept[keyword] = {name: bare(inner) for name, inner in sorted(value.items())}
        elif keyword in _SCHEMAS:
            kept[keyword] = bare(value)
        elif keyword in _LISTS_OF_SCHEMAS:
            kept[keyword] = [bare(inner) for inner in value]
        else:
            kept[keyword] = value
    return kept


def definition(upstream: Json, provider: str) -> Json:
    spec = upstream["spec"]
    version = next(version for version in spec["versions"] if version["name"] == VERSION)
    columns = [
        {key: column[key] for key in ("name", "type", "format", "jsonPath", "priority") if key in column}
        for column in version.get("additionalPrinterColumns", [])
    ]
    served: Json = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": bare(version["schema"]["openAPIV3Schema"])},
    }
    if version.get("subresources"):
        served["subresources"] = version["subresources"]
    if columns:
        served["additionalPrinterColumns"] = columns
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": upstream["metadata"]["name"],
            "labels": {"cluster.x-k8s.io/provider": provider, f"cluster.x-k8s.io/{VERSION}": VERSION},
        },
        "spec": {"group": spec["group"], "names": spec["names"], "scope": spec["scope"], "versions": [served]},
    }


def tables() -> dict[str, Json]:
    """File name to definition."""
    root = modules.folder("sigs.k8s.io/cluster-api")
    made: dict[str, Json] = {}
    for provider, (bases, group) in PROVIDERS.items():
        for plural in PLURALS[provider]:
            text = (root / bases / f"{group}_{plural}.yaml").read_text()
            made[f"{plural}.json"] = definition(yaml.safe_load(text), provider)
    return made
