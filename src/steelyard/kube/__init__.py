"""Kubernetes API machinery. Nothing in here knows a kind of ours."""
