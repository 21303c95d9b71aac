"""ClusterResourceSetBinding: goes with its cluster."""
