"""Over generated databases: what is copied is all there and joins as before, and no clear value is anywhere in it.

Every value of a masked column holds a token that is nowhere else, and the copy's whole dump is searched for all of
them: tables, defaults, views, whatever pg_dump writes. `make soak ARGS=properties` looks further.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from steelyard.masking import copying
from steelyard.masking.expressions import literal, quoted
from steelyard.masking.job import Job
from tests.masking.cloning import fresh_name, job
from tests.postgresserver import PostgresServer
from tests.soak import properties

MOST_EXAMPLES: Final = 200
_IDENTIFIERS: Final = (
    "plain", "Upper Case", 'with "quotes"', "with 'tick'", "semi;colon", "select", "per%cent", "ümläut", "back\\slash",
    "a.dot", "star*", "$dollar$", "new\nline", "-- comment", "value", "tab\tbed",
)  # fmt: skip
Literal = Callable[["Tokens"], str]


@dataclass
class Tokens:
    """Makes values that can be recognised, and remembers them."""

    texts: list[str] = field(default_factory=list[str])
    numbers: list[int] = field(default_factory=list[int])

    def text(self) -> str:
        self.texts.append(f"zq{len(self.texts):05d}qz")
        return self.texts[-1]

    def number(self) -> int:
        self.numbers.append(710_000_017 + 1009 * len(self.numbers))
        return self.numbers[-1]


@dataclass(frozen=True)
class Sort:
    """A sort of column: its type, what may be done to it, and what stands in it."""

    type: str
    actions: tuple[str, ...]
    value: Literal
    more: str = ""
    """After the type: a check, a default."""


_TEXTS: Final = ("hash", "fakeName", "fakeAddress", "constant")
SORTS: Final[tuple[Sort, ...]] = (
    Sort("text", (*_TEXTS, "fakeEmail", "fakePhone", "null"), lambda t: literal(f"Ann {t.text()}")),
    Sort("varchar(40)", (*_TEXTS, "fakeEmail", "fakePhone"), lambda t: literal(t.text()), "NOT NULL"),
    Sort("varchar(64)", ("hash", "fakeName", "fakeEmail", "fakePhone"), lambda t: literal(t.text()), "UNIQUE"),
    Sort("character(20)", ("hash", "constant"), lambda t: literal(t.text())),
    Sort("public.mail", ("fakeEmail",), lambda t: literal(f"{t.text()}@clear.invalid")),
    Sort("text", ("hash",), lambda t: literal(t.text()), "CHECK (length({name}) >= 5)"),
    Sort("text[]", ("hash", "fakeName", "null"), lambda t: f"ARRAY[{literal(t.text())}, NULL, {literal(t.text())}]"),
    Sort("text[]", ("hash",), lambda t: "'{}'"),
    Sort("jsonb", ("hash", "null"), lambda t: literal(json.dumps({"a": {"b": [t.text()]}})) + "::jsonb"),
    Sort("json", ("hash",), lambda t: literal(json.dumps({"a": t.text()})) + "::json"),
    Sort("bytea", ("hash", "null"), lambda t: literal(t.text()) + "::bytea"),
    Sort("integer", ("hash", "null"), lambda t: str(t.number()), "UNIQUE"),
    Sort("bigint", ("hash",), lambda t: str(-t.number() * 7)),
    Sort("numeric(14, 2)", ("hash",), lambda t: f"{t.number()}.25"),
    Sort("double precision", ("hash", "null"), lambda t: f"{t.number()}.5"),
    Sort("uuid", ("hash", "null"), lambda t: f"('00000000-0000-4000-8000-000{t.number()}')::uuid"),
    Sort("date", ("shiftDates", "shuffle", "null"), lambda t: "'1971-03-04'::date"),
    Sort("timestamptz", ("shiftDates",), lambda t: "'1999-12-31 23:59:59.123456+01'::timestamptz"),
    Sort("public.mood", ("hash", "keep"), lambda t: "'calm'"),
    Sort("public.mood[]", ("keep", "null"), lambda t: "ARRAY['calm', 'angry']::public.mood[]"),
    Sort("public.pair", ("null",), lambda t: f"ROW({literal(t.text())}, 1)::public.pair"),
    Sort("inet", ("hash", "null"), lambda t: "'203.0.113.77'::inet"),
    Sort("int4range", ("keep", "null"), lambda t: "int4range(1, 5)"),
    Sort("boolean", ("unsaid",), lambda t: "true"),
    Sort("text", ("keep",), lambda t: "'kept as it is'"),
    Sort("text", ("hash", "null"), lambda t: literal(t.text() + "x" * 30_000)),
)
KEYS: Final = ("identity", "serial", "uuid", "text", "integer", "composite", "none")


@dataclass
class Drawn:
    """One table, and what is to happen to it."""

    name: str
    key: str
    columns: list[tuple[str, Sort, str]]
    rows: int
    nulls: list[bool]
    partitions: str
    generated: bool
    refers_to: list[int]

    @property
    def qualified(self) -> str:
        return f'"Some Schema".{quoted(self.name)}' if len(self.name) % 2 else f"public.{quoted(self.name)}"

    @property
    def written(self) -> str:
        return f"Some Schema.{self.name}" if len(self.name) % 2 else self.name

    def key_columns(self) -> list[tuple[str, str]]:
        return {
            "identity": [("key", "bigint GENERATED ALWAYS AS IDENTITY")],
            "serial": [("key", "serial")],
            "uuid": [("key", "uuid DEFAULT gen_random_uuid()")],
            "text": [("key", "text")],
            "integer": [("key", "integer")],
            "composite": [("key", "varchar(50)"), ("second", "integer")],
            "none": [],
        }[self.key]

    def masked_keys(self) -> dict[str, str]:
        return {name: "hash" for name, _ in self.key_columns()} if self.key in ("text", "integer", "composite") else {}


@st.composite
def databases(draw: st.DrawFn) -> list[Drawn]:
    count = draw(st.integers(1, 3))
    names = draw(st.lists(st.sampled_from(_IDENTIFIERS), min_size=count, max_size=count, unique=True))
    found: list[Drawn] = []
    for name in names:
        chosen = draw(st.lists(st.sampled_from(SORTS), min_size=1, max_size=7))
        columns = [
            (f"{draw(st.sampled_from(_IDENTIFIERS))} {number}", sort, draw(st.sampled_from(sort.actions)))
            for number, sort in enumerate(chosen)
        ]
        key = draw(st.sampled_from(KEYS))
        has_own_unique = any("UNIQUE" in sort.more for sort in chosen)
        ways = ["no"] if has_own_unique else ["no", "no", "range"] if key in ("none",) else ["no", "no", "hash"]
        found.append(
            Drawn(
                name,
                key,
                columns,
                draw(st.sampled_from((0, 1, 7, 30))),
                draw(st.lists(st.booleans(), min_size=7, max_size=7)),
                draw(st.sampled_from(ways)),
                draw(st.booleans()),
                draw(st.lists(st.integers(0, count - 1), max_size=2, unique=True)),
            )
        )
    return found


class Source:
    """The drawn database on a server, and its rules."""

    def __init__(self, drawn: list[Drawn]) -> None:
        self.drawn = drawn
        self.tokens = Tokens()
        self.rules: dict[str, Any] = {"tables": {}}
        self.joins: list[str] = []
        self.before: list[str] = [
            'CREATE SCHEMA "Some Schema"',
            "CREATE TYPE public.mood AS ENUM ('calm', 'angry', 'so-so')",
            "CREATE TYPE public.pair AS (a text, b integer)",
            "CREATE DOMAIN public.mail AS text CHECK (VALUE ~ '^[^@ ]+@[^@ ]+$')",
        ]
        self.after: list[str] = []
        for table in drawn:
            self._make(table)
        for number, table in enumerate(drawn):
            for other in table.refers_to:
                self._refer(number, table, drawn[other])
        self.after.append(f"COMMENT ON TABLE {drawn[0].qualified} IS 'of {self.tokens.text()}'")
        self.after.append(f"CREATE MATERIALIZED VIEW public.mv AS SELECT * FROM {drawn[0].qualified}")
        self.after.append("CREATE MATERIALIZED VIEW public.mw AS SELECT count(*) FROM public.mv")

    def statements(self) -> list[str]:
        return [*self.before, *self.after]

    def _make(self, table: Drawn) -> None:
        parts = [f"{quoted(name)} {kind}" for name, kind in table.key_columns()]
        rules = {name: {"action": action} for name, action in table.masked_keys().items()}
        for name, sort, action in table.columns:
            parts.append(f"{quoted(name)} {sort.type} {sort.more.format(name=quoted(name))}")
            if action != "unsaid":
                rules[name] = {"action": action, **({"value": "a constant"} if action == "constant" else {})}
        if table.generated and table.columns[0][1].type == "text":
            parts.append(f"made text GENERATED ALWAYS AS (upper({quoted(table.columns[0][0])})) STORED")
        if table.partitions == "range":
            parts.append("born date NOT NULL")
            rules["born"] = {"action": "keep"}
        if table.key_columns():
            parts.append(f"PRIMARY KEY ({', '.join(quoted(name) for name, _ in table.key_columns())})")
        by = {"hash": 'PARTITION BY HASH ("key")', "range": "PARTITION BY RANGE (born)"}.get(table.partitions, "")
        self.before.append(f"CREATE TABLE {table.qualified} ({', '.join(parts)}) {by}")
        for number in range(2) if table.partitions != "no" else ():
            bounds = {
                "hash": f"WITH (MODULUS 2, REMAINDER {number})",
                "range": f"FROM ('20{number}0-01-01') TO ('20{number + 1}0-01-01')",
            }[table.partitions]
            part = quoted(f"part {number} of {self.drawn.index(table)}")
            self.before.append(f"CREATE TABLE public.{part} PARTITION OF {table.qualified} FOR VALUES {bounds}")
        self.rules["tables"][table.written] = {"columns": rules}
        for number in range(table.rows):
            self._fill(table, number)

    def _fill(self, table: Drawn, number: int) -> None:
        values: dict[str, str] = {}
        for name, kind in table.key_columns():
            if kind in ("text", "varchar(50)"):
                values[name] = literal(self.tokens.text())
            elif kind == "integer":
                values[name] = str(self.tokens.number())
        for position, (name, sort, _) in enumerate(table.columns):
            is_null = table.nulls[(number + position) % 7] and "NOT NULL" not in sort.more
            values[name] = "NULL" if is_null else sort.value(self.tokens)
        if table.partitions == "range":
            values["born"] = f"'20{number % 2}5-01-01'"
        names = ", ".join(map(quoted, values))
        self.before.append(f"INSERT INTO {table.qualified} ({names}) VALUES ({', '.join(values.values())})")

    def _refer(self, number: int, table: Drawn, other: Drawn) -> None:
        """Made after the rows, so that cycles need no order: each row refers to some row of the other, or to none."""
        if other.key == "none":
            return
        pairs = [
            (quoted(f"to {self.drawn.index(other)} {name}"), quoted(name), kind) for name, kind in other.key_columns()
        ]
        for own, _, kind in pairs:
            plain = {"serial": "integer"}.get(kind, kind.split(" ")[0])
            self.after.append(f"ALTER TABLE {table.qualified} ADD {own} {plain}")
        own, theirs = ", ".join(own for own, _, _ in pairs), ", ".join(name for _, name, _ in pairs)
        some = f"SELECT {theirs} FROM {other.qualified} ORDER BY 1 LIMIT 1"
        key = quoted(f"fk {number} {self.drawn.index(other)}")
        self.after += [
            f"UPDATE {table.qualified} SET ({own}) = ({some})",
            f"ALTER TABLE {table.qualified} ADD CONSTRAINT {key} FOREIGN KEY ({own}) "
            f"REFERENCES {other.qualified} ({theirs})",
        ]
        matches = " AND ".join(f"a.{own} = b.{name}" for own, name, _ in pairs)
        self.joins.append(f"SELECT count(*) FROM {table.qualified} a JOIN {other.qualified} b ON {matches}")

    def masked_tokens(self) -> list[str]:
        return [*self.tokens.texts, *(token.encode().hex() for token in self.tokens.texts)]


# Each example is two databases: making failing ones smaller would take minutes.
@settings(
    max_examples=min(properties.examples(4), MOST_EXAMPLES),
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
@given(drawn=databases())
def test_a_copy_has_all_rows_all_joins_and_no_clear_value(postgres_server: PostgresServer, drawn: list[Drawn]) -> None:
    server, source = postgres_server, Source(drawn)
    original, copy = fresh_name("original"), fresh_name("copy")
    server.create_database(original)
    server.create_database(copy)
    try:
        with server.connect(original) as connection:
            for statement in source.statements():
                connection.execute(statement.encode())
        verdict = copying.run(Job.model_validate(job(server, original, copy, source.rules)), lambda _: None)
        assert verdict.outcome == "copied", verdict
        counts = [f"SELECT count(*) FROM {table.qualified}" for table in drawn]
        with server.connect(original) as before, server.connect(copy) as after:
            for query in (*counts, *source.joins, "SELECT * FROM public.mw"):
                assert after.execute(query.encode()).fetchone() == before.execute(query.encode()).fetchone(), query
            unfinished = "SELECT count(*) FROM pg_constraint WHERE NOT convalidated"
            assert after.execute(unfinished).fetchone() == (0,)
        dump = server.dump(copy)
        assert [token for token in source.masked_tokens() if token.lower() in dump.lower()] == []
        assert [number for number in source.tokens.numbers if str(number) in dump] == []
    finally:
        server.drop_database(copy)
        server.drop_database(original)
