"""Vault as a unit that the platform starts, where `integrations.vault` is enabled.

On a platform without Vault nothing of this is even loaded, and the kinds are not defined. `--without vault` leaves the
kinds and runs none of it: External Secrets' own controller can then take over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from steelyard.kube.objects import Object
from steelyard.providers.toolkit.provider import Ground, Provider, Started
from steelyard.settings import Platform


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


PROVIDER: Final = Provider("vault", _start, definitions=_kinds, is_wanted=_is_wanted)
