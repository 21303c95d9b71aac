"""A platform in a process of its own, for tests and benchmarks that need one as a user has it.

It is ended, and its whole process group with it, whatever happens in the test.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from steelyard.images import golang
from steelyard.installation import encryption
from steelyard.installation.datadir import DataDir, Instance
from steelyard.kube.client.http import HttpClient
from steelyard.kube.store.store import Store
from tests import forked, ownservers

ROOT = Path(__file__).parent.parent
START_DEADLINE = 60.0

INSTANT = "simulated: {bootSeconds: 0, joinSeconds: 0, deleteSeconds: 0}\n"
"""A platform file whose machines take no time, for tests that are about something else."""


class DidNotStart(Exception):
    pass


def built(*programs: str) -> list[str]:
    """Where upstream programs are (or `go`); builds them on first use, which takes minutes."""
    build = [sys.executable, str(ROOT / "tools" / "upstream" / "build.py"), *programs]
    return subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True).stdout.split()


def found(program: str) -> str:
    """Where an upstream program is that has been built before; empty where it has not."""
    described = importlib.util.spec_from_file_location("upstream", ROOT / "tools" / "upstream" / "build.py")
    assert described is not None
    assert described.loader is not None
    builder: Any = importlib.util.module_from_spec(described)
    described.loader.exec_module(builder)
    path = golang.cache() / golang.digest(builder.PROGRAMS[program]) / program
    return str(path) if path.exists() else ""


def end_in_order() -> None:
    """SIGTERM ends the program that calls this as Ctrl-C does: what it has started goes first, and at the very end the
    servers that killed platforms left."""

    def end(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    # On the disk: what is tried at length can be more than fits into memory.
    atexit.register(ownservers.end, ownservers.keep_apart(Path(tempfile.gettempdir())))


class PlatformProcess:
    are_forked: ClassVar[bool] = False
    """Platforms are forked from a process that has loaded the program: as pytest has it, since loading takes twice as
    long as starting. Benchmarks, `make soak` and `make crash` start them as a user does."""

    def __init__(
        self,
        root: Path,
        *,
        platform: str = INSTANT,
        victim: Sequence[str] | None = None,
        wrapper: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        is_fresh: bool = False,
    ) -> None:
        """`victim`: arguments of `tests.victim`, which then runs instead of `steelyard up`; `wrapper` goes before.
        `is_fresh`: never forked, for what is about the start itself, or about memory."""
        root.mkdir(parents=True, exist_ok=True)
        self.data_dir = DataDir(root / "data")
        self.platform_file = root / "platform.yaml"
        self.platform_file.write_text(platform)
        self.log = root / "log"
        self._environment = {**os.environ, **(environment or {})}
        self._wrapper = list(wrapper)
        self._victim = victim
        self._is_forked = self.are_forked and not wrapper and not is_fresh
        self.arguments: list[str] = []
        """More of them, for the next start."""
        self.process: subprocess.Popen[bytes] | forked.Process | None = None

    def start(self) -> Instance:
        self.launch()
        return self.await_ready()

    def launch(self) -> None:
        program = forked.STEELYARD if self._victim is None else forked.VICTIM
        arguments = ["up"] if self._victim is None else list(self._victim)
        arguments += ["--data-dir", str(self.data_dir.root), "--port", "0", "--platform", str(self.platform_file)]
        arguments += self.arguments
        with self.log.open("ab") as log:
            if self._is_forked:
                self.process = forked.start(
                    arguments, cwd=ROOT, environment=self._environment, output=log, program=program
                )
                return
            self.process = subprocess.Popen(
                [*self._wrapper, sys.executable, "-m", program.removesuffix(".__main__"), *arguments],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def await_ready(self) -> Instance:
        assert self.process is not None
        deadline = time.monotonic() + START_DEADLINE
        while time.monotonic() < deadline:
            instance = self.data_dir.running()
            if instance is not None and instance.url:
                return instance
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise DidNotStart(f"exit code {self.process.poll()}:\n{self.log.read_text()[-4000:]}")

    def client(self) -> HttpClient:
        return HttpClient.from_kubeconfig(self.data_dir.kubeconfig.read_text())

    async def left_in_clusters(self) -> list[str]:
        """The keys of all objects inside simulated clusters, read from the database of a platform that has ended."""
        sealer = encryption.sealer(encryption.load(self.data_dir.encryption_keys))
        store = await Store.open(self.data_dir.provider_database("simulated"), sealer=sealer)
        try:
            return [record.key for record in store.scan("")]
        finally:
            await store.close()

    @property
    def processor_seconds(self) -> float:
        """What it has used of a processor so far, however much of it others were given."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def terminate(self, timeout: float = 60.0) -> int:
        """As Ctrl-C or `steelyard down` would; the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        return self.process.wait(timeout)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def __enter__(self) -> PlatformProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
