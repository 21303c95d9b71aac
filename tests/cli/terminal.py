"""A terminal for tests of the command line: each command is a process, as a user has it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from steelyard.cli import main
from steelyard.cli.exits import Exit
from tests import forked
from tests.harness import ROOT


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str


class Terminal:
    """Runs `steelyard` with one data directory."""

    def __init__(self, data_dir: Path, directory: Path) -> None:
        self.data_dir = data_dir
        self.directory = directory
        self._environment = {**os.environ, "STEELYARD_DATA_DIR": str(data_dir)}
        for name in ("STEELYARD_PLATFORM", "KUBECONFIG"):
            self._environment.pop(name, None)

    def elsewhere(self, home: Path, **environment: str) -> Terminal:
        """The terminal of somebody else: with a home of their own, and no word of the data directory."""
        other = Terminal(self.data_dir, self.directory)
        for name in ("STEELYARD_DATA_DIR", "XDG_DATA_HOME"):
            other._environment.pop(name, None)
        other._environment |= {"HOME": str(home), **environment}
        return other

    def run(self, *arguments: str, given: str = "") -> Done:
        """`given` is what standard input holds."""
        done = forked.run(arguments, cwd=self.directory, environment=self._environment, given=given)
        return Done(done.returncode, done.stdout, done.stderr)

    def program(self) -> str:
        """What the installed program prints without arguments: with the shell's variables, its completion."""
        program = Path(sys.executable).parent / "steelyard"
        return subprocess.run(
            [program], cwd=self.directory, env=self._environment, capture_output=True, text=True, check=False
        ).stdout

    def quick(self, *arguments: str, given: str = "", program: typer.Typer = main.app) -> Done:
        """The same within this process, for a test of many commands that start and end like any other."""
        done = CliRunner().invoke(program, arguments, input=given, env=self._changes())
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Done(done.exit_code, done.stdout, done.stderr)

    def _changes(self) -> dict[str, str | None]:
        """From the environment of this process to that of the terminal."""
        return {name: self._environment.get(name) for name in {*os.environ, *self._environment}}

    def start(self, *arguments: str) -> forked.Piped:
        return forked.piped(arguments, cwd=self.directory, environment=self._environment)

    def ok(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.code == Exit.OK, f"{arguments}: {done}"
        return done.out

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "-o", "json"))


class Person:
    """Somebody at a terminal who runs one command."""

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self._terminal, other_end = pty.openpty()
        self.process = forked.at_terminal(arguments, ROOT, {**os.environ, **(environment or {})}, other_end)
        os.close(other_end)
        self.seen = ""

    def read_until(self, text: str) -> None:
        deadline = time.monotonic() + 30
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            self._read(0.1)

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def press_ctrl_c(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def code(self) -> int:
        deadline = time.monotonic() + 30
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError(f"it goes on: {self.seen}")
            self._read(0.05)
        self._read(0)
        os.close(self._terminal)
        return self.process.wait()

    def _read(self, timeout: float) -> None:
        with contextlib.suppress(OSError):
            if select.select([self._terminal], [], [], timeout)[0]:
                self.seen += os.read(self._terminal, 4096).decode()


def await_connection(pid: int) -> None:
    """Until the process has sockets, and so is past loading and into its work."""
    deadline = time.monotonic() + 30
    while not _has_socket(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _has_socket(pid: int) -> bool:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(link).startswith("socket:"):
                return True
    return False
