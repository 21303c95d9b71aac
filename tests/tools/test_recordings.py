"""The recordings in docs/recordings are what a terminal shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import forked
from tools import recordings


def test_a_fresh_recording_equals_the_one_that_is_kept() -> None:
    for name, text in recordings.recordings([80], forked.at_terminal).items():
        assert (recordings.FOLDER / name).read_text(encoding="utf-8") == text, f"{name}: run `make recordings`"


def test_every_recording_is_kept_for_each_width_and_fits_it() -> None:
    names = {path.name.rpartition("-")[0] for path in recordings.FOLDER.iterdir()}
    assert {"up", "create", "describe-healthy", "describe-broken", "delete"} <= names
    for width in recordings.WIDTHS:
        for name in names:
            lines = (recordings.FOLDER / f"{name}-{width}.txt").read_text(encoding="utf-8").splitlines()
            assert [line for line in lines if len(line) > width] == []


@pytest.mark.parametrize(
    ("text", "steady"),
    [
        ("at https://127.0.0.1:28852", "at https://127.0.0.1:12345"),
        ("is Ready after 12.3 s", "is Ready after 3 s"),
        ("13s   Normal   Ready", "5s    Normal   Ready"),
        ("Ready for 119s\n", "Ready for 5s\n"),
        ("shop-md-0-rjfnx-jznzw   worker", "shop-md-0-xxxxx-xxxxx   worker"),
        ("in /tmp/a/.local", "in /home/you/.local"),
    ],
)
def test_what_differs_from_run_to_run_is_replaced_and_columns_stay(text: str, steady: str) -> None:
    assert recordings.steady(text, Path("/tmp/a")) == steady
