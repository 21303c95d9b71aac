"""One life of a server under every workload, from its start to the memory that it needs at the end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench import requests
from bench.figures import Round
from bench.servers import Server
from tests.harness import ROOT


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many requests each workload makes; the titles of the figures speak of FULL."""

    creates: tuple[tuple[int, int], ...]
    """Connections and requests."""
    gets: tuple[tuple[int, int], ...]
    applies: tuple[tuple[int, int], ...]
    listed: int
    lists: int
    watchers: int
    watched: int
    objects: int


FULL: Final = Sizes(
    creates=((1, 1500), (16, 6000), (64, 6000)),
    gets=((1, 3000), (32, 12000)),
    applies=((1, 400), (16, 2000)),
    listed=10_000,
    lists=5,
    watchers=100,
    watched=500,
    objects=30_000,
)
QUICK: Final = Sizes(
    creates=((1, 500), (16, 2000), (64, 2000)),
    gets=((1, 1000), (32, 4000)),
    applies=((1, 100), (16, 500)),
    listed=10_000,
    lists=3,
    watchers=100,
    watched=100,
    objects=0,
)


class Failed(Exception):
    """The load generator could not do its work; the message is what it said."""


def run(server: Server, sizes: Sizes, tell: Callable[[str], None]) -> Round:
    """Everything about one server, which is started and ended here."""
    try:
        return _Life(server, sizes, tell).measure()
    finally:
        server.stop()


class _Life:
    def __init__(self, server: Server, sizes: Sizes, tell: Callable[[str], None]) -> None:
        self._server = server
        self._sizes = sizes
        self._tell = tell
        self._found: dict[str, float] = {}
        self._written = 0

    def measure(self) -> Round:
        server, sizes = self._server, self._sizes
        self._found["start"] = server.start()
        self._found["resident"] = server.resident() / 1e6
        self._load("prepare")
        for connections, count in sizes.creates:
            self._load("create", connections, count, name=f"create-{connections}")
            self._written += count
        for connections, count in sizes.gets:
            self._load("get", connections, count, name=f"create-{sizes.creates[0][0]}")
        if requests.CONTROL_PLANE_CRD.exists():
            for connections, count in sizes.applies:
                self._load("apply", connections, count, name=f"apply-{connections}")
                self._written += count
        self._load("fan-out", sizes.watchers, sizes.watched, label="fan-out")
        self._written += sizes.watched
        self._load("fill", 16, sizes.listed)
        self._written += sizes.listed
        for form in ("list", "list-cached", "list-paged"):
            self._load(form, 1, sizes.lists, label=form)
        if sizes.objects > self._written:
            self._load("create", 16, sizes.objects - self._written, name="more", label="more")
            self._found["resident_full"] = server.resident() / 1e6
        return self._found

    def _load(
        self, workload: str, connections: int = 1, count: int = 1, *, name: str = "load", label: str = ""
    ) -> None:
        command = [sys.executable, "-m", "bench.load", str(self._server.kubeconfig), workload, "--name", name]
        command += ["--connections", str(connections), "--requests", str(count)]
        used = self._server.processor_seconds()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"{workload} at {connections} connections:\n{done.stderr[-2000:]}")
        used = self._server.processor_seconds() - used
        label = label or f"{workload}_{connections}"
        found: dict[str, float] = json.loads(done.stdout)
        self._tell(f"{label} {', '.join(f'{key} {value:.4g}' for key, value in found.items())}")
        self._found["generator"] = max(self._found.get("generator", 0.0), found.pop("generator", 0.0) * 100)
        self._found[f"{label}_cpu"] = used / count * 1e6
        for key, value in found.items():
            scale = 1e3 if key in ("median", "p99") else 1e-6 if key == "bytes" else 1.0
            self._found[f"{label}_{key}"] = value * scale
