"""How much of the loop's time one validation may take: what a user wrote is evaluated while everybody else waits.

Whatever can be made to take long (a regular expression, a CEL rule, alternatives within alternatives) says what it is
about to do in steps of about ten nanoseconds. Counting is one subtraction; only who has counted much looks at the
clock, and it is the thread's own clock, so that a busy machine refuses nobody. What exceeds the budget raises
`Exhausted`, which ends the validation, or is ended by its caller in the terms of what it was about.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

SECONDS: Final = 0.08
SECONDS_APART: Final = 5.0
"""Where the event loop does not wait for it."""
_UNSEEN: Final = 200_000
"""Steps between two looks at the clock."""


class Exhausted(Exception):
    """The budget of this validation is spent."""


class _Effort(threading.local):
    """Of the evaluation that runs now, `with` this: one at a time in each thread, and none waits for anything.

    One within another is part of it; outside of any, nothing is limited.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._left = _UNSEEN
        self._deadline = 0.0
        self._seconds = SECONDS

    def __enter__(self) -> None:
        if not self._depth:
            self._left = _UNSEEN
            self._deadline = 0.0
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1

    @contextmanager
    def apart(self) -> Generator[None]:
        """For what is evaluated in a thread of its own."""
        self._seconds = SECONDS_APART
        try:
            with self:
                yield
        finally:
            self._seconds = SECONDS

    def spend(self, steps: int) -> None:
        """Raises Exhausted."""
        self._left -= steps
        if self._left < 0:
            self._look()

    def _look(self) -> None:
        self._left = _UNSEEN
        if self._depth:
            now = time.thread_time()
            if not self._deadline:
                self._deadline = now + self._seconds
            elif now > self._deadline:
                self._left = 0
                raise Exhausted


LIMITED: Final = _Effort()
spend: Final = LIMITED.spend
