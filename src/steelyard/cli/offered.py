"""What the program offers: the kinds of claims that it has words for, as in `create cluster`, and what it starts.

Claims of other kinds are found all the same, by their category in the API's discovery.
"""

from __future__ import annotations

import contextvars
from typing import Any, Final, TypeVar

from steelyard.compose.offering import STANDARD, Offering
from steelyard.frozen import frozen

T = TypeVar("T")


@frozen
class Program:
    offering: Offering = STANDARD
    providers: tuple[Any, ...] | None = None
    """What `up` starts beside the controllers, `app.Options.providers`; None for those of this version. The command
    line only hands them on."""


_STANDARD: Final = Program()
_current: contextvars.ContextVar[Program] = contextvars.ContextVar("steelyard_program")


def current() -> Offering:
    """That of the program that runs: `main.application` says which."""
    return _current.get(_STANDARD).offering


def providers(standard: tuple[T, ...]) -> tuple[T, ...]:
    """Those of the program, where it has any of its own."""
    found = _current.get(_STANDARD).providers
    return standard if found is None else found


def offer(program: Program) -> None:
    _current.set(program)
