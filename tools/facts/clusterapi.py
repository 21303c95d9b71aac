"""Cluster API's kinds as CustomResourceDefinitions, reduced to facts: of each only the v1beta2 version."""

from __future__ import annotations

from typing import Final

import definitions
import modules
import yaml
from definitions import Json

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


def tables() -> dict[str, Json]:
    """File name to definition."""
    root = modules.folder("sigs.k8s.io/cluster-api")
    made: dict[str, Json] = {}
    for provider, (bases, group) in PROVIDERS.items():
        labels = {"cluster.x-k8s.io/provider": provider, f"cluster.x-k8s.io/{VERSION}": VERSION}
        for plural in PLURALS[provider]:
            text = (root / bases / f"{group}_{plural}.yaml").read_text()
            made[f"{plural}.json"] = definitions.definition(yaml.safe_load(text), VERSION, labels)
    return made
