"""The files that a server reads at its start: what it listens to, whom it lets in, what it may use.

Pure: settings in, text out. All logins are by password (SCRAM). The administrator comes only from this machine; others
from loopback, and with TLS from the networks that the platform file names for them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Final

from steelyard.providers.postgres.embedded.layout import ADMINISTRATOR, LOOPBACK, Record
from steelyard.settings.postgresservers import Embedded

_HEADER: Final = "# Written by Steelyard at each start of the server: change the platform file instead.\n"
_METHOD: Final = "scram-sha-256"
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 (only where the platform file says so)
_OLDEST_WITH_SYNCFS: Final = 14
_TEMPORARY_FILES: Final = "10GB"
"""Of one session: a limit that only the administrator can change, so that no query fills the disk for all."""


def server_conf(settings: Embedded, record: Record, *, tls: bool) -> str:
    """postgresql.conf."""
    values: dict[str, str] = {
        "listen_addresses": ",".join(_addresses(settings)),
        "port": str(record.port),
        "unix_socket_directories": str(record.socket) if record.has_socket else "",
        "unix_socket_permissions": "0700",
        "max_connections": str(settings.max_connections),
        "superuser_reserved_connections": "10",
        "shared_buffers": settings.shared_memory,
        "password_encryption": _METHOD,
        "cluster_name": "steelyard",
        "temp_file_limit": _TEMPORARY_FILES,
        # Nobody replicates from it, and WAL that nobody reads is not written.
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "max_prepared_transactions": "0",
        "logging_collector": "on",
        "log_directory": str(record.log),
        "log_filename": "postgresql-%a.log",
        "log_rotation_age": "1d",
        "log_rotation_size": "0",
        "log_truncate_on_rotation": "on",
        "log_line_prefix": "%m [%p] %q%u@%d ",
    }
    if sys.platform == "linux" and record.major >= _OLDEST_WITH_SYNCFS:
        # After a crash: one call for the disk, instead of one for each of the hundreds of files of every database.
        values["recovery_init_sync_method"] = "syncfs"
    if tls:
        values |= {
            "ssl": "on",
            "ssl_cert_file": str(record.tls / "server.crt"),
            "ssl_key_file": str(record.tls / "server.key"),
            "ssl_min_protocol_version": "TLSv1.2",
        }
    return _HEADER + "".join(_lines(values))


def access(settings: Embedded, *, tls: bool) -> str:
    """pg_hba.conf: the first line that fits decides, and where none does, nobody is let in."""
    lines = [
        f"local all {ADMINISTRATOR} {_METHOD}",
        f"host all all {LOOPBACK}/32 {_METHOD}",
        f"host all all ::1/128 {_METHOD}",
        f"host all {ADMINISTRATOR} all reject",
    ]
    if settings.listen is not None and tls:
        for admission in settings.listen.networks:
            roles = ",".join("all" if role == "all" else f'"{role}"' for role in admission.roles)
            lines.append(f"hostssl all {roles} {admission.network} {_METHOD}")
    return _HEADER + "\n".join(lines) + "\n"


def certificate_hosts(settings: Embedded) -> list[str]:
    named = [] if settings.listen is None else [*settings.listen.names, settings.listen.address]
    return ["localhost", LOOPBACK, "::1", *(each for each in named if each not in _EVERYWHERE)]


def _addresses(settings: Embedded) -> Iterator[str]:
    if settings.listen is None or settings.listen.address not in _EVERYWHERE:
        yield LOOPBACK
    if settings.listen is not None:
        yield settings.listen.address


def _lines(values: Mapping[str, str]) -> Iterator[str]:
    for name, value in values.items():
        quoted = value.replace("\\", "\\\\").replace("'", "''")
        yield f"{name} = '{quoted}'\n"
