"""The SQL of each action, tried on a real server: types, lengths, NULL, equality, and that permutations permute."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from steelyard.masking import expressions
from steelyard.masking.expressions import KEY_SETTING, Mask
from steelyard.masking.rules import Action
from tests.masking.databases import type_of
from tests.postgresserver import PostgresServer


def made(server: PostgresServer, mask: Mask, values: str, key: str = "k" * 32) -> list[Any]:
    """What becomes of the values, which are rows of VALUES in the mask's type."""
    digest = expressions.digest_of("t.v", mask, alias="t") or "NULL::bytea"
    inner = f"SELECT t.v, t.n, {digest} AS d FROM (VALUES {values}) AS t(n, v) OFFSET 0"
    query = f"SELECT {expressions.masked('h.v', 'h.d', mask)} FROM ({inner}) AS h ORDER BY h.n"
    with server.connect() as connection:
        connection.execute("SELECT set_config(%s, %s, false), set_config('search_path', '', false)", (KEY_SETTING, key))
        return [row[0] for row in connection.execute(query.encode()).fetchall()]


def mask(action: Action, name: str = "text", **more: Any) -> Mask:
    of_type = {each: more.pop(each) for each in ("precision", "scale") if each in more}
    return Mask(action, type_of(name, **of_type), **more)


NAME: Final = "[A-Z][a-z]+ [A-Z][a-z]+"
ADDRESS: Final = "[1-9][0-9]{0,2} [A-Z][a-z]+ (Street|Lane|Road|Square), [A-Z][a-z]+"
TEXTS: Final[list[tuple[Mask, str]]] = [
    (mask("hash"), "[0-9a-f]{32}"),
    (mask("hash", length=9), "[0-9a-f]{9}"),
    (mask("fakeName"), NAME),
    (mask("fakeName", unique=True), f"{NAME} [0-9a-f]{{16}}"),
    (mask("fakeName", unique=True, length=20), ".{1,3} [0-9a-f]{16}"),
    (mask("fakeEmail"), r"[a-z]+\.[a-z]+\.[0-9a-f]{10}@example\.com"),
    (mask("fakeEmail", unique=True, length=30), r"[0-9a-f]{16}@example\.com"),
    (mask("fakePhone"), r"\+999[0-9]{10}"),
    (mask("fakePhone", unique=True), r"\+999[0-9]{18}"),
    (mask("fakePhone", length=12), r"\+999[0-9]{8}"),
    (mask("fakeAddress"), ADDRESS),
    (mask("fakeAddress", unique=True), f"{ADDRESS} [0-9a-f]{{16}}"),
]


@pytest.mark.parametrize(
    ("of", "form"),
    TEXTS,
    ids=lambda each: f"{each.action}-{each.length}-{each.unique}" if isinstance(each, Mask) else "",
)
def test_texts_have_their_form_and_fit(postgres_server: PostgresServer, of: Mask, form: str) -> None:
    values = ", ".join(f"({number}, 'value {number}')" for number in range(300))
    found = made(postgres_server, of, values)
    assert [each for each in found if not re.fullmatch(form, each)] == []
    assert of.length is None or all(len(each) <= of.length for each in found)
    assert not of.unique or len(set(found)) == 300


@pytest.mark.parametrize(
    ("name", "width", "values"),
    [
        ("smallint", 15, "SELECT n::int, n::smallint FROM generate_series(-32768, 32767) n"),
        ("integer", 31, "SELECT n, n * 71 FROM generate_series(-20000, 20000) n"),
        ("bigint", 63, "SELECT n::int, n * 4611686018427387 FROM generate_series(-2000, 2000) n"),
        ("bigint", 31, "SELECT n::int, n::bigint FROM generate_series(-2000, 2000) n"),
    ],
    ids=["all of smallint", "integer", "bigint", "bigint that refers to integer"],
)
def test_integers_are_permuted_and_keep_their_sign(
    postgres_server: PostgresServer, name: str, width: int, values: str
) -> None:
    of = mask("hash", name, bits=width)
    query = f"SELECT t.v, {expressions.masked('t.v', 'NULL', of)} FROM ({values}) AS t(n, v)"
    with postgres_server.connect() as connection:
        connection.execute("SELECT set_config(%s, %s, false)", (KEY_SETTING, "k" * 32))
        pairs = connection.execute(query.encode()).fetchall()
    assert len({after for _, after in pairs}) == len(pairs)
    assert all((before < 0) == (after < 0) for before, after in pairs)
    assert all(-(2**width) <= after < 2**width for _, after in pairs)
    assert sum(before == after for before, after in pairs) < 10


