"""Where the dumps of a DatabaseBackup are, and which of them are whole.

    <folder>/dumps/<backup>/20261117t050411z.dump       what pg_dump wrote, in its custom format
    <folder>/dumps/<backup>/20261117t050411z.json       its checksum, size, moment, why it was made, of what
    <folder>/dumps/<backup>/20261117t050411z.dump.new   one that is being written, or was when the platform was killed
    <folder>/dumps/<backup>.kept-<uid>/                 those of a DatabaseBackup that was deleted and whose dumps stay

A dump is there when both its files are: the side file comes first, the dump gets its name last. Files are 0600, folders
0700. Everything here blocks; callers use a thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, cast

import orjson

from steelyard import durable
from steelyard.api.databases import Dump
from steelyard.frozen import frozen
from steelyard.providers.postgres.problems import Broken, Missing

_FOLDER: Final = "dumps"
_DUMP: Final = ".dump"
_SIDE: Final = ".json"
_INDEX: Final = "index.json"
_NAME: Final = re.compile(r"[0-9a-z][0-9a-z-]{0,100}")
_PIECE: Final = 1024 * 1024

Reason = Literal["scheduled", "asked for"]


@frozen
class Side:
    """What is known of a dump besides its bytes."""

    name: str
    at: str
    size_bytes: int
    sha256: str
    reason: Reason
    database: str
    trigger: str | None = None
    """The value of `spec.trigger` that asked for it."""

    def to_status(self) -> Dump:
        return Dump(name=self.name, at=self.at, size_bytes=self.size_bytes, sha256=self.sha256, reason=self.reason)

    def to_json(self) -> bytes:
        return orjson.dumps(
            {
                "name": self.name,
                "at": self.at,
                "sizeBytes": self.size_bytes,
                "sha256": self.sha256,
                "reason": self.reason,
                "database": self.database,
                "trigger": self.trigger,
            }
        )


class DumpFolder:
    """Of one DatabaseBackup."""

    def __init__(self, root: Path, backup: str) -> None:
        """`root` is the provider's folder; `backup` a name that the API has accepted, with no slash in it."""
        self._root = root
        self.backup = backup
        self.path = root / _FOLDER / backup

    def make(self) -> None:
        for path in (self._root, self.path.parent, self.path):
            path.mkdir(mode=0o700, exist_ok=True, parents=True)
        durable.sync_directory(self.path.parent)

    def dump(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise Missing(f"{name[:80]!r} is no name of a dump")
        return self.path / f"{name}{_DUMP}"

    def unfinished(self, name: str) -> Path:
        dump = self.dump(name)
        return dump.with_name(dump.name + durable.UNFINISHED)

    def free_name(self, stamp: str) -> str:
        """As `20261117t050411z`, with a number behind it if the clock was put back."""
        name, number = stamp, 1
        while self.dump(name).exists():
            number += 1
            name = f"{stamp}-{number}"
        return name

    def finish(self, side: Side) -> None:
        """Gives the dump its name, durably. Before this there is none."""
        durable.write(self._side(side.name), side.to_json())
        self.unfinished(side.name).replace(self.dump(side.name))
        durable.sync_directory(self.path)

    def listed(self) -> list[Side]:
        """Those that are whole, the newest first."""
        if not self.path.is_dir():
            return []
        found = [self._read(path) for path in self.path.glob(f"*{_SIDE}") if path.name != _INDEX]
        whole = [each for each in found if each is not None and self.dump(each.name).is_file()]
        return sorted(whole, key=lambda each: (each.at, each.name), reverse=True)

    def find(self, name: str) -> Side:
        """Raises `Missing`."""
        self.dump(name)
        found = next((each for each in self.listed() if each.name == name), None)
        if found is None:
            there = ", ".join(each.name for each in self.listed()[:5]) or "none"
            raise Missing(f"there is no dump {name} of {self.backup}; there is {there}")
        return found

    def clean_up(self) -> None:
        """Removes what a killed platform has left half-made. Not while one is being made."""
        if not self.path.is_dir():
            return
        for left in self.path.glob(f"*{durable.UNFINISHED}"):
            left.unlink(missing_ok=True)
        for side in self.path.glob(f"*{_SIDE}"):
            if side.name != _INDEX and not side.with_suffix(_DUMP).exists():
                side.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """The dump goes before what is known of it: half of it is nothing."""
        self.dump(name).unlink(missing_ok=True)
        self._side(name).unlink(missing_ok=True)
        durable.sync_directory(self.path)

    def remove_all(self) -> None:
        if self.path.is_dir():
            shutil.rmtree(self.path)
            durable.sync_directory(self.path.parent)

    def keep(self, uid: str, database: str, server: str) -> Path | None:
        """Moves the dumps of a backup that is deleted to a name of their own, by which they can be restored."""
        self.clean_up()
        kept = self.path.with_name(f"{self.backup}.kept-{uid[:8]}")
        if not self.path.is_dir():
            return kept if kept.is_dir() else None
        if not self.listed():
            self.remove_all()
            return None
        index = {"backup": self.backup, "uid": uid, "database": database, "server": server}
        durable.write(self.path / _INDEX, orjson.dumps(index))
        self.path.rename(kept)
        durable.sync_directory(kept.parent)
        return kept

    def check(self, side: Side) -> None:
        """Raises `Broken` where the file is not what was written."""
        dump = self.dump(side.name)
        try:
            size, found = dump.stat().st_size, checksum(dump)
        except OSError as error:
            raise Broken(f"dump {side.name} of {self.backup} cannot be read: {error.strerror or error}") from error
        if (size, found) != (side.size_bytes, side.sha256):
            raise Broken(
                f"dump {side.name} of {self.backup} is damaged: its checksum is not the one that was recorded when it "
                "was made. Use another"
            )

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.path).free

    def _side(self, name: str) -> Path:
        return self.dump(name).with_suffix(_SIDE)

    def _read(self, path: Path) -> Side | None:
        """None for a file that is no side file of a dump."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            read = cast("dict[str, object]", orjson.loads(path.read_bytes()))
            name = str(read["name"])
            if name != path.stem or not _NAME.fullmatch(name):
                return None
            reason: Reason = "asked for" if read["reason"] == "asked for" else "scheduled"
            trigger = read.get("trigger")
            return Side(
                name,
                str(read["at"]),
                int(str(read["sizeBytes"])),
                str(read["sha256"]),
                reason,
                str(read["database"]),
                None if trigger is None else str(trigger),
            )
        return None


def kept(root: Path) -> Sequence[str]:
    """Names of folders with the dumps of backups that were deleted."""
    return sorted(path.parent.name for path in (root / _FOLDER).glob(f"*/{_INDEX}"))


def checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def sync(path: Path) -> None:
    """What another process has written to the file is durable when this returns."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
