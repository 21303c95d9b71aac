"""What clients were told, and what the server must therefore show: the judge of the kill soak, and nothing but that.

Each key has one client, which counts up: the n-th write of a key holds n in several places. So a found object tells
which write made it, and whether all of that write is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

ABSENT: Final = 0
"""The number of a key that was deleted, or never written."""


@dataclass(frozen=True, slots=True)
class Found:
    """One object as the server shows it; `whole` if all its parts are of the same write."""

    number: int
    revision: int
    whole: bool


@dataclass(slots=True)
class Entry:
    number: int = ABSENT
    revision: int = 0
    """Of the last acknowledged write; for a deletion that of the state it deleted."""
    highest: int = ABSENT
    """The last number used, so that none is used for two writes."""
    attempted: int | None = None
    """What is under way, if something is."""


@dataclass(slots=True)
class Ledger:
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    acknowledged: int = 0
    revision: int = 0
    """The highest that anybody was told."""

    def entry(self, key: str) -> Entry:
        return self.entries.setdefault(key, Entry())

    def attempt(self, key: str) -> int:
        """The number to write next."""
        entry = self.entry(key)
        entry.highest += 1
        entry.attempted = entry.highest
        return entry.highest

    def attempt_deletion(self, key: str) -> None:
        self.entry(key).attempted = ABSENT

    def acknowledge(self, key: str, revision: int) -> list[str]:
        """The answer to the attempt; `revision` is 0 where it names none. What is wrong with it."""
        entry = self.entry(key)
        assert entry.attempted is not None
        entry.number, entry.attempted = entry.attempted, None
        self.acknowledged += 1
        if not revision:
            return []
        wrong: list[str] = []
        if revision <= entry.revision:
            wrong.append(f"{key}: a write was acknowledged at {revision}, after one at {entry.revision}")
        entry.revision = revision
        self.revision = max(self.revision, revision)
        return wrong

    def settle(self, found: dict[str, Found], revision: int) -> list[str]:
        """Compares with everything there is after a restart, and takes over what became of the attempts."""
        wrong: list[str] = []
        if revision < self.revision:
            wrong.append(f"the server is at revision {revision}, and {self.revision} was acknowledged before")
        wrong += [f"{key} is there, and nobody wrote it" for key in found.keys() - self.entries.keys()]
        for key, entry in self.entries.items():
            wrong += _settle(key, entry, found.get(key))
        self.revision = max(self.revision, revision)
        return wrong


def _settle(key: str, entry: Entry, found: Found | None) -> list[str]:
    number = found.number if found is not None else ABSENT
    attempted, entry.attempted = entry.attempted, None
    if found is not None and not found.whole:
        return [f"{key}: half of a write is there, with number {number}"]
    if number == entry.number and (found is None or found.revision == entry.revision):
        return []
    if attempted is not None and number == attempted and (found is None or found.revision > entry.revision):
        entry.number = number
        entry.revision = found.revision if found is not None else entry.revision
        return []
    where = f"number {number} at revision {found.revision}" if found is not None else "nothing"
    expected = f"number {entry.number} at revision {entry.revision}" if entry.number else "nothing"
    maybe = f" or number {attempted}" if attempted is not None else ""
    return [f"{key}: {where} is there instead of {expected}{maybe}"]
