"""Cluster API v1beta2 as the platform speaks it: names of its resources and complete definitions of its kinds.

The schemas are tables made from upstream's own definitions by `tools/facts`; embedded mode serves them so that
manifests, kubectl and clients written for Cluster API work unchanged.
"""
