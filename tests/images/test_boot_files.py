"""What a node's files do at its boot, by the program that does it there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from steelyard.images import node

TMPFILES = "systemd-tmpfiles"
WRITTEN = "etc/tmpfiles.d/steelyard.conf"


def clean_up(root: Path, *moment: str) -> None:
    if shutil.which(TMPFILES) is None:
        pytest.skip(f"{TMPFILES} is not on this machine")
    subprocess.run([TMPFILES, f"--root={root}", "--remove", *moment, Path(WRITTEN).name], check=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Of a machine whose power was lost while it noted a pod's network."""
    (tmp_path / WRITTEN).parent.mkdir(parents=True)
    shutil.copyfile(node.FILES / WRITTEN, tmp_path / WRITTEN)
    noted = tmp_path / "var/lib/cni/results/cbr0-bcdd6185c8d2-eth0"
    noted.parent.mkdir(parents=True)
    noted.touch()
    return tmp_path


def test_what_was_noted_of_pods_does_not_outlive_a_boot(root: Path) -> None:
    clean_up(root, "--boot")
    assert not (root / "var/lib/cni/results").exists()


def test_it_outlives_all_else(root: Path) -> None:
    """As packages have these files looked at again when they are installed."""
    clean_up(root)
    assert (root / "var/lib/cni/results/cbr0-bcdd6185c8d2-eth0").exists()
