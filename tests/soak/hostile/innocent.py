"""The innocent client, in a process of its own: what the others' doings cost it.

    python -m tests.soak.hostile.innocent FIELD.json NOTES.jsonl

A request is due every INTERVAL, whatever became of those before it, and its latency counts from when it was due: a
server that stands still for ten seconds is noted as some four hundred late answers, not as one. A few connections
are kept, as client-go does; some requests come on a new one, as every kubectl does. A watch follows what the client
creates.

Notes are lines of JSON, in the clock that all processes of a machine share:
    [kind, due, seconds, wrong]         an answer; `wrong` is empty when it was the right one
    ["beat", now, oldest, lag, bytes]   ten times a second: for how long the oldest request is unanswered, how late this
                                        process itself was, and the server's resident memory
                                        at its highest since the last beat
It ends with SIGTERM, after it has waited a while for what is still to come.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

import orjson
import uvloop

from tests.soak.hostile import memory
from tests.soak.hostile.field import KNOWN, PEACEFUL, Field, Identity, config_map, config_maps
from tests.soak.hostile.wire import Answer, Ended, Line

INTERVAL: Final = 0.025
ANSWER_SECONDS: Final = 90.0
_BEAT_SECONDS: Final = 0.1
_CONNECTIONS: Final = 8
_FRESH_AT_ONCE: Final = 16
_KEPT_OBJECTS: Final = 40
_PARTING_SECONDS: Final = float(os.environ.get("HOSTILE_PARTING_SECONDS", "20"))

Asking = asyncio.Task[bool]
"""Whether the answer was the right one."""


class Notes:
    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")

    def add(self, *values: object) -> None:
        self._file.write(orjson.dumps(values) + b"\n")

    def flush(self) -> None:
        self._file.flush()


class Pool:
    """A few kept connections of one client; who finds none free waits for one, and that counts."""

    def __init__(self, who: Identity) -> None:
        self.who = who
        self._idle: list[Line] = []
        self._places = asyncio.Semaphore(_CONNECTIONS)

    async def ask(self, request: bytes) -> Answer:
        async with self._places:
            line = self._idle.pop() if self._idle else None
            is_reused = line is not None and not line.is_closed
            if line is None or line.is_closed:
                line = await Line.open(self.who)
            try:
                answer = await line.ask(request)
            except Ended:
                # As Go's client: a kept connection may have been closed at the very moment it was taken.
                if not is_reused:
                    raise
                line = await Line.open(self.who)
                answer = await line.ask(request)
            self._idle.append(line)
            return answer


class Innocent:
    def __init__(self, field: Field, notes: Notes) -> None:
        self._field = field
        self._notes = notes
        self._pools = {who: Pool(who) for who in (field.admin, field.innocent, field.neighbour)}
        self._fresh = 0
        self._keys = itertools.count()
        self._pending: dict[int, float] = {}
        self._number = 0
        self._created: dict[Identity, deque[str]] = {field.innocent: deque(), field.neighbour: deque()}
        self._unseen: dict[str, float] = {}
        """What was created and the watch has not shown, with when the creation was due."""
        self._tasks: set[Asking] = set()
        self._ended = asyncio.Event()

    async def run(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._ended.set)
        watching = asyncio.create_task(self._watch())
        beating = asyncio.create_task(self._beat())
        turns = self._turns()
        due = time.monotonic()
        number = 0
        while not self._ended.is_set():
            due += INTERVAL
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(due - time.monotonic()):
                    await self._ended.wait()
            self._start(turns[number % len(turns)], due)
            number += 1
        deadline = time.monotonic() + _PARTING_SECONDS
        while (self._tasks or self._unseen) and time.monotonic() < deadline:  # noqa: ASYNC110 - any moment will do
            await asyncio.sleep(0.05)
        for due in self._unseen.values():
            self._notes.add("watch", due, time.monotonic() - due, "an object that was created was never shown")
        for task in (watching, beating, *self._tasks):
            task.cancel()
        self._notes.flush()

    def _turns(self) -> list[Callable[[float], Asking | None]]:
        field = self._field
        return [
            lambda due: self._get("admin get", field.admin, due),
            lambda due: self._get("get", field.innocent, due),
            lambda due: self._create("create", field.innocent, due),
            lambda due: self._get("neighbour get", field.neighbour, due),
            lambda due: self._list("list", field.innocent, due),
            lambda due: self._create("neighbour create", field.neighbour, due),
            lambda due: self._delete("delete", field.innocent, due),
            lambda due: self._list("neighbour list", field.neighbour, due),
            lambda due: self._newly("new connection", field.admin, due),
            lambda due: self._delete("neighbour delete", field.neighbour, due),
            lambda due: self._newly("neighbour new connection", field.neighbour, due),
        ]

    def _start(self, turn: Callable[[float], Asking | None], due: float) -> None:
        task = turn(due)
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _get(self, kind: str, who: Identity, due: float) -> Asking:
        request = who.request("GET", f"{config_maps(PEACEFUL)}/{KNOWN}")
        return asyncio.create_task(self._ask(kind, who, request, due, 200, f'"{KNOWN}"'.encode()))

    def _list(self, kind: str, who: Identity, due: float) -> Asking:
        request = who.request("GET", config_maps(PEACEFUL))
        return asyncio.create_task(self._ask(kind, who, request, due, 200, f'"{KNOWN}"'.encode()))

    def _newly(self, kind: str, who: Identity, due: float) -> Asking | None:
        if self._fresh >= _FRESH_AT_ONCE:
            return None  # Those under way show that nobody gets in.
        request = who.request("GET", f"{config_maps(PEACEFUL)}/{KNOWN}")
        return asyncio.create_task(self._ask(kind, who, request, due, 200, f'"{KNOWN}"'.encode(), is_new=True))

    def _create(self, kind: str, who: Identity, due: float) -> Asking:
        self._number += 1
        name = f"i-{self._number}"
        body = orjson.dumps(config_map(name, data={"text": "x" * 200}))
        request = who.request("POST", config_maps(PEACEFUL), body)

        async def create() -> bool:
            if who is self._field.innocent:
                self._unseen[name] = due
            is_created = await self._ask(kind, who, request, due, 201, name.encode())
            if is_created:
                self._created[who].append(name)
            else:
                self._unseen.pop(name, None)
            return is_created

        return asyncio.create_task(create())

    def _delete(self, kind: str, who: Identity, due: float) -> Asking | None:
        created = self._created[who]
        if len(created) <= _KEPT_OBJECTS:
            return None
        name = created.popleft()
        request = who.request("DELETE", f"{config_maps(PEACEFUL)}/{name}")
        return asyncio.create_task(self._ask(kind, who, request, due, 200, b""))

    async def _ask(
        self, kind: str, who: Identity, request: bytes, due: float, code: int, shows: bytes, *, is_new: bool = False
    ) -> bool:
        """Whether the answer was right; notes it in any case."""
        key = next(self._keys)
        self._pending[key] = due
        wrong = ""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await (self._ask_newly(who, request) if is_new else self._pools[who].ask(request))
            if answer.code != code or shows not in answer.body:
                wrong = f"{answer.code} {answer.body[:200].decode(errors='replace')}"
        except TimeoutError:
            wrong = f"no answer in {ANSWER_SECONDS:.0f} s"
        except Ended as error:
            wrong = str(error)
        finally:
            del self._pending[key]
        self._notes.add(kind, due, time.monotonic() - due, wrong)
        return not wrong

    async def _ask_newly(self, who: Identity, request: bytes) -> Answer:
        self._fresh += 1
        try:
            line = await Line.open(who)
            try:
                return await line.ask(request)
            finally:
                line.close()
        finally:
            self._fresh -= 1

    async def _watch(self) -> None:
        """Follows the innocent's own ConfigMaps; resumes where it was if the server ends it."""
        reader = _Events(self._observed)
        while True:
            query = f"?watch=1&allowWatchBookmarks=true&resourceVersion={reader.revision or '0'}"
            request = self._field.innocent.request("GET", config_maps(PEACEFUL) + query)
            with contextlib.suppress(Ended):
                line = await Line.open(self._field.innocent, reader.feed)
                try:
                    answer = await line.ask(request)
                finally:
                    line.close()
                if answer.code != 200:
                    self._notes.add("watch", time.monotonic(), 0.0, f"the watch was answered with {answer.code}")
            reader.restart()
            await asyncio.sleep(0.05)

    def _observed(self, type_: str, name: str) -> None:
        if type_ == "ERROR":
            self._notes.add("watch", time.monotonic(), 0.0, f"the watch was told an error: {name}")
        elif type_ == "ADDED" and (due := self._unseen.pop(name, None)) is not None:
            self._notes.add("watch", due, time.monotonic() - due, "")

    async def _beat(self) -> None:
        due = time.monotonic()
        while True:
            due += _BEAT_SECONDS
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            now = time.monotonic()
            oldest = max((now - since for since in self._pending.values()), default=0.0)
            self._notes.add("beat", now, oldest, now - due, memory.peak(self._field.processes))
            self._notes.flush()
            due = max(due, now - _BEAT_SECONDS)


class _Events:
    """Lines of a watch, from the pieces that come."""

    def __init__(self, observed: Callable[[str, str], None]) -> None:
        self._observed = observed
        self._rest = b""
        self.revision = ""

    def restart(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            event = orjson.loads(line)
            if "type" not in event:
                self._observed("ERROR", line.decode(errors="replace")[:200])
                continue
            metadata = event["object"].get("metadata", {})
            if event["type"] == "ERROR":
                self.revision = ""
                self._observed("ERROR", line.decode(errors="replace")[:200])
                continue
            self.revision = metadata.get("resourceVersion", self.revision)
            self._observed(event["type"], metadata.get("name", ""))


def main() -> None:
    field = Field.from_json(Path(sys.argv[1]).read_text())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(Innocent(field, Notes(Path(sys.argv[2]))).run())


if __name__ == "__main__":
    main()
