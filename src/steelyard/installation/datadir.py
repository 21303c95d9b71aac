"""Where the platform keeps its files, in one place, so that `up`, `status` and `doctor` agree on every name.

<data dir>/                 mode 0700; --data-dir, else STEELYARD_DATA_DIR, else the user's data directory
  steelyard.db              the platform's objects
  <provider's name>.db      what a provider keeps of its world, such as the objects inside simulated clusters
  *.db.acknowledged         how far each database must reach: tells when the end of it got lost
  pki/                      the platform's certificate authority, serving certificate, keys of encryption and tokens
  platform.remembered.yaml  what the platform was started with last: which file, and all its settings
  reserve                   space for deleting and starting when the disk is full
  kubeconfig                mode 0600: the administrator's
  steelyard.pid             held (flock) by the running platform; its process id and address
  steelyard.log             what the platform tells; older ones are steelyard.log.1, ...
  audit.log                 who did what: one line per request; older ones are audit.log.1, ...
  restoring                 there while a restore puts files in place: no platform starts then
  replaced-<time>-<x>/      what was there before a restore, or before the authority was renewed
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from steelyard.frozen import frozen

_PID_FILE_BYTES: Final = 512
_LOOKING_SECONDS: Final = 0.5
_PAUSE_SECONDS: Final = 0.02


class AlreadyRunning(Exception):
    """Another process holds this data directory."""

    def __init__(self, instance: Instance) -> None:
        where = f"process {instance.pid} at {instance.url}" if instance.url else "still starting"
        super().__init__(f"a platform is already running there, {where}")
        self.instance = instance


@frozen
class Instance:
    """What a running platform says of itself in its pid file; `url` is empty until it serves."""

    pid: int
    url: str
    started: str = ""
    version: str = ""


@frozen
class DataDir:
    root: Path

    @property
    def database(self) -> Path:
        return self.root / "steelyard.db"

    def provider_database(self, name: str) -> Path:
        return self.root / f"{name}.db"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def encryption_keys(self) -> Path:
        return self.pki / "encryption.json"

    @property
    def service_account_key(self) -> Path:
        return self.pki / "sa.key"

    @property
    def remembered(self) -> Path:
        return self.root / "platform.remembered.yaml"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def reserve(self) -> Path:
        return self.root / "reserve"

    @property
    def pid_file(self) -> Path:
        return self.root / "steelyard.pid"

    @property
    def log_file(self) -> Path:
        return self.root / "steelyard.log"

    @property
    def audit_log(self) -> Path:
        return self.root / "audit.log"

    @property
    def restoring(self) -> Path:
        return self.root / "restoring"

    def create(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.pki.mkdir(exist_ok=True, mode=0o700)

    def aside(self, now: datetime.datetime) -> Path:
        """A new directory for what is replaced but kept."""
        return Path(tempfile.mkdtemp(prefix=f"replaced-{now:%Y%m%dT%H%M%SZ}-", dir=self.root))

    def running(self) -> Instance | None:
        """The platform that holds this directory now; None if none does, whatever a dead one left in the file."""
        try:
            handle = os.open(self.pid_file, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            # Shared, so that others who only look are not taken for a platform.
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read_instance(handle)
        finally:
            os.close(handle)
        return None


class Hold:
    """The lock on a data directory, from `up`'s first step to its last. The kernel drops it when the process dies."""

    def __init__(self, data_dir: DataDir) -> None:
        self._handle = os.open(data_dir.pid_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(self._handle)
        except BlockingIOError:
            instance = _read_instance(self._handle)
            os.close(self._handle)
            raise AlreadyRunning(instance) from None
        except OSError as error:
            os.close(self._handle)
            # As on NFS without its lock service: two platforms could run there at once.
            text = f"cannot be locked ({error.strerror}); the data directory must be on a file system with locks"
            raise OSError(error.errno, text, str(data_dir.pid_file)) from None
        self.describe(Instance(os.getpid(), url=""))

    def describe(self, instance: Instance) -> None:
        fields = {"pid": instance.pid, "url": instance.url, "started": instance.started, "version": instance.version}
        self._write(json.dumps(fields))

    def release(self) -> None:
        """The file stays: removing it would let a process that has just opened it lock a file nobody else sees."""
        self._write("")
        os.close(self._handle)

    def _write(self, text: str) -> None:
        """Always of one length and never cut first: there may be no space on the disk to write it anew."""
        os.pwrite(self._handle, f"{text:<{_PID_FILE_BYTES - 1}}\n".encode(), 0)


def locate(given: Path | None, environment: Mapping[str, str]) -> DataDir:
    """The data directory: as given, else STEELYARD_DATA_DIR, else the user's data directory."""
    if given is not None:
        return DataDir(given.absolute())
    if environment.get("STEELYARD_DATA_DIR"):
        return DataDir(Path(environment["STEELYARD_DATA_DIR"]).absolute())
    base = environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return DataDir(Path(base) / "steelyard")


def _lock(handle: int) -> None:
    """Not at the first try where somebody just looks whether a platform runs, which takes the lock for a moment."""
    deadline = time.monotonic() + _LOOKING_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _read_instance(handle: int) -> Instance:
    """What the holder of the lock wrote; without an address as long as it is still starting."""
    try:
        fields = cast("dict[str, Any]", json.loads(os.pread(handle, 4096, 0)))
        instance = Instance(int(fields["pid"]), str(fields["url"]), str(fields["started"]), str(fields["version"]))
    except (ValueError, KeyError):
        return Instance(0, url="")
    # A platform that was killed left its description behind, and the next one locks the file before it rewrites it.
    return instance if _is_alive(instance.pid) else Instance(0, url="")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
