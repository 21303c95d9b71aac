"""Cluster API's own managers with our claims and simulated machines."""
