"""SQL out of names and values that others chose. Nothing else in this package puts text into a statement.

    statements.of("ALTER ROLE {} CONNECTION LIMIT {}", statements.name("shop"), statements.value(20))

Templates are literals of ours; names become quoted identifiers, values quoted literals, privileges words of a known
set. PostgreSQL cuts names after 63 bytes without a word, so that two names could become one: longer ones are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, LiteralString

from psycopg import sql
from psycopg.sql import Composable, Composed

from steelyard.providers.postgres.problems import Invalid

NAME_BYTES: Final = 63
_PRIVILEGES: Final[tuple[LiteralString, ...]] = (
    *("ALL", "ALL PRIVILEGES", "CONNECT", "CREATE", "DELETE", "EXECUTE", "INSERT", "MAINTAIN", "REFERENCES", "SELECT"),
    *("TEMP", "TEMPORARY", "TRIGGER", "TRUNCATE", "UPDATE", "USAGE"),
)
_PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_$]*)?")


def of(template: LiteralString, *parts: Composable) -> Composed:
    return sql.SQL(template).format(*parts)


def name(text: str, *more: str) -> sql.Identifier:
    """An identifier; with `more`, a qualified one: `name("public", "orders")`."""
    for each in (text, *more):
        if not each or "\0" in each or len(each.encode()) > NAME_BYTES:
            raise Invalid(f"{each[:80]!r} is no name that PostgreSQL can have: 1 to {NAME_BYTES} bytes, none of them 0")
    return sql.Identifier(text, *more)


def names(items: Iterable[str]) -> Composed:
    return joined(map(name, items))


def value(of_type: str | float | bool) -> sql.Literal:
    if isinstance(of_type, str) and "\0" in of_type:
        raise Invalid("a text with a zero byte in it cannot be stored by PostgreSQL")
    return sql.Literal(of_type)


def joined(parts: Iterable[Composable], separator: LiteralString = ", ") -> Composed:
    return sql.SQL(separator).join(parts)


def privileges(words: Iterable[str]) -> Composed:
    """Privileges of a GRANT, which are neither names nor values: words that PostgreSQL has."""
    return joined(privilege(word) for word in words)


def privilege(word: str) -> sql.SQL:
    try:
        return _SQL_OF[word]
    except KeyError:
        raise Invalid(f"PostgreSQL has no privilege {word[:40]}; there are {', '.join(_PRIVILEGES)}") from None


def parameter(text: str) -> sql.Identifier:
    """The name of a setting, such as work_mem or app.tenant."""
    if not _PARAMETER.fullmatch(text) or len(text) > NAME_BYTES:
        raise Invalid(f"{text[:80]!r} is no name of a PostgreSQL setting")
    return sql.Identifier(*text.split("."))


_SQL_OF: Final[dict[str, sql.SQL]] = {word: sql.SQL(word) for word in _PRIVILEGES}
