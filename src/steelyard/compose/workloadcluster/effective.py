"""What is used for each parameter: the claim's own word, else its environment's, else the platform's."""

from __future__ import annotations

from typing import TypeVar

from steelyard.api.workloadcluster import Parameters, UsedParameters
from steelyard.compose.cluster import choosing
from steelyard.settings import Environment, Platform

_T = TypeVar("_T")


def parameters(
    asked: Parameters, platform: Platform, environment: Environment, *, running: str = ""
) -> tuple[UsedParameters, str]:
    """What is used, and why the environment's version is not, where a cluster that runs another cannot go there.

    A claim with `{environment: dev, workerReplicas: 4}` gets 4 workers, and dev's cores, memory, disk and version.
    """
    version, held_back = choosing.version(asked.environment, environment, asked.kubernetes_version, running)
    used = UsedParameters(
        environment=platform.environment_name(asked.environment),
        infrastructure=_or(asked.infrastructure, platform.infrastructure),
        control_plane_replicas=_or(asked.control_plane_replicas, environment.control_plane_replicas),
        worker_replicas=_or(asked.worker_replicas, environment.worker_replicas),
        cpu_cores=_or(asked.cpu_cores, environment.cpu_cores),
        memory_gi=_or(asked.memory_gi, environment.memory_gi),
        disk_gb=_or(asked.disk_gb, environment.disk_gb),
        kubernetes_version=version,
    )
    return used, held_back


def _or(asked: _T | None, default: _T) -> _T:
    """Not `or`: zero workers is a choice."""
    return default if asked is None else asked
