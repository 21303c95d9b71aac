"""An image that boots to the end of cloud-init and no further: the operating system of a node without its Kubernetes.

Made by what makes the images of nodes, from packages alone, in a minute or two instead of half an hour. It is kept, and
made again when its inputs are others: Debian's packages, or the code that makes images.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from pathlib import Path
from typing import Final

from steelyard.images import building, catalogue, debian, disk, machine, manifest, system
from steelyard.images.debian import Archive
from steelyard.images.failing import BuildFailed
from steelyard.images.manifest import Manifest, OperatingSystem

NAME: Final = "debian-12.qcow2"
_KERNEL: Final = "linux-image-cloud-amd64"
"""Which has fewer devices to look for than that of nodes: emulated machines boot faster with it."""
PACKAGES: Final = (
    _KERNEL, *(each for each in system.MACHINE if not each.startswith("linux-image-")),
    "e2fsprogs", "iproute2", "mount", "netbase", "procps", "util-linux",
)  # fmt: skip
_UNUSED: Final = (
    "aesni_intel", "crc32_pclmul", "crct10dif_pclmul", "ghash_clmulni_intel", "kvm_amd", "kvm_intel", "polyval_clmulni",
    "sha512_ssse3",
)  # fmt: skip
"""Modules for what emulated processors say they have. To load and test them is a sixth of what a boot takes there."""
_RECIPE: Final = ("disk.py", "machine.py")


def build(folder: Path) -> Path:
    """Needs root, and a way to Debian's packages. What a killed build left is gone afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    archive = debian.archive()
    inputs = _digest(archive)
    with building.alone_in(folder, _say):
        if _is_made_of(path, inputs):
            return path
        started = time.monotonic()
        tree = system.tree(archive, building.cache() / "small", _say, PACKAGES)
        _say(f"packages: {time.monotonic() - started:.0f} s")
        with tempfile.TemporaryDirectory(prefix=building.UNFINISHED, dir=folder) as made_in:
            _make(Path(made_in), path, tree, archive, inputs)
    return path


def _make(work: Path, path: Path, tree: Path, archive: Archive, inputs: str) -> None:
    root, raw, image = work / "root", work / "disk.raw", work / path.name
    started = time.monotonic()
    machine.unpack(tree, root)
    machine.install(root, {"ROOT": disk.ROOT_UUID})
    (root / "etc/modprobe.d/unused.conf").write_text("".join(f"blacklist {name}\n" for name in _UNUSED))
    machine.clean(root, archive.epoch)
    packages = {package.name: package.version for package in system.packages(root)}
    disk.make(root, raw, archive.epoch)
    disk.convert(raw, image)
    image.chmod(0o644)
    made = Manifest(
        name=path.name,
        sha256=catalogue.digest(image),
        size=image.stat().st_size,
        virtual_size=disk.SIZE,
        inputs=inputs,
        kubernetes="",
        operating_system=OperatingSystem(name="Debian", version=archive.version, kernel=packages[_KERNEL]),
        programs={},
        plug_ins={},
        images=(),
        packages=packages,
    )
    image.rename(path)
    manifest.write(made, manifest.path_of(path))
    _say(f"disk: {time.monotonic() - started:.0f} s, {made.size >> 20} MiB")


def _digest(archive: Archive) -> str:
    hashed = hashlib.sha256(f"{system.digest(archive, PACKAGES)} {archive.epoch}".encode())
    code = [Path(machine.__file__).parent / name for name in _RECIPE]
    for path in (*code, *sorted(machine.FILES.rglob("*")), Path(__file__)):
        if path.is_file():
            hashed.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return hashed.hexdigest()


def _is_made_of(path: Path, inputs: str) -> bool:
    try:
        kept = manifest.read(path) if path.is_file() else None
        return kept is not None and kept.inputs == inputs and catalogue.verify(path) == kept
    except BuildFailed:
        return False


def _say(text: str) -> None:
    print(f"  {text}", flush=True)
