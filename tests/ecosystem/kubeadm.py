"""kubeadm of the pinned version, asked whether it takes the configuration that is written for machines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.ecosystem.outcome import Outcome
from tests.harness import ROOT, built

_TESTS: Final = "tests/controllers/lifecycle/test_accepted_bootstrap.py"
_COUNTED: Final = re.compile(r"(\d+) (passed|failed|skipped|error)")


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    (kubeadm,) = built("kubeadm")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", _TESTS]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "KUBEADM": kubeadm}, capture_output=True, text=True, check=False
    )
    counts = {what: int(count) for count, what in _COUNTED.findall(done.stdout)}
    failed = counts.get("failed", 0) + counts.get("error", 0) + (0 if done.returncode == 0 else 1)
    besides = f"{counts['skipped']} skipped, for want of cloud-init" if counts.get("skipped") else ""
    story = "" if done.returncode == 0 else done.stdout + done.stderr
    return Outcome("configuration of machines, as kubeadm reads it", counts.get("passed", 0), failed, besides, story)
