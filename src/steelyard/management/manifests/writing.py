"""Files that are made again and again: each says in its first line who wrote it, and what somebody else wrote is never
touched. Files of an earlier time that are no longer made go away, so that nobody applies them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

_MARK: Final = "# Written by `steelyard manifests`"
_FOLDERS: Final = (".", "crds", "monitoring", "standing", "chart", "chart/crds", "chart/templates")


class NotOurs(Exception):
    """A file of somebody else's is in the way. Nothing was written."""


def write(directory: Path, files: Mapping[str, str], version: str) -> tuple[int, int]:
    """How many were written, and how many of an earlier time removed. Raises NotOurs."""
    assert {str(Path(name).parent) for name in files} <= set(_FOLDERS), "of any other folder nothing would ever go"
    foreign = [name for name in files if _is_foreign(directory / name)]
    if foreign:
        raise NotOurs(
            f"{directory / sorted(foreign)[0]} was not written by this command, and is left as it is"
            f"{f', like {len(foreign) - 1} more' if len(foreign) > 1 else ''}: choose an empty folder, or move it away"
        )
    # In the folders that it makes, and not below others: those may be what it wrote for another cluster.
    places = [directory / each for each in _FOLDERS]
    earlier = [path for place in places for path in place.glob("*.yaml") if path.is_file() and not _is_foreign(path)]
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{_MARK} {version}; changes are lost when it is run again.\n{text}", encoding="utf-8")
    gone = [path for path in earlier if str(path.relative_to(directory)) not in files]
    for path in gone:
        path.unlink()
    return len(files), len(gone)


def _is_foreign(path: Path) -> bool:
    if not path.exists() and not path.is_symlink():
        return False
    if path.is_symlink() or not path.is_file():
        return True
    with path.open("rb") as file:
        return file.read(len(_MARK)) != _MARK.encode()
