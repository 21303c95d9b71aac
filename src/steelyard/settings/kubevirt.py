"""Machines that KubeVirt runs on a management cluster: what they boot from, where their disks are."""

from typing import Annotated, Final

from pydantic import Field

from steelyard.settings.base import SettingsModel
from steelyard.settings.k3s import K3s
from steelyard.settings.networkplugins import FetchedPlugin, NamespaceName, NetworkManifests, ObjectName
from steelyard.settings.networks import Network

CLOUD_CONTROLLER_MANAGER: Final = "quay.io/kubevirt/kubevirt-cloud-controller-manager:v0.5.1"

ImageName = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\s]+$")]


class CloudControllerManager(SettingsModel):
    """KubeVirt's cloud controller manager, one beside each cluster: it gives Services of type LoadBalancer inside the
    cluster an address of the management cluster's."""

    enabled: bool = Field(
        default=True,
        description="Whether each cluster gets one. Its kubelets then wait for it before anything is scheduled.",
    )
    image: ImageName = Field(default=CLOUD_CONTROLLER_MANAGER, description="Its container image.")


class NetworkPolicies(SettingsModel):
    """What reaches the machines of a cluster from elsewhere in the management cluster. Without, each machine of each
    cluster is open to every pod there, those of other tenants' clusters among them."""

    enabled: bool = Field(
        default=True,
        description="Whether machines are closed but for what a cluster needs: its own machines, its API (6443) and, "
        "with a cloud controller manager, ports of Services (30000 to 32767) from everywhere, and anything from the "
        "namespaces of openTo.",
    )
    open_to: tuple[NamespaceName, ...] = Field(
        default=("capk-system", "cdi", "kubevirt"),
        strict=False,
        description="Namespaces of the management cluster that reach machines at every port. Cluster API's provider is "
        "one of them: it asks by ssh whether a machine has started, and without an answer no cluster becomes ready.",
    )
    closed_networks: tuple[Network, ...] = Field(
        default=(),
        strict=False,
        description="Networks that machines must not reach, such as those of the management cluster's pods, Services "
        "and hosts, so that who administers a cluster finds nothing there. Its DNS and shared services stay open, and "
        "so does the cluster's own namespace. Addresses of load balancers must not be among them: clusters reach their "
        "own API there. None: machines reach everything.",
    )


class Kubevirt(SettingsModel):
    """Machines of infrastructure kubevirt. A change of what they are made of replaces the machines of every cluster."""

    storage_class: ObjectName = Field(
        default="nfs-client",
        description="StorageClass of root disks. Machines that move between hosts need one with ReadWriteMany.",
    )
    network_plugin: FetchedPlugin | None = Field(
        default=None,
        description="What carries the traffic of pods where a claim does not say: cilium, calico or kube-ovn. Unset: "
        "cilium for a WorkloadCluster, kube-ovn for a KubernetesCluster.",
    )
    cloud_controller_manager: CloudControllerManager = Field(
        default=CloudControllerManager.known(), description="Services of type LoadBalancer inside clusters."
    )
    network_manifests: NetworkManifests = Field(
        default=NetworkManifests.known(), description="Where network plugins come from without Argo CD."
    )
    network_policies: NetworkPolicies = Field(
        default=NetworkPolicies.known(), description="Who reaches the machines of a cluster."
    )
    k3s: K3s = Field(default=K3s.known(), alias="k3s", description="Servers of VirtualClusters.")
