"""A platform that the tests of one module share, and terminals to use it from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.cli.exits import Exit
from tests.cli.terminal import Terminal
from tests.harness import PlatformProcess


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    with PlatformProcess(tmp_path_factory.mktemp("platform")) as process:
        process.start()
        yield process


@pytest.fixture
def terminal(shared: PlatformProcess, tmp_path: Path) -> Terminal:
    return Terminal(shared.data_dir.root, tmp_path)


@pytest.fixture(scope="module")
def ready_claim(shared: PlatformProcess, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a claim that is Ready, for the tests that only read it."""
    terminal = Terminal(shared.data_dir.root, tmp_path_factory.mktemp("terminal"))
    done = terminal.run("create", "cluster", "ready", "--environment", "dev", "-n", "reading", "--wait")
    assert (done.code, done.out) == (
        Exit.OK,
        "workloadcluster.compute.steelyard.dev/ready created in namespace reading\n",
    )
    first, *progress, last = done.err.splitlines()
    assert first == "namespace reading created"
    assert all(line.startswith("WorkloadCluster reading/ready: ") for line in progress)
    assert re.fullmatch(r"WorkloadCluster reading/ready is Ready after [\d.]+ s", last)
    return "ready"


@pytest.fixture
def idle(tmp_path: Path) -> Terminal:
    """A terminal whose data directory no platform has used yet."""
    return Terminal(tmp_path / "data", tmp_path)
