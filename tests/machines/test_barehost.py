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
_OPENED_BY_QEMU: Final = (
    _BOOT
    + """
import subprocess
opened = "exec 3<>/dev/kvm"
subprocess.run(["setpriv", "--reuid", "libvirt-qemu", "--clear-groups", "sh", "-c", opened], check=True)
"""
)
_BESIDE: Final = (
    """
import fcntl, subprocess
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
held = [open(f"/run/{name}.pid", "w") for name in ("libvirtd", "virtlogd")]
for each in held:
    fcntl.lockf(each, fcntl.LOCK_EX)
"""
    + _BOOT
)
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


def _run(command: list[str], program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, sys.executable, "-c", program, str(folder)],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_host_comes_up_where_libvirt_has_never_run(without_folders: list[str], tmp_path: Path) -> None:
    for what in ("the first time", "and again, as after a reboot"):
        done = _run(without_folders, _BOOT, tmp_path)
        assert (done.returncode, done.stdout) == (0, "qemu:///system\n"), f"{what}: {done.stderr}"


def test_a_host_comes_up_beside_the_real_ones_libvirtd(without_folders: list[str], tmp_path: Path) -> None:
    done = _run(without_folders, _BESIDE, tmp_path)
    assert (done.returncode, done.stdout) == (0, "qemu:///system\n"), done.stderr


@pytest.mark.skipif(not Path("/dev/kvm").exists(), reason="there is no /dev/kvm here")
def test_machines_may_use_hardware_of_the_host_whoever_owns_it(without_folders: list[str], tmp_path: Path) -> None:
    before = Path("/dev/kvm").stat()
    done = _run(without_folders, _OPENED_BY_QEMU, tmp_path)
    after = Path("/dev/kvm").stat()
    assert done.returncode == 0, done.stderr
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
