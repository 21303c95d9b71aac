"""Writes of the server's own housekeeping: garbage collection, namespace termination.

Upstream a process of its own does this work, so its writes appear in managedFields under that process's name, and
fields it takes away are taken from their managers too. Readers of managedFields find the same here.
"""

from __future__ import annotations

from typing import Final

from steelyard.kube.objects import Object
from steelyard.kube.server.apply import apply
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.core import Core

MANAGER: Final = "kube-controller-manager"


def tracked(core: Core, served: Served, before: Object, after: Object, subresource: str = "") -> Object:
    """The object as the housekeeping writes it, with the managed fields that result."""
    return apply.track_update(
        served.schema,
        before,
        after,
        manager=MANAGER,
        api_version=served.resource.api_version,
        now=core.timestamp(),
        subresource=subresource,
    )
