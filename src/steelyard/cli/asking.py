"""Asking before something is done that cannot be undone. Silence is never consent: without a terminal, nobody is asked
and nothing is done.
"""

from __future__ import annotations

import select
import sys
from typing import Final

from steelyard.cli import output
from steelyard.cli.exits import CommandError, Exit

_LOOK: Final = 0.2
"""Seconds. A Ctrl-C in the very moment in which reading begins is noticed when reading ends, and that may be never: so
reading begins only when there is something to read."""


def check_terminal(otherwise: str) -> None:
    """To be called before anything is looked up. Raises CommandError; `otherwise` says what was not done."""
    if not sys.stdin.isatty():
        raise CommandError(
            f"{otherwise}: there is no terminal to ask on. To do it without being asked, add --yes", code=Exit.USAGE
        )


def agree(question: str, *, otherwise: str) -> None:
    """Returns if the answer is yes. Ctrl-C is a KeyboardInterrupt: not to be called while an event loop runs."""
    sys.stderr.write(f"{question} [y/N]: ")
    sys.stderr.flush()
    while not select.select([sys.stdin], [], [], _LOOK)[0]:
        pass
    answer = sys.stdin.readline()
    if not answer:
        output.note("")
    if answer.strip().lower() not in ("y", "yes"):
        raise CommandError(otherwise)
