"""Builds an image, step by step: programs, operating system, container images, disk.

Everything is made in a directory beside the image's place and moved there when it is whole. A build that fails, is
interrupted or runs out of space leaves nothing; what a killed one left, the next one takes away. Programs and the tree
of the operating system are kept by what they were made from, and an image that is whole and was made from the same is
not made again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

from steelyard.frozen import frozen
from steelyard.images import (
    catalogue,
    commands,
    containers,
    debian,
    disk,
    golang,
    machine,
    manifest,
    node,
    oci,
    preloading,
    programs,
    system,
    versions,
)
from steelyard.images.catalogue import Mismatch
from steelyard.images.debian import Archive
from steelyard.images.failing import BuildFailed
from steelyard.images.manifest import Manifest, NodeProgram, OperatingSystem, PreloadedImage
from steelyard.images.oci import Archived
from steelyard.images.programs import Built, Programs

NAME: Final = "debian-12-kubernetes-{version}.qcow2"
UNFINISHED: Final = ".building-"
_ROOM: Final = 6 << 30
"""Bytes that a build needs for a while: the tree, the disk and the image of it."""
_RECIPE: Final = (
    "containers.py", "disk.py", "layers.py", "machine.py", "node.py", "oci.py", "preloading.py",
)  # fmt: skip
"""Modules of this package that decide what is in an image, besides its inputs."""

Source = Literal["auto", "go", "releases"]
Report = Callable[[str], None]


@frozen
class Order:
    kubernetes: str
    to: Path
    name: str = ""
    """Of the image; empty for the one that machines of this version boot from by default."""
    source: Source = "auto"
    mirror: str = ""
    """Of the projects' releases."""
    debian_mirror: str = ""
    storage_roots: tuple[Path, ...] = ()
    """Where disks of machines are, which may lie over the image that is to be replaced."""


@frozen
class Outcome:
    path: Path
    manifest: Manifest
    is_new: bool
    """False where the image was there already, made from the same."""


def build(order: Order, report: Report) -> Outcome:
    """Raises BuildFailed and OSError; whatever it raises, nothing half-made is left."""
    version = versions.kubernetes(order.kubernetes)
    path = order.to / _file_name(order.name or NAME.replace("{version}", version))
    _check_host()
    order.to.mkdir(parents=True, exist_ok=True)
    with alone_in(order.to, report):
        with _step(report, f"programs of Kubernetes {version}"):
            found = _programs(order, version, report)
            made_of = _facts((*found.programs.values(), *found.plug_ins.values(), found.timeless))
        with _step(report, "state of Debian's archive"):
            archive = debian.archive(order.debian_mirror)
        inputs = digest(version, archive, made_of)
        if kept := _unchanged(path, inputs, report):
            return Outcome(path, kept, is_new=False)
        catalogue.replaceable(path, order.storage_roots)
        _check_room(order.to)
        with _step(report, f"Debian {archive.version}"):
            tree = system.tree(archive, cache() / "system", lambda text: report(f"  {text}"))
        work = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=order.to))
        try:
            return _make(work, path, tree, archive, found, inputs, version, order, report)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def digest(version: str, archive: Archive, made_of: Iterable[str]) -> str:
    """Of everything that an image is made of."""
    hashed = hashlib.sha256("\0".join((version, system.digest(archive), str(archive.epoch), *made_of)).encode())
    here = Path(__file__).parent
    files = sorted((*machine.FILES.rglob("*"), *node.FILES.rglob("*")))
    for path in (*(here / name for name in _RECIPE), *files):
        if path.is_file():
            hashed.update(str(path.relative_to(here)).encode() + b"\0" + path.read_bytes() + b"\0")
    return hashed.hexdigest()


def cache() -> Path:
    return golang.cache().parent / "images"


