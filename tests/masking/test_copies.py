"""Anonymised copies on a real server: what a user gets, what is refused, what leaks are found, and what nobody can
see."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from steelyard.masking import copying, planning, reading, scanning, sessions, words
from steelyard.masking.job import Endpoint, Job, Verdict
from steelyard.masking.rules import MaskingRules
from tests.masking import cloning
from tests.masking.cloning import KEY, clone, fresh_name, job, process
from tests.postgresserver import PostgresServer, running

SHOP: Final = """
CREATE TYPE tier AS ENUM ('small', 'large');
CREATE TABLE people (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, email varchar(60) UNIQUE,
    born date, died date, tier tier, score integer, boss bigint REFERENCES people, CHECK (died > born));
CREATE TABLE orders (id serial PRIMARY KEY, buyer varchar(60) REFERENCES people (email), note text, total numeric(10,
2)); INSERT INTO people (name, email, born, died, tier, score, boss)
    SELECT 'Secret Person ' || g, 'secret' || g || '@corp.invalid', date '1950-01-01' + g, date '2001-01-01' + g,
    'small', g,
        nullif(g - 1, 0) FROM generate_series(1, 200) g;
INSERT INTO orders (buyer, note, total) SELECT 'secret' || g || '@corp.invalid', 'nothing special', g
    FROM generate_series(1, 200) g;
