"""ClusterResourceSet: objects from Secrets and ConfigMaps, brought into the clusters that it selects."""
