"""What machines can be made of, by name. Which of them a platform offers is known to whoever starts it: admission and
the platform file are held against that, the schema against the pattern alone."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

InfrastructureName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]

OFFERED: Final[tuple[str, ...]] = ("simulated", "kubevirt", "kvm")
"""What this version can make machines of."""
