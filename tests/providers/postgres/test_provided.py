"""What Crossplane's provider-sql does for its objects, done by ours on real servers: the host's and the wheel's."""

from __future__ import annotations

import datetime
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from steelyard.api.crossplane import DATABASES, EXTENSIONS, GRANTS, ROLES, SCHEMAS
from steelyard.kube import objects
from steelyard.kube.resources import SECRETS
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import conditions
from steelyard.providers.postgres import managed, records
from tests.postgresserver import PostgresServer
from tests.providers.postgres import ourkinds, provided
from tests.providers.postgres.ourkinds import NAMESPACE, said
from tests.providers.postgres.provided import Life, each_programs

PROGRAMS = list(each_programs())
on_each_server = pytest.mark.parametrize("server", PROGRAMS, indirect=True)
"""The host's and the wheel's; tests without it run on the first of these."""


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    folder = getattr(request, "param", None) or PROGRAMS[0].values[0]
    assert isinstance(folder, Path)
    with provided.running(folder) as started:
        yield started


@pytest.fixture
async def life(server: PostgresServer, tmp_path: Path) -> AsyncGenerator[Life]:
    async with ourkinds.opened(server, tmp_path) as rig:
        made = Life(rig)
        yield made
        await made.delete()
        for _ in range(4):
            await made.round()
        left = made.on_server()
        provided.clean(server)
        assert not any(left.values()), left


@on_each_server
async def test_a_database_is_made_used_resized_rotated_and_removed_without_a_trace(life: Life) -> None:
    await life.make("shop")
    await life.settle()
    secret = await life.credentials("shop")
    assert {"username": "shop", "endpoint": "127.0.0.1"}.items() <= secret.items()
    with await life.connect("shop") as session:
        session.execute("CREATE TABLE orders (id int)")
        owner = session.execute("SELECT tableowner FROM pg_tables WHERE tablename = 'orders'").fetchone()
        limits = session.execute("SELECT current_setting('work_mem'), current_setting('search_path')").fetchone()
    assert (owner, limits) == (("shop_owner",), ("4MB", '"$user", public'))

    before = await life.versions()
    await life.round()
    assert await life.versions() == before, "when nothing has changed, nothing is written"

    await life.resize("shop", 9)
    await life.settle()
    assert life.rig.sql("SELECT rolconnlimit FROM pg_roles WHERE rolname = 'shop'") == [(9,)]
    assert life.rig.sql("SELECT datconnlimit FROM pg_database WHERE datname = 'shop'") == [(9,)]

    await life.rig.clock.advance(60)
    moment = clocks.rfc3339(life.rig.clock.now() - datetime.timedelta(seconds=1))
    await life.rotate("shop", moment)
    await life.settle()
    assert (await life.credentials("shop"))["password"] != secret["password"]
    with await life.connect("shop") as session:
        assert session.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        await life.connect("shop", password=secret["password"])
    rotated = await life.credentials("shop")
    await life.round()
    assert await life.credentials("shop") == rotated, "one trigger is one rotation"


@on_each_server
async def test_a_password_changed_behind_our_back_is_put_back(life: Life) -> None:
    await life.make("shop")
    await life.settle()
    life.rig.sql("ALTER ROLE shop PASSWORD 'guessed'")
    await life.settle()
    with await life.connect("shop") as session:
        assert session.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        await life.connect("shop", password="guessed")


async def test_a_secret_that_is_lost_is_made_again_with_a_new_password(life: Life) -> None:
    await life.make("shop")
    await life.settle()
    before = await life.credentials("shop")
    await life.rig.live.delete(SECRETS, "shop-login", NAMESPACE)
    await life.settle()
    assert (await life.credentials("shop"))["password"] != before["password"]
    (await life.connect("shop")).close()


