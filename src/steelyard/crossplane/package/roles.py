"""What Crossplane and provider-kubernetes may do for claims: exactly the kinds that compositions make or look at.

Crossplane's own role collects every ClusterRole with the label `rbac.crossplane.io/aggregate-to-crossplane`. The kinds
of providers that are installed as packages are among them already; they are listed all the same, for those that are
not. Nobody else gets anything here: who may write Objects of provider-kubernetes, or managed resources in a namespace,
can do with them what their provider may.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from steelyard.api.clusterapi import resources
from steelyard.api.crossplane import CLUSTER_PROVIDER_CONFIGS, IN_NAMESPACES, OBJECTS, PROVIDER_CONFIGS
from steelyard.compose.offering import Offering
from steelyard.crossplane.package.installation import PROVIDER_ACCOUNT
from steelyard.crossplane.package.references import References
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS, Resource
from steelyard.settings import Platform

AGGREGATED: Final = "rbac.crossplane.io/aggregate-to-crossplane"
_RBAC: Final = "rbac.authorization.k8s.io"
_LOOK: Final = ("get", "list", "watch")
_MAKE: Final = (*_LOOK, "create", "update", "patch", "delete")
_LOOKED_AT: Final = (resources.MACHINES, PROVIDER_CONFIGS, CLUSTER_PROVIDER_CONFIGS, NAMESPACES, CONFIG_MAPS)


def of(offering: Offering, platform: Platform, references: References) -> list[Object]:
    made = tuple(dict.fromkeys(resource for kind in offering.kinds for resource in kind.makes))
    elsewhere = [each for each in made if each not in IN_NAMESPACES]
    claims = [kind.resource(platform.domain) for kind in offering.kinds]
    looked_at = [each for each in (*_LOOKED_AT, *claims) if each not in made]
    for_crossplane = _role(
        "steelyard-crossplane",
        [*_rules((*made, *IN_NAMESPACES.values(), OBJECTS), _MAKE), *_rules(looked_at, _LOOK)],
        {AGGREGATED: "true"},
    )
    wrapping = _role("steelyard-provider-kubernetes", _rules(dict.fromkeys((*elsewhere, SECRETS)), _MAKE), {})
    binding: Object = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "steelyard-provider-kubernetes"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "steelyard-provider-kubernetes"},
        "subjects": [{"kind": "ServiceAccount", "name": PROVIDER_ACCOUNT, "namespace": references.namespace}],
    }
    return [for_crossplane, wrapping, binding]


def _role(name: str, rules: Sequence[Object], labels: dict[str, str]) -> Object:
    metadata: Object = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": list(rules)}


def _rules(found: Iterable[Resource], verbs: Sequence[str]) -> list[Object]:
    """One for each group, sorted."""
    groups: dict[str, set[str]] = {}
    for resource in found:
        groups.setdefault(resource.group, set()).add(resource.plural)
    return [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": list(verbs)}
        for group, plurals in sorted(groups.items())
    ]
