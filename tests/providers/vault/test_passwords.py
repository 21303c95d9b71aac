"""Passwords that are made up, as External Secrets' Password says."""

from __future__ import annotations

import pytest

from steelyard.providers.vault import sources
from steelyard.providers.vault.telling import Problem


def test_a_password_has_what_was_asked_for() -> None:
    made = sources.password({"length": 40, "digits": 5, "symbols": 3, "symbolCharacters": "-_", "noUpper": True})

    assert len(made) == 40
    assert sum(each.isdigit() for each in made) == 5
    assert sum(each in "-_" for each in made) == 3
    assert made == made.lower()
    assert made != sources.password({"length": 40, "digits": 5, "symbols": 3, "noUpper": True})


@pytest.mark.parametrize("length", [-1, 100_000])
def test_one_of_no_length_is_refused(length: int) -> None:
    with pytest.raises(Problem):
        sources.password({"length": length})
