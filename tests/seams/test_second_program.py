"""The second kind and the second infrastructure from the command line: up, create, get, describe, delete, backup."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forked
from tests.harness import ROOT

DEADLINE = 60.0


class Program:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.process: forked.Process | None = None
        self.environment = {**os.environ, "STEELYARD_DATA_DIR": str(self.data), "COLUMNS": "120"}
        self.environment.pop("KUBECONFIG", None)

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = forked.run(
            arguments, cwd=ROOT, environment=self.environment, given="", timeout=DEADLINE, program=forked.SECOND
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done

    def start(self) -> None:
        platform = self.folder / "platform.yaml"
        platform.write_text("infrastructure: paper\nenvironments: {lab: {like: dev, workerReplicas: 1}}\n")
        with (self.folder / "log").open("ab") as log:
            up = ["up", "--port", "0", "--platform", str(platform)]
            self.process = forked.start(up, cwd=ROOT, environment=self.environment, output=log, program=forked.SECOND)
        deadline = time.monotonic() + DEADLINE
        while "running:" not in self.run("status", check=False).stdout:
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.1)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path)
    try:
        program.start()
        yield program
    finally:
        program.end()


def test_the_command_line_has_words_for_the_second_kind_and_the_second_infrastructure(program: Program) -> None:
    assert (
        "note.office.steelyard.dev/list created"
        in program.run(
            "create", "note", "list", "--environment", "lab", "--text", "milk", "--pages", "2", "--wait"
        ).stdout
    )
    program.run("create", "cluster", "shop", "--environment", "lab", "--wait")
    listed = program.run("get").stdout
    assert "list" in listed
    assert "shop" in listed
    assert "milk" in program.run("get", "note", "list", "-o", "yaml").stdout
    described = program.run("describe", "list").stdout
    assert described.startswith("Note default/list: Ready")
    assert "list-cover" in described
    wrong = program.run("create", "note", "x", "--environment", "lap", "--text", "x", check=False)
    assert wrong.returncode != 0
    assert "did you mean lab?" in wrong.stderr
    assert "FAIL" not in program.run("doctor").stdout

    backup = program.folder / "backup.tar"
    program.run("backup", str(backup))
    program.run("delete", "list", "--yes")
    assert "list" not in program.run("get").stdout
    assert program.run("wait", "list", "--for=delete").returncode == 0
    program.end()
    program.run("restore", str(backup), "--force")
    program.start()
    program.run("wait", "note", "list", "--for=condition=Ready")
    program.run("wait", "cluster", "shop", "--for=condition=Ready")
