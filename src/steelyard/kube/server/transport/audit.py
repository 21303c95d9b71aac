"""The audit log: one line of JSON per request, an Event of audit.k8s.io/v1 at the level Metadata.

Who, what, when, from where and with which outcome; never a body, so never a Secret. A request only notes what it knows;
a thread makes lines of that and writes them, at the latest a quarter of a second later. What the platform's own
controllers do inside the process is not logged.

A file that has reached its size becomes `<name>.1`, that `<name>.2`, and so on; the oldest goes.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from steelyard.kube.server.call import User
from steelyard.kube.server.routing import Route

logger = logging.getLogger(__name__)

_DELAY: Final = 0.25
_MAX_WAITING: Final = 100_000
_MAX_URI: Final = 4096
_MAX_AGENT: Final = 1024
_WORTH_REMEMBERING: Final = 4096


class Entry(NamedTuple):
    """What is known of a request when it has been answered."""

    method: str
    path: str
    query: bytes
    user: User | None
    """Whom the credentials name; None if they were refused."""
    acting: User | None
    """As whom the request was made, if as somebody else."""
    source: str
    agent: str
    route: Route | None
    decision: str
    """`allow` or `forbid`; empty if it never came to that."""
    code: int
    failure: str
    received: float
    answered: float
    annotations: Mapping[str, str] | None = None
    """What webhooks have to say about it."""


class AuditLog:
    """Make it, and use it, on the event loop."""

    def __init__(self, path: Path, *, max_bytes: int, keep: int, is_full: Callable[[], bool] = lambda: False) -> None:
        """`is_full` tells when what is left of the disk is for others."""
        self._is_full = is_full
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._waiting: list[Entry] = []
        self._timer: asyncio.TimerHandle | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._file = -1
        self._size = 0
        self._lost = 0
        self._prefix = _random_prefix()
        self._count = 0
        self._is_failing = False

    def record(self, entry: Entry) -> None:
        if len(self._waiting) >= _MAX_WAITING:
            self._lost += 1
            return
        self._waiting.append(entry)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_DELAY, self._flush)

    def _flush(self) -> asyncio.Future[None]:
        entries, self._waiting = self._waiting, []
        self._timer = None
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "audit")
        if self._lost:
            logger.error("the disk is too slow for the audit log: events are lost", extra={"lost": self._lost})
            self._lost = 0
        return asyncio.get_running_loop().run_in_executor(self._thread, self._write, entries)

    async def close(self) -> None:
        """Writes what is left."""
        if self._timer is not None:
            self._timer.cancel()
        if self._waiting:
            await self._flush()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.shutdown)
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, entries: Iterable[Entry]) -> None:
        try:
            if self._is_full():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            for lines in self._lines(entries):
                self._append(lines)
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:
                logger.error("the audit log cannot be written: events are lost", extra={"error": str(error)})
            self._is_failing = True

    def _lines(self, entries: Iterable[Entry]) -> Iterable[bytes]:
        """In pieces that are small against a file's size."""
        lines: list[bytes] = []
        for entry in entries:
            self._count += 1
            lines.append(orjson.dumps(event(entry, f"{self._prefix}{self._count:012x}")))
            if len(lines) == 100:
                yield b"\n".join(lines) + b"\n"
                lines = []
        if lines:
            yield b"\n".join(lines) + b"\n"

    def _append(self, lines: bytes) -> None:
        if self._file < 0:
            self._open()
        if self._size and self._size + len(lines) > self._max_bytes:
            os.close(self._file)
            self._file = -1
            self._rotate()
            self._open()
        while lines:
            written = os.write(self._file, lines)
            self._size += written
            lines = lines[written:]

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size

    def _rotate(self) -> None:
        names = [self._path, *(self._path.with_name(f"{self._path.name}.{n}") for n in range(1, self._keep + 1))]
        for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            if newer.exists():
                newer.replace(older)
        if not self._keep:
            self._path.unlink(missing_ok=True)


def event(entry: Entry, identifier: str) -> dict[str, Any]:
    route = entry.route
    uri = entry.path + (f"?{entry.query.decode('latin-1')}" if entry.query else "")
    made: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": identifier,
        "stage": "ResponseComplete",
        "requestURI": uri[:_MAX_URI],
        "verb": route.verb if route is not None else entry.method.lower(),
        "user": _user(entry.user) if entry.user is not None else {},
    }
    if entry.acting is not None:
        made["impersonatedUser"] = _user(entry.acting)
    made["sourceIPs"] = [entry.source] if entry.source else []
    made["userAgent"] = entry.agent[:_MAX_AGENT]
    if route is not None:
        made["objectRef"] = _reference(route)
    status: dict[str, Any] = {"metadata": {}, "code": entry.code}
    if entry.failure:
        status |= {"status": "Failure", "reason": entry.failure}
    made["responseStatus"] = status
    made["requestReceivedTimestamp"] = _timestamp(entry.received)
    made["stageTimestamp"] = _timestamp(entry.answered)
    if entry.decision:
        made["annotations"] = {"authorization.k8s.io/decision": entry.decision, **(entry.annotations or {})}
    return made


def _user(user: User) -> orjson.Fragment:
    """Encoded once for all requests of the same user, unless it is unusually long."""
    is_brief = len(user.name) + sum(map(len, user.groups)) <= _WORTH_REMEMBERING and not user.extra
    return _known_user(user) if is_brief else _encoded_user(user)


@functools.lru_cache(maxsize=256)
def _known_user(user: User) -> orjson.Fragment:
    return _encoded_user(user)


def _encoded_user(user: User) -> orjson.Fragment:
    made: dict[str, Any] = {"username": user.name, "groups": user.groups}
    if user.uid:
        made["uid"] = user.uid
    if user.extra:
        made["extra"] = dict(user.extra)
    return orjson.Fragment(orjson.dumps(made))


def _reference(route: Route) -> dict[str, str]:
    made = {"resource": route.plural}
    if route.namespace:
        made["namespace"] = route.namespace
    if route.name:
        made["name"] = route.name
    if route.group:
        made["apiGroup"] = route.group
    made["apiVersion"] = route.version
    if route.subresource:
        made["subresource"] = route.subresource
    return made


def _timestamp(seconds: float) -> str:
    whole = int(seconds)
    return f"{_second(whole)}.{int((seconds - whole) * 1_000_000):06}Z"


@functools.lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    """Most lines of a batch share it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _random_prefix() -> str:
    """All of a UUID but the last group, which counts: random enough to be one, and cheap."""
    digits = os.urandom(10).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-8{digits[15:18]}-"
