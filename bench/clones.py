"""How long an anonymised copy of a database takes, beside `pg_dump | psql` of the same database, which masks nothing.

A shop's database: customers, their orders, the orders' lines, a log with texts and JSON. All that may identify
somebody is masked, and the copy's time has everything in it that happens before anybody may connect: plan, rows, keys,
indexes, leak scan.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.postgresserver import PostgresServer, running

_AIM: Final = 1.0
_UNTIL_COUNTED: Final = 1.0
_KEY: Final = "5a" * 32
_BYTES_OF_A_CUSTOMER: Final = 3600
"""With all that hangs on one, without indexes."""
_SCHEMA: Final = """
CREATE TABLE customers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, email varchar(120) NOT NULL UNIQUE,
    phone varchar(30), address text, born date CHECK (born > '1900-01-01'), country char(2) NOT NULL,
    is_active boolean NOT NULL DEFAULT true, created_at timestamptz NOT NULL);
CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id bigint NOT NULL REFERENCES customers,
    state text NOT NULL, ship_to text NOT NULL, total numeric(12, 2) NOT NULL, ordered_at timestamptz NOT NULL);
CREATE TABLE lines (
    order_id bigint NOT NULL REFERENCES orders, line int NOT NULL, product text NOT NULL, quantity int NOT NULL,
    price numeric(12, 2) NOT NULL, PRIMARY KEY (order_id, line));
CREATE TABLE log (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id bigint REFERENCES customers, at timestamptz NOT
    NULL, kind text NOT NULL, message text NOT NULL, detail jsonb NOT NULL);
CREATE INDEX ON orders (customer_id);
CREATE INDEX ON orders (ordered_at);
CREATE INDEX ON log (customer_id);
CREATE INDEX ON log (at);
"""
_ROWS: Final = """
INSERT INTO customers (name, email, phone, address, born, country, created_at)
    SELECT 'Customer ' || md5(g::text), md5(g::text) || '@mail.invalid', '+4930' || g, g || ' Some Street, Some Town',
        date '1950-01-01' + g % 20000, 'DE', timestamptz '2020-01-01' + g * interval '1 minute'
    FROM generate_series(1, {customers}) g;
INSERT INTO orders (customer_id, state, ship_to, total, ordered_at)
    SELECT 1 + g % {customers}, (ARRAY['new', 'paid', 'sent', 'done'])[1 + g % 4], g || ' Some Street, Some Town',
        g % 10000 / 7.0, timestamptz '2021-01-01' + g * interval '10 seconds'
    FROM generate_series(1, {customers} * 4) g;
INSERT INTO lines SELECT 1 + g / 3, g % 3, 'product number ' || g % 5000, 1 + g % 5, g % 1000 / 3.0
    FROM generate_series(1, {customers} * 12 - 3) g;
INSERT INTO log (customer_id, at, kind, message, detail)
    SELECT 1 + g % {customers}, timestamptz '2021-01-01' + g * interval '5 seconds', 'visit',
        'looked at page ' || g || repeat(' and then at another one', 4),
        jsonb_build_object('page', g, 'agent', 'Mozilla/5.0 (X11; Linux x86_64)', 'took', g % 900, 'ok', true)
    FROM generate_series(1, {customers} * 6) g;
