"""Who may do what on a server: the application, the provider, the replicas, and nobody else.

The application has all that concerns its data and nothing that concerns the server: it cannot read or change the
configuration, make it write files, follow another server, connect to one (MIGRATE), load code, look at other
connections, or change who may do what. Rules are written so that Redis 6.2 and later read them alike.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.frozen import frozen

ADMINISTRATOR: Final = "steelyard"
REPLICA: Final = "steelyard-replica"
RESERVED: Final = frozenset(("default", ADMINISTRATOR, REPLICA))

_NOBODY: Final = ("reset",)
_EVERYTHING: Final = ("~*", "&*", "+@all")
_FOLLOWING: Final = ("resetchannels", "-@all", "+psync", "+replconf", "+ping")
_USING: Final = (
    "~*",
    "&*",
    "+@all",
    "-@admin",
    "-@dangerous",
    # Of what is called dangerous, that which only concerns the application's own data, or tells clients what they need.
    *("+flushall", "+flushdb", "+keys", "+sort", "+swapdb", "+role", "+info", "+lastsave"),
    *("-cluster", "-migrate", "-restore", "-debug", "-module"),
    # By name, as Redis 6.2 counts them among the dangerous altogether.
    *("+client|setname", "+client|getname", "+client|id", "+client|info", "+client|reply", "+client|tracking"),
    *("+client|caching", "+client|getredir", "+client|trackinginfo", "+acl|whoami"),
    # Without DEBUG, which forks the server.
    *("-script", "+script|load", "+script|exists", "+script|flush", "+script|kill"),
)


@frozen
class Passwords:
    application: tuple[str, ...]
    """Those that are accepted: more than one while an old one is still good."""
    administrator: str

    @property
    def replica(self) -> str:
        """Not kept anywhere; who knows it can read a server's data and do nothing else there."""
        return hmac.new(self.administrator.encode(), b"replica", hashlib.sha256).hexdigest()


def rules(username: str, passwords: Passwords) -> Mapping[str, Sequence[str]]:
    """By user, from nothing on."""
    return {
        "default": _NOBODY,
        ADMINISTRATOR: ("reset", "on", _hashed(passwords.administrator), *_EVERYTHING),
        REPLICA: ("reset", "on", _hashed(passwords.replica), *_FOLLOWING),
        username: ("reset", "on", *map(_hashed, passwords.application), *_USING),
    }


def commands(username: str, passwords: Passwords, present: Sequence[str]) -> list[tuple[str, ...]]:
    """Brings a running server to the rules; `present` are the lines of ACL LIST, whose users are all that it has."""
    wanted = rules(username, passwords)
    strangers = [name for line in present if (name := _user(line)) and name not in wanted]
    return [
        *(("ACL", "SETUSER", name, *each) for name, each in wanted.items()),
        *(("ACL", "DELUSER", name) for name in strangers),
    ]


def hashes(line: str) -> frozenset[str]:
    """Of a line of ACL LIST: what is accepted as a password."""
    return frozenset(word for word in line.split() if word.startswith("#") or word == "nopass")


def hashes_of(passwords: Sequence[str]) -> frozenset[str]:
    return frozenset(map(_hashed, passwords))


def line_of(username: str, present: Sequence[str]) -> str:
    return next((line for line in present if _user(line) == username), "")


def _user(line: str) -> str:
    word, _, rest = line.partition(" ")
    return rest.partition(" ")[0] if word == "user" else ""


def _hashed(password: str) -> str:
    return f"#{hashlib.sha256(password.encode()).hexdigest()}"
