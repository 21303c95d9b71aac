"""What an infrastructure says of itself to composition: the objects that stand for a cluster and for its machines.

Everything else of a cluster is the same on all of them and is made by `clusterapi.py`. To add an infrastructure:
describe it here, give it a provider (`providers/`) that brings its objects about, and hand both to whoever starts the
platform. Where the provider is somebody else's, the description alone will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from steelyard.api.model import Kind
from steelyard.compose.composed import Desired
from steelyard.compose.shape import Shape, Sizes
from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.settings import Platform


def _nothing(_: Shape) -> Object | None:
    return None


def _no_parts(_: Shape) -> Mapping[str, Desired]:
    return {}


def _no_image(_: str) -> str:
    return ""


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
    configured: Callable[[Platform], Infrastructure] | None = None
    """The same with the platform file's settings, where it has any."""
    image: Callable[[str], str] = _no_image
    """What machines of a Kubernetes version boot from."""
    has_namespace: bool = False
    """Whether each cluster has a namespace of its own, apart from the claim's."""
    has_health_checks: bool = False
    """Whether machines that fall silent are replaced. Not where nothing does that: embedded there is no controller of
    MachineHealthChecks yet."""
    has_network: bool = True
    """Whether its machines come with a network for pods. Where they do not, Nodes wait for a network plugin."""
    has_cloud_controller: bool = False
    """Whether kubelets leave the knowledge of their Node to a cloud controller manager, one of the `further` parts."""
    has_endpoint: bool = False
    """Whether the address of a cluster's API can be chosen."""
    moves_machines: bool = False
    """Whether machines can move between hosts while they run."""
    least_memory_gi: int = 0
    """What a control-plane machine needs to come up, where that is known."""
    further: Callable[[Shape], Mapping[str, Desired]] = _no_parts
    """Parts of a cluster besides those of Cluster API, by resource name; applied after them."""
    makes: tuple[Resource, ...] = ()
    """The kinds of `further` parts."""

    def on(self, platform: Platform) -> Infrastructure:
        return self if self.configured is None else self.configured(platform)
