"""A sample of `make soak ARGS=kills`; and that what judges it notices each way to be wrong."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.soak import kills
from tests.soak.follower import Follower
from tests.soak.ledger import Found, Ledger
from tests.soak.load import KINDS

KILLS = 3


@pytest.mark.crash
async def test_what_was_acknowledged_survives_kills_under_load(tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)
    figures = await kills.run(tmp_path, seed, KILLS, lambda _: None)
    assert figures.wrong == [], f"seed {seed}"
    assert (figures.kills, figures.acknowledged > 0, figures.events > 0) == (KILLS, True, True)


def _ledger() -> Ledger:
    """`a` was written twice, `b` written and deleted; `c` is acknowledged and its next write on the way."""
    ledger = Ledger()
    for key, revision in (("a", 1), ("a", 2), ("b", 3), ("c", 4)):
        ledger.attempt(key)
        assert ledger.acknowledge(key, revision) == []
    ledger.attempt_deletion("b")
    ledger.acknowledge("b", 0)
    ledger.attempt("c")
    return ledger


_A, _C = Found(2, 2, whole=True), Found(1, 4, whole=True)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param({"a": _A, "c": _C}, id="as acknowledged"),
        pytest.param({"a": _A, "c": Found(2, 6, whole=True)}, id="with the write that was on its way"),
    ],
)
def test_the_ledger_accepts_what_may_be(found: dict[str, Found]) -> None:
    assert _ledger().settle(found, 6) == []


@pytest.mark.parametrize(
    ("found", "revision", "complaint"),
    [
        pytest.param({"c": _C}, 6, "a: nothing is there instead of number 2", id="a lost object"),
        pytest.param({"a": Found(1, 1, whole=True), "c": _C}, 6, "a: number 1 at revision 1", id="an older state"),
        pytest.param({"a": Found(2, 9, whole=True), "c": _C}, 9, "a: number 2 at revision 9", id="another revision"),
        pytest.param({"a": _A, "b": Found(1, 3, whole=True), "c": _C}, 6, "b: number 1", id="a deletion undone"),
        pytest.param({"a": _A, "c": Found(2, 4, whole=True)}, 6, "c: number 2 at revision 4", id="a revision reused"),
        pytest.param({"a": _A, "c": Found(2, 6, whole=False)}, 6, "c: half of a write", id="half a write"),
        pytest.param({"a": _A, "c": _C, "d": _C}, 6, "d is there, and nobody wrote it", id="out of nothing"),
        pytest.param({"a": _A, "c": _C}, 3, "at revision 3, and 4 was acknowledged", id="revisions go back"),
    ],
)
def test_the_ledger_notices(found: dict[str, Found], revision: int, complaint: str) -> None:
    [told] = _ledger().settle(found, revision)
    assert complaint in told


def _event(type_: str, number: int, revision: int) -> dict[str, Any]:
    return {"type": type_, "object": KINDS[0].object("a", number, revision)}


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        pytest.param([_event("ADDED", 1, 5), _event("ADDED", 1, 5)], "came after 5", id="an event twice"),
        pytest.param([_event("MODIFIED", 2, 6)], "which was not known", id="a lost creation"),
        pytest.param([_event("ADDED", 1, 5), _event("ADDED", 2, 8)], "which was known", id="a lost deletion"),
        pytest.param([{"type": "ERROR", "object": {"code": 410}}], "410", id="history gone"),
    ],
)
async def test_the_follower_notices(events: list[dict[str, Any]], complaint: str) -> None:
    follower = Follower(KINDS[0], site=None)  # type: ignore[arg-type] - it is told of events, it fetches none
    for event in events:
        follower.observe(event)
    assert complaint in "\n".join(follower.wrong)


async def test_the_follower_notices_a_change_that_never_came() -> None:
    follower = Follower(KINDS[0], site=None)  # type: ignore[arg-type] - it is told of events, it fetches none
    follower.observe(_event("ADDED", 1, 5))
    listed = {"configmaps/a": Found(2, 6, whole=True)}
    assert "leads elsewhere than the list" in "\n".join(await follower.caught_up(listed, seconds=0.05))
