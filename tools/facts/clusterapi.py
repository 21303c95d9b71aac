"""Cluster API's kinds as CustomResourceDefinitions, reduced to facts: of each only the v1beta2 version."""

from __future__ import annotations

from typing import Final

import definitions
import modules
import yaml
from definitions import Json

VERSION: Final = "v1beta2"
PROVIDERS: Final = {
    "cluster.x-k8s.io": ("cluster-api", "config/crd/bases"),
    "addons.cluster.x-k8s.io": ("cluster-api", "config/crd/bases"),
    "bootstrap.cluster.x-k8s.io": ("bootstrap-kubeadm", "bootstrap/kubeadm/config/crd/bases"),
    "controlplane.cluster.x-k8s.io": ("control-plane-kubeadm", "controlplane/kubeadm/config/crd/bases"),
}
"""By group: whose its kinds are, and where their definitions lie."""
PLURALS: Final = {
    "cluster.x-k8s.io": (
        "clusters",
        "machines",
        "machinesets",
        "machinedeployments",
        "machinehealthchecks",
        "machinepools",
    ),
    "addons.cluster.x-k8s.io": ("clusterresourcesets", "clusterresourcesetbindings"),
    "bootstrap.cluster.x-k8s.io": ("kubeadmconfigs", "kubeadmconfigtemplates"),
    "controlplane.cluster.x-k8s.io": ("kubeadmcontrolplanes", "kubeadmcontrolplanetemplates"),
}


def tables() -> dict[str, Json]:
    """File name to definition."""
    root = modules.folder("sigs.k8s.io/cluster-api")
    made: dict[str, Json] = {}
    for group, (provider, bases) in PROVIDERS.items():
        labels = {"cluster.x-k8s.io/provider": provider, f"cluster.x-k8s.io/{VERSION}": VERSION}
        for plural in PLURALS[group]:
            text = (root / bases / f"{group}_{plural}.yaml").read_text()
            made[f"{plural}.json"] = definitions.definition(yaml.safe_load(text), VERSION, labels)
    return made
