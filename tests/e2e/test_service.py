"""The systemd unit that ships: systemd accepts it, and the command in it runs and ends as the unit says."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steelyard.installation.datadir import DataDir
from tests.harness import INSTANT, ROOT

UNIT = ROOT / "examples" / "systemd" / "steelyard.service"


def settings() -> dict[str, list[str]]:
    """Every assignment of the unit, in order."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze here")
    # Only the program is not where the unit looks for it.
    unit = tmp_path / "steelyard.service"
    unit.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/steelyard/bin/steelyard", sys.executable))
    done = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, check=False)
    about_unit = [line for line in done.stderr.splitlines() if "steelyard.service" in line]
    assert about_unit == []


def test_the_service_gives_away_nothing_it_does_not_need() -> None:
    unit = settings()
    assert unit["StateDirectoryMode"] == ["0700"]
    assert unit["UMask"] == ["0077"]
    assert unit["CapabilityBoundingSet"] == [""]
    for each in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "RestrictNamespaces"):
        assert unit[each] == ["yes"]
    assert "--host 127.0.0.1" in unit["ExecStart"][0]


def test_the_command_of_the_unit_runs_and_ends_as_the_unit_says(tmp_path: Path) -> None:
    unit = settings()
    words = shlex.split(unit["ExecStart"][0].replace("--port 7443", "--port 0"))
    state = tmp_path / "steelyard"
    state.mkdir(mode=0o700)
    (state / "platform.yaml").write_text(INSTANT)
    given = dict(each.replace("%S", str(tmp_path)).split("=", 1) for each in unit["Environment"])
    environment = {**os.environ, **given, "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT / "src"))}
    with (tmp_path / "journal").open("wb") as journal:
        process = subprocess.Popen(
            [sys.executable, "-m", "steelyard", *words[1:]],
            cwd=unit["WorkingDirectory"][0].replace("%S", str(tmp_path)),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=journal,
            stderr=journal,
            umask=0o077,
        )
    try:
        where = DataDir(state)
        deadline = time.monotonic() + 30
        while "serves the Kubernetes API" not in (told := (tmp_path / "journal").read_text()):
            assert process.poll() is None, told
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert where.running() is not None
        assert "platform started" in where.log_file.read_text()
        process.send_signal(getattr(signal, unit["KillSignal"][0]))
        assert process.wait(float(unit["TimeoutStopSec"][0])) == 0
        assert where.log_file.read_text().splitlines()[-1].partition("INFO")[2].strip().startswith("platform ended")
    finally:
        process.kill()
        process.wait()
