"""The archive: an uncompressed tar that anybody can look into, and that tells when it has been damaged.

    manifest.json      format, version, time, revision, and for every file its size and SHA-256
    manifest.sha256    of the manifest
    steelyard.db       the platform's objects as of one revision
    kubeconfig         the administrator's, with the token
    pki/...            certificate authority, serving certificate, keys

Reading takes nothing on trust: names outside this list, a missing or surplus file and any difference in a checksum are
refused before anything is made of the content.
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

from steelyard.frozen import frozen

FORMAT: Final = 1
DATABASE: Final = "steelyard.db"
KUBECONFIG: Final = "kubeconfig"
PKI: Final = "pki"
_KIND: Final = "steelyard-backup"
_MANIFEST: Final = "manifest.json"
_MANIFEST_DIGEST: Final = "manifest.sha256"
_NAME: Final = re.compile(r"steelyard\.db|kubeconfig|pki/[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_MAX_MANIFEST: Final = 1 << 20
_CHUNK: Final = 1 << 20


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
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            _add(tar, _MANIFEST, len(encoded), io.BytesIO(encoded))
            digest = hashlib.sha256(encoded).hexdigest().encode() + b"\n"
            _add(tar, _MANIFEST_DIGEST, len(digest), io.BytesIO(digest))
            for name, path in files.items():
                with path.open("rb") as content:
                    _add(tar, name, entries[name].size, content)
        file.flush()
        os.fsync(file.fileno())
    return manifest


def verify(source: Path) -> Manifest:
    """Checks every byte that counts. Raises BadArchive."""
    return _read(source, None)


def unpack(source: Path, into: Path) -> Manifest:
    """Checks the archive and puts its files into an empty directory. Raises BadArchive, and then they are no good."""
    return _read(source, into)


def _read(source: Path, into: Path | None) -> Manifest:
    try:
        with tarfile.open(source, mode="r:") as tar:
            members = iter(tar)
            manifest = _manifest(tar, members)
            seen: set[str] = set()
            for member in members:
                entry = manifest.files.get(member.name)
                if entry is None or member.name in seen or not member.isreg() or member.size != entry.size:
                    raise BadArchive(f"{source} is damaged: its content is not what its manifest lists")
                seen.add(member.name)
                if _copy(_open(tar, member), into / member.name if into else None) != entry.sha256:
                    raise BadArchive(f"{source} is damaged: {member.name} fails its checksum")
    except (tarfile.TarError, EOFError, UnicodeDecodeError) as error:
        raise BadArchive(f"{source} is no backup of Steelyard, or it is damaged: {error}") from error
    missing = set(manifest.files) - seen
    if missing:
        raise BadArchive(f"{source} is damaged: it ends before {', '.join(sorted(missing))}")
    return manifest


def _manifest(tar: tarfile.TarFile, members: Iterator[tarfile.TarInfo]) -> Manifest:
    found: list[bytes] = []
    for wanted in (_MANIFEST, _MANIFEST_DIGEST):
        member = next(members, None)
        if member is None or member.name != wanted or not member.isreg() or member.size > _MAX_MANIFEST:
            raise BadArchive(
                f"{tar.name!s} is no backup of Steelyard, or it is damaged: {wanted} is not where it belongs"
            )
        found.append(_open(tar, member).read())
    encoded, digest = found
    if hashlib.sha256(encoded).hexdigest().encode() != digest.strip():
        raise BadArchive(f"{tar.name!s} is damaged: its manifest fails its checksum")
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        return _parsed(cast("dict[str, Any]", json.loads(encoded)), str(tar.name))
    raise BadArchive(f"{tar.name!s} is no backup of Steelyard: its manifest cannot be read")


def _parsed(fields: Mapping[str, Any], source: str) -> Manifest:
    if fields["kind"] != _KIND or fields["format"] != FORMAT:
        raise BadArchive(
            f"{source} is a backup of format {fields['format']}, and this version of Steelyard reads format {FORMAT}"
        )
    files = {
        str(name): Entry(int(entry["size"]), str(entry["sha256"]))
        for name, entry in cast("dict[str, Any]", fields["files"]).items()
    }
    if not all(_NAME.fullmatch(name) for name in files) or DATABASE not in files:
        raise BadArchive(f"{source} is damaged: its manifest lists files that no backup has, or lacks the database")
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


def _open(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(member)
    if content is None:
        raise BadArchive(f"{tar.name!s} is damaged: {member.name} is no file")
    return content


def _copy(content: IO[bytes], target: Path | None) -> str:
    """The content's digest, having written it where a target is given."""
    digest = hashlib.sha256()
    with contextlib.ExitStack() as stack:
        out: IO[bytes] | None = None
        if target is not None:
            target.parent.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            out = stack.enter_context(os.fdopen(descriptor, "wb"))
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            if out is not None:
                out.write(chunk)
        if out is not None:
            out.flush()
            os.fsync(out.fileno())
    return digest.hexdigest()
