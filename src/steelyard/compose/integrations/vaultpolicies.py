"""Who may read what in Vault, as rules of policies: each cluster what its namespace has there, each service its own.

What a namespace has is where its claims may put something (`api/vaultpaths.py`): `apps/<namespace>`, one step below it,
and everything below `apps/<environment>/<namespace>`. What is put at `apps/<environment>` itself is the environment's,
and read by all its clusters. So no cluster reads what another namespace's claims put there.
"""

from __future__ import annotations

from typing import Final

from steelyard.compose.integrations.vaultentries import LIST, OWN, READ, WRITE, Rules
from steelyard.settings.integrations import Vault

FOLDERS: Final = ("apps", "caches", "database")
"""Of the key-value engine: what workloads read. `clusters` has kubeconfigs, which are not for them."""
SHARED: Final = "shared-services"
CI_CD: Final = "ci-cd"


def of_cluster(settings: Vault, environment: str, namespace: str) -> Rules:
    rules: dict[str, tuple[str, ...]] = {}
    for folder in FOLDERS:
        for place in (environment, namespace, f"{namespace}/+", f"{environment}/{namespace}/*"):
            rules[f"{settings.mount}/data/{folder}/{place}"] = READ
        rules[f"{settings.mount}/metadata/{folder}/{environment}/{namespace}/*"] = (*READ, *LIST)
    rules[f"{settings.mount}/data/{SHARED}/*"] = READ
    rules[f"{settings.mount}/metadata/{SHARED}/*"] = (*READ, *LIST)
    if settings.database.enabled:
        rules[f"{settings.database.mount}/creds/{environment}.{namespace}.*"] = READ
    if settings.pki.enabled:
        rules[f"{settings.pki.mount}/sign/{certificate_role(environment)}"] = WRITE
    return rules


def of_service(settings: Vault, path: str, roles: tuple[str, ...] = ()) -> Rules:
    """`path` is without the engine, `roles` are those of the database engine."""
    rules: dict[str, tuple[str, ...]] = {
        f"{settings.mount}/data/{path}": READ,
        f"{settings.mount}/data/{SHARED}/*": READ,
    }
    return rules | {f"{settings.database.mount}/creds/{role}": READ for role in roles}


def of_delivery(settings: Vault) -> Rules:
    """For what builds and delivers applications."""
    return {
        f"{settings.mount}/data/{CI_CD}/*": READ,
        f"{settings.mount}/metadata/{CI_CD}/*": (*READ, *LIST),
    }


def certificate_role(environment: str) -> str:
    """It signs requests, of whichever kind of key; the key stays with whoever asks."""
    return f"{environment}-cert"


def of_platform(settings: Vault) -> Rules:
    """What the platform's own login needs: the engines that it uses, and to set Vault up where it does that. Who can
    write policies can give themselves anything, so this login is to be kept like the keys of Vault."""
    everything = ("create", "read", "update", "delete", "list")
    rules: dict[str, tuple[str, ...]] = {f"{settings.mount}/*": everything}
    if not settings.configure:
        return rules
    rules |= {
        "sys/mounts": READ,
        "sys/auth": READ,
        f"sys/auth/{settings.auth_mount}-*": (*WRITE, "delete", "sudo"),
        f"auth/{settings.auth_mount}-*": everything,
        f"sys/policies/acl/{OWN}-*": everything,
    }
    engines = [settings.mount]
    if settings.database.enabled:
        engines.append(settings.database.mount)
        rules |= {f"{settings.database.mount}/{part}/*": everything for part in ("config", "roles")}
        rules[f"sys/leases/revoke-prefix/{settings.database.mount}/creds/*"] = (*WRITE, "sudo")
    if settings.pki.enabled:
        engines.append(settings.pki.mount)
        rules[f"{settings.pki.mount}/*"] = everything
    return rules | {f"sys/mounts/{engine}": WRITE for engine in engines}
