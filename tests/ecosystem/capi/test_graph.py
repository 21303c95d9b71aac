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


@pytest.mark.parametrize(
    ("value", "compared"),
    [
        ("3f6ad0a2-8d69-483d-b6ec-a6566d7e17aa", "*"),
        ("shop-md-0-x7k2p-9qz4w", "shop-md-0-*"),
        ("2026-11-18T20:53:18Z", "TIME"),
        ("1094859023-x7k2p", "*"),
        ("v1.34.4", "v1.34.4"),
    ],
)
def test_what_is_given_at_random_is_not_compared(value: str, compared: str) -> None:
    assert graph.without_random(value) == compared
