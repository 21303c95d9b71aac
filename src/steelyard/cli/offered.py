"""What the program offers: the kinds of claims that it has words for, as in `create cluster`, and what it starts.

Claims of other kinds are found all the same, by their category in the API's discovery.
"""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any, Final, TypeVar

from steelyard.api import infrastructures
from steelyard.frozen import frozen

if TYPE_CHECKING:
    from steelyard.compose.offering import Offering

T = TypeVar("T")


@frozen
class Program:
    offering: Offering | None = None
    """None for what this version has. That is large, and many commands do without: it is loaded when asked for."""
    providers: tuple[Any, ...] | None = None
    """What `up` starts beside the controllers, `app.Options.providers`; None for those of this version. The command
    line only hands them on."""


_STANDARD: Final = Program()
_current: contextvars.ContextVar[Program] = contextvars.ContextVar("steelyard_program")


def current() -> Offering:
    """That of the program that runs: `main.application` says which."""
    return own() or _standard()


def own() -> Offering | None:
    """None where the program offers what this version has."""
    return _current.get(_STANDARD).offering


def infrastructure_names() -> tuple[str, ...]:
    found = own()
    return infrastructures.OFFERED if found is None else found.infrastructure_names


def providers(standard: tuple[T, ...]) -> tuple[T, ...]:
    """Those of the program, where it has any of its own."""
    found = _current.get(_STANDARD).providers
    return standard if found is None else found


def offer(program: Program) -> None:
    _current.set(program)


def _standard() -> Offering:
    from steelyard.compose import offering

    return offering.STANDARD
