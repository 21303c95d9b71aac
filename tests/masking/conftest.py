from __future__ import annotations

from tests.postgresserver import postgres_server

__all__ = ["postgres_server"]
