"""A cache in one of the ways in which it can be made: the object that makes it, and what is known of it from that."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from steelyard.compose.composed import Desired
from steelyard.frozen import frozen
from steelyard.kube.objects import Object


@frozen
class Making:
    part: Desired
    in_vault: Mapping[str, str]
    """The keys there, each with External Secrets' template of it."""
    status: Object
    """Fields of the claim's status."""
    details: Callable[[Mapping[str, str]], dict[str, str] | None]
    """Of the credentials that the provider wrote: what an application needs to connect, or None until it is there."""
    told: str = ""
    """What else there is to say of one that is as asked for: where it is, how full it is."""
    behind: str = ""
    """What is not yet as asked for, although it can be used."""
    not_in_force: tuple[str, ...] = ()
    """What the claim says and this way of making it does not act on."""
