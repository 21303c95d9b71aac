"""On a terminal: progress in one line that is redrawn, listings that go on, completion, and words that come close."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from steelyard.cli.exits import Exit
from tests import forked
from tests.cli.terminal import Terminal, await_connection
from tests.harness import PlatformProcess
from tools import recordings

KIND = "workloadcluster.compute.steelyard.dev"


@pytest.fixture
def screen(shared: PlatformProcess, tmp_path: Path) -> recordings.Terminal:
    environment = recordings.environment(tmp_path)
    environment["STEELYARD_DATA_DIR"] = str(shared.data_dir.root)
    return recordings.Terminal(tmp_path, 80, environment, forked.at_terminal)


def test_progress_is_one_line_that_is_redrawn_and_ends_with_the_time_taken(screen: recordings.Terminal) -> None:
    done = screen.run("create", "cluster", "lively", "--environment", "dev", "--wait")
    assert done.code == Exit.OK
    frames = done.text.split("\r\x1b[K")[1:]
    assert any(frame.startswith("WorkloadCluster default/lively: ") for frame in frames)
    assert max(len(frame.split("\r\n")[0]) for frame in frames) < 80
    created, ready, rest = done.screen.split("\n")
    assert (created, rest) == (f"{KIND}/lively created in namespace default", "")
    assert ready.startswith("WorkloadCluster default/lively is Ready after ")

    removed = screen.run("delete", "lively", keys=b"y\n")
    assert "Delete WorkloadCluster default/lively and everything made for it? [y/N]:" in removed.text
    assert "WorkloadCluster default/lively deleted after" in removed.screen


def test_a_watch_goes_on_with_every_change_until_it_is_ended(terminal: Terminal, ready_claim: str) -> None:
    watching = terminal.start("get", "machines", "-n", "watched", "-w", "-o", "name")
    assert ready_claim
    await_connection(watching.pid)
    terminal.quick("create", "cluster", "seen", "-n", "watched", "--environment", "dev", "--worker-replicas", "0")
    assert watching.stdout.readline().startswith("machine.cluster.x-k8s.io/seen-control-plane-")
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=60)
    assert watching.returncode == Exit.INTERRUPTED
    assert "Traceback" not in err

    terminal.quick("wait", "seen", "-n", "watched")
    table = terminal.start("get", "seen", "-n", "watched", "-w")
    assert table.stdout.readline().split()[0] == "NAME"
    assert table.stdout.readline().split()[:2] == ["seen", "dev"]
    terminal.quick("scale", "seen", "-n", "watched", "--workers", "1")
    assert table.stdout.readline().split()[0] == "seen"
    table.send_signal(signal.SIGINT)
    table.communicate(timeout=60)
    assert terminal.quick("get", "-w", "-o", "yaml").code == Exit.USAGE


def completed(terminal: Terminal, words: str) -> list[str]:
    environment = {
        "_STEELYARD_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    home = terminal.directory
    other = terminal.elsewhere(home, STEELYARD_DATA_DIR=str(terminal.data_dir), **environment)
    return other.program().split()


def test_the_shell_completes_commands_claims_namespaces_and_values(terminal: Terminal, ready_claim: str) -> None:
    assert completed(terminal, "steelyard desc") == ["describe"]
    assert completed(terminal, "steelyard describe rea") == [ready_claim]
    assert completed(terminal, "steelyard get -n read") == ["reading"]
    assert completed(terminal, "steelyard create cluster x --environment pre") == ["preprod"]


def test_completion_says_nothing_and_is_quick_where_nobody_answers(idle: Terminal) -> None:
    started = time.monotonic()
    assert completed(idle, "steelyard describe rea") == []
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["craete", "cluster"], "create"),
        (["create", "clusters"], "cluster"),
        (["get", "--selecter", "a=b"], "--selector"),
        (["create", "cluster", "x", "--enviroment", "dev"], "--environment"),
    ],
    ids=" ".join,
)
def test_a_mistyped_command_or_flag_leads_to_the_one_that_was_meant(
    idle: Terminal, words: list[str], meant: str
) -> None:
    done = idle.quick(*words)
    assert done.code == Exit.USAGE
    complaint = done.err.splitlines()[-1]
    assert "Did you mean" in complaint or "Possible options" in complaint
    assert meant in complaint


def test_the_version_needs_no_platform(idle: Terminal) -> None:
    assert idle.quick("--version").out.startswith("steelyard ")
    assert os.listdir(idle.directory) == []