def test_an_integer_and_a_bigint_of_one_key_become_the_same(postgres_server: PostgresServer) -> None:
    small = made(postgres_server, mask("hash", "integer", bits=31), "(1, 5), (2, -7)")
    large = made(postgres_server, mask("hash", "bigint", bits=31), "(1, 5::bigint), (2, -7::bigint)")
    assert small == large


@pytest.mark.parametrize(
    ("of", "values"),
    [
        (mask("hash", "numeric"), "(1, 1.0), (2, 1.000)"),
        (mask("hash", "double precision"), "(1, 0::double precision), (2, '-0'::double precision)"),
        (mask("hash", "bpchar"), "(1, 'a'::character(3)), (2, 'a'::character(9))"),
        (mask("hash", "jsonb"), """(1, '{"a": 1, "b": 2}'::jsonb), (2, '{"b":2,"a":1}'::jsonb)"""),
        (mask("hash", "uuid"), "(1, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid), "
                               "(2, 'a0eebc999c0b4ef8bb6d6bb9bd380a11'::uuid)"),
    ],
    ids=lambda each: each.type.name if isinstance(each, Mask) else "",
)  # fmt: skip
def test_equal_values_become_equal_however_they_are_written(
    postgres_server: PostgresServer, of: Mask, values: str
) -> None:
    one, other = made(postgres_server, of, values)
    assert one == other
    assert made(postgres_server, of, values, key="another key") != [one, other]


@pytest.mark.parametrize(
    "of",
    [
        *(
            mask("hash", name)
            for name in ("text", "bigint", "numeric", "real", "uuid", "bytea", "jsonb", "inet", "text[]")
        ),
        mask("fakeName"),
        mask("fakeEmail", "text[]"),
        mask("shiftDates", "date", uniform=True),
        mask("shiftDates", "timestamp with time zone"),
        mask("constant", "integer", value="7"),
    ],
    ids=lambda each: f"{each.action} {each.type.name}",
)
def test_null_stays_null(postgres_server: PostgresServer, of: Mask) -> None:
    assert made(postgres_server, of, f"(1, NULL::{of.type.name})") == [None]


def test_elements_of_arrays_are_masked_one_by_one_in_their_order(postgres_server: PostgresServer) -> None:
    (found,) = made(postgres_server, mask("hash", "text[]"), "(1, ARRAY['a', NULL, 'b', 'a'])")
    single = made(postgres_server, mask("hash"), "(1, 'a'), (2, 'b')")
    assert found == [single[0], None, single[1], single[0]]
    assert made(postgres_server, mask("hash", "text[]"), "(1, '{}'::text[])") == [[]]


def test_numbers_fit_their_precision(postgres_server: PostgresServer) -> None:
    of = mask("hash", "numeric", precision=4, scale=2)
    values = ", ".join(f"({number}, {number}.5)" for number in range(200))
    assert all(0 <= each < 100 and each == round(each, 2) for each in made(postgres_server, of, values))


def test_a_uniform_shift_is_the_same_for_all_values(postgres_server: PostgresServer) -> None:
    of = mask("shiftDates", "date", uniform=True, days=50)
    first, second = made(postgres_server, of, "(1, '2020-01-01'::date), (2, '2020-03-01'::date)")
    assert (second - first).days == 60


@pytest.mark.parametrize("name", ['a"b', "a'b", "a\\b", "ü", "a b"])
def test_names_and_literals_mean_themselves(postgres_server: PostgresServer, name: str) -> None:
    query = f"SELECT {expressions.literal(name)} AS {expressions.quoted(name)}"
    with postgres_server.connect() as connection:
        cursor = connection.execute(query.encode())
        assert cursor.description is not None
        assert (cursor.description[0].name, cursor.fetchone()) == (name, (name,))
