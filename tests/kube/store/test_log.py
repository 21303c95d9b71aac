"""Batches of rows: whole or not at all, and without copies that stay in memory."""

from __future__ import annotations

import ctypes
import sqlite3
from collections.abc import Callable, Iterable
from importlib import util
from pathlib import Path
from typing import cast

import pytest

from steelyard.kube.store.log import Log, Row


def rows_of(log: Log, sizes: Iterable[int], first: int = 1) -> list[Row]:
    return [log.row(first + place, f"a/{place}", 0, 0, b" " * size) for place, size in enumerate(sizes)]


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([10], id="one"),
        pytest.param([10] * 300, id="many rows"),
        pytest.param([10, 200_000, 200_000, 10], id="large rows"),
        pytest.param([60_000] * 10, id="many bytes"),
    ],
)
def test_a_batch_is_written_whole_or_not_at_all(tmp_path: Path, sizes: list[int]) -> None:
    log = Log.open(tmp_path / "db", fsync=False)
    rows = rows_of(log, sizes)
    with pytest.raises(sqlite3.IntegrityError):
        log.append([*rows, rows[0]])
    assert log.newest() == 0
    log.append(rows)
    assert [(each.key, each.size) for each in log.load().records.values()] == [
        (row.key, len(row.value)) for row in rows
    ]
    log.close()


def _bytes_of_sqlite() -> Callable[[], int] | None:
    found = util.find_spec("_sqlite3")
    try:
        function = ctypes.CDLL(found.origin if found is not None else None).sqlite3_memory_used
    except (AttributeError, OSError):
        return None
    function.restype = ctypes.c_longlong
    return cast("Callable[[], int]", function)


def test_what_was_written_does_not_stay_in_memory(tmp_path: Path) -> None:
    """One who writes batches of every length would otherwise fill it with the last of each."""
    held = _bytes_of_sqlite()
    if held is None:
        pytest.skip("SQLite does not tell how much memory it has")
    log = Log.open(tmp_path / "db", fsync=False)
    before, first = held(), 1
    for length in range(1, 41):
        log.append(rows_of(log, [60_000] * length, first))
        first += length
    assert held() - before < 10_000_000
    log.close()
