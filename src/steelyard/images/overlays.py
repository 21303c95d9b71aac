"""Which disks of machines lie over an image, found in the directories where machines have their disks.

libvirt is not asked: a machine that is not running, or that a libvirtd of elsewhere runs, has its disk there all the
same. Whatever cannot be read is an answer, too: nobody knows what it lies over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from steelyard.frozen import frozen
from steelyard.images import qcow2
from steelyard.images.failing import BuildFailed
from steelyard.images.qcow2 import BadHeader

_DEEPEST: Final = 4
"""Directories below a storage root. Ours have one for each machine."""


@frozen
class Overlay:
    path: Path
    base: Path

    @property
    def machine(self) -> str:
        """The directory is called as the machine's UUID, which its providerID has."""
        return self.path.parent.name


def over(image: Path, roots: Iterable[Path]) -> list[Overlay]:
    """Those that lie directly over it. Raises BuildFailed where that cannot be known."""
    wanted = os.path.realpath(image)
    return [overlay for overlay in all_of(roots) if os.path.realpath(overlay.base) == wanted]


def all_of(roots: Iterable[Path]) -> list[Overlay]:
    """Every disk under these directories that lies over another file, by path."""
    found: list[Overlay] = []
    for path in sorted(_files(roots)):
        try:
            header = qcow2.read(path)
        except FileNotFoundError:
            continue
        except (BadHeader, OSError) as error:
            raise BuildFailed(f"{path} cannot be read, so nobody knows what it lies over: {error}") from None
        if header is None or not header.backing:
            continue
        base = qcow2.backing_path(path, header.backing)
        if base is not None:
            found.append(Overlay(path, base))
    return found


def _files(roots: Iterable[Path]) -> Iterator[Path]:
    for root in roots:
        if not root.exists():
            continue
        top = len(root.parts)
        for folder, directories, files in os.walk(root, onerror=_unreadable):
            if len(Path(folder).parts) - top >= _DEEPEST:
                directories.clear()
            for name in files:
                path = Path(folder) / name
                if path.is_file():
                    yield path


def _unreadable(error: OSError) -> None:
    raise BuildFailed(f"{error.filename} cannot be read, so nobody knows what machines have there: {error.strerror}")
