"""What a redis-server is told when it starts, and what of it is looked at while it runs. Pure.

Every server of one RedisServer has the same port, each on a loopback address of its own; the primary listens on the
endpoint's address as well. Who is the primary can so change while all of them run: Redis takes another `bind` without a
restart, from 6.2 on, and clients stay with the address that they know. Nothing is in between, so nothing slows them
down, and they need no platform that runs.

The file holds hashes of passwords, except for the one by which replicas read from their primary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from steelyard.frozen import frozen
from steelyard.providers.redis import accounts
from steelyard.providers.redis.accounts import Passwords

Live: TypeAlias = Mapping[str, str]

ENDPOINT: Final = "127.0.0.1"
_OWN: Final = "127.0.82.{}"
MAX_SERVERS: Final = 64
CONNECTIONS: Final = 2000
"""Of each server, the platform's among them."""
_BACKLOG: Final = 64 << 20
"""What a primary keeps for replicas that were away, at most; an eighth of the memory where that is less."""


@frozen
class Limits:
    memory_bytes: int
    memory_percent: int
    when_full: str
    append_only: bool = True

    @property
    def max_memory(self) -> int:
        return self.memory_bytes * self.memory_percent // 100


@frozen
class Role:
    """What a server is among those of its RedisServer."""

    ordinal: int
    primary: int

    @property
    def is_primary(self) -> bool:
        return self.ordinal == self.primary

    @property
    def bind(self) -> str:
        return f"{address(self.ordinal)} {ENDPOINT}" if self.is_primary else address(self.ordinal)


def address(ordinal: int) -> str:
    return _OWN.format(ordinal + 1)


def live(role: Role, limits: Limits, passwords: Passwords) -> Live:
    """Settings that can change while a server runs, as CONFIG GET tells them."""
    return {
        "bind": role.bind,
        "maxmemory": str(limits.max_memory),
        "maxmemory-policy": limits.when_full,
        "appendonly": "yes" if limits.append_only else "no",
        "masteruser": accounts.REPLICA,
        "masterauth": passwords.replica,
    }


def text(role: Role, port: int, limits: Limits, username: str, passwords: Passwords) -> str:
    lines: list[Sequence[str]] = [
        ("port", str(port)),
        *live(role, limits, passwords).items(),
        # Outsiders are kept out by passwords, on every address.
        ("protected-mode", "no"),
        ("daemonize", "no"),
        ("dir", "./"),
        ("save", '""'),
        ("appendfsync", "everysec"),
        ("aof-use-rdb-preamble", "yes"),
        ("maxclients", str(CONNECTIONS)),
        ("tcp-keepalive", "300"),
        ("repl-backlog-size", str(max(1 << 20, min(_BACKLOG, limits.memory_bytes // 8)))),
        ("repl-diskless-sync", "yes"),
        ("repl-diskless-sync-delay", "0"),
        ("replica-read-only", "yes"),
        ("sanitize-dump-payload", "yes"),
        ("loglevel", "notice"),
        # Two looks a second at its own affairs instead of ten: an idle server costs next to nothing, and one at work
        # looks more often by itself.
        ("hz", "2"),
        ("dynamic-hz", "yes"),
    ]
    if not role.is_primary:
        lines.append(("replicaof", address(role.primary), str(port)))
    lines += (("user", name, *each) for name, each in accounts.rules(username, passwords).items())
    return "".join(f"{' '.join(line)}\n" for line in lines)
