"""The two that are compared, each in processes of its own and as one would run it: TLS, RBAC, every write fsynced.

Ours is `steelyard up` with its defaults: audit log and encryption of Secrets on, controllers running. Upstream is one
etcd and one kube-apiserver with its defaults: watch cache on, no audit log, no encryption, no controllers.
"""

from __future__ import annotations

import abc
import contextlib
import http.client
import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from bench.client import Target
from steelyard.kube.client.http import HttpClient
from tests.conformance import keys, upstream
from tests.harness import PlatformProcess

_READY_WITHIN: Final = 60.0
_STOP_WITHIN: Final = 20.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class DidNotStart(Exception):
    pass


class Server(abc.ABC):
    """One life of a server, in a folder that is its own."""

    kubeconfig: Path

    @abc.abstractmethod
    def launch(self) -> None:
        """Returns when the kubeconfig is there, which may be before the server answers."""

    @abc.abstractmethod
    def processes(self) -> Sequence[int]: ...

    @abc.abstractmethod
    def stop(self) -> None:
        """Ends it, whatever state it is in."""

    def start(self) -> float:
        """Seconds until `/readyz` says yes."""
        started = time.perf_counter()
        self.launch()
        _await_ready(Target.of(self.kubeconfig))
        return time.perf_counter() - started

    def resident(self) -> int:
        return resident(self.processes())

    def processor_seconds(self) -> float:
        return processor_seconds(self.processes())


class Ours(Server):
    def __init__(self, folder: Path) -> None:
        self._platform = PlatformProcess(folder)
        self.kubeconfig = self._platform.data_dir.kubeconfig

    def launch(self) -> None:
        self._platform.start()

    def client(self) -> HttpClient:
        return self._platform.client()

    def processes(self) -> Sequence[int]:
        assert self._platform.process is not None
        return (self._platform.process.pid,)

    def stop(self) -> None:
        if self._platform.process is not None:
            self._platform.terminate()
        self._platform.kill()


class Upstream(Server):
    def __init__(self, folder: Path, *, wrapper: Sequence[str] = ()) -> None:
        """`wrapper` goes before each command."""
        folder.mkdir(parents=True)
        self._folder = folder
        self._wrapper = wrapper
        self._etcd, self._apiserver = upstream.programs()[:2]
        self._client, self._peer, self._secure = upstream.free_ports(3)
        upstream.write_keys(folder, self._secure)
        keys.write(folder)
        self.kubeconfig = folder / "kubeconfig"
        self._started: list[subprocess.Popen[bytes]] = []

    def launch(self) -> None:
        folder = self._folder
        self._run(self._etcd, upstream.etcd_flags(folder, self._client, self._peer))
        _await_port(self._client)
        self._run(self._apiserver, upstream.apiserver_flags(folder, folder, self._client, self._secure))

    def _run(self, program: str, flags: Sequence[str]) -> None:
        with (self._folder / f"{Path(program).name}.log").open("wb") as log:
            self._started.append(
                subprocess.Popen(
                    [*self._wrapper, program, *flags],
                    cwd=self._folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def processes(self) -> Sequence[int]:
        return [process.pid for process in self._started]

    def stop(self) -> None:
        for process in reversed(self._started):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def resident(processes: Iterable[int]) -> int:
    """Bytes of memory."""
    page = os.sysconf("SC_PAGE_SIZE")
    return sum(int(_of_process(pid, "statm").split()[1]) * page for pid in processes)


def processor_seconds(processes: Iterable[int]) -> float:
    """Used so far, by programs and kernel on their behalf."""
    fields = [_fields(pid) for pid in processes]
    return sum(int(each[11]) + int(each[12]) for each in fields) / _TICKS


def descendants() -> list[int]:
    """The processes that this one has started and that run, and those that they have."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # It has ended meanwhile.
            parents[int(path.name)] = int(_fields(int(path.name))[1])
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def _await_port(port: int) -> None:
    deadline = time.monotonic() + _READY_WITHIN
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.01)
        else:
            return
    raise DidNotStart(f"nothing listens on port {port} after {_READY_WITHIN:g} s")


def _await_ready(target: Target) -> None:
    deadline = time.monotonic() + _READY_WITHIN
    while time.monotonic() < deadline:
        connection = http.client.HTTPSConnection(target.host, target.port, context=target.tls, timeout=5)
        try:
            connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {target.token}"})
            if connection.getresponse().status == http.client.OK:
                return
        except (OSError, http.client.HTTPException, ssl.SSLError):
            pass
        finally:
            connection.close()
        time.sleep(0.01)
    raise DidNotStart(f"{target.host}:{target.port} is not ready after {_READY_WITHIN:g} s")


def _fields(pid: int) -> list[str]:
    """Of its `stat`, from the third on: the second is its name, in which anything may stand."""
    return _of_process(pid, "stat").rpartition(")")[2].split()


def _of_process(pid: int, file: str) -> str:
    return Path(f"/proc/{pid}/{file}").read_text()
