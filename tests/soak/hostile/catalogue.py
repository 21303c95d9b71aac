"""Every attack there is."""

from __future__ import annotations

from typing import Final

from tests.soak.hostile import bodies, connections, reading, tenant
from tests.soak.hostile.attack import Attack

ALL: Final = (*reading.ATTACKS, *bodies.ATTACKS, *tenant.ATTACKS, *connections.ATTACKS)
BY_NAME: Final[dict[str, Attack]] = {attack.name: attack for attack in ALL}
assert len(BY_NAME) == len(ALL), "two attacks of one name"
