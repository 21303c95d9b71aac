"""The verb `logs`: the platform's log file, whole or a part of it, as it is or as it grows; or a machine's console."""

from __future__ import annotations

import datetime
import os
import re
import time
from collections.abc import Collection, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, TextIO

import typer

from steelyard.cli import completing, logfile, machinelogs, offered, output, session, waiting
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.reach import Given
from steelyard.frozen import frozen
from steelyard.kube import ages

_HEAD: Final = re.compile(r"^(\d{4}-\d\d-\d\dT[\d:.]+Z) (DEBUG|INFO|WARNING|ERROR|CRITICAL) +(.*)", re.DOTALL)
_FIELD: Final = re.compile(r'(?:^| )(\w+)=("(?:[^"\\]|\\.)*"|\S*)')
_PAUSE: Final = 0.2
_WORDS: Final = 2
"""`machine` and its name."""


class Level(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_RANKS: Final = {"DEBUG": 0, "INFO": 1, "WARNING": 2, "ERROR": 3, "CRITICAL": 4}


@frozen
class Wanted:
    """Which lines; empty or None for all of them."""

    claim: str = ""
    namespace: str = ""
    since: datetime.datetime | None = None
    level: Level = Level.DEBUG

    def takes(self, line: Line, others: Collection[str] = ()) -> bool:
        """`others` are claims whose names begin as the wanted one's does, and what is made for them as well."""
        if _RANKS[line.level] < _RANKS[self.level.upper()]:
            return False
        moment = ages.parse(line.time)
        if self.since is not None and moment is not None and moment < self.since:
            return False
        is_of_namespace = not self.namespace or self.namespace in line.namespaces
        return is_of_namespace and (not self.claim or any(self._is_of_claim(each, others) for each in line.names))

    def _is_of_claim(self, name: str, others: Collection[str]) -> bool:
        is_of_another = any(_is_named_after(name, other) for other in others)
        return _is_named_after(name, self.claim) and not is_of_another


def _is_named_after(name: str, claim: str) -> bool:
    return name == claim or name.startswith(f"{claim}-")


@frozen
class Line:
    """One line of the log, taken apart."""

    time: str
    level: str
    kind: str
    names: tuple[str, ...]
    """Of what it is about: the claim, the cluster, the object."""
    namespaces: tuple[str, ...]


def parse(text: str) -> Line | None:
    """None for a line that goes on with the one before, as those of a traceback do."""
    head = _HEAD.match(text)
    if head is None:
        return None
    fields = {key: value.strip('"') for key, value in _FIELD.findall(head[3])}
    claim_namespace, _, claim = fields.get("claim", "").rpartition("/")
    names = (claim, fields.get("cluster", ""), fields.get("name", ""))
    return Line(head[1], head[2], fields.get("kind", ""), names, (claim_namespace, fields.get("namespace", "")))


def logs(
    given: Given,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="machine NAME",
            help="A machine, whose console is printed in place of the platform's log.",
            show_default=False,
        ),
    ] = None,
    claim: Annotated[
        str, typer.Option("--claim", metavar="NAME", help="Only of this claim.", autocompletion=completing.claims)
    ] = "",
    namespace: Annotated[str, typer.Option("--namespace", "-n", metavar="NS", help="Only of this namespace.")] = "",
    since: Annotated[str, typer.Option("--since", help="Only what is younger: 90s, 5m, 1h30m.")] = "",
    level: Annotated[Level, typer.Option("--level", help="Only this level and worse.")] = Level.DEBUG,
    tail: Annotated[int, typer.Option("--tail", min=-1, help="Only so many lines from the end; -1: all.")] = -1,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is added until Ctrl-C.")] = False,
) -> None:
    """Print the platform's log: what it did with which claim and which machine, and why.

    It is the file steelyard.log in the data directory, of a platform that runs now or has ended. With machine NAME it
    is what a machine on a KVM host has written to its console, for whoever may get the machine; of the options, only
    --namespace and --tail are for that.

    Example: steelyard logs --claim shop --since 10m --follow
    """
    if words:
        is_about_log = bool(claim or since or follow or level != Level.DEBUG)
        if len(words) != _WORDS or words[0] != "machine" or is_about_log:
            session.guarded(_misread)
        session.run(given, lambda here: machinelogs.show(here, words[1], namespace, tail))
        return
    session.guarded(
        lambda: _print(session.locate(given.data_dir).log_file, _wanted(claim, namespace, since, level), tail, follow)
    )


def _misread() -> None:
    raise CommandError(
        "to see the console of a machine write: steelyard logs machine NAME, with -n NAMESPACE and --tail LINES where "
        "wanted; everything else is of the platform's own log",
        code=Exit.USAGE,
    )


def _wanted(claim: str, namespace: str, since: str, level: Level) -> Wanted:
    earliest = None
    if since:
        earliest = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=waiting.seconds(since))
    return Wanted(claim, namespace, earliest, level)


def _print(path: Path, wanted: Wanted, tail: int, follow: bool) -> None:
    if not path.exists():
        raise CommandError(f"there is no log yet: {path}; start a platform with: steelyard up", code=Exit.NOT_RUNNING)
    chosen = Choice(wanted)
    with path.open(errors="replace") as file:
        texts = [*(each.read_text(errors="replace") for each in logfile.older(path)), file.read()]
        found = [line for text in texts for line in text.splitlines() if chosen.takes(line)]
        for line in found[-tail:] if tail > 0 else found if tail < 0 else []:
            output.result(line)
        if follow:
            for line in _growing(path, file):
                if chosen.takes(line):
                    output.flushed(line)


class Choice:
    """Whether lines are wanted, told one after the other."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._last = wanted == Wanted()
        self._kinds = {kind.definition("example.org").resource.kind for kind in offered.current().kinds}
        self._others: set[str] = set()

    def takes(self, text: str) -> bool:
        line = parse(text)
        if line is not None:
            if line.kind in self._kinds:
                begun = f"{self._wanted.claim}-"
                self._others |= {name for name in line.names if name.startswith(begun)}
            self._last = self._wanted.takes(line, self._others)
        return self._last


def _growing(path: Path, file: TextIO) -> Iterator[str]:
    """What is written from now on, also after the file was turned over. Never ends."""
    rest = ""
    while True:
        text = file.read()
        *lines, rest = (rest + text).split("\n")
        yield from lines
        if text:
            continue
        time.sleep(_PAUSE)
        try:
            has_turned = not os.path.samestat(os.fstat(file.fileno()), path.stat())
        except FileNotFoundError:
            continue
        if has_turned:
            yield from filter(None, (rest + file.read()).split("\n"))
            rest = ""
            file.close()
            file = path.open(errors="replace")
