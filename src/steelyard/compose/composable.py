"""What can be composed, whoever brings it about: for what only writes manifests or describes kinds. A platform that
took claims for all of it would leave some of them waiting for ever, and does not load it.
"""

from __future__ import annotations

from typing import Final

from steelyard.compose.infrastructures.kvm import KVM
from steelyard.compose.offering import STANDARD, offering

COMPOSABLE: Final = offering((*STANDARD.infrastructures, KVM))
