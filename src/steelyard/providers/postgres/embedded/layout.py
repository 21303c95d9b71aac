"""Where a server of the platform's own has its files, decided once and recorded before anything is made.

    <data dir>/postgres/<server>/server.json      what was decided: directory, port, major version
    <data dir>/postgres/<server>/admin.password   the administrator's
    <data dir>/postgres/<server>/pki/             the authority of the server's certificate
    <directory>/data                              the databases
    <directory>/socket, log, tls                  mode 0700, the server's user's

The directory is beside the record, unless the server's user cannot go there: a platform that runs as root has a data
directory that nobody else can enter.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import secrets
import socket
from pathlib import Path
from typing import Final

from steelyard import durable
from steelyard.frozen import frozen
from steelyard.providers.postgres.embedded.account import Account
from steelyard.providers.postgres.problems import Broken, Refused

VARIABLE: Final = "STEELYARD_SERVERS_DIR"
"""Environment: instead of /var/lib/steelyard."""
ADMINISTRATOR: Final = "steelyard"
LOOPBACK: Final = "127.0.0.1"
_SOCKET_PATH_BYTES: Final = 107
_RECORD: Final = "server.json"


@frozen
class Record:
    directory: Path
    port: int
    major: int
    is_made: bool = False
    """Whether there have been databases: from then on their loss is told, and not hidden by making new ones."""

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def socket(self) -> Path:
        return self.directory / "socket"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def startup_log(self) -> Path:
        return self.directory / "startup.log"

    @property
    def tls(self) -> Path:
        return self.directory / "tls"

    @property
    def has_socket(self) -> bool:
        """Whether the path is one that the system can have."""
        return len(str(self.socket / f".s.PGSQL.{self.port}").encode()) < _SOCKET_PATH_BYTES

    @property
    def admin_host(self) -> str:
        return str(self.socket) if self.has_socket else LOOPBACK


def recorded(folder: Path) -> Record | None:
    path = folder / _RECORD
    try:
        found = json.loads(path.read_text())
        return Record(Path(found["directory"]), int(found["port"]), int(found["major"]), is_made=bool(found["made"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Broken(f"{path} cannot be read: {error}. It says where the databases are; bring it back") from error


def record(folder: Path, decided: Record) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    written = {
        "directory": str(decided.directory),
        "port": decided.port,
        "major": decided.major,
        "made": decided.is_made,
    }
    durable.write(folder / _RECORD, json.dumps(written, indent=2).encode())


def made(folder: Path, decided: Record) -> Record:
    done = dataclasses.replace(decided, is_made=True)
    record(folder, done)
    return done


def directory(asked: str | None, folder: Path, data_dir: Path, account: Account) -> Path:
    """Where the server's files go."""
    if asked is not None:
        wanted = Path(asked)
        if not account.may_enter(wanted.parent):
            raise Refused(
                f"postgresql.embedded.directory: {asked} is in a folder that the user {account.name}, as whom "
                "PostgreSQL runs, may not enter. Choose another, or let it in (chmod o+x)"
            )
        return wanted
    beside = folder / "server"
    if account.may_enter(beside):
        return beside
    digest = hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:16]
    return elsewhere() / digest / folder.name


def elsewhere() -> Path:
    """Where servers have their data whose user cannot enter the platform's data directory."""
    return Path(os.environ.get(VARIABLE) or "/var/lib/steelyard") / "postgres"


def prepare(decided: Record, account: Account) -> None:
    """The folders, private to the server's user. Those above are left as they are, or made so that it can enter."""
    for parent in reversed(decided.directory.parents):
        if not parent.exists():
            parent.mkdir(mode=0o755)
    for path in (decided.directory, decided.socket, decided.log, decided.tls):
        path.mkdir(exist_ok=True, mode=0o700)
        account.give(path, 0o700)


def password(folder: Path) -> str:
    """The administrator's, made up once."""
    path = folder / "admin.password"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        durable.write(path, secrets.token_urlsafe(32).encode())
    return path.read_text().strip()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
