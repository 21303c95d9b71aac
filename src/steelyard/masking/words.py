"""Words of masked columns, and where else they are: found by keyed hashes, so that no clear value leaves the source.

A value is lower-cased and everything but letters and digits becomes a space; both sides do that with the same SQL. Of
the source only the keyed hashes of whole values come here. Of a text in which they may hide, every run of up to six
words is hashed with the same key.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from steelyard.masking import expressions
from steelyard.masking.expressions import qualified, quoted
from steelyard.masking.planning import ACTIONS_THAT_HIDE, ColumnPlan, Plan, TablePlan
from steelyard.masking.sessions import SCAN_SETTING

if TYPE_CHECKING:
    import psycopg

Place = tuple[str, str]
Clear = dict[str, Place]
"""Keyed hashes of masked columns' values, and whose they are."""

SHORTEST: Final = 6
"""Characters. What is shorter is in too many texts by chance."""
_LONGEST: Final = 200
_RUN: Final = 6
"""Words; an address or a name has no more."""
_LONGEST_TEXT: Final = 4000
"""Characters of one value that are looked at."""
MOST_RUNS: Final = 1_000_000
"""Of one column: one or two seconds."""
_REMEMBERED: Final = 100_000
"""Runs that were looked at and need not be again: texts of one column repeat themselves."""
_DIGITS: Final = 16


def normalised(reference: str, longest: int = _LONGEST_TEXT) -> str:
    return (
        f"pg_catalog.btrim(pg_catalog.regexp_replace(pg_catalog.lower(pg_catalog.left({reference}, {longest})), "
        f"'[^[:alnum:]]+', ' ', 'g'))"
    )


def clear(connection: psycopg.Connection[Any], plan: Plan, sampled: int, known: Sequence[str]) -> Clear:
    """Of the first rows of each table; without the words that are known to give nobody away."""
    found: Clear = {}
    for table in plan.tables:
        for each in table.columns if table.copied else ():
            values = texts_in(table, each, sampled)
            if each.mask.action not in ACTIONS_THAT_HIDE or values is None:
                continue
            query = (
                f"SELECT DISTINCT {_hashed('n')} FROM (SELECT {normalised('v')} AS n FROM ({values}) AS s) AS s "
                f"WHERE pg_catalog.length(n) BETWEEN {SHORTEST} AND {_LONGEST}"
            )
            for (digest,) in connection.execute(query.encode()).fetchall():
                found.setdefault(digest, (table.table.name, each.column.name))
    if found and known:
        query = f"SELECT {_hashed(normalised('x'))} FROM pg_catalog.unnest(%s::text[]) AS x"
        for (digest,) in connection.execute(query.encode(), (list(known),)).fetchall():
            found.pop(digest, None)
    return found


def hits(found: Clear, texts: Iterable[str], scan_key: str, *, most: int | None = None) -> dict[Place, int]:
    """How many different values of which masked column are in the texts, which are normalised.

    `most` bounds the runs of words that are looked at; what comes after is not.
    """
    digests: dict[str, Place] = {}
    seen: set[str] = set()
    key, looked_at = scan_key.encode(), 0
    for text in texts if found else ():
        single = text.split(" ")
        for start in range(len(single)):
            for end in range(start + 1, min(start + _RUN, len(single)) + 1):
                run = " ".join(single[start:end])
                looked_at += 1
                if SHORTEST <= len(run) <= _LONGEST and run not in seen:
                    seen.add(run)
                    digest = hashlib.sha256(key + run.encode()).hexdigest()[:_DIGITS]
                    if digest in found:
                        digests[digest] = found[digest]
        if most is not None and looked_at > most:
            break
        if len(seen) > _REMEMBERED:
            seen.clear()
    return dict(Counter(digests.values()))


def texts_in(table: TablePlan, each: ColumnPlan, sampled: int) -> str | None:
    """A query for the texts in a column as `v`: values, elements of arrays, strings in JSON. None for other types."""
    of = each.mask.type
    reference = f"t.{quoted(each.column.name)}"
    rows = (
        f"(SELECT {reference} FROM ONLY {qualified(table.table.schema, table.table.relation)} AS t "
        f"WHERE {reference} IS NOT NULL LIMIT {sampled}) AS t"
    )
    kind = expressions.family(of)
    if kind in ("integer", "numeric", "float", "boolean", "date", "timestamp", "enum", "bytea", "uuid"):
        return None
    if of.element is not None:
        return f"SELECT pg_catalog.concat(u.e) AS v FROM {rows}, pg_catalog.unnest({reference}) AS u(e)"
    if kind in ("json", "jsonb"):
        return (
            f"SELECT u.j #>> '{{}}' AS v FROM {rows}, "
            f"pg_catalog.jsonb_path_query({reference}::jsonb, 'strict $.**') AS u(j) "
            f"WHERE pg_catalog.jsonb_typeof(u.j) IN ('string', 'number')"
        )
    return f"SELECT pg_catalog.concat({reference}) AS v FROM {rows}"


def _hashed(text: str) -> str:
    key = f"(SELECT pg_catalog.current_setting('{SCAN_SETTING}'))"
    return (
        f"pg_catalog.left(pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to({key} || {text}, 'UTF8')), 'hex'), "
        f"{_DIGITS})"
    )
