from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.kube.server.admission import hooks
from tests.kube.server.admission.hooks import Hooks


@pytest.fixture
async def webhook() -> AsyncIterator[Hooks]:
    async with hooks.listening() as listening:
        yield listening
