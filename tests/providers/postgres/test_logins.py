"""Logins that end by themselves: made, used, renewed, ended, and what a kill in the middle leaves behind (nothing)."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from steelyard.api.databases import LOGINS, TemporaryLoginSpec
from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.providers.postgres.logins import plan, reconcile
from steelyard.providers.postgres.logins.plan import Login, Standing
from tests.postgresserver import PostgresServer
from tests.providers.postgres import ourkinds
from tests.providers.postgres.ourkinds import CONFIG, NAMESPACE, Killed, Rig, password_server, said

__all__ = ["password_server"]

_numbers = itertools.count(1)
NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


def spec(database: str, **more: object) -> Object:
    return {
        "providerConfigRef": {"name": CONFIG},
        "database": database,
        "namePrefix": f"{database}_tmp",
        "memberOf": f"{database}_owner",
        "access": "ReadWrite",
        "validFor": "1h",
        "connectionLimit": 3,
        "writeConnectionSecretToRef": {"namespace": NAMESPACE, "name": "login"},
        **more,
    }


@pytest.fixture
def database(password_server: PostgresServer) -> Iterator[str]:
    with ourkinds.tenant(password_server, f"login{next(_numbers)}") as name:
        yield name


@pytest.fixture
async def rig(password_server: PostgresServer, tmp_path: Path) -> AsyncIterator[Rig]:
    async with ourkinds.opened(password_server, tmp_path) as opened:
        yield opened


async def reconciled(rig: Rig, name: str = "access") -> float:
    result = await rig.reconcile(reconcile.reconciler(rig.tools), name)
    return result.requeue_after or 0.0


async def uri(rig: Rig) -> str:
    return (await rig.secret("login"))["uri"]


def wanted(**more: object) -> TemporaryLoginSpec:
    return TemporaryLoginSpec.model_validate(spec("shop", **more))


@pytest.mark.parametrize(
    ("seen", "secret", "on_server", "decided"),
    [
        pytest.param(Standing(), "", [], (True, False), id="nothing yet: a serial is recorded"),
        pytest.param(Standing(1), "", [], (False, True), id="recorded and not made: it is made"),
        pytest.param(
            Standing(1, Login("shop_tmp_1", NOW + HOUR)), "shop_tmp_1", ["shop_tmp_1"], (False, False), id="in use"
        ),
        pytest.param(
            Standing(1, Login("shop_tmp_1", NOW + HOUR / 3)),
            "shop_tmp_1",
            ["shop_tmp_1"],
            (True, False),
            id="two thirds of its life are over",
        ),
        pytest.param(
            Standing(1, Login("shop_tmp_1", NOW + HOUR)), "shop_tmp_1", [], (True, False), id="dropped behind our back"
        ),
        pytest.param(
            Standing(1, Login("shop_tmp_1", NOW + HOUR)), "", ["shop_tmp_1"], (True, False), id="the Secret is gone"
        ),
        pytest.param(
            Standing(2, Login("shop_tmp_1", NOW + HOUR)),
            "shop_tmp_2",
            ["shop_tmp_1", "shop_tmp_2"],
            (False, True),
            id="killed before the status was switched",
        ),
        pytest.param(
            Standing(1, Login("shop_tmp_1", NOW + HOUR), trigger="again"),
            "shop_tmp_1",
            ["shop_tmp_1"],
            (True, False),
            id="another trigger",
        ),
        pytest.param(
            Standing(1, Login("shop_tmp_1", NOW + 24 * HOUR)),
            "shop_tmp_1",
            ["shop_tmp_1"],
            (True, False),
            id="it would live for longer than the spec now says",
        ),
    ],
)
def test_what_is_decided(seen: Standing, secret: str, on_server: list[str], decided: tuple[bool, bool]) -> None:
    decision = plan.decide(wanted(), seen, NOW, secret_names=secret, on_server=on_server)
    assert (decision.wants_another, decision.is_pending) == decided


def test_of_many_former_logins_the_oldest_end_early() -> None:
    former = [Login(f"shop_tmp_{number}", NOW + HOUR + number * HOUR / 60) for number in range(20)]
    assert [each.name for each in plan.living(former, NOW)] == [f"shop_tmp_{n}" for n in range(19, 9, -1)]


async def test_a_login_works_and_what_it_creates_is_the_owners(rig: Rig, database: str) -> None:
    await rig.create(LOGINS, "access", spec(database, configurationParameters=[{"name": "work_mem", "value": "5MB"}]))
    again = await reconciled(rig)
    assert again == pytest.approx(2400)
    values = await rig.secret("login")
    assert values["username"] == f"{database}_tmp_1"
    assert values["expires-at"] == (rig.clock.now() + HOUR).strftime("%Y-%m-%dT%H:%M:%SZ")
    with psycopg.connect(values["uri"], autocommit=True) as session:
        session.execute("CREATE TABLE public.orders (id int)")
        assert session.execute("SHOW work_mem").fetchone() == ("5MB",)
        assert session.execute("SELECT tableowner FROM pg_tables WHERE tablename = 'orders'").fetchone() == (
            f"{database}_owner",
        )
    obj = await rig.get(LOGINS, "access")
    assert said(obj)[:2] == ("True", "Available")
    assert said(obj, "Synced")[:2] == ("True", "ReconcileSuccess")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(values["uri"].replace(f"/{database}?", "/postgres?").replace(values["password"], "wrong"))


async def test_nothing_is_written_when_nothing_has_changed(rig: Rig, database: str) -> None:
    await rig.create(LOGINS, "access", spec(database))
    await reconciled(rig)
    before = await rig.get(LOGINS, "access")
    rig.faults.seen.clear()
    await reconciled(rig)
    assert (await rig.get(LOGINS, "access"))["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert all(query.lstrip().startswith("SELECT") for query in rig.faults.seen)


async def test_at_two_thirds_there_is_a_new_one_and_the_old_lives_to_its_end(rig: Rig, database: str) -> None:
    await rig.create(LOGINS, "access", spec(database))
    await reconciled(rig)
    first = await uri(rig)
    await rig.clock.advance(2401)
    assert await reconciled(rig) == pytest.approx(1199)
    second = await uri(rig)
    assert first != second
    for each in (first, second):
        psycopg.connect(each).close()
    await rig.clock.advance(1200)
    await reconciled(rig)
    assert rig.roles(f"{database}_tmp%") == [f"{database}_tmp_2"]
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(first)
    psycopg.connect(second).close()
    assert "former" not in (await rig.get(LOGINS, "access"))["status"]


async def test_at_its_end_sessions_end_and_tables_it_made_as_itself_become_the_owners(rig: Rig, database: str) -> None:
    await rig.create(LOGINS, "access", spec(database))
    await reconciled(rig)
    owner = f"{database}_owner"
    rig.sql(f"GRANT CREATE ON SCHEMA public TO {database}_tmp_1", database)
    session = psycopg.connect(await uri(rig), autocommit=True)
    session.execute("SET ROLE NONE")
    session.execute("CREATE TABLE public.mine (id int)")
    session.execute("CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    session.execute(f"ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {owner}".encode())
    session.execute("BEGIN")
    session.execute("LOCK TABLE public.mine")
    assert rig.sql("SELECT tableowner FROM pg_tables WHERE tablename = 'mine'", database) == [(f"{database}_tmp_1",)]
    await rig.clock.advance(3601)
    while f"{database}_tmp_1" in rig.roles("%"):
        await reconciled(rig)
    assert rig.sql("SELECT tableowner FROM pg_tables WHERE tablename = 'mine'", database) == [(owner,)]
    assert rig.sql("SELECT proowner::regrole::text FROM pg_proc WHERE proname = 'f'", database) == [(owner,)]
    with pytest.raises(psycopg.OperationalError):
        session.execute("SELECT 1")
    assert rig.roles(f"{database}_tmp%") == [f"{database}_tmp_2"]


async def test_after_a_long_absence_what_is_past_its_end_goes_and_a_new_one_comes(rig: Rig, database: str) -> None:
    await rig.create(LOGINS, "access", spec(database))
    await reconciled(rig)
    await rig.clock.advance(7 * 24 * 3600)
    await rig.restart()
    await reconciled(rig)
    assert rig.roles(f"{database}_tmp%") == [f"{database}_tmp_2"]
    assert (await rig.secret("login"))["username"] == f"{database}_tmp_2"


async def test_the_server_itself_lets_nobody_in_after_the_end(rig: Rig, database: str) -> None:
    await rig.create(LOGINS, "access", spec(database, validFor="5s"))
    await rig.clock.advance(-10)
    await reconciled(rig)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(await uri(rig))


async def test_a_trigger_gives_another_now(rig: Rig, database: str) -> None:
    await rig.create(LOGINS, "access", spec(database))
    await reconciled(rig)
    await rig.change(LOGINS, "access", trigger="monday")
    await reconciled(rig)
    await reconciled(rig)
    obj = await rig.get(LOGINS, "access")
    assert obj["status"]["trigger"] == "monday"
    assert obj["status"]["login"]["name"] == f"{database}_tmp_2"
    assert [each["name"] for each in obj["status"]["former"]] == [f"{database}_tmp_1"]


async def test_a_reader_reads_what_there_is_and_what_comes_and_writes_nothing(rig: Rig, database: str) -> None:
    owner = f"{database}_owner"
    with rig.server.connect(database) as admin:
        admin.execute(f"SET ROLE {owner}".encode())
        admin.execute("CREATE TABLE public.before (id int); CREATE SCHEMA sales; CREATE TABLE sales.old (id serial)")
    await rig.create(LOGINS, "access", spec(database, access="ReadOnly"))
    await reconciled(rig)
    with rig.server.connect(database) as admin:
        admin.execute(f"SET ROLE {owner}".encode())
        admin.execute("CREATE TABLE public.after (id int); CREATE SCHEMA later; CREATE TABLE later.new (id serial)")
    with psycopg.connect(await uri(rig), autocommit=True) as session:
        for table in ("public.before", "public.after", "sales.old", "later.new"):
            session.execute(f"SELECT * FROM {table}".encode())
        session.execute("SELECT last_value FROM later.new_id_seq")
        session.execute("SET default_transaction_read_only TO off")
        for attempt in (
            "INSERT INTO public.before VALUES (1)",
            "CREATE TABLE public.mine (id int)",
            "DELETE FROM sales.old",
            f"SET ROLE {owner}",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(attempt.encode())
    await rig.live.delete(LOGINS, "access")
    await reconciled(rig)
    assert rig.roles(f"{database}%") == [owner]


async def test_less_access_in_the_spec_is_less_access_at_once(rig: Rig, database: str) -> None:
    await rig.create(LOGINS, "access", spec(database))
    await reconciled(rig)
    session = psycopg.connect(await uri(rig), autocommit=True)
    session.execute("CREATE TABLE public.orders (id int)")
    await rig.change(LOGINS, "access", access="ReadOnly", connectionLimit=1)
    await reconciled(rig)
    with pytest.raises(psycopg.OperationalError):
        session.execute("INSERT INTO public.orders VALUES (1)")
    with psycopg.connect(await uri(rig), autocommit=True) as again:
        again.execute("SELECT * FROM public.orders")
        with pytest.raises(psycopg.Error):
            again.execute("INSERT INTO public.orders VALUES (1)")
    assert rig.sql(f"SELECT rolconnlimit FROM pg_roles WHERE rolname = '{database}_tmp_1'") == [(1,)]


async def test_deletion_takes_all_its_logins_and_the_secret(rig: Rig, database: str) -> None:
    await rig.create(LOGINS, "access", spec(database))
    await reconciled(rig)
    await rig.change(LOGINS, "access", trigger="another")
    await reconciled(rig)
    await rig.live.delete(LOGINS, "access")
    await reconciled(rig)
    assert await rig.is_gone(LOGINS, "access")
    assert rig.roles(f"{database}_tmp%") == []
    with pytest.raises(errors.NotFound):
        await rig.secret("login")


async def test_deletion_does_not_wait_for_a_database_that_is_gone(rig: Rig, database: str) -> None:
    await rig.create(LOGINS, "access", spec(database, access="ReadOnly"))
    await reconciled(rig)
    rig.server.drop_database(database)
    await rig.live.delete(LOGINS, "access")
    await reconciled(rig)
    assert await rig.is_gone(LOGINS, "access")
    assert rig.roles(f"{database}%") == [f"{database}_owner"]


async def test_a_role_of_somebody_elses_is_not_touched(rig: Rig, database: str) -> None:
    rig.sql(f"CREATE ROLE {database}_tmp_1 LOGIN PASSWORD 'theirs'")
    try:
        await rig.create(LOGINS, "access", spec(database))
        await reconciled(rig)
        assert (await rig.secret("login"))["username"] == f"{database}_tmp_2"
        await rig.live.delete(LOGINS, "access")
        await reconciled(rig)
        assert rig.roles(f"{database}_tmp%") == [f"{database}_tmp_1"]
    finally:
        rig.sql(f"DROP ROLE {database}_tmp_1")


async def test_a_secret_of_somebody_elses_is_not_touched(rig: Rig, database: str) -> None:
    theirs = {"metadata": {"name": "login", "namespace": NAMESPACE}, "data": {"a": "Yg=="}}
    await rig.live.create(SECRETS, theirs)
    await rig.create(LOGINS, "access", spec(database))
    await reconciled(rig)
    status, reason, message = said(await rig.get(LOGINS, "access"), "Synced")
    assert (status, reason) == ("False", "ReconcileError")
    assert "delete it, or name another" in message
    assert await rig.secret("login") == {"a": "b"}
    await rig.live.delete(LOGINS, "access")
    await reconciled(rig)
    assert await rig.secret("login") == {"a": "b"}
    assert rig.roles(f"{database}_tmp%") == []


async def test_a_database_that_is_not_there_is_told(rig: Rig, database: str) -> None:
    await rig.create(LOGINS, "access", spec(database) | {"database": "nowhere"})
    assert await reconciled(rig) > 0
    assert said(await rig.get(LOGINS, "access"), "Synced") == (
        "False",
        "ReconcileError",
        "there is no database nowhere on the server",
    )
    assert said(await rig.get(LOGINS, "access"))[:2] == ("False", "Creating")


async def test_a_login_that_ended_while_the_server_was_away_is_told(rig: Rig, database: str) -> None:
    await rig.create(LOGINS, "access", spec(database))
    await reconciled(rig)
    await rig.live.patch(SECRETS, "admin", {"stringData": {"port": "1"}}, NAMESPACE)
    await rig.restart()
    await reconciled(rig)
    obj = await rig.get(LOGINS, "access")
    assert said(obj)[0] == "True"
    assert said(obj, "Synced")[:2] == ("False", "ReconcileError")
    await rig.clock.advance(3601)
    await reconciled(rig)
    status, reason, message = said(await rig.get(LOGINS, "access"))
    assert (status, reason) == ("False", "Unavailable")
    assert "The login has ended" in message
    await rig.live.patch(SECRETS, "admin", {"stringData": {"port": str(rig.server.port)}}, NAMESPACE)
    await reconciled(rig)
    assert said(await rig.get(LOGINS, "access"))[0] == "True"


async def test_what_nobody_looks_after_is_ended_an_hour_after_its_end(rig: Rig, database: str) -> None:
    rig.sql(f"CREATE ROLE {database}_tmp_77 LOGIN VALID UNTIL '2020-01-01'")
    rig.sql(f"COMMENT ON ROLE {database}_tmp_77 IS 'steelyard login of-an-object-removed-by-force'")
    await rig.create(LOGINS, "access", spec(database))
    await reconciled(rig)
    assert rig.roles(f"{database}_tmp%") == [f"{database}_tmp_1"]


class Life:
    """Make, renew, end, delete: each step until it is through, whatever fails on the way."""

    def __init__(self, rig: Rig, database: str, access: str) -> None:
        self.rig = rig
        self.database = database
        self.access = access

    async def run(self, strike: int = 0, *, after: bool = False, error: BaseException | None = None) -> int:
        """How many statements there were, without counting those after the fault."""
        self.rig.faults.arm(strike, after=after, error=error or Killed())
        await self.rig.create(LOGINS, "access", spec(self.database, access=self.access))
        await self.step()
        psycopg.connect(await uri(self.rig)).close()
        await self.rig.clock.advance(2401)
        await self.step()
        psycopg.connect(await uri(self.rig)).close()
        assert f"{self.database}_tmp_1" in self.rig.roles(f"{self.database}%")
        await self.rig.clock.advance(1200)
        await self.step()
        assert self.rig.roles(f"{self.database}_tmp%") == [(await self.rig.secret("login"))["username"]]
        await self.rig.live.delete(LOGINS, "access")
        await self.step()
        assert await self.rig.is_gone(LOGINS, "access")
        assert self.rig.roles(f"{self.database}%") == [f"{self.database}_owner"]
        return self.rig.faults.count

    async def step(self) -> None:
        for _ in range(20):
            try:
                await reconciled(self.rig)
                if await self.rig.is_gone(LOGINS, "access"):
                    return
                obj = await self.rig.get(LOGINS, "access")
                if said(obj, "Synced")[0] == "True" and "deletionTimestamp" not in obj["metadata"]:
                    return
            except Killed:
                await self.rig.restart()
        raise AssertionError("it did not come to an end")


@pytest.mark.parametrize("access", ["ReadWrite", "ReadOnly"])
async def test_killed_at_any_statement_the_end_is_the_same(rig: Rig, database: str, access: str) -> None:
    life = Life(rig, database, access)
    count = await life.run()
    assert count > 30
    for number in ourkinds.sampled(count, 5):
        await life.run(number, after=False, error=psycopg.OperationalError("the server was killed"))
        await life.run(number, after=True, error=Killed())
