"""What clusterctl installs a provider from, and makes clusters with: `steelyard provider kvm manifests` writes it."""
