"""PostgreSQL as a unit that the platform starts: its kinds, its servers, and what it tells of them."""

from __future__ import annotations

from typing import Final

from steelyard.providers.postgres.parts import Part

PARTS: Final[tuple[Part, ...]] = ()
"""Who reconciles what. A kind joins with one line here."""
