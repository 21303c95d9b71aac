"""Cluster: what holds a cluster's infrastructure, control plane and workers together."""
