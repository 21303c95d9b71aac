"""`steelyard logs`: a plain `up` has a log file, one finds one's claim in it, and it does not grow without end."""

from __future__ import annotations

import datetime
import logging
import time
from pathlib import Path

import pytest

from steelyard.cli import logfile
from steelyard.cli.exits import Exit
from steelyard.cli.logreading import Choice, Level, Wanted
from steelyard.kube.runtime import logs
from tests.cli.terminal import Terminal
from tests.harness import PlatformProcess

LINES = """\
2026-01-10T11:00:00.000Z INFO    claim is ready kind=WorkloadCluster namespace=team name=shop
2026-01-10T11:10:00.000Z INFO    machine boots kind=Machine namespace=team name=shop-md-0-abc
2026-01-10T11:20:00.000Z WARNING drain is slow claim=team/shop message="2 Pods left"
2026-01-10T11:30:00.000Z ERROR   reconcile failed kind=WorkloadCluster namespace=other name=shopping
Traceback (most recent call last):
  in nothing
2026-01-10T11:40:00.000Z INFO    platform started url=https://127.0.0.1:7443
""".splitlines()


@pytest.mark.parametrize(
    ("wanted", "minutes"),
    [
        (Wanted(), [0, 10, 20, 30, 40]),
        (Wanted(claim="shop"), [0, 10, 20]),
        (Wanted(claim="shop", namespace="other"), []),
        (Wanted(namespace="other"), [30]),
        (Wanted(level=Level.WARNING), [20, 30]),
        (Wanted(since=datetime.datetime(2026, 1, 10, 11, 25, tzinfo=datetime.UTC)), [30, 40]),
    ],
    ids=["all", "a claim", "a claim elsewhere", "a namespace", "a level", "a time"],
)
def test_lines_are_chosen_by_what_they_are_about(wanted: Wanted, minutes: list[int]) -> None:
    chosen = Choice(wanted)
    assert [int(line[14:16]) for line in LINES if chosen.takes(line) and line[0].isdecimal()] == minutes


def test_a_claim_whose_name_begins_the_same_is_another_one() -> None:
    told = """\
2026-01-10T11:00:00.000Z INFO    created kind=WorkloadCluster namespace=team name=shop
2026-01-10T11:01:00.000Z INFO    created kind=WorkloadCluster namespace=team name=shop-b
2026-01-10T11:02:00.000Z INFO    machine made kind=MachineSet namespace=team name=shop-md-0-abc
2026-01-10T11:03:00.000Z INFO    machine made kind=MachineSet namespace=team name=shop-b-md-0-abc
""".splitlines()
    chosen = Choice(Wanted(claim="shop"))
    assert [int(line[14:16]) for line in told if chosen.takes(line)] == [0, 2]
    chosen = Choice(Wanted(claim="shop-b"))
    assert [int(line[14:16]) for line in told if chosen.takes(line)] == [1, 3]


def test_a_traceback_goes_with_its_line() -> None:
    chosen = Choice(Wanted(level=Level.ERROR))
    assert [line for line in LINES if chosen.takes(line)] == LINES[3:6]


def test_a_platform_in_the_foreground_has_a_log_file_too(
    shared: PlatformProcess, terminal: Terminal, ready_claim: str
) -> None:
    assert ready_claim
    told = terminal.quick("logs").out
    assert "INFO    platform started version=" in told
    assert shared.data_dir.log_file.stat().st_mode & 0o777 == 0o600
    assert terminal.quick("logs", "--claim", "nobody-at-all").out == ""
    assert terminal.quick("logs", "--since", "soon").code == Exit.USAGE


def test_without_a_platform_there_is_no_log(idle: Terminal) -> None:
    done = idle.quick("logs")
    assert done.code == Exit.NOT_RUNNING
    assert "steelyard up" in done.err


def test_following_goes_on_with_what_is_added_also_after_the_file_was_turned_over(
    idle: Terminal,
) -> None:
    idle.data_dir.mkdir()
    file = idle.data_dir / "steelyard.log"
    file.write_text(f"{LINES[0]}\n")
    following = idle.start("logs", "--follow", "--claim", "shop")
    try:
        assert following.stdout.readline() == f"{LINES[0]}\n"
        with file.open("a") as more:
            more.write(f"{LINES[3]}\n{LINES[1]}\n")
        assert following.stdout.readline() == f"{LINES[1]}\n"
        file.rename(file.with_name("steelyard.log.1"))
        file.write_text(f"{LINES[2]}\n")
        assert following.stdout.readline() == f"{LINES[2]}\n"
    finally:
        following.terminate()
        following.communicate(timeout=60)


def test_a_log_file_is_turned_over_and_three_older_ones_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "TURNED_AT", 1000)
    path = tmp_path / "steelyard.log"
    handler = logfile.LogFile(path)
    handler.setFormatter(logs.Formatter())
    for number in range(100):
        logfile.say(handler, "a line", number=number)
    handler.close()
    assert [each.name for each in logfile.older(path)] == [f"steelyard.log.{number}" for number in (3, 2, 1)]
    kept = [line for file in (*logfile.older(path), path) for line in file.read_text().splitlines()]
    assert kept[-1].endswith("INFO    a line number=99")
    assert all(file.stat().st_size <= 1000 for file in tmp_path.iterdir())


def test_a_log_that_cannot_be_written_keeps_nothing_from_working(tmp_path: Path) -> None:
    handler = logfile.LogFile(tmp_path / "not" / "there" / "steelyard.log")
    handler.setFormatter(logs.Formatter())
    started = time.thread_time()
    logfile.say(handler, "a line")
    assert time.thread_time() - started < 1
    assert isinstance(handler, logging.Handler)
