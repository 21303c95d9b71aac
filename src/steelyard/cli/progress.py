"""How something that takes a while is going, on stderr: one line redrawn on a terminal, a line per change elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import time

from steelyard.cli import output
from steelyard.kube import ages

_REDRAW = "\r\x1b[K"


def span(seconds: float) -> str:
    """`3.2 s`, `41 s`, `2m5s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else ages.human(seconds)


class Progress:
    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._began = time.monotonic()
        self._is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._last = ""
        self._is_drawn = False

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def show(self, text: str) -> None:
        """What is going on now."""
        has_changed, self._last = text != self._last, text
        if self._is_live:
            self.redraw()
        elif has_changed:
            output.note(f"{self._subject}: {text}")

    def redraw(self) -> None:
        """On a terminal, the same text with the time gone by; to be called every second."""
        if not self._is_live or not self._last:
            return
        time_gone = f" ({self.seconds:.0f} s)"
        room = shutil.get_terminal_size().columns - 1 - len(time_gone)
        sys.stderr.write(f"{_REDRAW}{output.shortened(f'{self._subject}: {self._last}', room)}{time_gone}")
        sys.stderr.flush()
        self._is_drawn = True

    def clear(self) -> None:
        """Leaves nothing of the redrawn line, so that whatever comes next stands alone."""
        if self._is_drawn:
            sys.stderr.write(_REDRAW)
            sys.stderr.flush()
            self._is_drawn = False
