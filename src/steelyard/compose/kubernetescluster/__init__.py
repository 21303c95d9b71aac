"""From a KubernetesCluster to the objects of a cluster: `composing.py` first, which asks the others."""
