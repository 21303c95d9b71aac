"""From a VirtualCluster to a cluster: `composing.py` first, which asks the others."""
