"""The claim kinds that the command line has words for: `create cluster`, and `cluster` where a kind is named.

Claims of other kinds are found all the same, by their category in the API's discovery.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable

from steelyard.api import workloadcluster
from steelyard.api.model import ApiModel, Kind
from steelyard.frozen import frozen


@frozen
class ClaimKind:
    noun: str
    nouns: str
    parameters: type[ApiModel]
    """The model of `spec.parameters`."""
    definition: Callable[[str], Kind]
    """The kind in a domain."""


@frozen
class Offering:
    kinds: tuple[ClaimKind, ...]


STANDARD = Offering((ClaimKind("cluster", "clusters", workloadcluster.Parameters, workloadcluster.kind),))


_current: contextvars.ContextVar[Offering] = contextvars.ContextVar("steelyard_offering", default=STANDARD)


def current() -> Offering:
    """That of the program that runs: `main.application` says which."""
    return _current.get()


def offer(offering: Offering) -> None:
    _current.set(offering)
