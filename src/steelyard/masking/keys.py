"""Which columns foreign keys tie together, so that they get the same masked values."""

from __future__ import annotations

from collections.abc import Iterable

from steelyard.masking.catalogue import Table

Place = tuple[str, str]
"""Table and column."""


def ties(tables: Iterable[Table]) -> list[tuple[Place, ...]]:
    """Groups of two and more, over composite keys, references to oneself, cycles, and the partitions of a table."""
    tables = list(tables)
    known = {table.name: table for table in tables}
    parent: dict[Place, Place] = {}

    def top(place: Place) -> Place:
        while parent.setdefault(place, place) != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    def tie(one: Place, other: Place) -> None:
        parent[top(one)] = top(other)

    for table in tables:
        # What an extension has brought is not ours to mask.
        for key in (key for key in table.foreign_keys if key.table in known):
            for own, referenced in zip(key.columns, key.referenced, strict=True):
                tie((table.name, own), (key.table, referenced))
        if table.root is not None and table.root in known:
            for column in table.columns:
                tie((table.name, column.name), (table.root, column.name))
    groups: dict[Place, list[Place]] = {}
    for place in sorted(parent):
        groups.setdefault(top(place), []).append(place)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def referenced(tables: Iterable[Table]) -> frozenset[Place]:
    """Columns that a foreign key points to."""
    return frozenset((key.table, column) for table in tables for key in table.foreign_keys for column in key.referenced)


def referring(tables: Iterable[Table]) -> frozenset[Place]:
    """Columns that a foreign key starts from."""
    return frozenset((table.name, column) for table in tables for key in table.foreign_keys for column in key.columns)
