"""Makes docs/recordings, what a terminal shows of the first minutes with a platform: `make recordings`.

    tools/recordings.py            writes the recordings
    tools/recordings.py --check    writes nothing; fails where a recording is not what a terminal shows now

The real commands run in a real (pseudo) terminal, 80 and 140 columns wide, against a platform of their own. What
differs from run to run (ports, times, ages, the random ends of names, paths) is replaced by fixed words of the same
length, so that columns stay where they are. Of a line that is redrawn, the last state is kept, as on the screen.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from steelyard.kube.client.http import HttpClient
from steelyard.kube.resources import NODES

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "recordings"
WIDTHS = (80, 140)
_ROWS = 50
_DEADLINE = 60.0
_PLATFORM = "simulated: {bootSeconds: 0, joinSeconds: 0, deleteSeconds: 0}\n"
_HOME = "/home/you"


@dataclass(frozen=True, slots=True)
class Shown:
    code: int
    text: str
    """As it came, with every control character."""

    @property
    def screen(self) -> str:
        """What is left to be read: a carriage return or an erasure begins a line anew."""
        lines = self.text.replace("\r\n", "\n").split("\n")
        kept = [re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", line.rpartition("\r\x1b[K")[2]) for line in lines]
        return "\n".join(line.rstrip() for line in kept)


class Running(Protocol):
    """As much of a `subprocess.Popen` as is used here."""

    def poll(self) -> int | None: ...
    def send_signal(self, number: int, /) -> None: ...
    def wait(self, timeout: float | None = None) -> int: ...


Start = Callable[[Sequence[str], Path, Mapping[str, str], int], Running]
"""Has `steelyard` run with arguments, in a folder, with an environment and a terminal, given by its descriptor."""


def start(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], terminal: int) -> Running:
    return subprocess.Popen(
        [sys.executable, "-m", "steelyard", *arguments],
        cwd=folder,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )


class Terminal:
    """Runs `steelyard` in a terminal of the given width."""

    def __init__(self, directory: Path, columns: int, environment: Mapping[str, str], start: Start = start) -> None:
        self._start = start
        self._directory = directory
        self._columns = columns
        self._environment = {**environment, "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": str(columns)}

    def run(self, *arguments: str, until: str = "", keys: bytes = b"") -> Shown:
        """To its end; or until it has shown some words, when it is ended with Ctrl-C. `keys` are typed at once."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, self._columns, 0, 0))
        process = self._start(arguments, self._directory, self._environment, theirs)
        os.close(theirs)
        os.write(ours, keys)
        try:
            text = _read(ours, until, process)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            code = process.wait(20)
            os.close(ours)
        return Shown(code, text)


def _read(descriptor: int, until: str, process: Running) -> str:
    text = b""
    deadline = time.monotonic() + _DEADLINE
    while time.monotonic() < deadline:
        ready, _, _ = select.select([descriptor], [], [], 0.1)
        if ready:
            try:
                part = os.read(descriptor, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            text += part
        elif process.poll() is not None:
            break
        if until and until.encode() in text:
            break
    else:
        raise TimeoutError(f"still running after {_DEADLINE:g} s, having shown:\n{text.decode(errors='replace')}")
    return text.decode(errors="replace")


def environment(home: Path) -> dict[str, str]:
    """That of somebody who has only just come."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "LANG", "LC_ALL")}
    return {**kept, "HOME": str(home)}


def story(home: Path, columns: int, start: Start = start) -> dict[str, str]:
    """Every recording of one width, by name."""
    (home / "platform.yaml").write_text(_PLATFORM)
    terminal = Terminal(home, columns, environment(home), start)
    found: dict[str, str] = {}

    def record(name: str, *arguments: str, until: str = "", once: str = "") -> None:
        """Until it has shown some words; or again and again, `once` there is to be seen what is recorded."""
        shown = terminal.run(*arguments, until=until).screen.rstrip("\n")
        deadline = time.monotonic() + _DEADLINE
        while once not in shown and time.monotonic() < deadline:
            shown = terminal.run(*arguments, until=until).screen.rstrip("\n")
        found[f"{name}-{columns}.txt"] = f"$ steelyard {' '.join(arguments)}\n{steady(shown, home)}\n"

    record("up", "up", "--port", "0", until="its data stays.")
    with _running(terminal):
        record("create", "create", "cluster", "shop", "--environment", "dev", "--wait")
        record("get", "get")
        record("describe-healthy", "describe", "shop")
        asyncio.run(_delete_a_node(terminal))
        terminal.run("wait", "shop", "--for=condition=Ready=False")
        record("describe-broken", "describe", "shop", once="workers: 1 of 2")
        record("delete", "delete", "shop", "--yes")
    return found


@contextlib.contextmanager
def _running(terminal: Terminal) -> Generator[None]:
    started = terminal.run("up", "--port", "0", "--detach")
    assert started.code == 0, started.text
    try:
        yield
    finally:
        terminal.run("down")


async def _delete_a_node(terminal: Terminal) -> None:
    """Behind the platform's back, in the cluster itself."""
    client = HttpClient.from_kubeconfig(terminal.run("kubeconfig", "shop").screen)
    try:
        nodes = (await client.list(NODES, label_selector="!node-role.kubernetes.io/control-plane")).items
        await client.delete(NODES, sorted(str(node["metadata"]["name"]) for node in nodes)[0])
    finally:
        await client.close()


def _same_length(word: str) -> Callable[[re.Match[str]], str]:
    """Replaces the first group by a word, and pads to what was there, unless the line ends."""

    def replaced(match: re.Match[str]) -> str:
        rest = match[0][len(match[1]) :]
        return word + " " * max(len(match[0]) - len(word), 0) if rest and not rest.strip(" ") else word + rest

    return replaced


_UNSTEADY: Sequence[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "2026-01-01T00:00:00Z"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+"), "12345"),
    (re.compile(r"(?<=-md-0)(-[a-z0-9]{5}){1,2}\b"), lambda found: "-xxxxx" * (len(found[0]) // 6)),
    (re.compile(r"(?<=-control-plane)-[a-z0-9]{5}\b"), "-xxxxx"),
    (re.compile(r"\b(\d+(?:\.\d+)? s)\b"), "3 s"),
    (re.compile(r"\b(\d+m?\d*s)\b *"), _same_length("5s")),
    (re.compile(r"pid=\d+|process \d+"), "process 4711"),
)


def steady(text: str, home: Path) -> str:
    text = text.replace(str(home), _HOME)
    for pattern, word in _UNSTEADY:
        text = pattern.sub(word, text)
    return text


def recordings(widths: Sequence[int] = WIDTHS, start: Start = start) -> dict[str, str]:
    found: dict[str, str] = {}
    for columns in widths:
        with tempfile.TemporaryDirectory() as home:
            found |= story(Path(home), columns, start)
    return found


def main(arguments: list[str]) -> int:
    changed = False
    for name, text in recordings().items():
        path = FOLDER / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        changed = True
        if "--check" in arguments:
            print(f"not what a terminal shows: docs/recordings/{name}; run `make recordings`")
        else:
            FOLDER.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote docs/recordings/{name}")
    return int(changed and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
