"""The default roles and bindings of a control plane, from the lists that upstream's own tests compare with."""

from __future__ import annotations

from typing import Any, Final

import modules
import yaml

_FOLDER: Final = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata"
_LISTS: Final = {
    "clusterroles": ("cluster-roles", "controller-roles"),
    "clusterrolebindings": ("cluster-role-bindings", "controller-role-bindings"),
    "roles": ("namespace-roles",),
    "rolebindings": ("namespace-role-bindings",),
}


def table() -> dict[str, Any]:
    """Plural to objects without apiVersion and kind, in the order in which a server creates them."""
    folder = modules.folder("k8s.io/kubernetes") / _FOLDER
    return {
        plural: [
            _plain(item) for name in names for item in yaml.safe_load((folder / f"{name}.yaml").read_text())["items"]
        ]
        for plural, names in _LISTS.items()
    }


def _plain(item: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in item["metadata"].items() if value is not None}
    rest = {key: value for key, value in item.items() if key not in ("apiVersion", "kind", "metadata") and value}
    return {"metadata": metadata, **rest}
