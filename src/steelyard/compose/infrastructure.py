"""What an infrastructure says of itself to composition: the objects that stand for a cluster and for its machines.

Everything else of a cluster is the same on all of them and is made by `clusterapi.py`. To add an infrastructure:
describe it here, give it a provider (`providers/`) that brings its objects about, and hand both to whoever starts the
platform.
"""

from __future__ import annotations

from collections.abc import Callable

from steelyard.api.model import Kind
from steelyard.compose.shape import Shape, Sizes
from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource


def _nothing(_: Shape) -> Object | None:
    return None


@frozen
class Infrastructure:
    name: str
    """As claims and the platform file name it."""
    cluster: Resource
    """The kind of the object that stands for a cluster's network and endpoint."""
    template: Resource
    """The kind of template that machines are made from."""
    machine_spec: Callable[[Shape, Sizes], Object]
    """What such a template says of a machine. A change of it replaces machines, so nothing goes in that need not."""
    cluster_spec: Callable[[Shape], Object | None] = _nothing
    kinds: tuple[Kind, ...] = ()
    """Its kinds, where this platform defines them."""
