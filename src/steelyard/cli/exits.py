"""Exit codes, and the one way a command fails: a message that says what happened and what to do, and its code."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Documented in docs/reference/cli.md; scripts rely on them."""

    OK = 0
    FAILED = 1
    """The platform said no, or a check did not pass."""
    USAGE = 2
    """The command line or the platform file is wrong."""
    NOT_RUNNING = 3
    """No platform answers for this data directory."""
    TIMEOUT = 4
    """What was waited for did not happen in time."""


class CommandError(Exception):
    """Ends the command with a message on stderr."""

    def __init__(self, message: str, *, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code
