"""Cluster API's provider for KubeVirt, with upstream's managers on upstream's API server, brings about what our claims
controller composes. Only the hypervisor is played: what a virtual machine does when it boots."""
