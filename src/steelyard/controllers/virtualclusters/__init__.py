"""The keys of k3s clusters in virtual machines: made once, handed to the servers, never made anew under them.

A VirtualCluster's composition makes a namespace, a Service and machines; it has no randomness to make keys of. This is
the other half: `controller.py` says when a cluster's namespace is looked at, `reconcile.py` what is done, `keys.py`
what the servers get (pure), and `restarting.py` which of them must start anew (pure).
"""

from __future__ import annotations

from steelyard.controllers.virtualclusters.controller import controllers as controllers
