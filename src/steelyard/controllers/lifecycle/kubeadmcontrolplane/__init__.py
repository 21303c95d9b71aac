"""KubeadmControlPlane: the machines that run a cluster's control plane, made and replaced one at a time."""
