"""The images that a host has: listed, checked, and removed where no machine needs them any more."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from steelyard import durable
from steelyard.frozen import frozen
from steelyard.images import manifest, overlays
from steelyard.images.failing import BuildFailed
from steelyard.images.manifest import Manifest
from steelyard.images.overlays import Overlay

SUFFIX: Final = ".qcow2"
_SHOWN: Final = 5
_REMOVED: Final = ".removed-"


class Mismatch(BuildFailed):
    """An image is not what its manifest says."""


class InUse(BuildFailed):
    """Disks of machines lie over an image."""


@frozen
class Found:
    path: Path
    size: int
    manifest: Manifest | None
    problem: str = ""
    """Why machines would not be made from it, as far as that is seen without reading all of it."""


def found(root: Path) -> list[Found]:
    """By name. None where there is no such directory."""
    if not root.is_dir():
        return []
    return [_found(path) for path in sorted(root.glob(f"*{SUFFIX}")) if not path.name.startswith(".")]


def named(root: Path, name: str) -> Path:
    """The path of an image by its name, with or without its ending. It is one of the directory, and is there."""
    if "/" in name or name.startswith("."):
        raise BuildFailed(
            f'"{name}" is no name of an image: give it without a directory, as `steelyard image list` has it'
        )
    path = root / (name if name.endswith(SUFFIX) else f"{name}{SUFFIX}")
    if not path.is_file():
        known = ", ".join(each.path.name for each in found(root))
        raise BuildFailed(f"{root} has no image {path.name}" + (f"; it has {known}" if known else ", nor any other"))
    return path


def verify(path: Path) -> Manifest:
    """Reads all of the image. Raises Mismatch."""
    kept = manifest.read(path)
    if kept is None:
        raise BuildFailed(f"{path} has no manifest {manifest.path_of(path).name} beside it: build it again")
    actual = digest(path)
    if actual != kept.sha256:
        raise Mismatch(
            f"{path} has the checksum {actual}, and its manifest says {kept.sha256}: it was changed since it was "
            f"built. Machines are not made from it; build it again with `steelyard image build --kubernetes "
            f"{kept.kubernetes}`"
        )
    return kept


def remove(path: Path, storage_roots: Sequence[Path]) -> None:
    """Refused while disks of machines lie over it: they would be worthless without. Raises InUse."""
    _refuse(path, overlays.over(path, storage_roots))
    hidden = path.with_name(f"{_REMOVED}{path.name}")
    path.rename(hidden)
    # From here on no disk can be put over it. One that was put since it was looked for is found now.
    try:
        _refuse(path, overlays.over(path, storage_roots))
    except BaseException:
        hidden.rename(path)
        raise
    manifest.path_of(path).unlink(missing_ok=True)
    hidden.unlink()
    durable.sync_directory(path.parent)


def restore(root: Path) -> None:
    """Puts back what a removal left that was killed between its steps: to remove it is to be asked for again."""
    for hidden in root.glob(f"{_REMOVED}*{SUFFIX}"):
        path = hidden.with_name(hidden.name.removeprefix(_REMOVED))
        if manifest.path_of(path).exists() and not path.exists():
            hidden.rename(path)
        else:
            hidden.unlink()


def replaceable(path: Path, storage_roots: Sequence[Path]) -> None:
    """Whether another image may take the place of this one. Raises InUse."""
    if path.exists():
        _refuse(path, overlays.over(path, storage_roots))


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _found(path: Path) -> Found:
    size = path.stat().st_size
    try:
        kept = manifest.read(path)
    except (BuildFailed, OSError) as error:
        return Found(path, size, None, str(error))
    if kept is None:
        return Found(path, size, None, f"it has no manifest {manifest.path_of(path).name}")
    is_whole = kept.size == size
    return Found(path, size, kept, "" if is_whole else f"its manifest says {kept.size} bytes, and it has {size}")


def _refuse(path: Path, using: Sequence[Overlay]) -> None:
    if not using:
        return
    shown = ", ".join(f"{overlay.machine} ({overlay.path})" for overlay in using[:_SHOWN])
    more = f" and {len(using) - _SHOWN} more" if len(using) > _SHOWN else ""
    raise InUse(
        f"{path} is what the disks of {len(using)} machine{'s' if len(using) > 1 else ''} lie over, which would be "
        f"worthless without it: {shown}{more}. Replace or delete those machines first"
    )
