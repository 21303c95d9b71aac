"""What the program at hand offers: the kinds of claims that it has words for, as in `create cluster`, and what it starts.

Claims of other kinds are found all the same, by their category in the API's discovery.
"""

from __future__ import annotations

import contextvars
from typing import Any

from steelyard.compose.offering import STANDARD, Offering
from steelyard.frozen import frozen


@frozen
class Program:
    offering: Offering = STANDARD
    providers: tuple[Any, ...] | None = None
    """What `up` starts beside the controllers, `app.Options.providers`; None for those of this version. The command line
    only hands them on."""


_current: contextvars.ContextVar[Program] = contextvars.ContextVar("steelyard_program", default=Program())


def current() -> Offering:
    """That of the program that runs: `main.application` says which."""
    return _current.get().offering


def providers() -> dict[str, tuple[Any, ...]]:
    """As an argument, if the program has any of its own."""
    found = _current.get().providers
    return {} if found is None else {"providers": found}


def offer(program: Program) -> None:
    _current.set(program)
