"""The SQL of each action: built-in functions only, written inline, so that nothing is created on the source.

A column's values become others by a keyed hash: SHA-256 over the key and the value. The key is the session's setting
`steelyard.key`, given when the session is opened, so that it is in no statement and in no log. Equal values become
equal ones in every column of the same family, so joins still match, declared or not. Integers are permuted (four
half-rounds of a Feistel network), which keeps them apart without a check. Everything is qualified with `pg_catalog`,
and a value's text comes from its type's output function: code of the database's own is never called.
"""

from __future__ import annotations

from typing import Final, Literal

from steelyard.frozen import frozen
from steelyard.masking import vocabulary
from steelyard.masking.catalogue import Type
from steelyard.masking.rules import DEFAULT_DAYS, Action

KEY_SETTING: Final = "steelyard.key"
DIGITS: Final = 32
"""Hexadecimal digits of a hash that a text column gets, if they fit."""
UNIQUE_DIGITS: Final = 16
"""Of those that made-up values carry to stay unique."""
EMAIL_DIGITS: Final = 10
PHONE_DIGITS: Final = 10
UNIQUE_PHONE_DIGITS: Final = 18

Family = Literal[
    "text", "integer", "numeric", "float", "uuid", "bytea", "json", "jsonb", "inet", "macaddr", "date", "timestamp",
    "enum", "boolean", "other",
]  # fmt: skip

_FAMILIES: Final[dict[str, Family]] = {
    "text": "text", "character varying": "text", "bpchar": "text", "name": "text",
    "smallint": "integer", "integer": "integer", "bigint": "integer", "numeric": "numeric", "real": "float",
    "double precision": "float", "uuid": "uuid", "bytea": "bytea", "json": "json", "jsonb": "jsonb", "inet": "inet",
    "macaddr": "macaddr", "date": "date", "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamp", "boolean": "boolean",
}  # fmt: skip
_BITS: Final = {"smallint": 15, "integer": 31, "bigint": 63}


@frozen
class Mask:
    """How one column's values are made. `planning.py` decides it; the columns of one key share all but the type."""

    action: Action
    type: Type
    unique: bool = False
    """Different values stay different."""
    length: int | None = None
    """Characters that fit into the narrowest column of the key."""
    bits: int = 63
    """Of the narrowest integer of the key."""
    value: str | None = None
    days: int = DEFAULT_DAYS
    uniform: bool = False
    """shiftDates: every value of the clone by the same number of days, since it is part of a key."""
    row_key: tuple[str, ...] = ()
    """shiftDates: the columns that say which row it is."""


def family(of: Type) -> Family:
    """What a type is to a mask; arrays are what their elements are."""
    if of.element is not None:
        return family(of.element)
    if of.kind == "enum":
        return "enum"
    if of.kind == "base" and is_case_insensitive(of):
        return "text"
    return _FAMILIES.get(of.name, "other") if of.built_in else "other"


def is_case_insensitive(of: Type) -> bool:
    return of.kind == "base" and not of.built_in and of.name.rpartition(".")[2] == "citext"


def bits(of: Type) -> int:
    """Of an integer, without the sign."""
    return _BITS.get(of.element.name if of.element else of.name, 63)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def qualified(schema: str, relation: str) -> str:
    return f"{quoted(schema)}.{quoted(relation)}"


def literal(text: str) -> str:
    """For sessions with standard_conforming_strings, which ours all have."""
    return "'" + text.replace("'", "''") + "'"


def masked(reference: str, digest: str, mask: Mask) -> str:
    """The new value. `reference` is the old one, `digest` its hash (of `digest_of`); both are cheap to repeat."""
    if mask.action == "keep":
        return reference
    if mask.action == "null":
        return f"NULL::{mask.type.name}"
    if mask.action == "constant":
        # NULL stays NULL: whether a value is there is often told by other columns too.
        return f"CASE WHEN {reference} IS NOT NULL THEN {literal(mask.value or '')}::{mask.type.name} END"
    if mask.type.element is not None:
        return _elementwise(reference, mask, mask.type.element)
    return f"({_made(reference, digest, mask)})::{mask.type.name}"