"""
_RULES: Final = {
    "tables": {
        "customers": {
            "columns": {
                "name": {"action": "fakeName"},
                "email": {"action": "fakeEmail"},
                "phone": {"action": "fakePhone"},
                "address": {"action": "fakeAddress"},
                "born": {"action": "shiftDates", "days": 60},
                "country": {"action": "keep"},
                "created_at": {"action": "keep"},
            }
        },
        "orders": {"columns": {"ship_to": {"action": "fakeAddress"}, "*": {"action": "keep"}}},
        "lines": {"unclassified": "keep"},
        "log": {"unclassified": "keep"},
    }
}


def measure(megabytes: int, rounds: int = 1) -> None:
    """Prints as it goes; the better of each side's rounds counts."""
    # As a server is that was set up for such a size; both sides have the same.
    with running(
        Path(tempfile.gettempdir()), shared_buffers="512MB", max_wal_size="4GB", maintenance_work_mem="128MB"
    ) as server:
        server.create_database("shop")
        _fill(server, megabytes)
        by_hand: list[tuple[float, float]] = []
        ours: list[tuple[float, float]] = []
        for number in range(rounds):
            by_hand.append(_timed(server, lambda name: _by_hand(server, name), f"by_hand_{number}"))
            ours.append(_timed(server, lambda name: _ours(server, name), f"ours_{number}"))
    for what, took in (("pg_dump | psql, nothing masked", by_hand), ("anonymised copy", ours)):
        print(f"{what:<52} {min(took)[0]:10.2f} s   {min(cpu for _, cpu in took):.2f} s of CPU, servers and programs")
    ratio = min(ours)[0] / min(by_hand)[0]
    print(f"{'ratio':<52} {ratio:10.2f}     aim {_AIM:g}, {'met' if ratio <= _AIM else 'not met'}", flush=True)


def _fill(server: PostgresServer, megabytes: int) -> None:
    with server.connect("shop") as connection:
        connection.execute(_SCHEMA.encode())
        customers = max(100, megabytes * 1_000_000 // _BYTES_OF_A_CUSTOMER)
        for statement in _ROWS.format(customers=customers).split(";\n"):
            if statement.strip():
                connection.execute(statement.encode())
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
        size = "SELECT sum(pg_table_size(oid))::bigint, sum(reltuples)::bigint FROM pg_class WHERE relkind = 'r'"
        row = connection.execute(size).fetchone()
        assert row is not None
        print(f"a database of {row[0] / 1e6:,.0f} MB without indexes, {row[1] / 1e6:.1f} million rows", flush=True)


def _timed(server: PostgresServer, copy: Callable[[str], None], name: str) -> tuple[float, float]:
    """Seconds, and seconds of CPU."""
    server.create_database(name)
    # A session's time is counted when the server has noticed its end.
    time.sleep(_UNTIL_COUNTED)
    started, cpu = time.perf_counter(), _cpu(server)
    copy(name)
    took = time.perf_counter() - started
    time.sleep(_UNTIL_COUNTED)
    cpu = _cpu(server) - cpu
    server.drop_database(name)
    return took, cpu


def _cpu(server: PostgresServer) -> float:
    """Of all sessions that have ended, and all programs that were run."""
    fields = Path(f"/proc/{server.process_id}/stat").read_text().rpartition(")")[2].split()
    of_programs = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = os.sysconf("SC_CLK_TCK")
    # The server counts among the programs only after its own end.
    return sum(map(int, fields[11:15])) / ticks + of_programs.ru_utime + of_programs.ru_stime


def _by_hand(server: PostgresServer, name: str) -> None:
    with subprocess.Popen([str(server.programs / "pg_dump"), "-d", server.dsn("shop")], stdout=subprocess.PIPE) as dump:
        restore = [str(server.programs / "psql"), "-Xq", "-v", "ON_ERROR_STOP=1", "-d", server.dsn(name)]
        subprocess.run(restore, stdin=dump.stdout, stdout=subprocess.DEVNULL, check=True)


def _ours(server: PostgresServer, name: str) -> None:
    job = {
        "source": {"dsn": server.dsn("shop")},
        "target": {"dsn": server.dsn(name)},
        "rules": _RULES,
        "key": _KEY,
        "programs": str(server.programs),
    }
    done = subprocess.run(
        [sys.executable, "-m", "steelyard.masking"], input=json.dumps(job).encode(), stdout=subprocess.PIPE, check=False
    )
    verdict = json.loads(done.stdout.splitlines()[-1])
    if verdict["verdict"] != "copied":
        raise SystemExit(f"the copy was not made: {verdict}")
    print(f"  {verdict['message']}; stages {verdict['seconds']}", flush=True)
