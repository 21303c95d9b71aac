"""The benchmark itself: that it still drives our server through every workload, and that its verdicts are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import figures, requests, rounds
from bench.figures import FIGURES
from bench.rounds import Sizes
from bench.servers import Ours
from tests.harness import ROOT

TINY = Sizes(
    creates=((1, 5), (16, 40), (64, 70)),
    gets=((1, 5), (32, 40)),
    applies=((1, 2), (16, 20)),
    listed=600,
    lists=1,
    watchers=4,
    watched=20,
    objects=800,
)


def test_every_figure_is_measured_on_our_server(tmp_path: Path) -> None:
    lines: list[str] = []
    found = rounds.run(Ours(tmp_path), TINY, lines.append)
    has_control_planes = requests.CONTROL_PLANE_CRD.exists()
    expected = {each.key for each in FIGURES if has_control_planes or not each.key.startswith("apply")}
    assert expected - found.keys() == set()
    assert all(value > 0 for key, value in found.items() if not key.endswith("_cpu"))
    assert found["list_bytes"] * 1e6 > 600 * 1024
    assert any(line.startswith("create_64 ") for line in lines)


@pytest.mark.parametrize(
    "key, ours, upstream, verdict",
    [
        pytest.param("start", 0.9, 3.0, "met", id="fast and a third"),
        pytest.param("start", 1.1, 9.0, "not met", id="a ninth, but over a second"),
        pytest.param("start", 0.9, 2.0, "not met", id="under a second, but almost half"),
        pytest.param("create_1_median", 1.0, 2.0, "met", id="exactly half the latency"),
        pytest.param("create_16_per_second", 1400.0, 1000.0, "not met", id="1.4 times the throughput"),
        pytest.param("get_32_per_second", 2000.0, 1000.0, "met", id="twice the throughput"),
        pytest.param("create_64_per_second", 1.0, 1000.0, "", id="nothing was promised"),
        pytest.param("generator", 10.0, 20.0, "", id="nothing to compare"),
    ],
)
def test_a_budget_is_met_or_not(key: str, ours: float, upstream: float, verdict: str) -> None:
    (row,) = figures.rows([{key: ours}], [{key: upstream}])
    assert row.verdict == verdict


def test_the_table_shows_the_median_of_the_rounds() -> None:
    rows = figures.rows([{"start": 0.5}, {"start": 9.0}, {"start": 0.75}], [{"start": 3.0}])
    line = figures.table(rows).splitlines()[2]
    assert [cell.strip() for cell in line.split("|")[1:-1]] == [
        "start to ready", "0.75 s", "3.00 s", "0.25", "≤ 1 s, < 1/3", "met",
    ]  # fmt: skip


def test_the_page_has_a_place_for_the_table() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    assert page.count("<!-- measured -->\n") == page.count("<!-- end of what was measured -->\n") == 1
