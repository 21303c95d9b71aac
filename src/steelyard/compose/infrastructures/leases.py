"""How long the programs of a control plane may be silent before another takes their work over.

Kubernetes' own times are for machines that never stand still. Where they do, because they are emulated or their host
is busy, a controller manager that could not renew its lease in time ends itself, and etcd elects without end. All
times grow in the proportion that they have there.
"""

from __future__ import annotations

from typing import Final

from steelyard.kube.objects import Object

_USUAL: Final = 15
"""Seconds of a lease, where nothing is said."""
_USUAL_RENEWAL: Final = 10
_USUAL_RETRY: Final = 2
_USUAL_ELECTION_MS: Final = 1000
_USUAL_HEARTBEAT_MS: Final = 100


def cluster_configuration(seconds: int) -> Object:
    """Of kubeadm.

    >>> cluster_configuration(30)["scheduler"]["extraArgs"][0]
    {'name': 'leader-elect-lease-duration', 'value': '30s'}
    """
    leader = _arguments(
        {
            "leader-elect-lease-duration": f"{seconds}s",
            "leader-elect-renew-deadline": f"{seconds * _USUAL_RENEWAL // _USUAL}s",
            "leader-elect-retry-period": f"{seconds * _USUAL_RETRY // _USUAL}s",
        }
    )
    etcd = _arguments(
        {
            "election-timeout": str(seconds * _USUAL_ELECTION_MS // _USUAL),
            "heartbeat-interval": str(seconds * _USUAL_HEARTBEAT_MS // _USUAL),
        }
    )
    return {
        "controllerManager": {"extraArgs": leader},
        "scheduler": {"extraArgs": leader},
        "etcd": {"local": {"extraArgs": etcd}},
    }


def _arguments(values: dict[str, str]) -> list[Object]:
    return [{"name": name, "value": value} for name, value in values.items()]
