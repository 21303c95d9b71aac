"""What is used for each parameter: the claim's own word, else its environment's, else the platform's."""

from __future__ import annotations

from steelyard.api.kubernetescluster import CONTROL_PLANE_DISK_GB, Parameters
from steelyard.compose.shape import Sizes
from steelyard.settings import Environment

GIBIBYTES = "Gi"


def control_plane(asked: Parameters, environment: Environment) -> Sizes:
    return Sizes(
        _number(asked.control_plane_cpu, environment.cpu_cores),
        _number(asked.control_plane_memory, environment.memory_gi),
        CONTROL_PLANE_DISK_GB,
    )


def workers(asked: Parameters, environment: Environment) -> Sizes:
    return Sizes(
        _number(asked.worker_cpu, environment.cpu_cores),
        _number(asked.worker_memory, environment.memory_gi),
        _number(asked.worker_storage, environment.disk_gb),
    )


def _number(asked: str | None, default: int) -> int:
    """
    >>> _number("8Gi", 32)
    8
    """
    return default if asked is None else int(asked.removesuffix(GIBIBYTES))
