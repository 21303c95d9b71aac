from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from steelyard.kube import uids


def test_uids_are_random_uuids_and_never_the_same() -> None:
    made = [uids.new() for _ in range(2000)]
    assert len(set(made)) == len(made)
    parsed = [uuid.UUID(each) for each in made]
    assert {(each.version, each.variant) for each in parsed} == {(4, uuid.RFC_4122)}
    assert [str(each) for each in parsed] == made


def many(_: int) -> list[str]:
    return [uids.new() for _ in range(5000)]


@pytest.fixture
def impatient_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("impatient_threads")
def test_threads_that_make_objects_at_once_get_different_ones() -> None:
    with ThreadPoolExecutor(4) as threads:
        made = [each for some in threads.map(many, range(8)) for each in some]
    assert len(set(made)) == 40_000
