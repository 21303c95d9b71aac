"""What Cluster API's own managers make otherwise than ours, of one claim, and why. Patterns as of file names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OURS: Final[Mapping[str, str]] = {}
THEIRS: Final[Mapping[str, str]] = {}
