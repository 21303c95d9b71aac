"""Exit codes, and the one way a command fails: a message that says what happened and what to do, and its code."""

from __future__ import annotations

from enum import IntEnum

from steelyard import interrupts


class Exit(IntEnum):
    """Documented in docs/reference/cli.md; scripts rely on them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_RUNNING = 3
    TIMEOUT = 4
    INTERRUPTED = interrupts.CODE


MEANINGS = {
    Exit.OK: "Done. A platform that was told to end by Ctrl-C, SIGTERM or `steelyard down` ends with it, too.",
    Exit.FAILED: "The platform said no, or a check did not pass.",
    Exit.USAGE: "The command line or the platform file is wrong, or nobody could be asked and `--yes` was not given.",
    Exit.NOT_RUNNING: "No platform answers for this data directory or kubeconfig.",
    Exit.TIMEOUT: "What was waited for did not happen in time.",
    Exit.INTERRUPTED: "Ctrl-C ended the command; for a platform, before it had begun, or a second time before it had "
    "ended.",
}


class PlanExit(IntEnum):
    """Those of `steelyard plan`, as terraform has them, and one more."""

    NO_CHANGES = 0
    FAILED = 1
    CHANGES = 2
    DISRUPTIVE = 3


class CommandError(Exception):
    """Ends the command with a message on stderr."""

    def __init__(self, message: str, *, code: Exit = Exit.FAILED, is_of_server: bool = False) -> None:
        """`is_of_server`: it depends on which server was asked, so that is told as well."""
        super().__init__(message)
        self.code = code
        self.is_of_server = is_of_server
