"""What the reference page tells of VirtualCluster besides its fields."""

from __future__ import annotations

from typing import Final

from steelyard.api.clusterfields import NAME_MAX
from steelyard.compose.claimkind import Guide, Reported
from steelyard.compose.cluster import guide, integrating

GUIDE: Final = Guide(
    example={
        "parameters": {"environment": "dev", "k8sVersion": "1.30.0"},
        "writeConnectionSecretToRef": {"name": "dev-cluster-kubeconfig", "namespace": "argocd"},
    },
    notes=(
        f"The name may have up to {NAME_MAX} characters.",
        "On kubevirt each cluster has a namespace of its own with its virtual machines, called `<name>-server-0` and "
        "so on, each with a root disk that stays; with a Service of type LoadBalancer, called `<name>-api`, for the "
        "API on port 6443 and, where there is an ingress controller, for ports 80 and 443; and with the Secrets of the "
        "cluster. k3s is installed when a server first starts, in the release that the platform file has for the "
        "version (`kubevirt.k3s`).",
        "The platform makes the cluster's authorities, hands them to its servers on a disk of their own, and signs the "
        "administrator's kubeconfig itself; it never logs in to a server. A kubeconfig that is lost is made again, and "
        "renewed when half of its year is over. An authority that is lost is taken from its other copy; none is ever "
        "made anew while servers run with it.",
        "Another number of cores or another size of memory restarts the servers one by one; with one server the API is "
        "away meanwhile. Another disk, version, ingress class or number of servers would need new ones, and what is in "
        "the cluster would be lost: it is refused.",
        "Three servers know each other by their addresses, which must stay when a machine starts anew or moves: the "
        "management cluster's network must see to that, as Kube-OVN does. One server alone needs no such network.",
        "Where the load balancer gives the Service another address, the kubeconfig follows at once, and a server's "
        "certificate when the server next starts.",
        "On simulated machines the claim becomes a control plane of one machine, or of three, without workers; there "
        "its version and sizes change as those of any cluster.",
    ),
    conditions=(
        Reported("Synced", "False", "InfrastructureNotAvailable", "This version cannot compose that infrastructure."),
        Reported("Synced", "False", "EnvironmentNotAvailable", "The platform file no longer has that environment."),
        Reported("Synced", "False", "CannotChange", "The servers cannot become what the claim now asks for."),
        *guide.NAMES,
        Reported("Ready", "True", "Available", "The cluster is as asked for and can be used."),
        Reported("Ready", "True", "Scaling", "It can be used while servers come or go."),
        Reported("Ready", "True", "Updating", "It can be used while its servers are changed one by one."),
        Reported("Ready", "False", "Creating", "The cluster is being made; the message says what is waited for."),
        Reported("Ready", "False", "Degraded", "A server, the API or a key was lost; the message says what to do."),
        Reported("Ready", "False", "Recovering", "A server comes back, or is being restarted."),
        Reported("UpToDate", "True", "AsAskedFor", "The cluster is exactly what the claim asks for."),
        Reported("UpToDate", "False", "", "It is not, or not yet; the reason is that of `Ready`."),
        Reported("UpToDate", "False", "VersionHeldBack", "The environment's version is not that of the cluster."),
        Reported("InForce", "False", "NotAvailable", "Says which parameters have no effect on such machines."),
        *integrating.REPORTED,
    ),
    deletion="the connection Secret and the registration with Argo CD go first, then the servers with their disks, "
    "then the Service and the Secrets, the namespace last; on simulated machines as with a WorkloadCluster",
)
