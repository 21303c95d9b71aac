"""Runs the platform so that a test can kill it at a chosen write, or trace it with fsync switched off.

    python -m tests.victim --data-dir D --kill-at 17

Each write is committed on its own. Counting starts at the first write after the platform is ready, in both databases
together; right after write number N has reached the disk, and before anybody is told, the process kills itself. When it
ends otherwise it prints how many writes there were.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from pathlib import Path

from steelyard import app, settings
from steelyard.compose.postgresqlinstance import generations
from steelyard.compose.postgresqlinstance.generations import Generations
from steelyard.installation.datadir import DataDir
from steelyard.kube.store.sealing import Sealer
from steelyard.kube.store.store import Store


class Countdown:
    """Shared by the writer threads of both databases."""

    def __init__(self, kill_at: int) -> None:
        self._kill_at = kill_at
        self._lock = threading.Lock()
        self.count = 0
        self._is_counting = False

    def begin(self, url: str, kubeconfig: Path, description: str) -> None:
        with self._lock:
            self._is_counting = True

    def after_commit(self, revision: int) -> None:
        with self._lock:
            if not self._is_counting:
                return
            self.count += 1
            if self.count == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)


def _shorten_overlaps(seconds: float) -> None:
    """To less than a platform file can say; old logins and copies are there for minutes otherwise."""
    switched = generations.switched

    def shortly(here: Generations, *, now: str, overlap: float) -> Generations:
        return switched(here, now=now, overlap=min(overlap, seconds))

    generations.switched = shortly


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--platform", type=Path)
    parser.add_argument("--kill-at", type=int, default=0)
    parser.add_argument("--no-fsync", action="store_true")
    parser.add_argument("--overlap", type=float, help="seconds: at most so long is kept what was replaced by a new one")
    arguments = parser.parse_args()
    countdown = Countdown(arguments.kill_at)
    if arguments.overlap is not None:
        _shorten_overlaps(arguments.overlap)

    async def open_store(path: Path, sealer: Sealer) -> Store:
        if not arguments.kill_at:
            return await Store.open(path, fsync=not arguments.no_fsync, sealer=sealer)
        return await Store.open(path, max_batch=1, after_commit=countdown.after_commit, sealer=sealer)

    options = app.Options(
        data_dir=DataDir(arguments.data_dir),
        host="127.0.0.1",
        port=arguments.port,
        platform=settings.read(arguments.platform),
        open_store=open_store,
    )
    app.run(options, on_ready=countdown.begin)
    print(f"writes: {countdown.count}", flush=True)


if __name__ == "__main__":
    main()
