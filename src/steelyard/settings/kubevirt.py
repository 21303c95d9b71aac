"""Machines that KubeVirt runs on a management cluster: what they boot from, where their disks are."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from steelyard.settings.base import SettingsModel

IMAGE: Final = "quay.io/capk/ubuntu-2404-container-disk:{version}"
CLOUD_CONTROLLER_MANAGER: Final = "quay.io/kubevirt/kubevirt-cloud-controller-manager:v0.5.1"

NetworkPlugin = Literal["cilium", "calico", "kube-ovn"]
ObjectName = Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
ImageName = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\s]+$")]


class CloudControllerManager(SettingsModel):
    """KubeVirt's cloud controller manager, one beside each cluster: it gives Services of type LoadBalancer inside the
    cluster an address of the management cluster's."""

    enabled: bool = Field(
        default=True,
        description="Whether each cluster gets one. Its kubelets then wait for it before anything is scheduled.",
    )
    image: ImageName = Field(default=CLOUD_CONTROLLER_MANAGER, description="Its container image.")


class Kubevirt(SettingsModel):
    """Machines of infrastructure kubevirt. A change of what they are made of replaces the machines of every cluster."""

    image: ImageName = Field(
        default=IMAGE,
        description="Container disk that machines boot from; {version} stands for the cluster's Kubernetes version.",
    )
    storage_class: ObjectName = Field(
        default="nfs-client",
        description="StorageClass of root disks. Machines that move between hosts need one with ReadWriteMany.",
    )
    network_plugin: NetworkPlugin | None = Field(
        default=None,
        description="What carries the traffic of pods where a claim does not say: cilium, calico or kube-ovn. Unset: "
        "cilium for a WorkloadCluster, kube-ovn for a KubernetesCluster.",
    )
    cloud_controller_manager: CloudControllerManager = Field(
        default=CloudControllerManager(), description="Services of type LoadBalancer inside clusters."
    )
