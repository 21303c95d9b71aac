"""The one way in which building, checking or removing an image fails."""

from __future__ import annotations


class BuildFailed(Exception):
    """The message says what happened, why, and what to do."""
