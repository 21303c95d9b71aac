"""A move that is killed at any of its writes is finished by the same command: the same end, nothing doubled, and at no
moment anything active in two places.

A real cluster goes to an API where nobody works, and from there to another and back, again and again, each time killed
at a later write: some of them here, and every one with `make crash ARGS=moves`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import orjson
import pytest

from steelyard.api import state
from steelyard.kube import objects
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.moving import belongings, carrying, preparing, reading, rewriting
from steelyard.moving import record as records
from steelyard.moving.belongings import Thing
from steelyard.moving.carrying import Manner, Mover
from steelyard.moving.preparing import CannotMove
from tests import inprocess
from tests.inprocess import CLAIMS
from tests.management import clusters
from tests.moving import worlds
from tests.moving.killing import Fate, Killed, Mortal

_UNATTENDED: Final = Manner(is_attended=False, terms=worlds.PATIENT)
_EVERY_WRITE: Final = os.environ.get("STEELYARD_SWEEP") == "all"
_PARTS: Final = 6
"""Of a move, in each of which it is killed once: at every write it takes minutes."""


def chosen(writes: int) -> list[int]:
    if _EVERY_WRITE:
        return list(range(1, writes + 1))
    width = writes // _PARTS
    return [1 + part * width + random.randrange(width) for part in range(_PARTS)]


async def move(source: Client, target: Client) -> carrying.Moved:
    """The command, from wherever it stands."""
    record = await preparing.begun(source, target, ["default"], is_named=True)
    if record is None:
        prepared = await preparing.prepare(source, target, "there", ["default"], leaves_behind=False)
        record = await preparing.begin(source, prepared)
    return await Mover(source, target, record, _UNATTENDED).run()


async def held(client: Client) -> list[Thing]:
    found = await reading.everything(client, await reading.served(client))
    return list(belongings.select(found, ["default"]).moving)


def story(things: Iterable[Thing]) -> Object:
    """What is held, in words that do not change with UIDs."""
    listed = list(things)
    names = {str(objects.uid(each.object)): str(each) for each in listed}
    found: Object = {}
    for each in listed:
        text = orjson.dumps(_lasting(each.object)).decode()
        for uid, name in names.items():
            text = text.replace(uid, name)
        found[str(each)] = orjson.loads(text)
    return found


def _lasting(obj: Object) -> Object:
    gone = ("uid", "resourceVersion", "generation", "creationTimestamp")
    metadata = {key: value for key, value in objects.metadata(obj).items() if key not in gone}
    return {**obj, "metadata": metadata}


def is_active(thing: Thing) -> bool:
    if thing.is_cluster:
        return not objects.at(thing.object, "spec", "paused")
    return thing.pause is not None and thing.pause.annotation not in objects.annotations(thing.object)


async def assert_nowhere_twice(source: Client, target: Client) -> None:
    here, there = await held(source), await held(target)
    begun = [each for each in there if rewriting.MOVE in objects.labels(each.object)]
    if here:
        assert not [str(each) for each in there if is_active(each)]
    if begun:
        assert not [str(each) for each in here if is_active(each) and not each.is_held_by_cluster]
    names = [each.place for each in there]
    assert len(names) == len(set(names))


async def settled(folder: Path, target: HttpClient) -> None:
    """Has a cluster made, and brings it to where nobody works."""
    async with worlds.side(folder / "home") as home, worlds.machines(folder / "world", home):
        await home.client.create(CLAIMS, inprocess.claim(workerReplicas=1))
        await worlds.eventually(
            lambda: home.client.get(CLAIMS, "shop", "default"), lambda it: state.of(it).word == state.READY
        )
        prepared = await preparing.prepare(home.mover, target, "bare", ["default"], leaves_behind=False)
        record = await preparing.begin(home.mover, prepared)
        await Mover(home.mover, target, record, Manner(terms=worlds.PATIENT)).run()


async def test_a_move_is_finished_whatever_write_it_was_killed_at(tmp_path: Path) -> None:
    async with (
        clusters.management(tmp_path / "one") as (_, one),
        clusters.management(tmp_path / "two", name="two") as (_, two),
    ):
        source, target = (HttpClient(each, field_manager=rewriting.FIELD_MANAGER) for each in (one, two))
        try:
            await settled(tmp_path, source)
            whole = story(await held(source))
            assert sum(name.startswith("Machine ") for name in whole) == 2
            counting = Fate()
            await move(Mortal(source, counting), Mortal(target, counting))
            assert story(await held(target)) == whole
            source, target = target, source
            kills = 0
            for at in chosen(counting.writes):
                await killed(source, target, at, before=at % 2 == 0)
                await assert_nowhere_twice(source, target)
                await move(source, target)
                assert story(await held(target)) == whole, f"killed at write {at}"
                assert await held(source) == []
                assert await records.read(source) is None
                source, target = target, source
                kills += 1
            print(f"{counting.writes} writes of a move of {len(whole)} objects, killed at {kills} of them")
        finally:
            await source.close()
            await target.close()


async def test_a_move_that_was_killed_can_be_given_up_until_something_was_removed(tmp_path: Path) -> None:
    async with (
        clusters.management(tmp_path / "one") as (_, one),
        clusters.management(tmp_path / "two", name="two") as (_, two),
        clusters.management(tmp_path / "three", name="three") as (_, three),
    ):
        source, target, other = (HttpClient(each, field_manager=rewriting.FIELD_MANAGER) for each in (one, two, three))
        try:
            await settled(tmp_path, source)
            whole = story(await held(source))
            for at in (2, 3, 30, 31, 32):
                await killed(source, target, at)
                with pytest.raises(CannotMove, match="to there has begun, and is"):
                    await move(source, other)
                await Mover(source, target, await begun(source), _UNATTENDED).cancel()
                assert story(await held(source)) == whole, f"killed at write {at}"
                assert await held(target) == []
                assert await records.read(source) is None
            count = Fate()
            await move(Mortal(source, count), Mortal(target, count))
            await killed(target, source, count.writes - 3)
            with pytest.raises(CannotMove, match="too late to cancel"):
                await Mover(target, source, await begun(target), _UNATTENDED).cancel()
            await move(target, source)
            assert story(await held(source)) == whole
        finally:
            for each in (source, target, other):
                await each.close()


async def killed(source: Client, target: Client, at: int, *, before: bool = False) -> None:
    fate = Fate(at, before=before)
    with pytest.raises(Killed):
        await move(Mortal(source, fate), Mortal(target, fate))


async def begun(source: Client) -> records.Record:
    record = await records.read(source)
    assert record is not None
    return record
