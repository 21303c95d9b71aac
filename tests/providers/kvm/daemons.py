"""A libvirtd and a virtlogd of a test's own, in namespaces of their own: mounts, network, processes.

Nothing of the machine's own libvirt is touched, and everything ends with the namespaces: guests, bridges, dnsmasq,
files. Sockets and files inside are reached by way of /proc/<pid>/root.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from steelyard.providers.kvm.libvirt import binding
from tests import scratch

PROGRAMS: Final = (
    "setpriv",
    "unshare",
    "nsenter",
    "ip",
    "libvirtd",
    "virtlogd",
    "qemu-system-x86_64",
    "qemu-img",
    "dnsmasq",
)
_DEADLINE: Final = 120.0
_LOG: Final = "/var/log/libvirt/libvirtd.log"
_STATE: Final = ("/run/libvirt", "/var/lib/libvirt", "/etc/libvirt", "/var/log/libvirt")
QEMU_ACCOUNT: Final = {"libvirt-qemu": 64055}
"""libvirtd does not start without the user that Debian's libvirt-daemon-system makes, whoever is to run QEMU."""
_ACCOUNT: Final = """
for each in passwd group; do
    if ! getent $each {name} >/dev/null; then
        if [ ! -e /run/libvirt/$each ]; then
            cp /etc/$each /run/libvirt/$each
            mount --bind /run/libvirt/$each /etc/$each
        fi
        [ $each = group ] && made={name}:x:{number}: || made={name}:x:{number}:{number}::/nonexistent:/bin/false
        echo $made >>/etc/$each
    fi
done
"""
_INSIDE: Final = """
set -eu
mount --make-rprivate /
for each in {state}; do mkdir -p $each; mount -t tmpfs tmpfs $each; done
mkdir -p /etc/libvirt/qemu /run/libvirt/common /var/cache/libvirt
mount --bind {cache} /var/cache/libvirt
{accounts}
{more}
ip link set lo up
cat >/etc/libvirt/qemu.conf <<END
user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = []
namespaces = []
remember_owner = 0
END
cat >/etc/libvirt/libvirtd.conf <<END
auth_unix_rw = "none"
log_outputs = "3:file:{log}"
END
virtlogd --daemon --pid-file /run/libvirt/virtlogd.pid
libvirtd --daemon --pid-file /run/libvirt/libvirtd.pid
# The first process of a namespace has to bury the others.
while :; do sleep 1000 & wait $!; done
"""


def accounts(numbers: Mapping[str, int]) -> str:
    """Commands that give a mount namespace the users that the machine lacks. Others can be added by no program there:
    what is mounted cannot be replaced."""
    return "".join(_ACCOUNT.format(name=name, number=number) for name, number in numbers.items())