@on_each_server
async def test_what_was_changed_by_hand_is_put_back(life: Life) -> None:
    await life.make("shop")
    await life.settle()
    for statement in (
        "ALTER ROLE shop CONNECTION LIMIT -1",
        "ALTER ROLE shop SUPERUSER",
        "ALTER ROLE shop SET work_mem = '1GB'",
        "ALTER ROLE shop SET statement_timeout = '1h'",
        "ALTER DATABASE shop CONNECTION LIMIT -1",
        "ALTER DATABASE shop OWNER TO postgres",
        "GRANT CONNECT ON DATABASE shop TO PUBLIC",
        "REVOKE shop_owner FROM shop",
    ):
        wanted = life.on_server()
        life.rig.sql(statement)
        assert life.on_server() != wanted, statement
        await life.settle()
        assert life.on_server() == wanted, statement


@pytest.mark.parametrize("resource", [DATABASES, ROLES], ids=lambda resource: resource.kind)
async def test_somebody_elses_is_refused_in_words_and_never_touched(life: Life, resource: Any) -> None:
    kind = resource.kind.upper()
    life.rig.sql(f"CREATE {kind} theirs")
    table = "pg_database WHERE datname" if resource is DATABASES else "pg_roles WHERE rolname"
    oid = life.rig.sql(f"SELECT oid FROM {table} = 'theirs'")
    name = "connectionLimit"
    await life.create(resource, "theirs", {name: 3})
    await life.round()
    found = await life.rig.get(resource, "theirs")
    assert said(found, "Synced")[:2] == ("False", "ReconcileError")
    assert "was not made for this object" in said(found, "Synced")[2]
    assert conditions.is_false(found, "Ready")
    # As one has it that comes from a manifest of elsewhere: a finalizer is no proof.
    await life.rig.live.patch(resource, "theirs", {"metadata": {"finalizers": [managed.FINALIZER]}})
    await life.rig.live.delete(resource, "theirs")
    await life.round()
    assert await life.rig.is_gone(resource, "theirs")
    assert life.rig.sql(f"SELECT oid FROM {table} = 'theirs'") == oid, "the object went, and left it alone"
    life.rig.sql(f"DROP {kind} theirs")


async def test_somebody_elses_is_taken_over_where_the_object_says_so(life: Life) -> None:
    life.rig.sql("CREATE DATABASE theirs")
    await life.create(DATABASES, "theirs", {"connectionLimit": 3})
    await life.rig.live.patch(DATABASES, "theirs", {"metadata": {"annotations": {records.ADOPT: "true"}}})
    await life.settle()
    assert life.rig.sql("SELECT datconnlimit FROM pg_database WHERE datname = 'theirs'") == [(3,)]


async def test_what_provider_sql_made_is_adopted_without_a_change(life: Life) -> None:
    """Its record is the annotation that Crossplane's runtime writes."""
    life.rig.sql("CREATE ROLE theirs LOGIN")
    life.rig.sql("CREATE DATABASE theirs OWNER theirs")
    for resource in (ROLES, DATABASES):
        await life.create(resource, "theirs", {})
        made = {records.PENDING: "2026-01-01T00:00:00Z", records.SUCCEEDED: "2026-01-01T00:00:01Z"}
        await life.rig.live.patch(resource, "theirs", {"metadata": {"annotations": made}})
    before = life.on_server()
    life.rig.faults.seen.clear()
    await life.settle()
    assert life.on_server() == before
    assert all(statement.startswith("SELECT") for statement in life.rig.faults.seen), life.rig.faults.seen
    found = await life.rig.get(DATABASES, "theirs")
    assert objects.at(found, "spec", "forProvider", "owner") == "theirs", "what was left open is filled in"


