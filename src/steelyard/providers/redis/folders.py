"""Where servers have their files, below the provider's folder of the data directory.

    redis/                       0711
      bin/redis-server           a copy, where whoever runs servers cannot reach the original
      <uid of the RedisServer>/  0711
        0/                       0700, its runner's: where server 0 is started, and its data
        version                  of the program that wrote what is in the directories
        0.conf                   0600: what it is told, read by it before it is anybody's
        0.log                    0600: what it says

A server is started *in* its directory, entered before it becomes its runner's, and names all its files from there. So
no directory above needs to be open to anybody, and which process serves which directory is plain to see, from the first
moment and after any crash (`processes.py`).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from steelyard import durable
from steelyard.frozen import frozen
from steelyard.providers.redis.program import Runner

_LOG_BYTES: Final = 1 << 20
_TAIL: Final = 2000
_PARTS: Final = "appendonlydir"
_FIRST_IN_PARTS: Final = "7.0.0"
"""The version from which on data is there."""


@frozen
class Folder:
    """Of one server."""

    directory: Path

    @property
    def configuration(self) -> Path:
        return self.directory.with_suffix(".conf")

    @property
    def log(self) -> Path:
        return self.directory.with_suffix(".log")

    @property
    def has_data(self) -> bool:
        return self.directory.is_dir() and any(self.directory.iterdir())

    @property
    def written_by(self) -> str:
        """The version of the servers of its cache; empty before the first."""
        if self._version.exists():
            return self._version.read_text().strip()
        return _FIRST_IN_PARTS if any(self.directory.parent.glob(f"*/{_PARTS}")) else ""

    def is_written_by(self, version: str) -> None:
        """Recorded before it is."""
        if self.written_by != version:
            durable.write(self._version, f"{version}\n".encode())

    @property
    def _version(self) -> Path:
        return self.directory.parent / "version"

    def last_written(self) -> float:
        """0 for one without data."""
        files = (Path(folder) / name for folder, _, names in os.walk(self.directory) for name in names)
        return max((each.stat().st_mtime for each in files if each.exists()), default=0.0)

    def prepare(self, configuration: str, runner: Runner | None) -> None:
        """Everything that the server needs to start, as it should be; what is there stays."""
        self.directory.parent.mkdir(exist_ok=True, parents=True)
        self.directory.parent.chmod(0o711)
        self.directory.mkdir(exist_ok=True, mode=0o700)
        if runner is not None and self.directory.stat().st_uid != runner.uid:
            for folder, _, names in os.walk(self.directory):
                for path in (Path(folder), *(Path(folder) / name for name in names)):
                    os.chown(path, runner.uid, runner.gid, follow_symlinks=False)
        self.configure(configuration)
        if self.log.exists() and self.log.stat().st_size > _LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))

    def configure(self, text: str) -> None:
        """For the next start; untouched where it says the same."""
        data = text.encode()
        if self.configuration.exists() and self.configuration.read_bytes() == data:
            return
        fresh = self.configuration.with_suffix(".conf.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
        fresh.replace(self.configuration)

    def last_words(self) -> str:
        """Of what the server said: the warnings at its end, or the last line."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            lines = file.read().decode(errors="replace").splitlines()
        warnings = [line.partition(" # ")[2] for line in lines if " # " in line]
        return (warnings or lines or [""])[-1].strip()[:300]

    def erase(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        for file in (self.configuration, self.configuration.with_suffix(".conf.new"), self.log):
            file.unlink(missing_ok=True)
        self.log.with_suffix(".log.1").unlink(missing_ok=True)


@frozen
class Folders:
    root: Path

    @property
    def programs(self) -> Path:
        return self.root / "bin"

    def prepare(self) -> None:
        self.root.mkdir(exist_ok=True, parents=True)
        self.root.chmod(0o711)

    def group(self, uid: str) -> Path:
        return self.root / uid

    def of(self, uid: str, ordinal: int) -> Folder:
        return Folder(self.group(uid) / str(ordinal))

    def erase(self, uid: str) -> None:
        shutil.rmtree(self.group(uid), ignore_errors=True)

    def put_aside(self, uid: str, name: str) -> None:
        """What is left of it stays, and nobody looks at it any more."""
        if self.group(uid).is_dir():
            aside = self.root / "orphaned"
            aside.mkdir(exist_ok=True, mode=0o700)
            self.group(uid).rename(aside / name)

    def ordinals(self, uid: str) -> list[int]:
        """Servers that have, or had, a directory."""
        group = self.group(uid)
        names = {each.name.partition(".")[0] for each in group.iterdir()} if group.is_dir() else set[str]()
        return sorted(int(name) for name in names if name.isdecimal())

    def known(self) -> list[str]:
        """Everybody who has a directory here."""
        return sorted(each.name for each in self.root.iterdir() if each.is_dir() and "-" in each.name)
