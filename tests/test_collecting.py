"""Garbage goes, and nobody is held up by looking for it."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from steelyard import collecting
from steelyard.collecting import Plan

_FIVE_MINUTES, _HALF_AN_HOUR = 3000, 18_000
"""In ticks."""


class _Knot:
    """Garbage that goes only when somebody looks for it."""

    def __init__(self) -> None:
        self.itself = self


@contextmanager
def looked() -> Generator[list[int]]:
    """The generations that are looked through meanwhile."""
    generations: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            generations.append(info["generation"])

    gc.callbacks.append(note)
    try:
        yield generations
    finally:
        gc.callbacks.remove(note)


async def test_garbage_goes_in_small_portions_while_there_is_much_to_do() -> None:
    kept: list[Any] = []
    gc.collect()
    with collecting.paced(0.01), looked() as generations:
        knot = weakref.ref(_Knot())
        for _ in range(40):
            # By itself Python would look through everything several times.
            kept += [{"a": [number]} for number in range(20_000)]
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        assert knot() is None
        assert 2 not in generations
    assert gc.isenabled()


async def test_python_does_as_it_did_when_it_is_over() -> None:
    with collecting.paced():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_everything_is_looked_through_while_there_is_little_to_do_and_a_quarter_has_come() -> None:
    plan = Plan(old=1_000_000)
    assert 2 not in [plan.generation(80, is_idle=True) for _ in range(_FIVE_MINUTES)]
    assert 2 in [plan.generation(80, is_idle=True) for _ in range(_FIVE_MINUTES)]


def test_everything_is_looked_through_at_last_even_while_there_is_much_to_do() -> None:
    plan = Plan(old=1000)
    assert 2 not in [plan.generation(1000, is_idle=False) for _ in range(_HALF_AN_HOUR - 1)]
    assert plan.generation(1000, is_idle=False) == 2


def test_a_large_body_is_left_alone_until_it_goes() -> None:
    plan = Plan()
    assert [plan.generation(1_000_000, is_idle=False) for _ in range(5)] == [None] * 5
    assert plan.generation(1000, is_idle=False) is not None


def test_what_stays_large_is_looked_through_after_a_while() -> None:
    plan = Plan()
    assert {0, 1} & {plan.generation(1_000_000, is_idle=False) for _ in range(_FIVE_MINUTES)}


def test_everything_is_looked_through_soon_where_memory_has_grown() -> None:
    plan = Plan(old=50_000, resident=100 << 20)
    ticks = [plan.generation(100, is_idle=False, resident=130 << 20) for _ in range(100)]
    assert ticks.index(2) == 99
    plan.resident = 130 << 20
    assert 2 not in [plan.generation(100, is_idle=False, resident=131 << 20) for _ in range(200)]


def test_who_holds_very_much_is_not_held_up_while_there_is_much_to_do() -> None:
    plan = Plan(old=1_000_000, resident=100 << 20)
    assert 2 not in [plan.generation(100, is_idle=False, resident=500 << 20) for _ in range(200)]
    assert plan.generation(100, is_idle=True, resident=500 << 20) == 2
