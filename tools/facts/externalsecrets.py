"""Kinds of External Secrets as CustomResourceDefinitions, reduced to facts, and to what is asked of Vault.

Of the stores' providers only Vault keeps its fields. The others, forty of them and nine tenths of the table, are taken
as they are written, unchecked: nothing here acts on them.
"""

from __future__ import annotations

from typing import Final

import definitions
import modules
import yaml
from definitions import Json

GROUP: Final = "external-secrets.io"
KINDS: Final = {
    (GROUP, "clustersecretstores"): "v1",
    (GROUP, "secretstores"): "v1",
    (GROUP, "externalsecrets"): "v1",
    (GROUP, "pushsecrets"): "v1alpha1",
    (f"generators.{GROUP}", "passwords"): "v1alpha1",
}
PROVIDER: Final = "vault"


def tables() -> dict[str, Json]:
    """File name to definition."""
    root = modules.folder("github.com/external-secrets/external-secrets") / "config" / "crds" / "bases"
    return {
        f"{plural}.json": _of_vault(
            definitions.definition(yaml.safe_load((root / f"{group}_{plural}.yaml").read_text()), version)
        )
        for (group, plural), version in KINDS.items()
    }


def _of_vault(crd: Json) -> Json:
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    provider = spec.get("provider")
    if provider is not None:
        unchecked: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        properties: Json = provider["properties"]
        provider["properties"] = {name: each if name == PROVIDER else unchecked for name, each in properties.items()}
    return crd
