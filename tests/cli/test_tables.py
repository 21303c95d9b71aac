"""Tables at the width of a terminal: columns go, sentences end after a whole word, no word is ever broken."""

from __future__ import annotations

import pytest

from steelyard.cli import output
from steelyard.cli.tables import Table
from steelyard.kube.objects import Object

COLUMNS = (
    ("Name", 0), ("Environment", 0), ("Version", 0), ("Control-Plane", 0), ("Workers", 0), ("State", 0), ("Ready", 0),
    ("Endpoint", 1), ("Message", 1), ("Age", 0),
)  # fmt: skip
MESSAGE = "control plane 1/3, workers 2/5: waiting for machine shop-production-md-0-abcde-fghij to boot"


def answer() -> Object:
    cells = (
        "shop-production", "production", "v1.32.1", "1/3", "2/5", "Degraded", "False", "https://127.0.0.1:20001",
        MESSAGE, "5m12s",
    )  # fmt: skip
    return {
        "columnDefinitions": [{"name": name, "priority": priority} for name, priority in COLUMNS],
        "rows": [{"cells": list(cells), "object": {"metadata": {"namespace": "team-payments"}}}],
    }


def headings(width: int, *, wide: bool = False) -> tuple[list[str], list[str]]:
    lines = list(Table(answer(), wide=wide, namespaces=True, width=width).lines())
    return lines[0].split(), lines


def test_elsewhere_than_on_a_terminal_everything_is_printed() -> None:
    shown, lines = headings(0, wide=True)
    assert len(shown) == 11
    assert MESSAGE in lines[1]


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
@pytest.mark.parametrize("wide", [False, True])
def test_lines_fit_and_say_what_matters_most(width: int, wide: bool) -> None:
    shown, lines = headings(width, wide=wide)
    assert {"NAMESPACE", "NAME", "STATE", "AGE"} <= set(shown)
    assert max(map(len, lines)) <= width
    for word in ("team-payments", "shop-production", "Degraded", "5m12s"):
        assert word in lines[1].split()
    words = {*MESSAGE.split(), *str(answer()["rows"][0]["cells"]).replace("'", "").replace(",", "").split()}
    assert {word.strip(",;:…") for word in lines[1].split()} <= {word.strip("[],;:") for word in words} | {
        "team-payments",
        "",
    }


def test_the_columns_that_are_left_out_first_are_the_last_ones() -> None:
    assert headings(80)[0] == ["NAMESPACE", "NAME", "ENVIRONMENT", "VERSION", "STATE", "AGE"]
    assert "MESSAGE" in headings(100, wide=True)[0]


def test_a_watch_goes_on_below_the_same_headings() -> None:
    table = Table(answer(), wide=False, namespaces=False, width=80)
    later = {"cells": ["a", "dev", "v1", "1/1", "2/2", "Ready", "True", "", "", "6m"]}
    first = list(table.lines())
    assert table.line(table.row(later)).index("Ready") == first[0].index("STATE")


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 10, "short"),
        ("waiting for machines", 12, "waiting for …"),
        ("waiting for: machines", 13, "waiting for …"),
        ("shop-production-md-0", 8, "shop-production-md-0"),
    ],
)
def test_a_text_ends_after_a_whole_word(text: str, width: int, shown: str) -> None:
    assert output.shortened(text, width) == shown


def test_a_column_of_sentences_goes_on_below_where_there_is_no_room_beside() -> None:
    table = [
        ("AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"),
        (
            "5m",
            "Warning",
            "DrainTimedOut",
            "machine/shop-production-md-0-abcde-fghij",
            "the drain took longer than " * 3,
        ),
    ]
    lines = list(output.aligned(table, indent="  ", width=80, droppable=("TYPE",)))
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["5m", "DrainTimedOut", "machine/shop-production-md-0-abcde-fghij"]
    assert lines[1].startswith("      the drain took")
