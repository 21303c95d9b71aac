"""Connection data of claims inside workload clusters: put there, kept right there, removed there.

`controller.py` says when a SecretDelivery is looked at, `reconcile.py` what is done, `place.py` what is found and
written in the cluster, `wanted.py` what is to be there (pure), and `status.py` what is told of it (pure).
"""

from __future__ import annotations

from steelyard.controllers.delivery.controller import controllers as controllers
