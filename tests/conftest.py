"""Fixtures for every test: the real kubectl, and a platform of its own per test where one is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import PlatformProcess, built


@pytest.fixture(scope="session")
def kubectl() -> str:
    """The real kubectl; `make test` hands it over, a bare pytest builds it (or finds it in the cache) itself."""
    return os.environ.get("KUBECTL") or built("kubectl")[0]


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[PlatformProcess]:
    """A running platform whose machines take no time."""
    with PlatformProcess(tmp_path) as process:
        process.start()
        yield process
