"""Fixtures for every test: the real kubectl, and a platform of its own per test where one is asked for.

Property tests try the same examples in every run, so that a run fails for what was changed and never by luck. Looking
for more is what `make soak ARGS=properties` does, with examples and a seed of its own (`tests/soak/properties.py`).
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import forked, ownservers, scratch
from tests.harness import PlatformProcess, built
from tests.soak import properties

settings.register_profile("same", max_examples=30, derandomize=True, deadline=None, database=None)
settings.register_profile(
    properties.PROFILE,
    max_examples=properties.wanted_examples(),
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same")
PlatformProcess.are_forked = True
_OWN_SERVERS = ownservers.keep_apart()
# What programs under test load is compiled once, whatever is said of this process.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# A shell has what it runs in the background ignore Ctrl-C, and so would the programs under test that are sent one.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Where pytest makes the folders that tests get.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(scratch.root()))


# Nearly everything that is made while tests are listed stays.
gc.disable()


def pytest_collection_finish() -> None:
    """What there is of tests is never looked through for garbage again, which is a tenth of the time they take."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 10)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """More than there are processors: two fifths of the time a test waits for something."""
    return max(2, (os.cpu_count() or 1) * 3 // 2)


def pytest_unconfigure() -> None:
    forked.end()
    ownservers.end(_OWN_SERVERS)


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
