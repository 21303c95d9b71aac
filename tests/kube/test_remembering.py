"""Caches of users' texts: what they may hold is bounded by bytes."""

from steelyard.kube import remembering
from steelyard.kube.builtin import quantities
from steelyard.kube.remembering import Kept


def test_short_texts_are_remembered_and_long_ones_are_not() -> None:
    calls: list[str] = []

    @remembering.briefly(10, 5)
    def length(text: str) -> int:
        calls.append(text)
        return len(text)

    assert [length("short"), length("short"), length("longer"), length("longer")] == [5, 5, 6, 6]
    assert calls == ["short", "longer", "longer"]


def test_what_came_first_makes_room() -> None:
    kept: Kept[int, str] = Kept(100)
    for number in range(10):
        kept.put(number, f"value {number}", 25)
    assert kept.bytes == 100
    assert [number for number in range(10) if kept.get(number)] == [6, 7, 8, 9]


def test_what_is_larger_than_its_share_is_not_kept() -> None:
    kept: Kept[int, str] = Kept(100)
    assert kept.put(1, "large", 26) == "large"
    assert kept.get(1) is None


def test_quantities_take_no_longer_than_they_are_worth() -> None:
    assert quantities.amount("1e999999999") == 10**400
    assert quantities.canonical("1" * 1_000_000) == "1" * 1_000_000
    assert quantities.canonical("1.") == "1"
