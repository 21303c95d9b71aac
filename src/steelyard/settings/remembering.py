"""What the platform was started with last, kept in its data directory: where the file was, and every setting.

A start from another directory would otherwise find no file and give every claim the defaults. All settings are kept,
not only those of the file, so that a default that a newer version changes is noticed as well. What is kept is a
platform file itself: whoever has lost theirs can copy it.

    # What Steelyard was started with last. …
    # steelyard: {"format":1,"path":"/etc/steelyard/platform.yaml"}
    domain: steelyard.dev
    …
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import yaml

from steelyard import durable
from steelyard.api.infrastructures import OFFERED
from steelyard.frozen import frozen
from steelyard.settings import reading
from steelyard.settings.model import Platform
from steelyard.settings.problems import Problem, SettingsError

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_FORMAT: Final = 1
_NOTE: Final = "# What Steelyard was started with last: the next start is compared with it. Copy it, do not edit it.\n"
_HEAD: Final = "# steelyard: "


@frozen
class Chosen:
    """The settings to start with, and the file they are from; without one they are the built-in defaults."""

    platform: Platform
    path: Path | None
    from_memory: bool = False
    """Nobody named the file this time, and none is in the working directory: it is the one of the last start."""


@frozen
class Remembered:
    path: Path | None
    platform: Platform | None
    """None where this version cannot read what is kept; `problem` says why."""
    problem: str = ""


def recall(memory: Path, *, infrastructures: Sequence[str] = OFFERED) -> Remembered | None:
    """None where nothing has been remembered yet."""
    try:
        text = memory.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        return Remembered(None, None, f"{memory} is damaged")
    return read(text, str(memory), infrastructures=infrastructures)


def read(text: str, origin: str, *, infrastructures: Sequence[str] = OFFERED) -> Remembered:
    """What `text` has written; `origin` is where it was kept, in words."""
    try:
        line = next(line for line in text.splitlines() if line.startswith(_HEAD))
        head = cast("dict[str, Any]", json.loads(line.removeprefix(_HEAD)))
        path = Path(str(head["path"])) if head["path"] else None
    except (StopIteration, ValueError, KeyError, TypeError):
        return Remembered(None, None, f"{origin} is damaged")
    defaults = Platform.known()
    if text == _text(path, _of_defaults()) and defaults.infrastructure in infrastructures:
        # Known without a look at every value, and most platforms have no file.
        return Remembered(path, defaults)
    try:
        return Remembered(path, reading.parse(text, origin, infrastructures=infrastructures))
    except SettingsError as error:
        return Remembered(path, None, str(error))


def remember(memory: Path, chosen: Chosen) -> None:
    """Writes only where something is new: a start on a full disk must not need space for it."""
    content = text(chosen).encode()
    try:
        is_known = memory.read_bytes() == content
    except FileNotFoundError:
        is_known = False
    if not is_known:
        durable.write(memory, content)


def choose(
    explicit: Path | None,
    memory: Path,
    *,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
    infrastructures: Sequence[str] = OFFERED,
) -> Chosen:
    """The file that is named or at hand, else that of the last start, else the defaults. Raises SettingsError."""
    path = reading.find(explicit, environ=environ, directory=directory)
    remembered = recall(memory, infrastructures=infrastructures)
    if path is not None:
        if path.absolute() == memory.absolute():
            raise SettingsError([Problem(str(path), 0, "is written by the platform; copy it, and name the copy")])
        return Chosen(reading.load(path, infrastructures=infrastructures), path.absolute())
    if remembered is None or remembered.path is None:
        return Chosen(Platform.known(), None)
    if not remembered.path.is_file():
        raise SettingsError(
            [
                Problem(
                    str(remembered.path),
                    0,
                    "the last start used this platform file, and it is gone. Name the one to use with --platform FILE; "
                    f"what it said is kept in {memory}, which you can copy",
                )
            ]
        )
    return Chosen(reading.load(remembered.path, infrastructures=infrastructures), remembered.path, from_memory=True)


def text(chosen: Chosen) -> str:
    """What is kept, for `read`."""
    has_defaults = chosen.platform == Platform.known()
    return _text(chosen.path, _of_defaults() if has_defaults else _written(chosen.platform))


def _text(path: Path | None, written: str) -> str:
    head = json.dumps({"format": _FORMAT, "path": str(path) if path else ""}, separators=(",", ":"))
    return f"{_NOTE}{_HEAD}{head}\n{written}"


def _written(platform: Platform) -> str:
    return yaml.dump(platform.written(), Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=1000)


@functools.cache
def _of_defaults() -> str:
    return _written(Platform.known())
