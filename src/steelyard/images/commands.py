"""Runs the programs that an image is built with. One that fails tells its whole story, and none outlives the build."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from steelyard.images.failing import BuildFailed

_LAST_LINES: Final = 20
_LAST_BYTES: Final = 8192
_PATIENCE: Final = 15.0
"""Seconds for a program that was told to end; mmdebstrap takes some to unmount what it mounted."""
_ENVIRONMENT: Final = {"LC_ALL": "C.UTF-8", "TZ": "UTC"}
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

PACKAGES: Final = {
    "debugfs": "e2fsprogs",
    "dumpe2fs": "e2fsprogs",
    "e2fsck": "e2fsprogs",
    "mke2fs": "e2fsprogs",
    "mmdebstrap": "mmdebstrap",
    "qemu-img": "qemu-utils",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}
"""Debian's package that has each of the programs."""


def missing() -> list[str]:
    """The Debian packages to install before an image can be built here."""
    return sorted({package for program, package in PACKAGES.items() if shutil.which(program, path=_path()) is None})


def run(
    command: Sequence[str],
    *,
    settings: Mapping[str, str] | None = None,
    folder: Path | None = None,
    given: bytes = b"",
) -> str:
    """What the command wrote to its standard output. `given` is what it reads."""
    # By setpriv, as nobody else would end it if this process were killed.
    prepared = [_program("setpriv"), "--pdeathsig", "TERM", _program(command[0]), *command[1:]]
    environment = {**os.environ, **_ENVIRONMENT, "PATH": _path(), **(settings or {})}
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        source.write(given)
        source.seek(0)
        process = subprocess.Popen(  # noqa: S603 (commands of this package; no shell reads them)
            prepared,
            stdin=source,
            stdout=out,
            stderr=errors,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        try:
            code = process.wait()
        except BaseException:
            _end(process)
            raise
        if code != 0:
            raise BuildFailed(_story(command, code, _end_of(errors) or _end_of(out)))
        out.seek(0)
        return out.read().decode(errors="replace")


def _program(name: str) -> str:
    found = shutil.which(name, path=_path())
    if found is None:
        package = PACKAGES.get(name)
        raise BuildFailed(f"there is no {name} here" + (f": apt install {package}" if package else ""))
    return found


def _path() -> str:
    """Users' paths often lack the directories of administrators' programs."""
    return f"{os.environ.get('PATH', '')}:{_PATH}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """The program with all that it started."""
    for told in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, told)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
            break


def _end_of(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LAST_BYTES))
    return "\n".join(file.read().decode(errors="replace").splitlines()[-_LAST_LINES:])


def _story(command: Sequence[str], code: int, said: str) -> str:
    how = f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
    return f"`{' '.join(command)}` {how}" + (f"; the end of what it said:\n{said}" if said else ", without a word")