def digest_of(reference: str, mask: Mask, *, table: str = "", alias: str = "") -> str | None:
    """The hash that `masked` wants, or None where it needs none. The row's other columns are found under the alias."""
    if mask.type.element is not None or mask.action in ("keep", "null", "constant", "shuffle"):
        return None
    if mask.action == "hash" and family(mask.type) == "integer":
        return None
    if mask.action == "shiftDates":
        if mask.uniform:
            return None
        if mask.row_key:
            parts = ", ".join(f"{alias}.{quoted(name)}" for name in mask.row_key)
            return _sha(f"row:{table}", f"pg_catalog.concat_ws('|', {parts})")
        return _sha("date", _text_of(reference, mask.type))
    return _sha("value", _text_of(reference, mask.type))


def uses_digest_once(mask: Mask) -> bool:
    """Then it is written where it is used; otherwise it is computed in a subquery first."""
    return mask.action == "hash" and family(mask.type) != "inet"


def shortest(action: Action, *, unique: bool) -> int:
    """Characters that a text column must have room for."""
    if action == "fakeEmail":
        return (UNIQUE_DIGITS if unique else EMAIL_DIGITS) + 1 + len(vocabulary.EMAIL_DOMAIN)
    if action == "fakePhone":
        return len(vocabulary.PHONE_PREFIX) + (UNIQUE_PHONE_DIGITS if unique else 6)
    if unique and action in ("fakeName", "fakeAddress"):
        return UNIQUE_DIGITS + 2
    return 1


def space(mask: Mask) -> float:
    """How many different values the mask can make; infinite where collisions cannot be."""
    kind = family(mask.type)
    if mask.action == "hash":
        if kind == "text":
            return 16.0 ** min(DIGITS, mask.length or DIGITS)
        if kind == "numeric":
            return 10.0 ** _numeric_digits(mask.type)
        sizes: dict[Family, float] = {"float": 2.0**24, "macaddr": 2.0**40, "enum": float(max(mask.type.labels, 1))}
        if mask.type.name == "double precision":
            return 2.0**52
        return sizes.get(kind, float("inf"))
    if mask.action == "fakePhone":
        return 10.0 ** _phone_digits(mask)
    if mask.action in ("fakeName", "fakeAddress", "fakeEmail"):
        return 16.0**UNIQUE_DIGITS if mask.unique else 1.0
    return float("inf")


def _made(reference: str, digest: str, mask: Mask) -> str:
    if mask.action == "hash":
        return _hashed(reference, digest, mask)
    if mask.action == "shiftDates":
        return _shifted(reference, digest, mask)
    hexadecimal = f"pg_catalog.encode({digest}, 'hex')"
    suffix = f"pg_catalog.substr({hexadecimal}, 9, {UNIQUE_DIGITS})"
    if mask.action == "fakeEmail":
        local = f"pg_catalog.substr({hexadecimal}, 9, {_email_digits(mask)})"
        names = f"{_pick(vocabulary.FIRST_NAMES, digest, 0)} || '.' || {_pick(vocabulary.LAST_NAMES, digest, 1)}"
        has_room_for_names = mask.length is None or mask.length >= shortest("fakeEmail", unique=mask.unique) + 24
        before = f"pg_catalog.lower({names}) || '.' || " if has_room_for_names else ""
        return f"{before}{local} || '@{vocabulary.EMAIL_DOMAIN}'"
    if mask.action == "fakePhone":
        digits = _phone_digits(mask)
        number = f"({_bits_of(digest, 60)} % {10**digits})::text"
        return f"'{vocabulary.PHONE_PREFIX}' || pg_catalog.lpad({number}, {digits}, '0')"
    if mask.action == "fakeName":
        made = f"{_pick(vocabulary.FIRST_NAMES, digest, 0)} || ' ' || {_pick(vocabulary.LAST_NAMES, digest, 1)}"
    else:
        number = f"(1 + pg_catalog.get_byte({digest}, 0) % 199)::text"
        street, city = _pick(vocabulary.STREETS, digest, 1), _pick(vocabulary.CITIES, digest, 2)
        made = f"{number} || ' ' || {street} || ', ' || {city}"
    if mask.unique:
        whole = made if mask.length is None else f"pg_catalog.left({made}, {mask.length - UNIQUE_DIGITS - 1})"
        return f"{whole} || ' ' || {suffix}"
    return made if mask.length is None else f"pg_catalog.left({made}, {mask.length})"


