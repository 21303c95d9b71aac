"""Simulated machines: they exist as state only, and need nothing."""

from __future__ import annotations

from typing import Final

from steelyard.api import resources, simulated
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.shape import Shape, Sizes
from steelyard.kube.objects import Object


def _machine(_: Shape, sizes: Sizes) -> Object:
    # The platform's delays stay out of it: turning them must not replace machines.
    return {"cpuCores": sizes.cpu_cores, "memoryGi": sizes.memory_gi, "diskGb": sizes.disk_gb}


SIMULATED: Final = Infrastructure(
    name="simulated",
    cluster=resources.SIMULATED_CLUSTERS,
    template=resources.SIMULATED_MACHINE_TEMPLATES,
    machine_spec=_machine,
    kinds=simulated.KINDS,
)
