"""How many machines, and how large: the bounds that claims and the platform file share."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

WORKERS_MAX: Final = 100
"""Stops a mistyped number before it becomes machines. The default pod network, a /16, has room for 256."""

ControlPlaneReplicas = Literal[1, 3]
# Zero workers is allowed: a control plane alone is a cluster, and scaling to nothing overnight is a wish often heard.
WorkerReplicas = Annotated[int, Field(ge=0, le=WORKERS_MAX)]
CpuCores = Annotated[int, Field(ge=1, le=512)]
MemoryGi = Annotated[int, Field(ge=1, le=16384)]
DiskGb = Annotated[int, Field(ge=1, le=65536)]