def _hashed(reference: str, digest: str, mask: Mask) -> str:
    hexadecimal = f"pg_catalog.encode({digest}, 'hex')"
    kind = family(mask.type)
    if kind == "integer":
        return _permuted(reference, mask.bits)
    if kind == "numeric":
        digits, scale = _numeric_digits(mask.type), mask.type.scale or 0
        unit = f"0.{'0' * (scale - 1)}1" if scale > 0 else "1"
        return f"({_bits_of(digest, 60)} % {10**digits})::numeric * {unit}"
    if kind == "float":
        return f"({_bits_of(digest, 24 if mask.type.name == 'real' else 52)})::double precision"
    if kind == "uuid":
        # Version 4 and its variant, for whoever looks at them.
        return f"pg_catalog.left(pg_catalog.overlay(pg_catalog.overlay({hexadecimal}, '4', 13), 'a', 17), 32)"
    if kind == "bytea":
        return digest
    if kind == "jsonb":
        return f"pg_catalog.to_jsonb(pg_catalog.left({hexadecimal}, {DIGITS}))"
    if kind == "json":
        return f"pg_catalog.to_json(pg_catalog.left({hexadecimal}, {DIGITS}))"
    if kind == "macaddr":
        return f"'02' || pg_catalog.left({hexadecimal}, 10)"
    if kind == "enum":
        index = f"1 + ({_bits_of(digest, 32)} % {mask.type.labels})::int"
        return f"(pg_catalog.enum_range(NULL::{mask.type.name}))[{index}]"
    if kind == "inet":
        groups = f"pg_catalog.regexp_replace('fd' || pg_catalog.left({hexadecimal}, 30), '(....)(?=.)', '\\1:', 'g')"
        if mask.unique:
            return groups
        bytes_of = " || '.' || ".join(f"pg_catalog.get_byte({digest}, {index})::text" for index in range(3))
        return f"CASE pg_catalog.family({reference}) WHEN 4 THEN '10.' || {bytes_of} ELSE {groups} END"
    return f"pg_catalog.left({hexadecimal}, {min(DIGITS, mask.length or DIGITS)})"


def _permuted(reference: str, width: int) -> str:
    """Half-rounds alternate, so that the halves need not be equally wide; the sign stays."""
    low = (width + 1) // 2
    high = width - low
    low_mask, high_mask = (1 << low) - 1, (1 << high) - 1

    def noise(number: int, half: str, mask: int) -> str:
        return f"{_bits_of(_sha(f'round{number}', f'{half}::text'), 32)} & {mask}"

    rounds = (
        f"(SELECT a.n, a.l # ({noise(1, 'a.r', high_mask)}) AS l, a.r OFFSET 0) b",
        f"LATERAL (SELECT b.n, b.l, b.r # ({noise(2, 'b.l', low_mask)}) AS r OFFSET 0) c",
        f"LATERAL (SELECT c.n, c.l # ({noise(3, 'c.r', high_mask)}) AS l, c.r OFFSET 0) d",
        f"LATERAL (SELECT d.n, d.l, d.r # ({noise(4, 'd.l', low_mask)}) AS r OFFSET 0) e",
    )
    start = (
        f"(SELECT v < 0 AS n, m >> {low} AS l, m & {low_mask} AS r FROM (SELECT {reference}::bigint AS v, "
        f"CASE WHEN {reference} < 0 THEN -1 - {reference}::bigint ELSE {reference}::bigint END AS m) s OFFSET 0) a"
    )
    joined = f"(e.l << {low}) | e.r"
    chain = ", ".join((start, f"LATERAL {rounds[0]}", *rounds[1:]))
    return f"SELECT CASE WHEN e.n THEN -1 - ({joined}) ELSE {joined} END FROM {chain}"


