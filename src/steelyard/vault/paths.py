"""Paths in Vault: which may be asked for at all.

The library below normalises what it is given, so that `apps/dev/../../sys/policy` would be another place than whoever
allowed the first part of it thought. Therefore a path with such a step, with a query or an escape is none.
"""

from __future__ import annotations

import re
from typing import Final

from steelyard.vault.errors import Invalid

PATTERN: Final = r"^[A-Za-z0-9_.:@~-]+(/[A-Za-z0-9_.:@~-]+)*$"
_PATH: Final = re.compile(PATTERN)
LONGEST: Final = 512


def problem(path: str) -> str:
    """Why it is no path; empty for one that is.

    >>> problem("apps/../sys")
    'it has a step upwards'
    """
    if len(path) > LONGEST:
        return f"it is longer than {LONGEST} characters"
    if any(step in (".", "..") for step in path.split("/")):
        return "it has a step upwards"
    if not _PATH.match(path) or path.endswith("\n"):
        return "it must be words of letters, digits and _.:@~- with / between them"
    return ""


def checked(path: str) -> str:
    """The path, or Invalid."""
    if told := problem(path):
        raise Invalid(f"{path[:100]!r} is no path in Vault: {told}")
    return path


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
