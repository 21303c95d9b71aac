"""How rules name tables and columns: exactly, or by a pattern with `*`; and what a misspelt name may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

T = TypeVar("T")


def spellings(table: str) -> tuple[str, ...]:
    return (table, table.removeprefix("public.")) if table.startswith("public.") else (table,)


def fits(written: str, name: str) -> bool:
    return written == name or ("*" in written and fnmatchcase(name, written.replace("[", "[[]").replace("?", "[?]")))


def matching(rules: dict[str, T], *names: str) -> T | None:
    """The exact name wins; of patterns the longest."""
    for name in names:
        if name in rules:
            return rules[name]
    patterns = [pattern for pattern in rules if "*" in pattern and any(fits(pattern, name) for name in names)]
    return rules[max(patterns, key=len)] if patterns else None


def nearest(written: str, known: Sequence[str]) -> str:
    found = difflib.get_close_matches(written, sorted(set(known)), n=1, cutoff=0.5)
    return f" Did you mean {found[0]}?" if found else ""
