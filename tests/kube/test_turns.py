"""Whose turn it is on the loop that all share."""

from __future__ import annotations

import asyncio

from steelyard.kube import turns


async def test_who_follows_other_things_does_not_wait_behind_a_thousand_who_follow_the_same() -> None:
    order: list[str] = []
    for _ in range(1000):
        turns.run(lambda: order.append("many"), turns.PER_TURN, "theirs")
    turns.run(lambda: order.append("other"), turns.PER_TURN, "ours")
    while "other" not in order:  # noqa: ASYNC110 (turns of the loop are what is counted)
        await asyncio.sleep(0)
    assert order.index("other") <= 2
    while len(order) < 1001:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_within_one_line_the_first_goes_first() -> None:
    order: list[int] = []
    for number in range(5):
        turns.run(lambda number=number: order.append(number), turns.PER_TURN, "theirs")
    while len(order) < 5:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert order == [0, 1, 2, 3, 4]
