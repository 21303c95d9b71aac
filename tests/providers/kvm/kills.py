"""The provider killed with -9 around its calls to libvirt and after its writes, and started again: nothing doubled,
nothing left.

python -m tests.providers.kvm.kills --count 200 --seed 7
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.harness import ROOT, end_in_order
from tests.providers.kvm import daemons, world
from tests.providers.kvm.daemons import Libvirtd

GOALS: Final = ("created", "deleted")
_SILENCE: Final = 600.0
_MOST_BETWEEN: Final = 45
"""Points."""


@dataclass
class Figures:
    lives: int = 0
    kills: collections.Counter[str] = field(default_factory=collections.Counter[str])
    wrong: list[str] = field(default_factory=list[str])

    def summary(self) -> str:
        killed = self.kills.total()
        sorts = collections.Counter[str]()
        for point, count in self.kills.items():
            sorts[point.partition(":")[0]] += count
        told = ", ".join(f"{count} {sort}" for sort, count in sorted(sorts.items()))
        return (
            f"{killed} kills in {self.lives} lives of a machine and its cluster, at {len(self.kills)} different points "
            f"({told}); {len(self.wrong)} times something was doubled or left"
        )


class Victims:
    """Starts them, from one process that has everything imported already."""

    def __init__(self, folder: Path) -> None:
        path = folder / "questions"
        self.log = folder / "log"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._listener.settimeout(_SILENCE)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.providers.kvm.victim", str(path)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def start(self, daemon: Libvirtd, folder: Path, goal: str, *, asks_early: bool) -> Victim:
        """`asks_early`: also while its host is tried out with a guest, which alone has fifty points."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{folder} {daemon.pid} {goal} {'early' if asks_early else 'late'}\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        connected, _ = self._listener.accept()
        return Victim(pid, connected, self.log)

    def __enter__(self) -> Victims:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._listener.close()


class Victim:
    def __init__(self, pid: int, connected: socket.socket, log: Path) -> None:
        self._pid = pid
        self._socket = connected
        self._socket.settimeout(_SILENCE)
        self._log = log
        self._rest = b""

    def question(self) -> str:
        """The point at which it waits; "done", or "" if it has ended otherwise."""
        while b"\n" not in self._rest:
            try:
                read = self._socket.recv(4096)
            except TimeoutError:
                raise AssertionError(f"nothing was asked for {_SILENCE:g} seconds\n{self.log()}") from None
            if not read:
                return ""
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def answer(self) -> None:
        self._socket.sendall(b"y")

    def log(self) -> str:
        return self._log.read_text()[-4000:]

    def kill(self) -> None:
        """Returns when it is gone."""
        os.kill(self._pid, signal.SIGKILL)
        while self._socket.recv(4096):
            pass
        self.close()

    def close(self) -> None:
        self._socket.close()


def life(daemon: Libvirtd, folder: Path, is_last: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """Where it was killed, and what was wrong. `is_last` says of each point whether the process ends there."""
    world.image(folder)
    killed: list[str] = []
    wrong: list[str] = []
    with Victims(folder) as victims:
        for goal in GOALS:
            while True:
                asks_early = not killed or len(killed) % 5 == 0
                victim = victims.start(daemon, folder, goal, asks_early=asks_early)
                try:
                    end = _lived(victim, is_last)
                except BaseException:
                    with contextlib.suppress(ProcessLookupError):
                        victim.kill()
                    raise
                if end == "done":
                    victim.close()
                    break
                killed.append(end)
            wrong += _wrong(daemon, folder, goal)
    return killed, wrong


def _lived(victim: Victim, is_last: Callable[[str], bool]) -> str:
    """The point at which it was killed, or "done"."""
    while True:
        point = victim.question()
        if point == "done":
            return point
        if not point:
            raise AssertionError(f"the victim ended by itself\n{victim.log()}")
        if is_last(point):
            victim.kill()
            return point
        victim.answer()


def _wrong(daemon: Libvirtd, folder: Path, goal: str) -> list[str]:
    left = daemon.left()
    root = folder / "machines"
    files = sorted(str(each.relative_to(root)) for each in root.rglob("*")) if root.exists() else []
    if goal == "deleted":
        return [*left, *files]
    counted = collections.Counter(each.split()[0] for each in left if each.split()[0] in ("domain", "network", "pool"))
    running = [each for each in left if each.startswith("process qemu")]
    is_as_it_should_be = counted == {"domain": 1, "network": 1, "pool": 1} and len(running) == 1 and len(files) == 5
    return [] if is_as_it_should_be else [f"created: {left} {files}"]


def at(number: int) -> Callable[[str], bool]:
    """Once, at the point with this number."""
    seen = iter(range(sys.maxsize))
    return lambda _: next(seen) == number


def again_and_again(chance: random.Random, most_between: int = _MOST_BETWEEN) -> Callable[[str], bool]:
    remaining = chance.randint(1, most_between)

    def is_last(_: str) -> bool:
        nonlocal remaining
        remaining -= 1
        if remaining:
            return False
        remaining = chance.randint(1, most_between)
        return True

    return is_last


def run(count: int, seed: int, say: Callable[[str], None]) -> Figures:
    chance = random.Random(seed)
    figures = Figures()
    with Libvirtd() as daemon:
        while figures.kills.total() < count:
            with tempfile.TemporaryDirectory(prefix="kvm-kills-") as folder:
                killed, wrong = life(daemon, Path(folder), again_and_again(chance))
            figures.lives += 1
            figures.kills.update(killed)
            figures.wrong += wrong
            so_far = figures.kills.total()
            say(f"life {figures.lives}: {len(killed)} kills, {so_far} in all; wrong: {wrong or 'nothing'}")
            if wrong:
                break
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill the provider in the middle of a machine's life.")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    given = parser.parse_args()
    if problem := daemons.missing():
        sys.exit(f"skipped: {problem}")
    print(f"seed {given.seed}")
    figures = run(given.count, given.seed, lambda text: print(text, flush=True))
    print(f"kvm: {figures.summary()}")
    for point, number in sorted(figures.kills.items()):
        print(f"  {number:4} {point}")
    sys.exit(1 if figures.wrong else 0)


if __name__ == "__main__":
    end_in_order()
    main()
