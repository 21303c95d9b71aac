"""Simulated machines: for trying things out, for tests, and for runs at a scale no laptop has machines for.

`unit.py` is what the platform starts; `clusters.py` and `machines.py` are its controllers.
"""
