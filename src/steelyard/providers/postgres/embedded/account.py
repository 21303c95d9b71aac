"""As whom a server runs. PostgreSQL refuses to run as root: there, a system user of its own does."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any, Final

from steelyard.frozen import frozen
from steelyard.providers.postgres.problems import Refused

NAME: Final = "steelyard-postgres"
_TIMEOUT: Final = 30.0


@frozen
class Account:
    name: str
    uid: int
    gid: int
    is_another: bool
    """Whether it is not the user that the platform runs as."""

    def starting(self) -> dict[str, Any]:
        """Arguments of `subprocess.Popen`."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.is_another else {}

    def give(self, path: Path, mode: int) -> None:
        """Makes a file or folder the account's."""
        if self.is_another:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)
        path.chmod(mode)

    def may_enter(self, folder: Path) -> bool:
        """Whether it can go to a folder, by every folder above it. What does not exist yet is made enterable."""
        return not self.is_another or all(self._may_pass(each) for each in (folder, *folder.parents))

    def _may_pass(self, folder: Path) -> bool:
        try:
            found = folder.stat()
        except OSError:
            return True
        if found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IXUSR)
        if found.st_gid == self.gid:
            return bool(found.st_mode & stat.S_IXGRP)
        return bool(found.st_mode & stat.S_IXOTH)


def account() -> Account:
    """The platform's own user; where that is root, one that is made for it where it is missing."""
    if os.geteuid() != 0:
        me = pwd.getpwuid(os.geteuid())
        return Account(me.pw_name, me.pw_uid, me.pw_gid, is_another=False)
    found = _find() or _make()
    return Account(found.pw_name, found.pw_uid, found.pw_gid, is_another=True)


def _find() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        return None


def _make() -> pwd.struct_passwd:
    program = shutil.which("useradd") or "/usr/sbin/useradd"
    command = [program, "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    command += ["--shell", "/usr/sbin/nologin", "--comment", "PostgreSQL of Steelyard", NAME]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)  # noqa: S603 (ours)
        told = f"exit code {done.returncode}: {done.stderr.strip()[-300:]}"
    except (OSError, subprocess.SubprocessError) as error:
        told = str(error)
    found = _find()
    if found is None:
        raise Refused(
            f"PostgreSQL does not run as root, and the user {NAME} cannot be made: {' '.join(command)}: {told}. "
            "Make that user, or run the platform as another user than root"
        )
    return found
