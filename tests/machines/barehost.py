"""A host for virtual machines: libvirtd, virtlogd and everything they start, in namespaces of their own.

The program starts itself again inside new network, mount and process namespaces. There is no way out of that network,
nothing of the real host's libvirt is seen, and whatever still runs ends with the program. What libvirt has to remember
(definitions of domains and networks, leases) is in a folder, so that the next run is the same host after a reboot.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from steelyard.providers.postgres.embedded import account
from tests.harness import ROOT
from tests.providers.kvm import daemons

_INSIDE: Final = "STEELYARD_BARE_HOST"
_INIT: Final = 'trap : INT TERM; "$@" & wait $!'
"""The first process there takes in whom others leave behind: QEMU that daemons have started would seem to live on."""
_KEPT: Final = {"etc": Path("/etc/libvirt"), "lib": Path("/var/lib/libvirt")}
_FORGOTTEN: Final = (Path("/run/libvirt"), Path("/var/log/libvirt"), Path("/var/cache/libvirt"))
_NOT_OURS: Final = shutil.ignore_patterns("networks", "autostart", "images", "*.xml")
"""What is on the real host stays there."""
_KVM: Final = """
[ -c /dev/kvm ] || exit 0
cp -a /dev/kvm /run/libvirt/kvm
chown libvirt-qemu /run/libvirt/kvm
mount --bind /run/libvirt/kvm /dev/kvm
"""
"""As udev has it elsewhere: QEMU's user may open it. Otherwise libvirt, which has QEMU look for KVM with root's rights
and itself looks with that user's, sees a change each time and asks QEMU anew: two seconds of a processor."""
_ACCOUNTS: Final = {**daemons.QEMU_ACCOUNT, account.NAME: 64066}
"""Always the same: what they own is kept."""
_START_SECONDS: Final = 30.0
PROGRAMS: Final = (
    "libvirtd",
    "virtlogd",
    "virsh",
    "qemu-system-x86_64",
    "qemu-img",
    "dnsmasq",
    "setpriv",
    "unshare",
    "ip",
)
PACKAGES: Final = (
    "libvirt-daemon-system", "libvirt-clients", "qemu-system-x86", "qemu-utils", "dnsmasq-base", "iproute2", "iptables",
    "util-linux",
)  # fmt: skip


class CannotRun(Exception):
    """The message says what is missing and how to get it."""


def is_inside() -> bool:
    """Whether this is the program inside, from where no package registry is reached."""
    return bool(os.environ.get(_INSIDE))


def check() -> None:
    """Raises CannotRun."""
    if os.geteuid() != 0:
        raise CannotRun("network and mount namespaces need root: run it as root")
    # Those of the superuser are not in everybody's path.
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [each for each in PROGRAMS if shutil.which(each) is None]
    if missing:
        raise CannotRun(f"{', '.join(missing)} not found; on Debian: apt-get install {' '.join(PACKAGES)}")


def enter(module: str) -> None:
    """Goes on only inside: outside it ends the program with what became of the one inside."""
    if is_inside():
        return
    check()
    command = [
        # Nothing of it outlives this program, not even where that is killed.
        "setpriv",
        "--pdeathsig",
        "KILL",
        "unshare",
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        "sh",
        "-c",
        _INIT,
        "sh",
    ]
    done = subprocess.run(
        [*command, sys.executable, "-m", module, *sys.argv[1:]],
        cwd=ROOT,
        env={**os.environ, _INSIDE: "1"},
        check=False,
    )
    sys.exit(done.returncode)


class BareHost:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._programs: list[subprocess.Popen[bytes]] = []

    def boot(self) -> None:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for name, place in _KEPT.items():
            kept = self._folder / name
            # Not every package of libvirt's has made it: libvirtd itself does, at its first start.
            place.mkdir(parents=True, exist_ok=True)
            if not kept.exists():
                shutil.copytree(place, kept, symlinks=True, ignore=_NOT_OURS)
            subprocess.run(["mount", "--bind", str(kept), str(place)], check=True)
        # Control groups are the real host's, and would stay there.
        (_KEPT["etc"] / "qemu.conf").write_text("cgroup_controllers = []\n")
        for place in _FORGOTTEN:
            place.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(place)], check=True)
        for prepared in (daemons.accounts(_ACCOUNTS), _KVM):
            subprocess.run(["sh", "-euc", prepared], check=True)
        self._start("virtlogd")
        self.start_libvirtd()

    def start_libvirtd(self) -> None:
        self._start("libvirtd")
        deadline = time.monotonic() + _START_SECONDS
        while subprocess.run(["virsh", "-q", "list"], capture_output=True, check=False).returncode:
            if time.monotonic() > deadline:
                raise CannotRun(f"libvirtd does not answer after {_START_SECONDS:.0f} s; see {self._log('libvirtd')}")
            time.sleep(0.2)

    def _start(self, program: str) -> None:
        # Where the real host's would be, one that runs there holds it.
        command = [program, "--pid-file", f"/run/libvirt/{program}.pid"]
        with self._log(program).open("ab") as log:
            self._programs.append(subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def _log(self, program: str) -> Path:
        return self._folder / f"{program}.log"


def virsh(*arguments: str) -> str:
    done = subprocess.run(["virsh", "-q", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"virsh {' '.join(arguments)}: {done.stderr.strip()}"
    return done.stdout.strip()