async def test_orphans_stay_and_observed_ones_are_only_looked_at(life: Life) -> None:
    await life.create(DATABASES, "kept", {}, deletionPolicy="Orphan")
    await life.create(DATABASES, "paused", {}, managementPolicies=[])
    life.rig.sql("CREATE DATABASE watched")
    await life.create(DATABASES, "watched", {"connectionLimit": 7}, managementPolicies=["Observe"])
    for _ in range(2):
        await life.round()
    assert said(await life.rig.get(DATABASES, "kept"))[0] == "True"
    assert said(await life.rig.get(DATABASES, "paused"), "Synced")[1] == "ReconcilePaused"
    assert said(await life.rig.get(DATABASES, "watched"))[0] == "True"
    assert life.rig.sql("SELECT datconnlimit FROM pg_database WHERE datname = 'watched'") == [(-1,)]
    await life.rig.live.patch(DATABASES, "paused", {"spec": {"managementPolicies": ["*"]}})
    await life.delete()
    for _ in range(2):
        await life.round()
    left = {name for (name,) in life.rig.sql("SELECT datname FROM pg_database WHERE NOT datistemplate")}
    assert left == {"postgres", "kept", "watched"}
    for name in ("kept", "watched"):
        life.rig.sql(f"DROP DATABASE {name}")


@on_each_server
async def test_what_a_login_made_stays_when_it_goes(life: Life) -> None:
    await life.make("shop")
    await life.create(ROLES, "guest", {"privileges": {"login": True}})
    await life.create(
        GRANTS, "guest-access", {"role": "guest", "database": "shop", "privileges": ["CONNECT", "CREATE"]}
    )
    await life.settle()
    with life.rig.server.connect("shop") as session:
        session.execute("SET SESSION AUTHORIZATION guest; CREATE SCHEMA g; CREATE TABLE g.notes (x int)")
    life.rig.sql("GRANT CONNECT ON DATABASE postgres TO guest")
    await life.rig.live.delete(ROLES, "guest")
    await life.rig.live.delete(GRANTS, "guest-access")
    for _ in range(2):
        await life.round()
    assert await life.rig.is_gone(ROLES, "guest")
    owner = life.rig.sql("SELECT tableowner FROM pg_tables WHERE tablename = 'notes'", "shop")
    assert owner == [("shop_owner",)]


async def test_a_database_goes_with_the_sessions_in_it(life: Life) -> None:
    await life.make("shop")
    await life.make("other")
    await life.settle()
    with await life.connect("shop") as session, await life.connect("other") as neighbour:
        for resource in (GRANTS, DATABASES, ROLES):
            for obj in (await life.rig.live.list(resource)).items:
                if objects.name(obj).startswith("shop"):
                    await life.rig.live.delete(resource, objects.name(obj))
        for _ in range(3):
            await life.round()
        assert life.rig.sql("SELECT datname FROM pg_database WHERE datname = 'shop'") == []
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")
        assert neighbour.execute("SELECT 1").fetchone() == (1,), "nobody else notices"


async def test_schemas_and_extensions_come_and_go_in_their_database(life: Life) -> None:
    await life.make("shop")
    await life.create(SCHEMAS, "sales", {"database": "shop", "role": "shop_owner", "revokePublicOnSchema": True})
    await life.create(EXTENSIONS, "plpgsql", {"database": "shop", "extension": "plpgsql"})
    await life.settle()
    owner = "SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'sales'"
    assert life.rig.sql(owner, "shop") == [("shop_owner",)]
    assert life.rig.sql("SELECT has_schema_privilege('public', 'public', 'USAGE')", "shop") == [(False,)]
    found = await life.rig.get(EXTENSIONS, "plpgsql")
    assert objects.at(found, "spec", "forProvider", "version") == "1.0"
    await life.create(EXTENSIONS, "none", {"database": "shop", "extension": "no_such_thing"})
    await life.round()
    assert "no_such_thing" in said(await life.rig.get(EXTENSIONS, "none"), "Synced")[2]
    await life.delete(EXTENSIONS, SCHEMAS)
    for _ in range(2):
        await life.round()
    assert life.rig.sql(owner, "shop") == []
    there_before = life.rig.sql("SELECT extname FROM pg_extension", "shop")
    assert there_before == [("plpgsql",)], "it was there before the object"


