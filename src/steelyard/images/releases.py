"""Programs as their projects released them, from the projects' own servers or from a mirror of those.

A mirror has the files under the names of the servers: `<mirror>/dl.k8s.io/v1.34.4/bin/linux/amd64/kubelet`, as
`wget --force-directories` leaves them. Beside each file is its checksum, as the project published it.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from steelyard.images import fetching
from steelyard.images.failing import BuildFailed

_LARGEST: Final = 512 << 20
_LARGEST_LIST: Final = 1 << 20
_GITHUB: Final = "github.com/{project}/releases/download/{version}/{file}"


def official(version: str) -> str:
    """A small file that is there if the release is."""
    return f"https://dl.k8s.io/{version}/bin/linux/amd64/kubeadm.sha256"


class Releases:
    """What was fetched is kept by its checksum; the checksums are asked for each time."""

    def __init__(self, mirror: str, cache: Path, say: Callable[[str], None]) -> None:
        """Without a mirror, the projects' own servers are asked."""
        self._base = mirror.rstrip("/") + "/" if mirror else "https://"
        self._cache = cache
        self._say = say

    def kubernetes(self, program: str, version: str) -> Path:
        place = f"dl.k8s.io/{version}/bin/linux/amd64/{program}"
        return _executable(self._file(place, self._sum(f"{place}.sha256", program)))

    def etcd(self, version: str, names: Sequence[str]) -> dict[str, Path]:
        name = f"etcd-{version}-linux-amd64"
        place = _GITHUB.format(project="etcd-io/etcd", version=version, file=f"{name}.tar.gz")
        sums = _GITHUB.format(project="etcd-io/etcd", version=version, file="SHA256SUMS")
        return self._members(place, self._sum(sums, f"{name}.tar.gz"), {f"{name}/{each}": each for each in names})

    def coredns(self, version: str) -> Path:
        file = f"coredns_{version.removeprefix('v')}_linux_amd64.tgz"
        place = _GITHUB.format(project="coredns/coredns", version=version, file=file)
        return self._members(place, self._sum(f"{place}.sha256", file), {"coredns": "coredns"})["coredns"]

    def plug_ins(self, version: str, names: Sequence[str]) -> dict[str, Path]:
        file = f"cni-plugins-linux-amd64-{version}.tgz"
        place = _GITHUB.format(project="containernetworking/plugins", version=version, file=file)
        return self._members(place, self._sum(f"{place}.sha256", file), {f"./{name}": name for name in names})

    def _sum(self, place: str, file: str) -> str:
        """From a list of checksums, or from a file that has nothing but one."""
        listed = fetching.text(self._base + place, _LARGEST_LIST)
        for line in listed.splitlines():
            words = line.split()
            is_of_file = len(words) == 1 or (len(words) == 2 and words[1].lstrip("*").removeprefix("./") == file)
            if is_of_file and len(words[0]) == 64:
                return words[0].lower()
        raise BuildFailed(f"{self._base}{place} has no checksum of {file}")

    def _file(self, place: str, sha256: str) -> Path:
        name = place.rpartition("/")[2]
        target = self._cache / sha256[:16] / name
        if target.exists() and _digest(target) == sha256:
            return target
        self._say(f"fetching {name} from {self._base}{place.partition('/')[0]}")
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{name}.{os.getpid()}")
        fetching.file(self._base + place, unfinished, sha256, _LARGEST)
        unfinished.rename(target)
        return target

    def _members(self, place: str, sha256: str, wanted: Mapping[str, str]) -> dict[str, Path]:
        """Files out of an archive, each under the name that it is wanted by."""
        archive = self._file(place, sha256)
        found: dict[str, Path] = {}
        try:
            with tarfile.open(archive) as opened:
                for member in opened:
                    name = wanted.get(member.name, wanted.get(f"./{member.name}"))
                    content = opened.extractfile(member) if name is not None and member.isfile() else None
                    if name is None or content is None:
                        continue
                    if member.size > _LARGEST:
                        raise BuildFailed(f"{name} of {place} has {member.size} bytes: that is no program")
                    target = archive.parent / f"{name}.program"
                    unfinished = target.with_name(f".{name}.{os.getpid()}")
                    unfinished.write_bytes(content.read())
                    unfinished.rename(target)
                    found[name] = _executable(target)
        except tarfile.TarError as error:
            raise BuildFailed(f"{self._base}{place} is no archive: {error}") from None
        if absent := sorted(set(wanted.values()) - found.keys()):
            raise BuildFailed(f"{self._base}{place} has no {', '.join(absent)} in it")
        return found


def _executable(path: Path) -> Path:
    path.chmod(0o755)
    return path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
