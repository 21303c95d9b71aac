"""Calls to libvirt that fail, take effect and fail nevertheless, lose their connection, or hang: in the middle of a
machine's life, which must come to the same end always.

python -m tests.providers.kvm.faults            each call of a life in each of these ways, one by one
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, Final, Literal, get_args

from steelyard.api.resources import KVM_CLUSTERS, KVM_MACHINES
from steelyard.providers.kvm.fleet import Fleet
from steelyard.providers.kvm.libvirt.problems import Away, Failed
from tests.harness import end_in_order
from tests.providers.kvm import daemons, world
from tests.providers.kvm.daemons import Libvirtd
from tests.providers.kvm.world import World

Manner = Literal["failing", "failing afterwards", "losing the connection", "hanging"]
MANNERS: Final[tuple[Manner, ...]] = get_args(Manner)
DEADLINE: Final = 0.2
"""Seconds that a call may take, where some are to hang."""
_GIVEN_UP: Final = 20.0
_HANGS_ON: Final = 0.15


class Faults:
    """What calls go through. `chosen` says of each, by its number and name, whether it is to go wrong."""

    def __init__(self, manner: Manner, chosen: Callable[[int, str], bool]) -> None:
        self.calls: list[str] = []
        self.hit: list[str] = []
        self.fleet: Fleet | None = None
        self.is_armed = False
        self._manner = manner
        self._chosen = chosen
        self._lock = threading.Lock()

    def __call__(self, what: str, work: Callable[[], Any]) -> Any:
        with self._lock:
            number = len(self.calls)
            is_hit = self.is_armed and what not in ("connect", "close") and self._chosen(number, what)
            if self.is_armed:
                self.calls.append(what)
            if is_hit:
                self.hit.append(what)
        if not is_hit:
            return work()
        if self._manner == "failing":
            raise Failed(f"{what}: no, said the test")
        if self._manner == "hanging":
            self._wait_until_given_up(what)
            return work()
        work()
        raise (Failed if self._manner == "failing afterwards" else Away)(f"{what}: done, and not said so")

    def _wait_until_given_up(self, what: str) -> None:
        """It takes effect after whoever asked for it has given up."""
        deadline = time.monotonic() + _GIVEN_UP
        while time.monotonic() < deadline:
            connections = self.fleet.connected() if self.fleet is not None else []
            if any(what in each.hanging for each in connections):
                time.sleep(_HANGS_ON)
                return
            time.sleep(0.01)


def each_once() -> Callable[[int, str], bool]:
    """Every call goes wrong when it is first made."""
    seen: set[str] = set()

    def chosen(_: int, what: str) -> bool:
        is_new = what not in seen
        seen.add(what)
        return is_new

    return chosen


@contextlib.asynccontextmanager
async def faulty(daemon: Libvirtd, folder: Path, faults: Faults) -> AsyncGenerator[World]:
    """A platform on which calls go wrong, from the moment on at which its host is ready."""
    deadline = DEADLINE if faults._manner == "hanging" else 30.0  # pyright: ignore[reportPrivateUsage]
    faults.fleet = world.fleet(daemon, faults, deadline=deadline)
    world.image(folder)
    async with world.world(daemon, folder, fleet=faults.fleet, is_tried_out=False) as kvm:
        faults.is_armed = True
        yield kvm


async def life(kvm: World, within: float = 240.0) -> None:
    """Of a cluster and a machine, from its creation until nothing of it is left."""
    await kvm.cluster()
    await kvm.until(KVM_CLUSTERS, "shop", lambda obj: bool(obj["status"].get("initialization")), within)
    await kvm.machine("one", etcdVolume={"size": "1Gi"})
    await kvm.becomes("one", "Running", within)
    # The guest that shows what the host can do may be there as well, and goes by itself.
    await world.eventually(lambda: _is_alone(kvm), within)
    domains = _domains(kvm)
    assert kvm.files() == sorted(
        [domains[0], *(f"{domains[0]}/{each}" for each in ("console.log", "etcd.qcow2", "root.qcow2", "seed.iso"))]
    )
    await kvm.joined("one")
    await world.eventually(lambda: _is_spent(kvm, domains[0]), within)
    await kvm.delete(KVM_MACHINES, "one")
    await kvm.gone(KVM_MACHINES, "one", within)
    await kvm.delete(KVM_CLUSTERS, "shop")
    await kvm.gone(KVM_CLUSTERS, "shop", within)


def _domains(kvm: World) -> list[str]:
    return kvm.daemon.domains()


async def _is_alone(kvm: World) -> bool:
    return len(_domains(kvm)) == 1


async def _is_spent(kvm: World, domain: str) -> bool:
    return 'seed="spent"' in kvm.daemon.definition(domain)


async def tried(daemon: Libvirtd, folder: Path, manner: Manner, chosen: Callable[[int, str], bool]) -> Faults:
    """The faults, after a life that came to its end; asserts that nothing is left."""
    faults = Faults(manner, chosen)
    async with faulty(daemon, folder, faults) as kvm:
        await life(kvm)

        async def is_nothing_left() -> bool:
            return not [*daemon.left(), *kvm.files()]

        # What shows what the host can do is tried again after a failure, and goes by itself.
        await world.eventually(
            is_nothing_left, 240.0, lambda: f"{manner} at {faults.hit}: {[*daemon.left(), *kvm.files()]}"
        )
    return faults


async def sweep(first: int, manners: list[Manner]) -> int:
    """How many lives there were."""
    count = 0
    with Libvirtd() as daemon:
        for manner in manners:
            number = first
            while True:
                with tempfile.TemporaryDirectory(prefix="faults-") as folder:
                    faults = await tried(daemon, Path(folder), manner, lambda index, _, at=number: index == at)
                if not faults.hit:
                    break
                count += 1
                print(f"{manner} at call {number}, {faults.hit[0]}: nothing left", flush=True)
                number += 1
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description="Let calls to libvirt go wrong, one in each life of a machine.")
    parser.add_argument("--manner", choices=MANNERS, action="append", help="how; in every way by default")
    parser.add_argument("--first", type=int, default=0, help="the call to begin with")
    given = parser.parse_args()
    if problem := daemons.missing():
        sys.exit(f"skipped: {problem}")
    count = asyncio.run(sweep(given.first, given.manner or list(MANNERS)))
    print(f"faults: {count} calls went wrong, one in each of as many lives; nothing was left")


if __name__ == "__main__":
    end_in_order()
    main()
