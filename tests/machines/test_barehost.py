"""The host that `make e2e` makes for itself comes up whatever the packages of the real one have left on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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
_WITH_DATABASES: Final = (
    _BOOT
    + """
from steelyard.providers.postgres.embedded import account
assert account.account().is_another
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
for each in passwd group; do
    grep -v -e ^libvirt-qemu: -e ^steelyard-postgres: /etc/$each >/var/lib/$each
    mount --bind /var/lib/$each /etc/$each
done
exec "$@"
"""


_STAYING: Final = """
import sys, time
from pathlib import Path
from tests.machines import barehost
barehost.enter("staying")
barehost.BareHost(Path(sys.argv[1])).boot()
print("up", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def without_folders() -> list[str]:
    """The beginning of a command that runs where there is no /var/lib/libvirt, nothing in /etc/libvirt, and no user of
    theirs or of ours."""
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


def test_a_host_has_the_user_that_databases_run_as(without_folders: list[str], tmp_path: Path) -> None:
    done = _run(without_folders, _WITH_DATABASES, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not Path("/dev/kvm").exists(), reason="there is no /dev/kvm here")
def test_machines_may_use_hardware_of_the_host_whoever_owns_it(without_folders: list[str], tmp_path: Path) -> None:
    before = Path("/dev/kvm").stat()
    done = _run(without_folders, _OPENED_BY_QEMU, tmp_path)
    after = Path("/dev/kvm").stat()
    assert done.returncode == 0, done.stderr
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_of_a_host_outlives_a_program_that_is_interrupted(told: signal.Signals, tmp_path: Path) -> None:
    if problem := daemons.missing():
        pytest.skip(problem)
    (tmp_path / "staying.py").write_text(_STAYING)
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    with subprocess.Popen(
        [sys.executable, "-m", "staying", str(tmp_path / "host")],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"up\n"
        started = _descendants(program.pid)
        assert {"libvirtd", "virtlogd"} <= set(started.values())
        # As a terminal does; a manager of services, and whoever is short of memory, tell one alone.
        (os.killpg if told == signal.SIGINT else os.kill)(program.pid, told)
        program.wait(60)
    deadline = time.monotonic() + 30
    while left := {pid: name for pid, name in started.items() if _name(pid) == name}:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def _descendants(pid: int) -> dict[int, str]:
    found: dict[int, str] = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found |= {int(child): _name(int(child)), **_descendants(int(child))}
    return found


def _name(pid: int) -> str:
    """Empty for one that is gone, or waits to be buried."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    name, _, rest = stat.partition("(")[2].rpartition(")")
    return "" if rest.split()[0] == "Z" else name
