"""Values made with `frozen` behave as frozen dataclasses do."""

from __future__ import annotations

from dataclasses import field, fields, replace

import pytest

from steelyard.frozen import frozen


@frozen
class Place:
    name: str
    size: int = 1
    tags: list[str] = field(default_factory=list[str], hash=False)
    seen: int = field(default=0, compare=False, repr=False)


@frozen
class Nothing:
    pass


@frozen
class Harbour(Place):
    berths: int = 0


def test_equal_fields_make_equal_values() -> None:
    assert Place("a") == Place("a", 1, [])
    assert Place("a") != Place("b")
    assert Place("a", tags=["x"]) != Place("a")
    assert Place("a", seen=1) == Place("a", seen=2)
    assert Nothing() == Nothing()
    assert Place("a") != "a"


def test_a_value_is_not_equal_to_one_of_another_class() -> None:
    assert Harbour("a") != Place("a")
    assert Harbour("a", berths=2) == Harbour("a", berths=2)


def test_equal_values_have_equal_hashes() -> None:
    assert len({Place("a"), Place("a"), Place("b"), Place("a", 2)}) == 3
    assert hash(Place("a", tags=["x"])) == hash(Place("a"))
    assert len({Nothing(), Nothing()}) == 1


def test_it_shows_its_fields() -> None:
    assert repr(Place("a", 2, seen=3)) == "Place(name='a', size=2, tags=[])"
    assert repr(Nothing()) == "Nothing()"


def test_it_is_a_dataclass_with_slots() -> None:
    assert replace(Place("a"), size=5) == Place("a", 5)
    assert [each.name for each in fields(Harbour)] == ["name", "size", "tags", "seen", "berths"]
    assert Place("a").tags is not Place("a").tags
    with pytest.raises(AttributeError):
        Place("a").other = 1  # type: ignore[attr-defined] # that is what is shown
    match Place("a", 2):
        case Place(name, size):
            assert (name, size) == ("a", 2)