@on_each_server
async def test_grants_on_everything_that_provider_sql_knows(life: Life) -> None:
    await life.make("shop")
    await life.create(ROLES, "reader", {"privileges": {"login": False}})
    await life.settle()
    with life.rig.server.connect("shop") as session:
        session.execute(
            "CREATE TABLE t (a int, b text); CREATE SEQUENCE s; "
            "CREATE FUNCTION f(int, text) RETURNS int LANGUAGE sql AS 'SELECT 1'; "
            "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER far FOREIGN DATA WRAPPER w"
        )
    inside = {"role": "reader", "database": "shop"}
    wanted: dict[str, Any] = {
        "schema": {**inside, "schema": "public", "privileges": ["USAGE"]},
        "table": {**inside, "schema": "public", "tables": ["t"], "privileges": ["SELECT", "INSERT"]},
        "column": {**inside, "schema": "public", "tables": ["t"], "columns": ["a"], "privileges": ["UPDATE"]},
        "sequence": {**inside, "schema": "public", "sequences": ["s"], "privileges": ["ALL"]},
        "routine": {
            **inside,
            "schema": "public",
            "routines": [{"name": "f", "args": ["integer", "text"]}],
            "privileges": ["EXECUTE"],
        },
        "server": {**inside, "foreignServers": ["far"], "privileges": ["USAGE"]},
        "wrapper": {**inside, "foreignDataWrappers": ["w"], "privileges": ["USAGE"], "withOption": "GRANT"},
        "member": {"role": "reader", "memberOf": "shop_owner", "withOption": "ADMIN"},
    }
    for name, parameters in wanted.items():
        await life.create(GRANTS, f"reader-{name}", parameters)
    await life.settle()
    checks = {
        "table": "SELECT has_table_privilege('reader', 't', 'SELECT,INSERT')",
        "column": "SELECT has_column_privilege('reader', 't', 'a', 'UPDATE')",
        "sequence": "SELECT has_sequence_privilege('reader', 's', 'USAGE')",
        "server": "SELECT has_server_privilege('reader', 'far', 'USAGE')",
    }
    await life.rig.live.delete(GRANTS, "reader-member")
    await life.round()
    life.rig.sql("ALTER ROLE reader NOINHERIT")
    for name, query in checks.items():
        assert life.rig.sql(query, "shop") == [(True,)], name
    before = await life.versions()
    life.rig.faults.seen.clear()
    await life.round()
    await life.round()
    assert not [each for each in life.rig.faults.seen if each.startswith("GRANT")], (
        "what is granted is not granted again"
    )
    assert {key for key, value in (await life.versions()).items() if value != before[key]} <= {"Role/reader"}
    await life.delete(GRANTS)
    for _ in range(2):
        await life.round()
    for name, query in checks.items():
        assert life.rig.sql(query, "shop") == [(False,)], name
    with life.rig.server.connect("shop") as session:
        session.execute("DROP SERVER far; DROP FOREIGN DATA WRAPPER w")


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"role": "r"}, "does not say what the grant is on"),
        ({"role": "r", "database": "d"}, "privileges: there are none"),
        ({"role": "r", "memberOf": "o", "database": "d"}, "neither database nor privileges"),
        ({"database": "d", "privileges": ["ALL"]}, "of no role"),
        ({"role": "r", "database": "postgres", "privileges": ["NONSENSE"]}, "no privilege NONSENSE"),
    ],
)
async def test_a_grant_that_cannot_be_meant_is_told(life: Life, parameters: Any, told: str) -> None:
    await life.create(GRANTS, "odd", parameters)
    await life.round()
    found = await life.rig.get(GRANTS, "odd")
    assert told in said(found, "Synced")[2]
    await life.rig.live.patch(GRANTS, "odd", {"spec": {"deletionPolicy": "Orphan"}})


