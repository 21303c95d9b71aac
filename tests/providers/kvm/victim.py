"""The provider in a process of its own, which asks before and after each call to libvirt and after each write of the
API whether it may go on. Whoever counts these, outside, kills it instead of answering.

    python -m tests.providers.kvm.victim SOCKET

forks one for each line that it reads: `FOLDER PID created|deleted early|late`. PID is the first process of a libvirtd's
namespaces. The forked process asks by the socket. It brings a cluster with a machine about, or takes it away, from
wherever an earlier one was killed, and says `done`; it asks from its start on, or once its host has been tried out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from steelyard.api.clusterapi.resources import CLUSTERS, MACHINES
from steelyard.api.resources import KVM_CLUSTERS, KVM_MACHINES
from steelyard.kube import errors
from tests.providers.kvm import world
from tests.providers.kvm.daemons import Libvirtd
from tests.providers.kvm.world import World

_WITHIN = 500.0


class Asking:
    """One question at a time."""

    def __init__(self, path: str) -> None:
        self.is_armed = False
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._lock = threading.Lock()

    def ask(self, point: str) -> None:
        if not self.is_armed:
            return
        with self._lock:
            self.say(point)
            self._socket.recv(1)

    def say(self, text: str) -> None:
        self._socket.sendall(f"{text}\n".encode())

    def around(self, what: str, work: Callable[[], Any]) -> Any:
        self.ask(f"before: {what}")
        result = work()
        self.ask(f"after: {what}")
        return result

    def after_commit(self, _: int) -> None:
        self.ask("after a write")


class Elsewhere:
    """A libvirtd that another process has started."""

    def __init__(self, pid: int) -> None:
        self.uri = f"qemu+unix:///system?socket=/proc/{pid}/root/run/libvirt/libvirt-sock"

    def reached_by(self, _: str) -> str:
        return self.uri


async def created(kvm: World) -> None:
    for make in (lambda: kvm.cluster(), lambda: kvm.machine("one", etcdVolume={"size": "1Gi"})):
        with contextlib.suppress(errors.AlreadyExists):
            await make()
    # Each is several objects, of which an earlier process may have made some.
    await _completed(kvm)
    await kvm.becomes("one", "Running", _WITHIN)


async def _completed(kvm: World) -> None:
    cluster = await kvm.client.get(CLUSTERS, "shop", kvm.namespace)
    with contextlib.suppress(errors.AlreadyExists):
        await kvm.kvm_cluster("shop", cluster)
    await kvm.until(KVM_CLUSTERS, "shop", lambda obj: bool(obj.get("status", {}).get("initialization")), _WITHIN)
    with contextlib.suppress(errors.AlreadyExists):
        await kvm.machine("one", etcdVolume={"size": "1Gi"})
    machine = await kvm.client.get(MACHINES, "one", kvm.namespace)
    with contextlib.suppress(errors.AlreadyExists):
        await kvm.kvm_machine("one", machine, etcdVolume={"size": "1Gi"})


async def deleted(kvm: World) -> None:
    for resource, name in ((KVM_MACHINES, "one"), (MACHINES, "one"), (KVM_CLUSTERS, "shop"), (CLUSTERS, "shop")):
        with contextlib.suppress(errors.NotFound):
            await kvm.delete(resource, name)
        await kvm.gone(resource, name, _WITHIN)


async def live(questions: Asking, folder: Path, pid: int, goal: str, begins: str) -> None:
    daemon = cast(Libvirtd, Elsewhere(pid))
    fleet = world.fleet(daemon, questions.around)
    async with world.world(daemon, folder, fleet=fleet, has_host=False, after_commit=questions.after_commit) as kvm:
        questions.is_armed = begins == "early"
        await kvm.hosted(_WITHIN)
        questions.is_armed = True
        await (created if goal == "created" else deleted)(kvm)
        await kvm.manager.idle()
        questions.is_armed = False
    questions.say("done")


def main() -> None:
    path = sys.argv[1]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        folder, pid, goal, begins = line.split()
        child = os.fork()
        if child:
            print(child, flush=True)
            continue
        asyncio.run(live(Asking(path), Path(folder), int(pid), goal, begins))
        os._exit(0)


if __name__ == "__main__":
    main()
