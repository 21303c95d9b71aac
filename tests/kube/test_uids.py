from __future__ import annotations

import uuid

from steelyard.kube import uids


def test_uids_are_random_uuids_and_never_the_same() -> None:
    made = [uids.new() for _ in range(2000)]
    assert len(set(made)) == len(made)
    parsed = [uuid.UUID(each) for each in made]
    assert {(each.version, each.variant) for each in parsed} == {(4, uuid.RFC_4122)}
    assert [str(each) for each in parsed] == made
