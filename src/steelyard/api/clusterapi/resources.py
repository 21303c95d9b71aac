"""Names of the Cluster API resources, for clients, controllers and compositions."""

from typing import Final

from steelyard.kube.resources import Resource

CORE_GROUP: Final = "cluster.x-k8s.io"
ADDONS_GROUP: Final = "addons.cluster.x-k8s.io"
BOOTSTRAP_GROUP: Final = "bootstrap.cluster.x-k8s.io"
CONTROL_PLANE_GROUP: Final = "controlplane.cluster.x-k8s.io"
INFRASTRUCTURE_GROUP: Final = "infrastructure.cluster.x-k8s.io"
"""Where infrastructure providers put their kinds."""
VERSION: Final = "v1beta2"

CLUSTERS: Final = Resource(CORE_GROUP, VERSION, "clusters", "Cluster")
MACHINES: Final = Resource(CORE_GROUP, VERSION, "machines", "Machine")
MACHINE_SETS: Final = Resource(CORE_GROUP, VERSION, "machinesets", "MachineSet")
MACHINE_DEPLOYMENTS: Final = Resource(CORE_GROUP, VERSION, "machinedeployments", "MachineDeployment")
MACHINE_HEALTH_CHECKS: Final = Resource(CORE_GROUP, VERSION, "machinehealthchecks", "MachineHealthCheck")
MACHINE_POOLS: Final = Resource(CORE_GROUP, VERSION, "machinepools", "MachinePool")
"""Nobody here looks after them; clusterctl asks whether there are any, and takes a no only where the kind is known."""
CLUSTER_RESOURCE_SETS: Final = Resource(ADDONS_GROUP, VERSION, "clusterresourcesets", "ClusterResourceSet")
CLUSTER_RESOURCE_SET_BINDINGS: Final = Resource(
    ADDONS_GROUP, VERSION, "clusterresourcesetbindings", "ClusterResourceSetBinding"
)
KUBEADM_CONFIGS: Final = Resource(BOOTSTRAP_GROUP, VERSION, "kubeadmconfigs", "KubeadmConfig")
KUBEADM_CONFIG_TEMPLATES: Final = Resource(BOOTSTRAP_GROUP, VERSION, "kubeadmconfigtemplates", "KubeadmConfigTemplate")
KUBEADM_CONTROL_PLANES: Final = Resource(CONTROL_PLANE_GROUP, VERSION, "kubeadmcontrolplanes", "KubeadmControlPlane")
KUBEADM_CONTROL_PLANE_TEMPLATES: Final = Resource(
    CONTROL_PLANE_GROUP, VERSION, "kubeadmcontrolplanetemplates", "KubeadmControlPlaneTemplate"
)

ALL: Final = (
    CLUSTERS,
    MACHINES,
    MACHINE_SETS,
    MACHINE_DEPLOYMENTS,
    MACHINE_HEALTH_CHECKS,
    MACHINE_POOLS,
    CLUSTER_RESOURCE_SETS,
    CLUSTER_RESOURCE_SET_BINDINGS,
    KUBEADM_CONFIGS,
    KUBEADM_CONFIG_TEMPLATES,
    KUBEADM_CONTROL_PLANES,
    KUBEADM_CONTROL_PLANE_TEMPLATES,
)
