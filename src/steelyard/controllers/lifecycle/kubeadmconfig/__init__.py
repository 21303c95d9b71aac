"""KubeadmConfig: the bootstrap data of one machine."""