def missing() -> str:
    """Why there can be no libvirtd here; empty where there can."""
    if os.geteuid() != 0:
        return "only root may make namespaces with a libvirtd in them"
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    absent = [each for each in PROGRAMS if shutil.which(each, path=path) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    if importlib.util.find_spec("libvirt") is None:
        return "libvirt's Python binding is not installed (the extra kvm)"
    return ""


@functools.cache
def _cache() -> Path:
    """What each libvirtd finds out of QEMU's programs by running them, for the next one of this process."""
    made = scratch.folder("libvirt")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


class Libvirtd:
    def __init__(self, *, more: str = "") -> None:
        """`more` are commands inside, before libvirtd starts."""
        script = _INSIDE.format(
            state=" ".join(_STATE), cache=_cache(), accounts=accounts(QEMU_ACCOUNT), more=more, log=_LOG
        )
        environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
        self._process = subprocess.Popen(
            [
                # It does not outlive whoever started it, killed or not.
                *("setpriv", "--pdeathsig", "KILL", "unshare"),
                *("--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
                *("sh", "-c", script),
            ],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        try:
            self.pid = self._inner()
            self._wait()
        except BaseException:
            self._process.kill()
            self._process.wait(_DEADLINE)
            raise

    def _inner(self) -> int:
        """The first process inside, as it is called outside."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        for _ in self._patiently("no process inside"):
            if found := children.read_text().split():
                return int(found[0])
        raise AssertionError

    def _wait(self) -> None:
        for count, _ in enumerate(self._patiently("libvirtd did not start")):
            if self.socket.exists() and self.run("virsh", "-q", "uri", check=False).returncode == 0:
                return
            log = self.root / _LOG.removeprefix("/")
            if count % 50 == 49 and log.exists() and not self.pids("libvirtd"):
                raise AssertionError(f"libvirtd ended: {log.read_text()[-2000:]}")

    def _patiently(self, complaint: str) -> Iterator[None]:
        deadline = time.monotonic() + _DEADLINE
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise AssertionError(f"{complaint}: exit code {self._process.returncode}")
            yield
            time.sleep(0.02)
        raise AssertionError(f"{complaint} within {_DEADLINE:g} seconds")

    @property
    def root(self) -> Path:
        """The files inside, seen from outside."""
        return Path(f"/proc/{self.pid}/root")

    @property
    def socket(self) -> Path:
        return self.root / "run/libvirt/libvirt-sock"

    @property
    def uri(self) -> str:
        return f"qemu+unix:///system?socket={self.socket}"

    def reached_by(self, _: str) -> str:
        """Whatever a KVMHost says, it is this one."""
        return self.uri

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        inside = ["nsenter", "--target", str(self.pid), "--mount", "--net", "--pid", "--"]
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        done = subprocess.run(
            [*inside, *command], capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
        )
        assert not check or done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def virsh(self, *arguments: str, check: bool = True) -> str:
        return self.run("virsh", "-q", *arguments, check=check).stdout.strip()

    def pids(self, name: str) -> list[int]:
        """Processes inside with this name, as they are called outside."""
        own = os.readlink(f"/proc/{self.pid}/ns/pid")
        found: list[int] = []
        for each in Path("/proc").iterdir():
            if each.name.isdecimal():
                with contextlib.suppress(OSError):
                    is_inside = os.readlink(each / "ns/pid") == own
                    state = (each / "stat").read_text().rpartition(")")[2].split()[0]
                    if is_inside and state != "Z" and (each / "comm").read_text().strip() == name[:15]:
                        found.append(int(each.name))
        return found

    def signal(self, number: signal.Signals, name: str = "libvirtd") -> None:
        for pid in self.pids(name):
            os.kill(pid, number)

    def restart(self) -> None:
        """libvirtd alone; guests go on."""
        self.signal(signal.SIGKILL)
        for _ in self._patiently("libvirtd did not end"):
            if not self.pids("libvirtd"):
                break
        self.run("libvirtd", "--daemon", "--pid-file", "/run/libvirt/libvirtd.pid")
        self._wait()

    @contextlib.contextmanager
    def connected(self) -> Generator[Any]:
        """By libvirt's binding, for what is asked again and again: a virsh takes thirty times as long."""
        connection = binding.load().open(self.uri)
        try:
            yield connection
        finally:
            connection.close()

    def domains(self) -> list[str]:
        """UUIDs."""
        with self.connected() as connection:
            return [each.UUIDString() for each in connection.listAllDomains()]

    def pools(self) -> list[str]:
        with self.connected() as connection:
            return [each.name() for each in connection.listAllStoragePools()]

    def definition(self, domain: str) -> str:
        """Of its next start; empty where there is none of this UUID."""
        libvirt = binding.load()
        with self.connected() as connection:
            try:
                return str(connection.lookupByUUIDString(domain).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
            except libvirt.libvirtError:
                return ""

    def is_running(self, domain: str) -> bool:
        with self.connected() as connection:
            return bool(connection.lookupByUUIDString(domain).isActive())

    def clear(self) -> None:
        """Whatever is left goes."""
        libvirt = binding.load()
        with self.connected() as connection:
            lists = (connection.listAllDomains, connection.listAllNetworks, connection.listAllStoragePools)
            for each in (each for listed in lists for each in listed()):
                for remove in (each.destroy, each.undefine):
                    with contextlib.suppress(libvirt.libvirtError):
                        remove()

    def left(self) -> list[str]:
        """Everything that machines and clusters could have left behind here."""
        status = self.root / "var/lib/libvirt/dnsmasq"
        interfaces = Path(f"/proc/{self.pid}/net/dev").read_text().splitlines()[2:]
        with self.connected() as connection:
            domains = [each.name() for each in connection.listAllDomains()]
            networks = [each.name() for each in connection.listAllNetworks()]
            pools = [each.name() for each in connection.listAllStoragePools()]
        listed = {
            "domain": domains,
            "network": networks,
            "pool": pools,
            "interface": [name for line in interfaces if (name := line.partition(":")[0].strip()) != "lo"],
            "process": [f"{name} {pid}" for name in ("qemu-system-x86_64", "dnsmasq") for pid in self.pids(name)],
            "file of dnsmasq": [each.name for each in status.iterdir()] if status.exists() else [],
            "definition": [
                str(each.relative_to(self.root))
                for folder in ("etc/libvirt/qemu", "etc/libvirt/storage")
                for each in (self.root / folder).rglob("*.xml")
            ],
        }
        return [f"{what} {name}" for what, names in listed.items() for name in names if name]

    def close(self) -> None:
        if self._process.poll() is None:
            # The first process of the namespace; the kernel ends the rest with it.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._process.wait(_DEADLINE)

    def __enter__(self) -> Libvirtd:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
