"""What providers run or reach, told to the administrator: `steelyard status` and `doctor` ask for it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final

from steelyard.kube.objects import Object
from steelyard.kube.server.transport.operations import Perform
from steelyard.providers.toolkit.provider import Service

PATH: Final = "/steelyard.dev/v1/services"


def listing(sources: Sequence[Callable[[], Sequence[Service]]]) -> Perform:
    @contextlib.asynccontextmanager
    async def perform(_options: Mapping[str, str]) -> AsyncGenerator[Object]:
        found = [service for source in sources for service in source()]
        yield {"services": [{"name": each.name, "how": each.how, "text": each.text} for each in found]}

    return perform
