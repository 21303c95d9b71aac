"""Steelyard: Kubernetes clusters, databases and delivery on bare metal, each asked for with a short claim."""

__version__ = "0.1.0"
