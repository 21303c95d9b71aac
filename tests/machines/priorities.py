"""Control planes first: where processors are emulated and few, an API server must not wait for a worker that boots.

A kubelet takes an API server that answers too late for dead and starts it anew, which takes minutes of an emulated
machine; meanwhile everything else waits for it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Final

_PROGRAM: Final = "qemu-system-x86_64"
_CONTROL_PLANE: Final = "-control-plane-"
_AHEAD: Final = -8
_PAUSE: Final = 3.0


def keep() -> None:
    """For as long as this process lives, and for the machines of its process namespace."""
    threading.Thread(target=_run, daemon=True).start()


def _run() -> None:
    while True:
        for process in Path("/proc").iterdir():
            # What has ended in between has no priority either.
            with contextlib.suppress(OSError):
                if process.name.isdigit() and _is_control_plane(process):
                    _raise(process)
        time.sleep(_PAUSE)


def _is_control_plane(process: Path) -> bool:
    program, *arguments = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
    name = next((each for each in arguments if each.startswith("guest=")), "")
    return program.endswith(_PROGRAM) and _CONTROL_PLANE in name


def _raise(process: Path) -> None:
    for thread in (process / "task").iterdir():
        os.setpriority(os.PRIO_PROCESS, int(thread.name), _AHEAD)
    # Where the kernel weighs sessions against each other, and not processes.
    (process / "autogroup").write_text(str(_AHEAD))
