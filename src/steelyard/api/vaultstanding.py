"""How what the platform itself has in Vault, whichever claims there are, is known again at the next start."""

from __future__ import annotations

from typing import Final

from steelyard.api.externalsecrets.kinds import PUSH_SECRETS
from steelyard.api.resources import VAULT_ENTRIES
from steelyard.kube.resources import Resource

LABEL: Final = ("steelyard.dev/standing", "vault")
"""And its value."""
KINDS: Final[tuple[Resource, ...]] = (PUSH_SECRETS, VAULT_ENTRIES)
"""Those that are taken away where other settings no longer give them, in this order."""
