"""A terminal for tests of the command line: each command is a process, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from steelyard.cli import main
from steelyard.cli.exits import Exit


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str


class Terminal:
    """Runs `steelyard` with one data directory, and with compiled modules kept from one command to the next."""

    def __init__(self, data_dir: Path, directory: Path, compiled: Path) -> None:
        self.data_dir = data_dir
        self.directory = directory
        self._environment = {
            **os.environ,
            "PYTHONPYCACHEPREFIX": str(compiled),
            "STEELYARD_DATA_DIR": str(data_dir),
        }
        for name in ("PYTHONDONTWRITEBYTECODE", "STEELYARD_PLATFORM", "KUBECONFIG"):
            self._environment.pop(name, None)

    def elsewhere(self, home: Path, **environment: str) -> Terminal:
        """The terminal of somebody else: with a home of their own, and no word of the data directory."""
        other = Terminal(self.data_dir, self.directory, Path(self._environment["PYTHONPYCACHEPREFIX"]))
        for name in ("STEELYARD_DATA_DIR", "XDG_DATA_HOME"):
            other._environment.pop(name, None)
        other._environment |= {"HOME": str(home), **environment}
        return other

    def run(self, *arguments: str, given: str = "") -> Done:
        """`given` is what standard input holds."""
        done = subprocess.run(
            [sys.executable, "-m", "steelyard", *arguments],
            cwd=self.directory,
            env=self._environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
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

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "steelyard", *arguments],
            cwd=self.directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ok(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.code == Exit.OK, f"{arguments}: {done}"
        return done.out

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "-o", "json"))