def _make(
    work: Path,
    path: Path,
    tree: Path,
    archive: Archive,
    found: Programs,
    inputs: str,
    version: str,
    order: Order,
    report: Report,
) -> Outcome:
    root, archives, raw, image = work / "root", work / "archives", work / "disk.raw", work / path.name
    with _step(report, "tree of files"):
        machine.unpack(tree, root)
        machine.install(root, {"ROOT": disk.ROOT_UUID})
        node.install(root, found.paths(), found.plug_in_paths(), {"PAUSE": found.wanted.names["pause"]})
    with _step(report, "container images"):
        archives.mkdir()
        archived = _archive(root, archives, found, archive.epoch)
    with _step(report, f"import of {len(archived)} container images"):
        names = preloading.preload(root, archives, archived, found.timeless.path, archive.epoch)
        if absent := {image.name for _, image in archived} - set(names):
            raise BuildFailed(f"containerd did not keep {', '.join(sorted(absent))}")
        shutil.rmtree(archives)
    with _step(report, "disk"):
        machine.clean(root, archive.epoch)
        described = _described(root)
        installed = {package.name: package.version for package in system.packages(root)}
        disk.make(root, raw, archive.epoch)
        shutil.rmtree(root)
    with _step(report, "image"):
        disk.convert(raw, image)
        raw.unlink()
        made = Manifest(
            name=path.name,
            sha256=_durable_digest(image),
            size=image.stat().st_size,
            virtual_size=disk.SIZE,
            inputs=inputs,
            kubernetes=version,
            operating_system=described,
            programs=_listed(found.programs),
            plug_ins=_listed(found.plug_ins),
            images=tuple(
                PreloadedImage(name=each.name, digest=each.manifest, layer=each.layer) for _, each in archived
            ),
            packages=installed,
        )
        image.chmod(0o644)
        # A machine may have been made meanwhile from the image that is there.
        catalogue.replaceable(path, order.storage_roots)
        image.rename(path)
        manifest.write(made, manifest.path_of(path))
    return Outcome(path, made, is_new=True)


def _programs(order: Order, version: str, report: Report) -> Programs:
    source = order.source
    if source == "auto":
        source = "releases" if order.mirror or programs.are_released(version) else "go"
        report(f"  from {'the official releases' if source == 'releases' else 'their Go modules'}")
    if source == "go":
        return programs.from_go(version, lambda text: report(f"  {text}"))
    return programs.from_releases(version, order.mirror, cache() / "releases", lambda text: report(f"  {text}"))


def _archive(root: Path, archives: Path, found: Programs, epoch: int) -> list[tuple[str, Archived]]:
    filters = containers.filters(root)
    images = containers.images(found.wanted, found.paths(), filters, versions.FLANNEL)
    return [(f"{place}.tar", oci.write(image, archives / f"{place}.tar", epoch)) for place, image in enumerate(images)]


def _unchanged(path: Path, inputs: str, report: Report) -> Manifest | None:
    """The manifest of an image that is there, whole and of the same inputs."""
    try:
        kept = manifest.read(path) if path.is_file() else None
        if kept is None or kept.inputs != inputs:
            return None
        with _step(report, f"check of {path.name}, which was made from the same"):
            return catalogue.verify(path)
    except Mismatch as error:
        report(f"  {error}")
    except BuildFailed:
        pass
    return None


def _described(root: Path) -> OperatingSystem:
    facts = dict(line.split("=", 1) for line in (root / "etc/os-release").read_text().splitlines() if "=" in line)
    kernel = os.readlink(root / "vmlinuz").rpartition("vmlinuz-")[2]
    version = (root / "etc/debian_version").read_text().strip()
    return OperatingSystem(name=facts["PRETTY_NAME"].strip('"'), version=version, kernel=kernel)


def _facts(built: Iterable[Built]) -> list[str]:
    return [f"{each.path.name} {each.version} {each.source} {oci.file_digest(each.path)}" for each in built]


def _listed(built: Mapping[str, Built]) -> dict[str, NodeProgram]:
    return {
        name: NodeProgram(version=each.version, sha256=oci.file_digest(each.path), source=each.source)
        for name, each in sorted(built.items())
    }


def _file_name(name: str) -> str:
    if "/" in name or name.startswith(".") or len(name) > 200:
        raise BuildFailed(f'"{name}" is no name of an image: give one without a directory')
    return name if name.endswith(catalogue.SUFFIX) else f"{name}{catalogue.SUFFIX}"


def _durable_digest(image: Path) -> str:
    descriptor = os.open(image, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return catalogue.digest(image)


def _check_host() -> None:
    if platform.machine() != "x86_64":
        raise BuildFailed(f"images are built on x86_64 for x86_64, and this machine is {platform.machine()}")
    if os.geteuid() != 0:
        raise BuildFailed("building an image needs root, which owns the files in it: run it with sudo")
    if packages := commands.missing():
        raise BuildFailed(f"programs are missing here. Install them with: apt install {' '.join(packages)}")


def _check_room(place: Path) -> None:
    free = shutil.disk_usage(place).free
    if free < _ROOM:
        raise BuildFailed(
            f"{place} has {free / 2**30:.1f} GiB left, and a build needs {_ROOM >> 30} for a while: make room there, "
            "or build elsewhere with --to DIR"
        )


@contextlib.contextmanager
def alone_in(place: Path, report: Report) -> Generator[None]:
    """One build at a time in a directory; so whatever unfinished is found there is of one that was killed."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another build in {place} to end")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        for left in place.glob(f"{UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)
        catalogue.restore(place)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _step(report: Report, name: str) -> Generator[None]:
    began = time.monotonic()
    report(f"{name} …")
    yield
    report(f"{name}: {time.monotonic() - began:.1f} s")
