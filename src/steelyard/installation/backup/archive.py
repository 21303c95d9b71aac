"""The archive: an uncompressed tar that anybody can look into, and that tells when it has been damaged.

    manifest.json      format, version, time, revision, and for every file its size and SHA-256
    manifest.sha256    of the manifest
    steelyard.db       the platform's objects as of one revision
    kubeconfig         the administrator's, with the token
    platform.remembered.yaml    what the platform was last started with
    pki/...            certificate authority, serving certificate, keys

Reading takes nothing on trust: names outside this list, anything that is no plain file, sizes that no backup has, a
missing or surplus file and any difference in a checksum are refused before anything is made of the content. Tar is read
here and not by tarfile: of its many forms a backup has one, and the others can ask for any amount of memory and disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final, cast

from steelyard import durable
from steelyard.frozen import frozen

FORMAT: Final = 2
_READABLE: Final = (1, 2)
"""Format 1 is without what the platform was started with."""
DATABASE: Final = "steelyard.db"
KUBECONFIG: Final = "kubeconfig"
PKI: Final = "pki"
REMEMBERED: Final = "platform.remembered.yaml"
_KIND: Final = "steelyard-backup"
_MANIFEST: Final = "manifest.json"
_MANIFEST_DIGEST: Final = "manifest.sha256"
_NAME: Final = re.compile(r"steelyard\.db|kubeconfig|platform\.remembered\.yaml|pki/[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_MAX_MANIFEST: Final = 1 << 20
_MAX_FILES: Final = 100
_MAX_SIZE: Final = 1 << 20
"""Of any file but the database, which is as large as it is."""
_CHUNK: Final = 1 << 20
_NOTHING: Final = bytes(_CHUNK)
"""No database has that much of it in one place: it would be a hole in a file that takes no space until it is copied."""
_BLOCK: Final = 512


class BadArchive(Exception):
    """The archive is damaged, incomplete, or none of ours; the message says which."""


@frozen
class Entry:
    size: int
    sha256: str


@frozen
class Manifest:
    version: str
    """Of Steelyard, when the backup was made."""
    time: str
    revision: int
    """The database holds everything up to this revision and nothing after it."""
    files: Mapping[str, Entry]

    def encoded(self) -> bytes:
        files = {name: {"size": entry.size, "sha256": entry.sha256} for name, entry in self.files.items()}
        fields = {
            "kind": _KIND,
            "format": FORMAT,
            "version": self.version,
            "time": self.time,
            "revision": self.revision,
            "files": files,
        }
        return json.dumps(fields, indent=2).encode() + b"\n"


def write(target: Path, files: Mapping[str, Path], *, version: str, time: str, revision: int) -> Manifest:
    """Makes the archive as a new file, readable by its owner only, and durable when this returns."""
    entries = {name: _entry(path) for name, path in files.items()}
    manifest = Manifest(version, time, revision, entries)
    encoded = manifest.encoded()
    with (
        durable.new(target) as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        _add(tar, _MANIFEST, len(encoded), io.BytesIO(encoded))
        digest = hashlib.sha256(encoded).hexdigest().encode() + b"\n"
        _add(tar, _MANIFEST_DIGEST, len(digest), io.BytesIO(digest))
        for name, path in files.items():
            with path.open("rb") as content:
                _add(tar, name, entries[name].size, content)
    return manifest


def verify(source: Path) -> Manifest:
    """Checks every byte that counts. Raises BadArchive."""
    return _read(source, None)


def unpack(source: Path, into: Path) -> Manifest:
    """Checks the archive and puts its files into an empty directory. Raises BadArchive, and then they are no good."""
    return _read(source, into)


def _read(source: Path, into: Path | None) -> Manifest:
    with source.open("rb") as file:
        members = _members(file, source)
        manifest = _manifest(file, members, source)
        seen: set[str] = set()
        for name, size in members:
            entry = manifest.files.get(name)
            if entry is None or name in seen or size != entry.size:
                raise BadArchive(f"{source} is damaged: its content is not what its manifest lists")
            seen.add(name)
            if _copy(file, size, into / name if into else None, source) != entry.sha256:
                raise BadArchive(f"{source} is damaged: {name} fails its checksum")
    missing = set(manifest.files) - seen
    if missing:
        raise BadArchive(f"{source} is damaged: it ends before {', '.join(sorted(missing))}")
    return manifest


def _members(file: IO[bytes], source: Path) -> Iterator[tuple[str, int]]:
    """Name and size of each, with the file at the beginning of its content, all of which is there."""
    end = os.fstat(file.fileno()).st_size
    position = 0
    while True:
        file.seek(position)
        header = file.read(_BLOCK)
        if header == bytes(_BLOCK):
            return
        try:
            member = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.TarError, UnicodeDecodeError) as error:
            raise BadArchive(f"{source} is no backup of Steelyard, or it is damaged: {error}") from None
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.size < 0:
            raise BadArchive(f"{source} is no backup of Steelyard, or it is damaged: {member.name} is no plain file")
        position += _BLOCK
        if position + member.size > end:
            raise BadArchive(f"{source} is damaged: it ends within {member.name}")
        yield member.name, member.size
        position += -(-member.size // _BLOCK) * _BLOCK


def _manifest(file: IO[bytes], members: Iterator[tuple[str, int]], source: Path) -> Manifest:
    found: list[bytes] = []
    for wanted in (_MANIFEST, _MANIFEST_DIGEST):
        name, size = next(members, ("", 0))
        if name != wanted or size > _MAX_MANIFEST:
            raise BadArchive(f"{source} is no backup of Steelyard, or it is damaged: {wanted} is not where it belongs")
        found.append(file.read(size))
    encoded, digest = found
    if hashlib.sha256(encoded).hexdigest().encode() != digest.strip():
        raise BadArchive(f"{source} is damaged: its manifest fails its checksum")
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        return _parsed(cast("dict[str, Any]", json.loads(encoded)), str(source))
    raise BadArchive(f"{source} is no backup of Steelyard: its manifest cannot be read")


def _parsed(fields: Mapping[str, Any], source: str) -> Manifest:
    if fields["kind"] != _KIND or fields["format"] not in _READABLE:
        raise BadArchive(
            f"{source} is a backup of format {fields['format']}, and this version of Steelyard reads formats up to "
            f"{FORMAT}"
        )
    files = {
        str(name): Entry(int(entry["size"]), str(entry["sha256"]))
        for name, entry in cast("dict[str, Any]", fields["files"]).items()
    }
    if not all(_NAME.fullmatch(name) for name in files) or DATABASE not in files:
        raise BadArchive(f"{source} is damaged: its manifest lists files that no backup has, or lacks the database")
    too_large = any(entry.size > _MAX_SIZE for name, entry in files.items() if name != DATABASE)
    if too_large or len(files) > _MAX_FILES:
        raise BadArchive(f"{source} is damaged: its manifest lists more files, or larger ones, than a backup has")
    return Manifest(str(fields["version"]), str(fields["time"]), int(fields["revision"]), files)


def _entry(path: Path) -> Entry:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Entry(file.tell(), digest)


def _add(tar: tarfile.TarFile, name: str, size: int, content: IO[bytes]) -> None:
    info = tarfile.TarInfo(name)
    info.size = size
    info.mode = 0o600
    tar.addfile(info, content)


def _copy(content: IO[bytes], size: int, target: Path | None, source: Path) -> str:
    """The content's digest, having written it where a target is given."""
    digest = hashlib.sha256()
    with contextlib.ExitStack() as stack:
        out: IO[bytes] | None = None
        if target is not None:
            target.parent.mkdir(mode=0o700, exist_ok=True)
            out = stack.enter_context(durable.new(target))
        while size and (chunk := content.read(min(size, _CHUNK))):
            size -= len(chunk)
            if chunk == _NOTHING:
                raise BadArchive(f"{source} is no backup of Steelyard, or it is damaged: there is a hole in it")
            digest.update(chunk)
            if out is not None:
                out.write(chunk)
    return digest.hexdigest()
