"""Reads an strace of the platform and answers one question: was any success told before it was on disk?

A revision stands in every object as `"resourceVersion":"<n>"`, so it can be read both in what is written to
the database's write-ahead log and in what is sent to a client over a plain socket. A revision is safe once an fdatasync
(or fsync) of the log that began after its write has returned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_CALL = re.compile(r"^(?P<pid>\d+) +(?:(?P<name>\w+)\((?P<rest>.*)|<\.\.\. (?P<resumed>\w+) resumed>(?P<tail>.*))$")
_UNFINISHED = "<unfinished ...>"
_REVISION = re.compile(r'\\"resourceVersion\\":\\"(\d+)\\"')
_WRITES = ("write", "pwrite64", "writev", "pwritev")
_SENDS = ("sendto", "sendmsg", "write", "writev")
_SYNCS = ("fdatasync", "fsync")


@dataclass(frozen=True, slots=True)
class Event:
    """One system call, at the moment it begins (`done` false) or returns."""

    name: str
    text: str
    done: bool


@dataclass(slots=True)
class Verdict:
    told: int = 0
    """Successful answers that carried a revision."""
    too_early: list[int] = field(default_factory=list[int])
    """Revisions that were told before they were safe."""


def judge(lines: Iterable[str], database: str) -> Verdict:
    """`database` is the file's name; its log is that name with `-wal` behind it."""
    log = f"{database}-wal"
    verdict = Verdict()
    written: set[int] = set()
    syncing: set[int] = set()
    safe: set[int] = set()
    for event in _events(lines):
        to_log = log in event.text.split(",", 1)[0]
        revisions = {int(number) for number in _REVISION.findall(event.text)}
        if event.name in _SYNCS and to_log:
            if event.done:
                safe |= syncing
            else:
                syncing = set(written)
        elif event.name in _WRITES and to_log:
            if event.done:
                written |= revisions
        elif event.name in _SENDS and "TCP" in event.text.split(",", 1)[0] and not event.done and revisions:
            verdict.told += 1
            verdict.too_early += sorted(revisions - safe)
    return verdict


def _events(lines: Iterable[str]) -> Iterator[Event]:
    """Calls that strace shows on one line begin and return at once; interrupted ones are put together again."""
    unfinished: dict[tuple[str, str], str] = {}
    for line in lines:
        match = _CALL.match(line)
        if match is None:
            continue
        pid = match["pid"]
        if match["resumed"]:
            text = unfinished.pop((pid, match["resumed"]), "") + match["tail"]
            yield Event(match["resumed"], text, done=True)
        elif match["rest"].endswith(_UNFINISHED):
            text = match["rest"].removesuffix(_UNFINISHED)
            unfinished[pid, match["name"]] = text
            yield Event(match["name"], text, done=False)
        else:
            yield Event(match["name"], match["rest"], done=False)
            yield Event(match["name"], match["rest"], done=True)
