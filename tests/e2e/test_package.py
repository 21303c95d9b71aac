"""`pip install`: into an environment of its own, run from elsewhere, upgraded, uninstalled. `make package` runs it.

It fetches every dependency, which takes a minute or more, so `make test` leaves it out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import steelyard
from tests.harness import INSTANT, ROOT

pytestmark = pytest.mark.skipif(
    not os.environ.get("STEELYARD_TEST_PACKAGE"), reason="it fetches every dependency; `make package` runs it"
)


def test_the_package_installs_runs_upgrades_and_leaves_the_data_when_it_goes(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    (elsewhere / "platform.yaml").write_text(INSTANT)
    bin_ = tmp_path / "venv" / "bin"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "STEELYARD", "KUBE"))}

    def run(*command: str | Path, code: int = 0) -> str:
        done = subprocess.run(
            command, cwd=elsewhere, env={**kept, "HOME": str(home)}, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done
        return done.stdout + done.stderr

    def install(*options: str) -> None:
        pip = (bin_ / "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "--constraint", ROOT / "constraints.txt", *options, ROOT)

    run(sys.executable, "-m", "venv", tmp_path / "venv")
    install()
    program = bin_ / "steelyard"
    assert run(program, "--version") == f"steelyard {steelyard.__version__}\n"
    run(program, "up", "--detach", "--port", "0")
    try:
        run(program, "create", "cluster", "shop", "--environment", "dev", "--worker-replicas", "0", "--wait")
        run(program, "down")
        install("--force-reinstall", "--no-deps")
        run(program, "up", "--detach", "--port", "0")
        assert run(program, "get", "-o", "name") == "workloadcluster.compute.steelyard.dev/shop\n"
    finally:
        run(program, "down")
    run(bin_ / "pip", "uninstall", "--quiet", "--yes", "steelyard")
    assert not program.exists()
    assert not list((tmp_path / "venv").rglob("steelyard/*.py"))
    left = {path.relative_to(home).parts[:3] for path in home.rglob("*steelyard*")}
    left = {parts for parts in left if parts[0] != ".cache"}  # pip's, of what it has fetched and built
    assert left == {(".local", "share", "steelyard")}
