"""Vault as a unit that the platform starts, where `integrations.vault` is enabled.

On a platform without Vault nothing of this is even loaded, and the kinds are not defined. `--without vault` leaves the
kinds and runs none of it: External Secrets' own controller can then take over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from steelyard.api.externalsecrets.kinds import (
    CLUSTER_SECRET_STORES,
    EXTERNAL_SECRETS,
    PASSWORDS,
    PUSH_SECRETS,
    SECRET_STORES,
)
from steelyard.api.resources import VAULT_ENTRIES
from steelyard.kube import permits
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from steelyard.providers.toolkit.provider import Ground, Provider, Started
from steelyard.settings import Platform

_NEEDED: Final = (
    *permits.reports(CLUSTER_SECRET_STORES, SECRET_STORES, PUSH_SECRETS, EXTERNAL_SECRETS, VAULT_ENTRIES),
    *permits.makes(SECRETS),
    *permits.only(("get", "create", "patch"), NAMESPACES),
    *permits.only(("get",), PASSWORDS),
    *permits.only(("create",), SERVICE_ACCOUNTS, subresource="token"),
)


def _kinds() -> Sequence[Object]:
    from steelyard.api import crd, vaultentries
    from steelyard.api.externalsecrets import definitions

    return (*definitions.crds(), crd.definition(vaultentries.KIND))


async def _start(ground: Ground) -> Started:
    if not _is_wanted(ground.platform):
        from steelyard.providers.vault import leaving

        return Started(await leaving.controllers(ground.client))
    from steelyard.providers.vault import starting

    return await starting.start(ground)


def _is_wanted(platform: Platform) -> bool:
    return platform.integrations.vault.enabled


PROVIDER: Final = Provider("vault", _start, definitions=_kinds, is_wanted=_is_wanted, needed=_NEEDED, has_files=True)
