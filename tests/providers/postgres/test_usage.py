"""How full databases are: what is told, how rarely, and how little is asked of the server for it."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from steelyard.api.databases import USAGES
from steelyard.kube.objects import Object
from steelyard.providers.postgres.usage import plan
from steelyard.providers.postgres.usage.looking import Watchman
from steelyard.providers.postgres.usage.plan import Reported
from steelyard.providers.postgres.usage.reconcile import DatabaseUsageReconciler
from tests.postgresserver import PostgresServer, postgres_server
from tests.providers.postgres import ourkinds
from tests.providers.postgres.ourkinds import CONFIG, Rig, said

__all__ = ["postgres_server"]

_numbers = itertools.count(1)
GB = 1_000_000_000


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    with ourkinds.tenant(postgres_server, f"usage{next(_numbers)}") as name:
        yield name


@pytest.fixture
async def rig(postgres_server: PostgresServer, tmp_path: Path) -> AsyncIterator[Rig]:
    async with ourkinds.opened(postgres_server, tmp_path) as opened:
        yield opened


def spec(database: str, limit: int = GB) -> Object:
    return {"providerConfigRef": {"name": CONFIG}, "database": database, "limitBytes": limit}


@pytest.mark.parametrize(
    ("seen", "size", "is_news"),
    [
        pytest.param(Reported(), 1, True, id="the first time"),
        pytest.param(Reported(790, 79), 799, False, id="79 is still 79"),
        pytest.param(Reported(790, 79), 800, True, id="80 is crossed"),
        pytest.param(Reported(800, 80), 790, True, id="80 is crossed downwards"),
        pytest.param(Reported(500, 50), 549, False, id="moved by less than five"),
        pytest.param(Reported(500, 50), 550, True, id="moved by five"),
        pytest.param(Reported(500, 50), 450, True, id="moved by five downwards"),
        pytest.param(Reported(990, 99), 1000, True, id="100 is crossed"),
        pytest.param(Reported(1090, 109), 1100, True, id="110 is crossed"),
        pytest.param(Reported(1100, 110), 1149, False, id="above 110"),
        pytest.param(Reported(500, 100), 500, True, id="the limit was changed"),
    ],
)
def test_what_is_worth_a_report(seen: Reported, size: int, is_news: bool) -> None:
    assert plan.is_news(seen, size, 1000) is is_news


async def test_it_is_told_how_full_a_database_is_and_nothing_more_until_that_changes(rig: Rig, database: str) -> None:
    reconciler = DatabaseUsageReconciler(rig.tools)
    size = rig.sql(f"SELECT pg_database_size('{database}')")[0][0]
    await rig.create(USAGES, "full", spec(database, size * 2))
    await rig.reconcile(reconciler, "full")
    first = await rig.get(USAGES, "full")
    assert (first["status"]["percent"], first["status"]["sizeBytes"]) == (50, size)
    assert said(first)[:2] == ("True", "Available")
    await rig.clock.advance(90)
    await rig.reconcile(reconciler, "full")
    assert await rig.get(USAGES, "full") == first
    rig.sql("CREATE TABLE filler AS SELECT repeat('x', 100) AS text FROM generate_series(1, 40000)", database)
    await rig.clock.advance(90)
    await rig.reconcile(reconciler, "full")
    assert (await rig.get(USAGES, "full"))["status"]["percent"] > 75


async def test_all_databases_of_a_server_are_looked_at_at_once(rig: Rig, database: str) -> None:
    reconciler = DatabaseUsageReconciler(rig.tools)
    for number in range(20):
        await rig.create(USAGES, f"u{number}", spec(database if number else "postgres"))
    names = [f"u{number}" for number in range(20)]
    await asyncio.gather(*(rig.reconcile(reconciler, name) for name in names))
    await rig.clock.advance(90)
    rig.faults.seen.clear()
    await asyncio.gather(*(rig.reconcile(reconciler, name) for name in names))
    assert len(rig.faults.seen) <= 2


async def test_the_size_is_asked_only_of_databases_in_which_something_happens(rig: Rig, database: str) -> None:
    reconciler = DatabaseUsageReconciler(rig.tools)
    await rig.create(USAGES, "idle", spec(database))
    await rig.reconcile(reconciler, "idle")
    await rig.clock.advance(90)
    await rig.reconcile(reconciler, "idle")
    rig.faults.seen.clear()
    await rig.clock.advance(90)
    await rig.reconcile(reconciler, "idle")
    assert [query for query in rig.faults.seen if "pg_database_size" in query] == []
    await rig.clock.advance(1000)
    await rig.reconcile(reconciler, "idle")
    assert len([query for query in rig.faults.seen if "pg_database_size" in query]) == 1


async def test_a_database_that_is_not_there_is_told_and_so_is_its_return(rig: Rig, database: str) -> None:
    reconciler = DatabaseUsageReconciler(rig.tools)
    await rig.create(USAGES, "gone", spec("nowhere"))
    await rig.reconcile(reconciler, "gone")
    obj = await rig.get(USAGES, "gone")
    assert said(obj) == ("False", "DatabaseMissing", "There is no database nowhere on the server.")
    await rig.change(USAGES, "gone", database=database)
    await rig.reconcile(reconciler, "gone")
    assert said(await rig.get(USAGES, "gone"))[:2] == ("True", "Available")


async def test_a_database_that_comes_later_is_found_when_somebody_asks(rig: Rig, database: str) -> None:
    reconciler = DatabaseUsageReconciler(rig.tools)
    await rig.create(USAGES, "early", spec(f"{database}_later"))
    await rig.reconcile(reconciler, "early")
    assert said(await rig.get(USAGES, "early"))[0] == "False"
    with rig.server.database(f"{database}_later"):
        await rig.reconcile(reconciler, "early")
        assert said(await rig.get(USAGES, "early"))[0] == "True"


async def test_a_server_that_is_away_is_told_and_the_figures_stay(rig: Rig, database: str) -> None:
    reconciler = DatabaseUsageReconciler(rig.tools)
    await rig.create(USAGES, "away", spec(database))
    await rig.reconcile(reconciler, "away")
    await rig.live.patch(ourkinds.SECRETS, "admin", {"stringData": {"port": "1"}}, ourkinds.NAMESPACE)
    await rig.clock.advance(90)
    await rig.reconcile(reconciler, "away")
    obj = await rig.get(USAGES, "away")
    assert said(obj, "Synced")[:2] == ("False", "ReconcileError")
    assert "cannot be reached" in said(obj, "Synced")[2]
    assert obj["status"]["percent"] == 0


async def test_whoever_comes_in_the_moment_in_which_a_look_ends_does_not_hold_up_the_rest(
    rig: Rig, database: str
) -> None:
    watchman = Watchman(rig.tools.servers, CONFIG, rig.clock, 60.0)

    async def ask(number: int) -> None:
        # In every turn of the event loop somebody comes, so also in the one in which a look has just ended.
        for _ in range(number):
            await asyncio.sleep(0)
        await watchman.size_of(f"{database}_{number}")

    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(30)
    try:
        await asyncio.gather(*(ask(number) for number in range(400)))
    finally:
        signal.alarm(0)