"""
PEOPLE: Final = {
    "name": {"action": "fakeName"},
    "email": {"action": "fakeEmail"},
    "born": {"action": "shiftDates", "days": 40},
    "died": {"action": "shiftDates", "days": 40},
    "tier": {"action": "keep"},
    "score": {"action": "shuffle"},
}
ORDERS: Final = {"note": {"action": "keep"}, "total": {"action": "keep"}}


def rules(people: dict[str, Any] | None = None, orders: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    columns = {"people": {**PEOPLE, **(people or {})}, "orders": {**ORDERS, **(orders or {})}}
    return {"tables": {name: {"columns": each} for name, each in columns.items()}, **more}


def make(server: PostgresServer, statements: str) -> str:
    name = fresh_name("original")
    server.create_database(name)
    with server.connect(name) as connection:
        connection.execute(statements.encode())
    return name


def run(server: PostgresServer, source: str, given: dict[str, Any], **more: Any) -> tuple[str, Verdict]:
    """In this process, which is quicker."""
    target = fresh_name("copy")
    server.create_database(target)
    return target, copying.run(Job.model_validate(job(server, source, target, given, **more)), lambda _: None)


def ask(server: PostgresServer, database: str, query: str) -> list[tuple[Any, ...]]:
    with server.connect(database) as connection:
        return connection.execute(query.encode()).fetchall()


@pytest.fixture(scope="module")
def shop(postgres_server: PostgresServer) -> Iterator[str]:
    name = make(postgres_server, SHOP)
    yield name
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def copied(postgres_server: PostgresServer, shop: str) -> Iterator[tuple[str, dict[str, Any]]]:
    name, verdict = clone(postgres_server, shop, rules())
    yield name, verdict
    postgres_server.drop_database(name)


def test_a_copy_is_told_with_its_rows_and_times(copied: tuple[str, dict[str, Any]]) -> None:
    _, verdict = copied
    assert verdict["verdict"] == "copied"
    assert verdict["message"] == "400 rows of 2 tables were copied and masked"
    assert set(verdict["seconds"]) == {"plan", "schema", "rows", "keys", "scan"}


def test_names_and_emails_are_made_up_and_joins_match(
    postgres_server: PostgresServer, copied: tuple[str, dict[str, Any]]
) -> None:
    joined = ask(postgres_server, copied[0], "SELECT name, email FROM people JOIN orders ON buyer = email")
    assert len(joined) == 200
    assert len({email for _, email in joined}) == 200
    assert all(email.endswith("@example.com") and "Secret" not in name for name, email in joined)


def test_dates_of_a_row_keep_their_distance_and_the_bound(
    postgres_server: PostgresServer, shop: str, copied: tuple[str, dict[str, Any]]
) -> None:
    query = "SELECT id, born, died FROM people ORDER BY id"
    before, after = ask(postgres_server, shop, query), ask(postgres_server, copied[0], query)
    moved = [(new[1] - old[1]).days for old, new in zip(before, after, strict=True)]
    assert all(1 <= abs(days) <= 40 for days in moved)
    assert len(set(moved)) > 10
    assert all(new[2] - new[1] == old[2] - old[1] for old, new in zip(before, after, strict=True))


def test_shuffled_values_are_all_there_in_other_rows(
    postgres_server: PostgresServer, shop: str, copied: tuple[str, dict[str, Any]]
) -> None:
    query = "SELECT score FROM people ORDER BY id"
    before, after = ask(postgres_server, shop, query), ask(postgres_server, copied[0], query)
    assert sorted(before) == sorted(after)
    assert before != after


def test_identities_and_sequences_go_on_where_the_source_is(
    postgres_server: PostgresServer, copied: tuple[str, dict[str, Any]]
) -> None:
    query = "SELECT nextval(pg_get_serial_sequence('people', 'id')), nextval('orders_id_seq')"
    assert ask(postgres_server, copied[0], query) == [(201, 201)]


def test_the_same_key_gives_the_same_values_and_another_key_others(
    postgres_server: PostgresServer, shop: str, copied: tuple[str, dict[str, Any]]
) -> None:
    query = "SELECT email FROM people ORDER BY id"
    first = ask(postgres_server, copied[0], query)
    same, _ = run(postgres_server, shop, rules())
    other, _ = run(postgres_server, shop, rules(), key="f" * 64)
    assert ask(postgres_server, same, query) == first
    assert not set(ask(postgres_server, other, query)) & set(first)


def test_check_shows_every_column_with_an_example_and_copies_nothing(
    postgres_server: PostgresServer, shop: str
) -> None:
    verdict, _ = process(job(postgres_server, shop, None, rules()))
    assert verdict["verdict"] == "planned"
    shown = {(row["table"], row["column"]): row for row in verdict["columns"]}
    assert shown["public.people", "id"]["reason"] == "a surrogate key, or refers to one"
    assert shown["public.orders", "buyer"]["reason"] == "like public.people.email, to which a foreign key ties it"
    assert shown["public.orders", "buyer"]["example"].endswith("@example.com")
    assert "secret" not in json.dumps(verdict)


REFUSED: Final = [
    (
        "a check",
        {"people": {"born": {"action": "constant", "value": "2020-01-01"}}},
        "public.people.born: masked values do not fulfil the check constraint people_check.",
    ),
    (
        "a constant of the wrong type",
        {"people": {"born": {"action": "constant", "value": "yesteryear"}}},
        "public.people.born: the constant is no date.",
    ),
    ("a column without a rule", {"orders": {"note": {"action": "keep"}, "nope": {"action": "keep"}}}, "no such column"),
]


@pytest.mark.parametrize(("given", "told"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_masked_rows_would_violate_is_refused_before_anything_is_copied(
    postgres_server: PostgresServer, shop: str, given: dict[str, Any], told: str
) -> None:
    target, verdict = run(postgres_server, shop, rules(**given))
    assert verdict.outcome == "refused"
    assert told in " ".join(verdict.refusals)
    assert ask(postgres_server, target, "SELECT count(*) FROM pg_class WHERE relname = 'people'") == [(0,)]


def test_a_check_that_does_more_than_compute_is_never_tried_on_the_source(postgres_server: PostgresServer) -> None:
    source = make(
        postgres_server,
        """
        CREATE FUNCTION own(text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE TABLE t (a text CHECK (set_config('role', 'none', false) IS NOT NULL OR a <> ''), b text CHECK (own(b)),
            c text CHECK (length(lower(c)) < 100 AND c::varchar(200) <> 'x' AND c ~ '^[a-z0-9]' AND c <> 'now()'))""",
    )
    given = {"tables": {"t": {"columns": {name: {"action": "hash"} for name in "abc"}}}}
    verdict = copying.run(Job.model_validate(job(postgres_server, source, None, given)), lambda _: None)
    assert [refusal.split(":")[0] for refusal in verdict.refusals] == ["public.t.a", "public.t.b"]
    assert all("calls functions that are not tried on the source" in refusal for refusal in verdict.refusals)


LITERALS: Final = {
    "the default of public.people.name": "ALTER TABLE people ALTER name SET DEFAULT 'Secret Person 7'",
    "the view public.v": "CREATE VIEW v AS SELECT 1 AS one WHERE 'Secret Person 8' <> ''",
    "the enum public.e": "CREATE TYPE e AS ENUM ('Secret Person 9')",
    "the function public.f": "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS '/* secret7@corp.invalid */ SELECT 1'",
    "the bounds of the partition public.q": """
        CREATE TABLE p (x text, y text) PARTITION BY LIST (x);
        CREATE TABLE q PARTITION OF p FOR VALUES IN ('Secret Person 10')""",
}


def test_clear_values_in_the_schema_itself_are_refused_unless_they_are_known(postgres_server: PostgresServer) -> None:
    source = make(postgres_server, ";".join((SHOP, *LITERALS.values())))
    given = rules()
    given["tables"]["p"] = {"unclassified": "keep"}
    verdict = copying.run(Job.model_validate(job(postgres_server, source, None, given)), lambda _: None)
    assert verdict.outcome == "refused"
    for where in LITERALS:
        assert any(f"{where} has one of its values in clear" in each for each in verdict.refusals), where
    given["knownLiterals"] = ["secret7@corp.invalid", *(f"Secret Person {number}" for number in range(7, 11))]
    verdict = copying.run(Job.model_validate(job(postgres_server, source, None, given)), lambda _: None)
    assert verdict.outcome == "planned"


def test_a_kept_column_that_repeats_masked_values_is_a_leak_unless_somebody_has_looked(
    postgres_server: PostgresServer,
) -> None:
    source = make(postgres_server, SHOP + "UPDATE orders SET note = 'please ask Secret Person ' || id || ' first'")
    _, verdict = run(postgres_server, source, rules())
    assert verdict.outcome == "leaked"
    assert verdict.leaks[0].startswith("public.orders.note: has 200 values of the masked column public.people.name")
    _, looked_at = run(postgres_server, source, rules(orders={"note": {"action": "keep", "acknowledged": True}}))
    assert looked_at.outcome == "copied"


def test_the_scan_names_the_column_in_which_a_clear_value_is_left(postgres_server: PostgresServer, shop: str) -> None:
    given = rules(people={"score": {"action": "null"}})
    target, verdict = run(postgres_server, shop, given)
    assert verdict.outcome == "copied"
    with postgres_server.connect(target) as connection:
        connection.execute("UPDATE people SET name = 'Secret Person 3' WHERE id = 3")
        connection.execute("UPDATE people SET score = 3 WHERE id = 4")
        connection.execute("INSERT INTO people (name, email) VALUES ('Ada Abel', 'secret9@corp.invalid')")
        connection.execute("COMMENT ON TABLE people IS 'who bought'")
    job_of = Job.model_validate(job(postgres_server, shop, target, given))
    source = sessions.of_source(Endpoint(dsn=postgres_server.dsn(shop)), job_of.key, "scan")
    copy = sessions.of_target(Endpoint(dsn=postgres_server.dsn(target)), None, "scan")
    with source.open(autocommit=False) as before, copy.open() as after:
        plan = planning.plan(reading.read(before), MaskingRules.model_validate(given))
        clear = words.clear(before, plan, 1000, [])
        found = scanning.leaks(before, after, plan, scan_key="scan", clear=clear, sampled=1000, compared=1000)
    assert [str(leak) for leak in found] == [
        "public.people.name: 1 rows are not of the form that fakeName makes",
        "public.people.email: 1 rows are not of the form that fakeEmail makes",
        "public.people.score: 1 rows are not of the form that null makes",
        "public.people.email: 1 values of the source are in the copy",
        "the copy.comments: 1 comments were copied",
    ]


def test_everything_belongs_to_the_owner_and_logins_need_few_rights(postgres_server: PostgresServer, shop: str) -> None:
    with postgres_server.connect() as connection:
        connection.execute("CREATE ROLE copy_owner NOLOGIN")
        connection.execute("CREATE ROLE copy_reader LOGIN IN ROLE pg_read_all_data")
        connection.execute("CREATE ROLE copy_writer LOGIN IN ROLE copy_owner")
    target = fresh_name("copy")
    postgres_server.create_database(target)
    with postgres_server.connect(target) as connection:
        connection.execute(f'ALTER DATABASE "{target}" OWNER TO copy_owner'.encode())
    given = job(postgres_server, shop, target, rules(), owner="copy_owner")
    given["source"]["dsn"] = postgres_server.dsn(shop, "copy_reader")
    given["target"]["dsn"] = postgres_server.dsn(target, "copy_writer")
    verdict = copying.run(Job.model_validate(given), lambda _: None)
    assert verdict.outcome == "copied", verdict
    owners = ask(
        postgres_server,
        target,
        "SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relnamespace = 'public'::regnamespace",
    )
    assert owners == [("copy_owner",)]


def test_a_policy_that_hides_rows_fails_the_copy_instead_of_making_it_smaller(postgres_server: PostgresServer) -> None:
    source = make(postgres_server, SHOP + "ALTER TABLE people ENABLE ROW LEVEL SECURITY; CREATE ROLE half LOGIN; "
                  "GRANT pg_read_all_data TO half; CREATE POLICY few ON people USING (id < 10)")  # fmt: skip
    given = job(postgres_server, source, None, rules())
    given["source"]["dsn"] = postgres_server.dsn(source, "half")
    verdict = copying.run(Job.model_validate(given), lambda _: None)
    assert (verdict.outcome, verdict.message) == ("failed", "making the copy: InsufficientPrivilege (SQLSTATE 42501)")


def test_an_error_on_the_source_is_told_without_the_value_it_is_about(postgres_server: PostgresServer) -> None:
    created = "CREATE TABLE t (id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, d timestamp);"
    at_the_end_of_time = "INSERT INTO t (d) SELECT '294276-12-30 01:02:03' FROM generate_series(1, 30)"
    source = make(postgres_server, created + at_the_end_of_time)
    given = {"tables": {"t": {"columns": {"d": {"action": "shiftDates"}}}}}
    _, verdict = run(postgres_server, source, given)
    assert verdict.outcome == "failed"
    assert verdict.message.startswith("copying the rows of public.t, reading: psql ended with ")
    assert "22008" in verdict.message
    assert "294276" not in verdict.message


def test_a_large_table_is_read_in_parts_that_are_together_all_of_it(
    postgres_server: PostgresServer, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_PAGES_AT_ONCE", 1)
    target, verdict = run(postgres_server, shop, rules())
    assert (verdict.outcome, verdict.rows) == ("copied", 400)
    assert ask(postgres_server, target, "SELECT count(DISTINCT id) FROM people") == [(200,)]


def test_what_is_written_meanwhile_is_not_in_the_copy(postgres_server: PostgresServer) -> None:
    source = make(postgres_server, SHOP)

    def write(progress: dict[str, Any]) -> None:
        if progress["stage"] == "schema":
            with postgres_server.connect(source) as connection:
                connection.execute("INSERT INTO people (name, email) VALUES ('Secret Late', 'late@corp.invalid')")
                connection.execute("UPDATE orders SET buyer = 'late@corp.invalid'")
                connection.execute("DELETE FROM people WHERE id = 200")

    target = fresh_name("copy")
    postgres_server.create_database(target)
    verdict = copying.run(Job.model_validate(job(postgres_server, source, target, rules())), write)
    assert (verdict.outcome, verdict.rows) == ("copied", 400)
    assert ask(postgres_server, target, "SELECT count(DISTINCT buyer) FROM orders") == [(200,)]


def test_sessions_that_are_ended_under_way_fail_the_copy(postgres_server: PostgresServer, shop: str) -> None:
    def end_sessions(progress: dict[str, Any]) -> None:
        if progress["stage"] == "rows":
            ask(
                postgres_server,
                "postgres",
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{shop}'",
            )

    target = fresh_name("copy")
    postgres_server.create_database(target)
    verdict = copying.run(Job.model_validate(job(postgres_server, shop, target, rules())), end_sessions)
    assert verdict.outcome == "failed"
    assert "Secret" not in verdict.message


def test_a_target_that_is_not_empty_is_left_alone(postgres_server: PostgresServer, shop: str) -> None:
    target = make(postgres_server, "CREATE TABLE mine (x int)")
    verdict = copying.run(Job.model_validate(job(postgres_server, shop, target, rules())), lambda _: None)
    assert verdict.outcome == "failed"
    assert "is not empty" in verdict.message


def test_a_deadline_ends_the_copy_whatever_it_waits_for(postgres_server: PostgresServer, shop: str) -> None:
    with postgres_server.connect(shop) as holder:
        holder.autocommit = False
        holder.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        verdict, _ = process(job(postgres_server, shop, None, rules(), deadlineSeconds=1))
        holder.rollback()
    assert (verdict["verdict"], verdict["message"]) == ("failed", "the copy was not finished within 1 s, its deadline")
    _await_no_sessions(postgres_server, shop)


def test_a_server_that_is_away_is_told_without_the_password(postgres_server: PostgresServer) -> None:
    given = job(postgres_server, "none", None, rules())
    given["source"] = {"dsn": "host=127.0.0.1 port=1 user=me dbname=none", "password": "hidden-word"}
    verdict, _ = process(given)
    assert verdict["verdict"] == "failed"
    assert "logging in to none on 127.0.0.1:1" in verdict["message"]
    assert "hidden-word" not in json.dumps(verdict)


def test_neither_logs_nor_processes_show_the_key_a_password_or_a_clear_value() -> None:
    with running(
        log_statement="all", log_min_duration_statement="0", log_connections="on", log_duration="on"
    ) as server:
        source = make(server, SHOP)
        begin = server.log.stat().st_size
        target = fresh_name("copy")
        server.create_database(target)
        given = job(server, source, target, rules())
        given["source"]["password"] = given["target"]["password"] = "hidden-word"
        seen: set[str] = set()
        started = subprocess.Popen(cloning.PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert started.stdin is not None
        started.stdin.write(json.dumps(given).encode())
        started.stdin.close()
        while started.poll() is None:
            seen |= _command_lines_and_environments(started.pid)
            time.sleep(0.02)
        assert started.stdout is not None
        assert json.loads(started.stdout.read().splitlines()[-1])["verdict"] == "copied"
        started.stdout.close()
        log = server.log.read_bytes()[begin:].decode()
    assert "COPY (SELECT" in log
    assert any("psql" in each for each in seen)
    for secret in (KEY, "hidden-word"):
        assert secret not in log
        assert not [each for each in seen if secret in each]
    assert "Secret Person" not in log
    assert "corp.invalid" not in log


def _command_lines_and_environments(parent: int) -> set[str]:
    found: set[str] = set()
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and _parent(int(entry)) == parent:
                for name in ("cmdline", "environ"):
                    with open(f"/proc/{entry}/{name}", "rb") as file:
                        found.add(file.read().decode(errors="replace"))
        except OSError:
            continue
    return found


def _parent(process_id: int) -> int:
    with open(f"/proc/{process_id}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def test_killed_at_any_moment_it_leaves_nothing_behind_but_the_target(postgres_server: PostgresServer) -> None:
    many = "INSERT INTO orders (note, total) SELECT repeat('x', 200), g FROM generate_series(1, 60000) g"
    source = make(postgres_server, SHOP + many)
    before = postgres_server.dump(source)
    for stage in ("schema", "rows", "keys"):
        target = fresh_name("copy")
        postgres_server.create_database(target)
        started = subprocess.Popen(cloning.PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdin.write(json.dumps(job(postgres_server, source, target, rules())).encode())
        started.stdin.close()
        while json.loads(started.stdout.readline()).get("progress", {}).get("stage") != stage:
            pass
        started.send_signal(signal.SIGKILL)
        started.wait(60)
        started.stdout.close()
        postgres_server.drop_database(target)
        _await_no_sessions(postgres_server, source)
    assert postgres_server.dump(source) == before
    _, verdict = run(postgres_server, source, rules())
    assert verdict.outcome == "copied"


def _await_no_sessions(server: PostgresServer, database: str) -> None:
    deadline = time.monotonic() + 60
    while ask(server, "postgres", f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'") != [(0,)]:
        assert time.monotonic() < deadline, "sessions are left on the source"
        time.sleep(0.05)
