"""What an infrastructure says of itself to composition: the objects that stand for a cluster and for its machines.

Everything else of a cluster is the same on all of them and is made by `clusterapi.py`. To add an infrastructure:
describe it here, give it a provider (`providers/`) that brings its objects about, and hand both to whoever starts the
platform. Where the provider is somebody else's, the description alone will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final

from steelyard.api.model import Kind
from steelyard.api.nodesettings import NodeSettings
from steelyard.compose.composed import Desired
from steelyard.compose.shape import Pool, Shape, Sizes
from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.kube.permits import Permit
from steelyard.kube.resources import Resource
from steelyard.settings import Platform
from steelyard.settings.networkplugins import NetworkManifests

KUBEADM_MEMORY_GI: Final = 2
"""kubeadm refuses to make a control plane of less than 1700 MB."""


def _nothing(_: Shape) -> Object | None:
    return None


def _no_parts(_: Shape) -> Mapping[str, Desired]:
    return {}


def _as_any_machine(_: Shape) -> Object:
    return {}


def _as_any_worker(_shape: Shape, _pool: Pool) -> Object:
    return {}


def _no_image(_: str) -> str:
    return ""


@frozen
class Patience:
    """How long a machine may take, in seconds, before it is replaced."""

    startup: int = 1200
    """From its creation to its Node. A root disk may be filled from a registry before the machine boots; over a slow
    network that takes its time."""
    silent: int = 300
    """Its Node says nothing."""
    unready: int = 600
    """Its Node says that it is not ready."""


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
    control_plane_machine: Callable[[Shape], Object] = _as_any_machine
    """What the template of control-plane machines says besides."""
    worker_machine: Callable[[Shape, Pool], Object] = _as_any_worker
    """And that of a pool."""
    cluster_spec: Callable[[Shape], Object | None] = _nothing
    kinds: tuple[Kind, ...] = ()
    """Its kinds, where this platform defines them."""
    configured: Callable[[Platform], Infrastructure] | None = None
    """The same with the platform file's settings, where it has any."""
    adjusted: Callable[[Platform, NodeSettings], Infrastructure] | None = None
    """The same with what a claim says of its machines, in place of what the file does; where it can."""
    image: Callable[[str], str] = _no_image
    """What machines of a Kubernetes version boot from."""
    has_namespace: bool = False
    """Whether each cluster has a namespace of its own, apart from the claim's."""
    has_services: bool = False
    """Whether a Service is called after each cluster, which then has a name that a Service can have."""
    has_health_checks: bool = False
    """Whether machines that fall silent are replaced. Not where nothing does that."""
    patience: Patience = Patience()
    """When they are, where they are."""
    has_network: bool = True
    """Whether its machines come with a network for pods. Where they do not, Nodes wait for a network plugin."""
    network_plugin: str = ""
    """The platform file's choice of one for it; where that is empty, each kind of claim has its own."""
    own_plugins: frozenset[str] = frozenset()
    """Those whose programs its machines have already. They are brought by the platform itself, and need no download."""
    network_manifests: NetworkManifests = NetworkManifests.known()
    """Where plugins come from without Argo CD."""
    has_cloud_controller: bool = False
    """Whether kubelets leave the knowledge of their Node to a cloud controller manager, one of the `further` parts."""
    has_endpoint: bool = False
    """Whether the address of a cluster's API can be chosen."""
    needs_address: bool = False
    """Whether it must be, and be an address: nobody else knows which one is free."""
    moves_machines: bool = False
    """Whether machines can move between hosts while they run."""
    least_memory_gi: int = 0
    """What a control-plane machine needs to come up, where that is known."""
    allows_one_core: bool = False
    """Whether kubeadm is to make a control-plane machine of a single core, which it refuses by itself."""
    has_pods: bool = False
    """Whether pods run on its machines. A control plane without workers takes them then."""
    node_name: str = ""
    """What a machine registers as; where that is empty, kubeadm takes the machine's host name. Like all that machines
    are told at their start, it may be an expression over what cloud-init knows of the machine."""
    kubelet_arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of every machine, besides those that all infrastructures have."""
    bootstrap: Callable[[Shape], Object] = _as_any_machine
    """Further fields of a KubeadmConfig, such as files and commands. A change of them replaces machines, too."""
    control_plane_bootstrap: Callable[[Shape], Object] = _as_any_machine
    """The same of control-plane machines, in place of it: what it has, and what only they are told."""
    kubeadm_seconds: int = 0
    """What kubeadm waits for others; 0 for its own times."""
    kubeadm_patches: str = ""
    """A folder of control-plane machines from which kubeadm changes what it makes; empty for none."""
    cluster_domain: str = ""
    """What names of Services end in; empty for Kubernetes' own, cluster.local."""
    node_ranges: tuple[str, ...] = ()
    """Where the addresses of machines are, as far as the platform decides that: none of pods or Services are there."""
    further: Callable[[Shape], Mapping[str, Desired]] = _no_parts
    """Parts of a cluster besides those of Cluster API, by resource name; applied after them."""
    makes: tuple[Resource, ...] = ()
    """The kinds of `further` parts."""
    hands_on: tuple[Permit, ...] = ()
    """Rights that roles among them give to others: whoever makes such a role must have them, too."""

    def on(self, platform: Platform) -> Infrastructure:
        return self if self.configured is None else self.configured(platform)
