"""Programs that a build runs: their failures tell everything, and none outlives an interrupted build."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steelyard.images import commands
from steelyard.images.failing import BuildFailed

CALLER = """
import sys
from steelyard.images import commands
commands.run(["sh", "-c", "echo $$ > $0; sleep 1000 & wait", sys.argv[1]])
"""


def test_what_a_command_writes_is_the_answer() -> None:
    assert commands.run(["cat"], given=b"text") == "text"


def test_a_failure_tells_what_was_run_how_it_ended_and_what_it_said() -> None:
    with pytest.raises(BuildFailed) as failed:
        commands.run(["sh", "-c", "seq 100 >&2; exit 25"])
    said = str(failed.value)
    assert said.startswith("`sh -c seq 100 >&2; exit 25` ended with exit code 25; the end of what it said:\n81\n")
    assert said.endswith("\n100")


def test_a_command_that_only_wrote_to_its_output_is_quoted_from_there() -> None:
    with pytest.raises(BuildFailed, match=r"(?s)exit code 1; .*no space left"):
        commands.run(["sh", "-c", "echo no space left; exit 1"])


def test_a_command_that_was_killed_says_by_what() -> None:
    with pytest.raises(BuildFailed, match="was ended by SIGKILL, without a word"):
        commands.run(["sh", "-c", "kill -9 $$"])


def test_a_program_that_is_missing_is_told_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    there = [path for path in ("/usr/bin", "/bin") if (Path(path) / "setpriv").exists()]
    monkeypatch.setattr(commands, "_path", lambda: ":".join([str(tmp_path), *there]))
    monkeypatch.setitem(commands.PACKAGES, "no-such-program", "some-package")
    with pytest.raises(BuildFailed, match="there is no no-such-program here: apt install some-package"):
        commands.run(["no-such-program"])
    assert "some-package" in commands.missing()


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed"])
def test_a_program_does_not_outlive_its_build(tmp_path: Path, told: signal.Signals) -> None:
    started = tmp_path / "pid"
    caller = subprocess.Popen([sys.executable, "-c", CALLER, str(started)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    try:
        while not (started.exists() and started.read_text().endswith("\n")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        pid = int(started.read_text())
        caller.send_signal(told)
        caller.wait(60)
    finally:
        caller.kill()
        caller.wait()
    while _lives(pid):
        assert time.monotonic() < deadline, "the program runs on"
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
