"""The files of a container image as one archive, the same bytes for the same files whoever builds it and when."""

from __future__ import annotations

import io
import stat
import tarfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from steelyard.frozen import frozen
from steelyard.images.failing import BuildFailed

_BIND_PORTS: Final = b"\x01\x00\x00\x02\x00\x04\x00\x00" + bytes(12)
"""The capability CAP_NET_BIND_SERVICE, permitted and effective, as Linux keeps it with a file."""


@frozen
class Entry:
    """One file of an image: its content, or the path of what has it, or where it points to as a link."""

    path: str
    """Absolute, as the container sees it."""
    content: bytes = b""
    source: Path | None = None
    link: str = ""
    mode: int = 0o755
    binds_ports: bool = False
    """Whether whoever runs it may listen below port 1024, without being root."""
    is_directory: bool = False


def write(entries: Iterable[Entry], target: io.BufferedIOBase, epoch: int) -> None:
    """Sorted by path, with the directories that lead there, all of root and of one time."""
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in _complete(entries):
            archived = tarfile.TarInfo(entry.path.lstrip("/"))
            archived.mtime, archived.mode = epoch, entry.mode
            if entry.is_directory:
                archived.type = tarfile.DIRTYPE
                archive.addfile(archived)
            elif entry.link:
                archived.type, archived.linkname, archived.mode = tarfile.SYMTYPE, entry.link, 0o777
                archive.addfile(archived)
            else:
                if entry.binds_ports:
                    archived.pax_headers = {"SCHILY.xattr.security.capability": _BIND_PORTS.decode("ascii")}
                _add(archive, archived, entry)


def _add(archive: tarfile.TarFile, archived: tarfile.TarInfo, entry: Entry) -> None:
    if entry.source is None:
        archived.size = len(entry.content)
        archive.addfile(archived, io.BytesIO(entry.content))
        return
    with entry.source.open("rb") as content:
        archived.size = entry.source.stat().st_size
        archive.addfile(archived, content)


def _complete(entries: Iterable[Entry]) -> list[Entry]:
    found: dict[str, Entry] = {}
    for entry in entries:
        if not entry.path.startswith("/") or ".." in PurePosixPath(entry.path).parts:
            raise BuildFailed(f"{entry.path} is no absolute path of a container image")
        for parent in list(PurePosixPath(entry.path).parents)[:-1]:
            found.setdefault(str(parent), Entry(str(parent), is_directory=True))
        found[entry.path] = entry
    return [found[path] for path in sorted(found)]


def from_tree(root: Path, paths: Iterable[str]) -> list[Entry]:
    """Files and links of a tree as entries of an image, with what links in the tree lead to."""
    found: dict[str, Entry] = {}
    for path in paths:
        _follow(root, path, found)
    return list(found.values())


def _follow(root: Path, path: str, found: dict[str, Entry]) -> None:
    """Resolves the links of directories, so that /lib/x is kept as /usr/lib/x beside the link /lib."""
    place = PurePosixPath("/")
    for depth, part in enumerate(PurePosixPath(path).parts[1:], start=2):
        place = place / part
        here = root / str(place).lstrip("/")
        if here.is_symlink():
            target = str(here.readlink())
            found.setdefault(str(place), Entry(str(place), link=target))
            rest = PurePosixPath(path).parts[depth:]
            pointed = PurePosixPath(target) if target.startswith("/") else place.parent / target
            _follow(root, str(_normal(pointed).joinpath(*rest)), found)
            return
    here = root / path.lstrip("/")
    facts = here.lstat()
    if not stat.S_ISREG(facts.st_mode):
        raise BuildFailed(f"{path} of the operating system is no file, and cannot be part of a container image")
    found.setdefault(path, Entry(path, source=here, mode=stat.S_IMODE(facts.st_mode)))


def _normal(path: PurePosixPath) -> PurePosixPath:
    parts: list[str] = []
    for part in path.parts[1:]:
        if part == "..":
            parts = parts[:-1]
        else:
            parts.append(part)
    return PurePosixPath("/", *parts)
