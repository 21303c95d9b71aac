"""The kinds of objects that a claim for a cluster can become."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.api import programs
from steelyard.compose import clusterapi
from steelyard.compose.cluster import integrating
from steelyard.compose.infrastructure import Infrastructure
from steelyard.kube.resources import SECRETS, Resource


def resources(infrastructures: Sequence[Infrastructure]) -> tuple[Resource, ...]:
    own = [resource for each in infrastructures for resource in (each.cluster, each.template, *each.makes)]
    return tuple(dict.fromkeys((*own, *clusterapi.MAKES, *integrating.MAKES, SECRETS)))


def of_others(infrastructures: Sequence[Infrastructure]) -> dict[Resource, str]:
    """Those of them that other people's programs define, with what there is to install: not there where nobody uses
    those."""
    theirs = [resource for each in infrastructures if not each.kinds for resource in (each.cluster, each.template)]
    return {each: programs.that_define(f"{each.kind}.{each.group}") for each in (*theirs, *integrating.OF_OTHERS)}
