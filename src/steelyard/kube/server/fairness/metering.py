"""The time that somebody's work takes on the event loop is charged to whose it is: each step when it ends."""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from time import perf_counter
from typing import Any, Protocol

from steelyard.kube.server.fairness.shares import Flow


class Work(Protocol):
    """A request, say."""

    @property
    def flow(self) -> Flow | None:
        """Whose it is, once that is known."""
        ...


@types.coroutine
def metered(coroutine: Coroutine[Any, Any, None], work: Work) -> Generator[Any, Any, None]:
    """Awaits a coroutine and charges each of its steps to the flow of the work."""
    step: Callable[[Any], Any] = coroutine.send
    given: Any = None
    while True:
        started = perf_counter()
        try:
            yielded = step(given)
        except StopIteration:
            return
        finally:
            flow = work.flow
            if flow is not None and not flow.is_unbounded:
                ended = perf_counter()
                flow.charge(ended - started, ended)
        step, given = coroutine.send, None
        try:
            given = yield yielded
        except BaseException as error:
            step, given = coroutine.throw, error
