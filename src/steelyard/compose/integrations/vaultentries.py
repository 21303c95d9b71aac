"""What Vault is configured with, composed: entries of its API, and policies that say who may read what.

policy({"secret/data/apps/dev/shop": ("read",)})   ->   path "secret/data/apps/dev/shop" { capabilities = ["read"] }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from steelyard.api.resources import VAULT_ENTRIES
from steelyard.compose.composed import FIRST_STAGE, Desired
from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.settings.integrations import Vault

READ: Final = ("read",)
LIST: Final = ("list",)
WRITE: Final = ("create", "update")
Rules: TypeAlias = Mapping[str, Sequence[str]]
"""By path, what one may do there. `+` is any one step, `*` at the end anything."""
OWN: Final = "steelyard"
"""What the names of the platform's policies begin with."""


@frozen
class Hidden:
    """A field whose value is in a Secret."""

    field: str
    namespace: str
    name: str
    key: str


def entry(
    settings: Vault,
    name: str,
    path: str,
    data: Object,
    *,
    secrets: Sequence[Hidden] = (),
    compare: Sequence[str] = (),
    read_path: str = "",
    only_if_absent: bool = False,
    revokes: str = "",
    stays: bool = False,
    stage: int = FIRST_STAGE,
) -> Desired:
    """`stays`: it is left in Vault when the object goes; `revokes`: below which path what was given out is taken back
    before it goes."""
    spec: Object = {"storeRef": {"name": settings.secret_store}, "path": path, "data": data}
    if secrets:
        spec["secretData"] = [
            {"field": each.field, "namespace": each.namespace, "name": each.name, "key": each.key} for each in secrets
        ]
    if compare:
        spec["compare"] = list(compare)
    if read_path:
        spec["readPath"] = read_path
    if only_if_absent:
        spec["onlyIfAbsent"] = True
    if revokes:
        spec["revokeLeases"] = revokes
    spec["deletionPolicy"] = "Orphan" if stays else "Delete"
    obj: Object = {
        "apiVersion": VAULT_ENTRIES.api_version,
        "kind": VAULT_ENTRIES.kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    return Desired(VAULT_ENTRIES, obj, deletion_stage=stage)


def policy(settings: Vault, name: str, rules: Rules, *, stage: int = FIRST_STAGE) -> Desired:
    """A policy is called as the object that makes it."""
    return entry(settings, name, f"sys/policies/acl/{name}", {"policy": text(rules)}, stage=stage)


def text(rules: Rules) -> str:
    lines: list[str] = []
    for path, may in sorted(rules.items()):
        capabilities = ", ".join(f'"{each}"' for each in may)
        lines.append(f'path "{path}" {{ capabilities = [{capabilities}] }}\n')
    return "".join(lines)