def _shifted(reference: str, digest: str, mask: Mask) -> str:
    if mask.uniform:
        drawn = f"(SELECT {_bits_of(_sha('uniform', literal('')), 32)} % {2 * mask.days})"
    else:
        drawn = f"({_bits_of(digest, 32)} % {2 * mask.days})"
    # From -days to days without 0.
    offset = f"({drawn} - {mask.days} + {drawn} / {mask.days})::int"
    if family(mask.type) == "date":
        return f"{reference} + {offset}"
    return f"{reference} + pg_catalog.make_interval(days => {offset})"


def _elementwise(reference: str, mask: Mask, element: Type) -> str:
    of_one = Mask(mask.action, element, mask.unique, mask.length, mask.bits, mask.value, mask.days, mask.uniform)
    digest = digest_of("u.e", of_one) or "NULL::bytea"
    return (
        f"CASE WHEN {reference} IS NOT NULL THEN COALESCE((SELECT pg_catalog.array_agg({masked('w.e', 'w.d', of_one)} "
        f"ORDER BY w.i) FROM (SELECT u.e, u.i, {digest} AS d "
        f"FROM pg_catalog.unnest({reference}) WITH ORDINALITY u(e, i) OFFSET 0) w)::{mask.type.name}, "
        f"'{{}}'::{mask.type.name}) END"
    )


def _text_of(reference: str, of: Type) -> str:
    """The same text for values that the type takes for equal."""
    kind = family(of)
    if kind == "numeric":
        return f"pg_catalog.trim_scale({reference})::text"
    if kind == "float":
        return f"({reference} + 0)::text"
    if kind == "bytea":
        return f"pg_catalog.encode({reference}, 'hex')"
    if kind == "timestamp" or kind == "date":
        return f"pg_catalog.date_part('epoch', {reference})::text"
    if of.built_in:
        return f"{reference}::text"
    text = f"CASE WHEN {reference} IS NOT NULL THEN pg_catalog.concat({reference}) END"
    return f"pg_catalog.lower({text})" if is_case_insensitive(of) else text


def _sha(purpose: str, text: str) -> str:
    # A subquery without references is computed once for the statement, not once for each row.
    key = f"(SELECT pg_catalog.current_setting('{KEY_SETTING}') || {literal(f':{purpose}:')})"
    return f"pg_catalog.sha256(pg_catalog.convert_to({key} || {text}, 'UTF8'))"


def _bits_of(digest: str, count: int) -> str:
    """The first bits of a hash as a number that is not negative."""
    digits = -(-count // 4)
    return f"('x' || pg_catalog.left(pg_catalog.encode({digest}, 'hex'), {digits}))::bit({count})::bigint"


def _pick(words: tuple[str, ...], digest: str, byte: int) -> str:
    array = literal("{" + ",".join(f'"{word}"' for word in words) + "}")
    return f"({array}::text[])[1 + pg_catalog.get_byte({digest}, {byte}) % {len(words)}]"


def _email_digits(mask: Mask) -> int:
    return UNIQUE_DIGITS if mask.unique else EMAIL_DIGITS


def _phone_digits(mask: Mask) -> int:
    most = UNIQUE_PHONE_DIGITS if mask.unique else PHONE_DIGITS
    return most if mask.length is None else max(1, min(most, mask.length - len(vocabulary.PHONE_PREFIX)))


def _numeric_digits(of: Type) -> int:
    return min(of.precision or 15, 17)
