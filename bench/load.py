"""The load generator, a process of its own so that its work is not the server's. Prints what it measured as JSON.

python -m bench.load KUBECONFIG create --connections 16 --requests 5000 --name first
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import uvloop

from bench import requests
from bench.client import Connection, Refused, Target, Watcher
from bench.requests import NAMESPACES

NAMESPACE, MANY, FAN_OUT = NAMESPACES
Figures = dict[str, float]
_PAGE: Final = 500
_ATTEMPTS: Final = 300
_CONTINUE: Final = re.compile(rb'"continue":"([^"]+)"')


async def send_all(target: Target, connections: int, made: Sequence[bytes]) -> Figures:
    """Sends every request once, each connection the next one as soon as its last is answered."""
    work = _Work(made)
    opened = await asyncio.gather(*(_Sender.open(target, work) for _ in range(connections)))
    started, used = time.perf_counter(), time.process_time()
    for sender in opened:
        sender.next()
    await work.finished
    took = time.perf_counter() - started
    for sender in opened:
        sender.close()
    return {**_per_second(len(made), took, used), **_spread(work.latencies)}


class _Work:
    """What several connections have to do together."""

    def __init__(self, made: Sequence[bytes]) -> None:
        self.waiting = iter(made)
        self.latencies: list[float] = []
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count = len(made)

    def answered(self, after: float) -> None:
        self.latencies.append(after)
        if len(self.latencies) == self._count and not self.finished.done():
            self.finished.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.finished.done():
            self.finished.set_exception(error)


class _Sender:
    """One of the connections."""

    def __init__(self, work: _Work) -> None:
        self._work = work
        self._sent = 0.0
        self._connection: Connection | None = None

    @staticmethod
    async def open(target: Target, work: _Work) -> _Sender:
        sender = _Sender(work)
        sender._connection = await Connection.open(target, sender._answered, work.fail)
        return sender

    def next(self) -> None:
        assert self._connection is not None
        request = next(self._work.waiting, None)
        if request is not None:
            self._sent = time.perf_counter()
            self._connection.send(request)

    def close(self) -> None:
        assert self._connection is not None
        self._connection.close()

    def _answered(self, _: bytes) -> None:
        self._work.answered(time.perf_counter() - self._sent)
        self.next()


class _Asker:
    """One connection that waits for each answer."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[bytes] | None = None
        self.connection: Connection | None = None

    @staticmethod
    async def open(target: Target) -> _Asker:
        asker = _Asker()
        asker.connection = await Connection.open(target, asker._answered, asker.lost)
        return asker

    async def ask(self, request: bytes) -> bytes:
        """The beginning of the answer's body."""
        assert self.connection is not None
        self._answer = asyncio.get_running_loop().create_future()
        self.connection.send(request)
        return await self._answer

    def _answered(self, beginning: bytes) -> None:
        assert self._answer is not None
        self._answer.set_result(beginning)

    def lost(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


async def create(target: Target, connections: int, count: int, name: str) -> Figures:
    made = [requests.create_config_map(target, NAMESPACE, f"{name}-{number}") for number in range(count)]
    return await send_all(target, connections, made)


async def fill(target: Target, connections: int, count: int, name: str) -> Figures:
    """The objects that are listed afterwards."""
    made = [requests.create_config_map(target, MANY, f"{name}-{number:05}") for number in range(count)]
    return await send_all(target, connections, made)


async def get(target: Target, connections: int, count: int, name: str) -> Figures:
    return await send_all(target, connections, [requests.get_config_map(target, NAMESPACE, f"{name}-0")] * count)


async def apply(target: Target, connections: int, count: int, name: str) -> Figures:
    made = [requests.apply_control_plane(target, NAMESPACE, f"{name}-{number}") for number in range(count)]
    return await send_all(target, connections, made)


async def prepare(target: Target, connections: int, count: int, name: str) -> Figures:
    """The namespaces, and the upstream kind where its definition is there; waits until it is served."""
    asker = await _Asker.open(target)
    for namespace in NAMESPACES:
        await asker.ask(requests.create_namespace(target, namespace))
    if requests.CONTROL_PLANE_CRD.exists():
        await asker.ask(requests.define_control_planes(target))
        await _await_served(target)
    return {}


async def _await_served(target: Target) -> None:
    for _ in range(_ATTEMPTS):
        try:
            await (await _Asker.open(target)).ask(requests.list_control_planes(target, NAMESPACE))
        except Refused:
            await asyncio.sleep(0.1)
        else:
            return
    raise Refused("the new kind is not served")


async def list_(target: Target, connections: int, count: int, name: str) -> Figures:
    return await _list(target, count, requests.config_maps(MANY))


async def list_cached(target: Target, connections: int, count: int, name: str) -> Figures:
    return await _list(target, count, f"{requests.config_maps(MANY)}?resourceVersion=0")


async def list_paged(target: Target, connections: int, count: int, name: str) -> Figures:
    return await _list(target, count, f"{requests.config_maps(MANY)}?limit={_PAGE}")


async def _list(target: Target, count: int, path: str) -> Figures:
    """Lists `count` times, following continue tokens."""
    asker = await _Asker.open(target)
    connection = asker.connection
    assert connection is not None
    times: list[float] = []
    before, used = connection.received, time.process_time()
    for _ in range(count):
        started = time.perf_counter()
        beginning = await asker.ask(target.request("GET", path))
        while found := _CONTINUE.search(beginning):
            beginning = await asker.ask(target.request("GET", f"{path}&continue={found[1].decode()}"))
        times.append(time.perf_counter() - started)
    received = (connection.received - before) / count
    return {**_per_second(count, sum(times), used), **_spread(times), "bytes": received}


async def fan_out(target: Target, connections: int, count: int, name: str) -> Figures:
    """`connections` watchers of one collection: how long one change takes to the last of them, and how many events a
    second all of them get while 16 connections write.
    """
    crowd = _Crowd()
    asker = await _Asker.open(target)
    await asker.ask(requests.create_config_map(target, FAN_OUT, name))
    beginning = await asker.ask(target.request("GET", f"{requests.config_maps(FAN_OUT)}?limit=1"))
    found = re.search(rb'"resourceVersion":"(\d+)"', beginning)
    assert found is not None
    path = f"{requests.config_maps(FAN_OUT)}?watch=1&resourceVersion={found[1].decode()}"
    for _ in range(connections):
        await crowd.join(target, path)
    times: list[float] = []
    for turn in range(count // 10):
        started = time.perf_counter()
        expected = crowd.expect(1)
        await asker.ask(requests.label_config_map(target, FAN_OUT, name, f"alone-{turn}"))
        await expected
        times.append(time.perf_counter() - started)
    started, used = time.perf_counter(), time.process_time()
    expected = crowd.expect(count)
    made = [requests.create_config_map(target, FAN_OUT, f"{name}-{number}") for number in range(count)]
    await send_all(target, 16, made)
    await expected
    took = time.perf_counter() - started
    crowd.close()
    return {**_per_second(count * connections, took, used), **_spread(times)}


class _Crowd:
    """Many watchers of the same thing."""

    def __init__(self) -> None:
        self._watchers: list[Watcher] = []
        self._waited_for = 0
        self._all_there: asyncio.Future[None] | None = None

    async def join(self, target: Target, path: str) -> None:
        self._watchers.append(await Watcher.watch(target, path, self._reached, self._lost))

    def expect(self, more: int) -> asyncio.Future[None]:
        """Done when everybody has got so many more events."""
        for watcher in self._watchers:
            watcher.goal += more
        self._waited_for = len(self._watchers)
        self._all_there = asyncio.get_running_loop().create_future()
        return self._all_there

    def close(self) -> None:
        for watcher in self._watchers:
            watcher.close()

    def _reached(self) -> None:
        self._waited_for -= 1
        if not self._waited_for and self._all_there is not None and not self._all_there.done():
            self._all_there.set_result(None)

    def _lost(self, error: Exception) -> None:
        if self._all_there is not None and not self._all_there.done():
            self._all_there.set_exception(error)


def _per_second(count: int, took: float, used: float) -> Figures:
    return {"per_second": count / took, "generator": (time.process_time() - used) / took}


def _spread(times: list[float]) -> Figures:
    times.sort()
    return {"median": statistics.median(times), "p99": times[int(len(times) * 0.99)]}


Workload = Callable[[Target, int, int, str], Awaitable[Figures]]
WORKLOADS: Final[dict[str, Workload]] = {
    "prepare": prepare,
    "create": create,
    "fill": fill,
    "get": get,
    "apply": apply,
    "list": list_,
    "list-cached": list_cached,
    "list-paged": list_paged,
    "fan-out": fan_out,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--requests", type=int, default=1)
    parser.add_argument("--name", default="load")
    given = parser.parse_args()

    async def run() -> Figures:
        work = WORKLOADS[given.workload]
        return await work(Target.of(given.kubeconfig), given.connections, given.requests, given.name)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(run())))


if __name__ == "__main__":
    main()
