"""The objects as a kustomize base: `kubectl apply --server-side -k DIR`. Definitions are larger than what a plain
`kubectl apply` remembers of an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from steelyard.kube import objects
from steelyard.management.manifests import content
from steelyard.management.manifests.content import AsYaml, Install

_FILE: Final = "kustomization.yaml"
_API: Final = "kustomize.config.k8s.io"


def files(install: Install, as_yaml: AsYaml) -> Mapping[str, str]:
    base = {
        **{f"crds/{objects.name(each)}.yaml": [each] for each in content.definitions(install)},
        "policies.yaml": content.guards(install),
        "rights.yaml": [content.namespace(install), *content.rights(install)],
        "controllers.yaml": content.program(install),
    }
    base = {name: made for name, made in base.items() if made}
    found = {**base, "monitoring/servicemonitor.yaml": [content.monitor(install)]}
    listings = {
        _FILE: _listing(*base),
        f"monitoring/{_FILE}": {
            "apiVersion": f"{_API}/v1alpha1",
            "kind": "Component",
            "resources": ["servicemonitor.yaml"],
        },
    }
    if standing := content.standing(install):
        found["standing/objects.yaml"] = standing
        listings[f"standing/{_FILE}"] = _listing("objects.yaml")
    return {
        **{name: as_yaml(listing) for name, listing in listings.items()},
        **{name: content.documents(made, as_yaml) for name, made in found.items()},
    }


def _listing(*names: str) -> objects.Object:
    return {"apiVersion": f"{_API}/v1beta1", "kind": "Kustomization", "resources": sorted(names)}
