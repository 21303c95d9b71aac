"""Who is the primary, and what becomes of the others. Pure: what was seen of the servers in, a decision out.

A replica may take a lost primary's place only if it holds all that it was sent: it follows the very history that the
primary wrote (`history`, Redis' replication id) and has taken it over as a whole. Of those the one that is furthest
takes it, so that nothing is lost that any of them has acknowledged. One that still waits for its first copy never does:
then the primary is brought back from its own files, however long that takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from steelyard.frozen import frozen


@frozen
class Seen:
    """What a running server says of itself."""

    ordinal: int
    is_primary: bool
    history: str
    offset: int
    follows: str = ""
    """The address of its primary."""
    is_linked: bool = False
    is_copying: bool = False
    online: int = 0
    """Of a primary: replicas that have everything."""
    used_memory: int = 0
    can_write: bool = True
    """Whether what it is told reaches its file."""


def seen(ordinal: int, info: Mapping[str, str]) -> Seen:
    """From INFO's sections `replication`, `memory` and `persistence`."""
    is_primary = info.get("role") == "master"
    offset = info.get("master_repl_offset" if is_primary else "slave_repl_offset") or "0"
    return Seen(
        ordinal=ordinal,
        is_primary=is_primary,
        history=info.get("master_replid", ""),
        offset=int(offset),
        follows=info.get("master_host", ""),
        is_linked=info.get("master_link_status") == "up",
        is_copying=info.get("master_sync_in_progress", "0") != "0",
        online=sum(
            name.startswith("slave") and "state=online" in value for name, value in info.items() if "," in value
        ),
        used_memory=int(info.get("used_memory") or 0),
        can_write=info.get("aof_last_write_status", "ok") == "ok",
    )


def members(primary: int, replicas: int) -> list[int]:
    """The servers that there should be, the primary first. One that is no longer wanted is never the primary.

    >>> members(0, 1), members(0, 2), members(2, 1), members(2, 2)
    ([0], [0, 1, 2], [2], [2, 0, 1])
    """
    others = replicas if replicas > 1 else 0
    return [primary, *(each for each in range(others + 1) if each != primary)][: others + 1]


def heir(lost: int, history: str, alive: Iterable[Seen]) -> int | None:
    """The replica to take the place of the primary `lost`, which wrote `history`; None if none can."""
    able = [
        each
        for each in alive
        if each.ordinal != lost
        and not each.is_primary
        and not each.is_copying
        and bool(history)
        and each.history == history
    ]
    best = max(able, key=lambda each: (each.offset, -each.ordinal), default=None)
    return best.ordinal if best is not None else None
