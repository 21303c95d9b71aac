"""The host that `make e2e` makes for itself comes up whatever the packages of the real one have left on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.harness import ROOT
from tests.providers.kvm import daemons

_BOOT: Final = """
import sys
from pathlib import Path
from tests.machines.barehost import BareHost, virsh
BareHost(Path(sys.argv[1])).boot()
virsh("net-list", "--all")
print(virsh("uri"))
"""
_WITHOUT: Final = """
set -eu
mount --make-rprivate /
for each in /var/lib /etc/libvirt; do mount -t tmpfs tmpfs $each; done
test ! -e /var/lib/libvirt
exec "$@"
"""


@pytest.fixture
def without_folders() -> list[str]:
    """The beginning of a command that runs where there is no /var/lib/libvirt, and nothing in /etc/libvirt."""
    if problem := daemons.missing():
        pytest.skip(problem)
    return [
        *("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"),
        *("sh", "-c", _WITHOUT, "sh"),
    ]


def test_a_host_comes_up_where_libvirt_has_never_run(without_folders: list[str], tmp_path: Path) -> None:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    for what in ("the first time", "and again, as after a reboot"):
        done = subprocess.run(
            [*without_folders, sys.executable, "-c", _BOOT, str(tmp_path)],
            cwd=ROOT,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "qemu:///system\n"), f"{what}: {done.stderr}"
