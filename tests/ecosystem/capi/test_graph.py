"""That the comparison of objects tells what nobody explains, and what is explained and no longer so."""

from __future__ import annotations

import pytest

from tests.ecosystem.capi import differences, graph


@pytest.fixture(autouse=True)
def _table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "OURS", {})
    monkeypatch.setattr(differences, "THEIRS", {"* label a=*": "for a reason"})


def test_explained_differences_are_no_problem() -> None:
    assert list(graph.problems_of([], ["Machine/worker label a=1", "Cluster/shop label a=2"])) == []


def test_a_difference_that_nobody_explains_is_told() -> None:
    told = list(graph.problems_of(["Machine/worker label a=1"], ["Machine/worker label a=1"]))
    assert told == ["only ours, and nobody says why: Machine/worker label a=1"]


def test_an_explanation_that_nothing_needs_is_told() -> None:
    assert list(graph.problems_of([], [])) == ["no longer only theirs: * label a=* (for a reason)"]