async def test_references_and_selectors_lead_to_names(life: Life) -> None:
    await life.make("shop")
    await life.rig.live.patch(DATABASES, "shop", {"metadata": {"labels": {"app": "shop"}}})
    await life.create(ROLES, "reader", {"privileges": {"login": False}}, external="shop_reader")
    await life.create(
        GRANTS,
        "by-reference",
        {
            "roleRef": {"name": "reader"},
            "databaseSelector": {"matchLabels": {"app": "shop"}},
            "privileges": ["CONNECT"],
        },
    )
    await life.settle()
    found = (await life.rig.get(GRANTS, "by-reference"))["spec"]["forProvider"]
    assert (found["role"], found["database"], found["databaseRef"]["name"]) == ("shop_reader", "shop", "shop")
    assert life.rig.sql("SELECT has_database_privilege('shop_reader', 'shop', 'CONNECT')") == [(True,)]


async def test_a_password_that_a_secret_gives_is_used_and_followed(life: Life) -> None:
    secret: dict[str, Any] = {"metadata": {"name": "given", "namespace": NAMESPACE}, "stringData": {"pw": "erste-Wähl"}}
    await life.rig.live.create(SECRETS, secret)
    reference = {"namespace": NAMESPACE, "name": "given", "key": "pw"}
    place = {"namespace": NAMESPACE, "name": "app-login"}
    parameters: dict[str, Any] = {"privileges": {"login": True}, "passwordSecretRef": reference}
    await life.create(ROLES, "app", parameters, writeConnectionSecretToRef=place)
    await life.settle()
    assert (await life.credentials("app"))["password"] == "erste-Wähl"
    before = await life.versions()
    await life.round()
    assert await life.versions() == before
    await life.rig.live.patch(SECRETS, "given", {"stringData": {"pw": "second"}}, NAMESPACE)
    await life.settle()
    assert (await life.credentials("app"))["password"] == "second"


async def test_a_secret_of_somebody_elses_is_not_written_to(life: Life) -> None:
    await life.rig.live.create(SECRETS, {"metadata": {"name": "app-login", "namespace": NAMESPACE}, "data": {}})
    place = {"namespace": NAMESPACE, "name": "app-login"}
    await life.create(ROLES, "app", {"privileges": {"login": True}}, writeConnectionSecretToRef=place)
    await life.round()
    assert "is somebody else's" in said(await life.rig.get(ROLES, "app"), "Synced")[2]
    assert life.rig.sql("SELECT 1 FROM pg_roles WHERE rolname = 'app'") == []


async def test_what_postgresql_cannot_change_is_told_and_not_tried(life: Life) -> None:
    await life.create(DATABASES, "shop", {"encoding": "UTF8", "template": "template0"})
    await life.settle()
    await life.change(DATABASES, "shop", encoding="LATIN1")
    await life.round()
    assert "cannot change that" in said(await life.rig.get(DATABASES, "shop"), "Synced")[2]


async def test_names_that_postgresql_would_cut_are_refused(life: Life) -> None:
    await life.create(DATABASES, "long", {}, external="d" * 64)
    await life.round()
    assert "63 bytes" in said(await life.rig.get(DATABASES, "long"), "Synced")[2]


async def test_names_are_quoted_whatever_is_in_them(life: Life) -> None:
    odd = 'a"; DROP DATABASE postgres; --'
    await life.create(ROLES, "odd", {"privileges": {"login": False}}, external=odd)
    await life.create(DATABASES, "odd", {"owner": odd}, external=odd)
    await life.create(GRANTS, "odd", {"role": odd, "database": odd, "privileges": ["CONNECT"]})
    await life.settle()
    assert life.rig.sql("SELECT datname = pg_get_userbyid(datdba) FROM pg_database WHERE datname LIKE 'a%'") == [
        (True,)
    ]


async def test_no_statement_has_a_password_in_it(life: Life) -> None:
    await life.make("shop")
    await life.settle()
    password = (await life.credentials("shop"))["password"]
    assert life.rig.faults.seen
    assert not [each for each in life.rig.faults.seen if password in each]
