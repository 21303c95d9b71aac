"""The leak scan: source and copy compared before anybody may connect.

For every masked column of the copy:
- all rows: empty columns are empty, constants constant, and hashed and made-up values have the form that only masking
  gives;
- a share of the values on both sides, chosen by the values themselves so that both sides choose the same ones: keyed
  hashes of what the source has in clear and of what the copy has must have none in common. Where a column has fewer
  values than the share asks for, that is all of them. Integers and other small ranges coincide by chance and are not
  compared.
For everything else that holds text in the copy (kept columns, JSON, arrays): words of masked columns, on a sample.
Comments and large objects: there are none.

Clear values never leave a server: what is compared are hashes under a key that exists only as long as the scan.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from steelyard.frozen import frozen
from steelyard.masking import expressions, vocabulary, words
from steelyard.masking.expressions import Mask, qualified, quoted
from steelyard.masking.planning import ACTIONS_THAT_HIDE, ColumnPlan, Plan, TablePlan
from steelyard.masking.sessions import SCAN_SETTING

if TYPE_CHECKING:
    import psycopg

_FEWEST_ROWS_OF_A_PAGE: Final = 30
"""Where nobody has counted."""
_WIDE_ENOUGH: Final = 2.0**56
"""Different values that a mask must be able to make before an equal one on both sides means a leak."""


@frozen
class Leak:
    table: str
    column: str
    found: str
    """What was found, without any value."""

    def __str__(self) -> str:
        return f"{self.table}.{self.column}: {self.found}"


def leaks(
    source: psycopg.Connection[Any],
    target: psycopg.Connection[Any],
    plan: Plan,
    *,
    scan_key: str,
    clear: words.Clear,
    sampled: int,
    compared: int,
) -> tuple[Leak, ...]:
    """All that were found. The source is in the snapshot that was copied; `clear` is what `words` found there."""
    found: list[Leak] = []
    for table in plan.tables:
        if table.copied and table.masked_columns():
            found += forms(target, table)
            found += _compared(source, target, table, compared)
    found += _elsewhere(target, plan, scan_key, clear, sampled)
    found += _besides(target)
    return tuple(found)


def forms(target: psycopg.Connection[Any], table: TablePlan) -> Iterable[Leak]:
    """Over all rows of the copy."""
    tests = [(each, test) for each in table.masked_columns() if (test := masked_form(each)) is not None]
    if not tests:
        return
    counts = ", ".join(f"pg_catalog.count(*) FILTER (WHERE NOT ({test}))" for _, test in tests)
    query = f"SELECT {counts} FROM ONLY {qualified(table.table.schema, table.table.relation)} AS t"
    row = target.execute(query.encode()).fetchone()
    assert row is not None
    for (each, _), count in zip(tests, row, strict=True):
        if count:
            yield Leak(
                table.table.name, each.column.name, f"{count} rows are not of the form that {each.mask.action} makes"
            )


def masked_form(each: ColumnPlan) -> str | None:
    """A condition that every masked value fulfils; cheap enough for all rows. NULL fulfils it."""
    mask, reference = each.mask, f"t.{quoted(each.column.name)}"
    if mask.action == "null":
        return f"{reference} IS NULL"
    if mask.action == "constant":
        # As text: not every type can be compared.
        constant = f"pg_catalog.concat({expressions.literal(mask.value or '')}::{mask.type.name})"
        return f"{reference} IS NULL OR pg_catalog.btrim(pg_catalog.concat({reference})) = pg_catalog.btrim({constant})"
    if expressions.family(mask.type) != "text" or mask.type.element is not None:
        return None
    text = f"{reference}::text" if mask.type.built_in else f"pg_catalog.concat({reference})"
    form = _form(text, mask)
    return f"{reference} IS NULL OR ({form})" if form else None


def _form(text: str, mask: Mask) -> str | None:
    if mask.action == "hash":
        digits = min(expressions.DIGITS, mask.length or expressions.DIGITS)
        return f"pg_catalog.length({text}) = {digits} AND {text} !~ '[^0-9a-f]'"
    if mask.action == "fakeEmail":
        return f"{text} LIKE '%@{vocabulary.EMAIL_DOMAIN}'"
    if mask.action == "fakePhone":
        return f"{text} LIKE '{vocabulary.PHONE_PREFIX}%' AND pg_catalog.substr({text}, 2) !~ '[^0-9]'"
    if mask.length is not None:
        return None
    if mask.action == "fakeName":
        first, last = _any(vocabulary.FIRST_NAMES), _any(vocabulary.LAST_NAMES)
        return f"pg_catalog.split_part({text}, ' ', 1) = {first} AND pg_catalog.split_part({text}, ' ', 2) = {last}"
    if mask.action == "fakeAddress":
        city = f"pg_catalog.split_part(pg_catalog.split_part({text}, ', ', 2), ' ', 1)"
        return f"{city} = {_any(vocabulary.CITIES)}"
    return None


def _any(allowed: tuple[str, ...]) -> str:
    return f"ANY ({expressions.literal('{' + ','.join(allowed) + '}')}::text[])"


def _compared(
    source: psycopg.Connection[Any], target: psycopg.Connection[Any], table: TablePlan, compared: int
) -> Iterable[Leak]:
    for each in table.masked_columns():
        is_wide = expressions.space(each.mask) >= _WIDE_ENOUGH or each.mask.action == "fakeEmail"
        if each.mask.action not in ACTIONS_THAT_HIDE or not is_wide or each.mask.action in ("null", "constant"):
            continue
        if expressions.family(each.mask.type) in ("integer", "enum", "inet") or each.mask.type.element is not None:
            continue
        query = _share(table, each, compared).encode()
        clear = {row[0] for row in source.execute(query).fetchall()}
        both = sum(1 for row in target.execute(query).fetchall() if row[0] in clear)
        if both:
            yield Leak(table.table.name, each.column.name, f"{both} values of the source are in the copy")


def _share(table: TablePlan, each: ColumnPlan, compared: int) -> str:
    reference = f"t.{quoted(each.column.name)}"
    text = f"{reference}::text" if each.mask.type.built_in else f"pg_catalog.concat({reference})"
    share = 1
    rows = max(table.table.rows, table.table.pages * _FEWEST_ROWS_OF_A_PAGE)
    while rows / share > compared:
        share *= 2
    chosen = f'(pg_catalog.hashtextextended({text} COLLATE "C", 0) & {share - 1}) = 0' if share > 1 else "true"
    key = f"(SELECT pg_catalog.current_setting('{SCAN_SETTING}'))"
    digest = f"pg_catalog.sha256(pg_catalog.convert_to({key} || v, 'UTF8'))"
    # An empty text gives nobody away.
    return (
        f"SELECT DISTINCT pg_catalog.substr({digest}, 1, 12) FROM (SELECT {text} AS v "
        f"FROM ONLY {qualified(table.table.schema, table.table.relation)} AS t "
        f"WHERE {reference} IS NOT NULL AND {chosen} OFFSET 0) AS s WHERE v <> ''"
    )


def _elsewhere(
    target: psycopg.Connection[Any], plan: Plan, scan_key: str, clear: words.Clear, sampled: int
) -> Iterable[Leak]:
    if not clear:
        return
    for table in plan.tables:
        for each in table.columns if table.copied else ():
            values = words.texts_in(table, each, sampled)
            if values is None or each.acknowledged or each.mask.action in ACTIONS_THAT_HIDE:
                continue
            query = f"SELECT DISTINCT {words.normalised('v')} FROM ({values}) AS s"
            texts = (row[0] for row in target.execute(query.encode()).fetchall())
            for (other, column), count in words.hits(clear, texts, scan_key, most=words.MOST_RUNS).items():
                what = f"has {count} values of the masked column {other}.{column} among its words"
                yield Leak(
                    table.table.name, each.column.name, f"{what}; mask it, or write `acknowledged: true` if that may be"
                )


def _besides(target: psycopg.Connection[Any]) -> Iterable[Leak]:
    from steelyard.masking import reading

    copy = reading.read(target)
    if copy.comments:
        yield Leak("the copy", "comments", f"{copy.comments} comments were copied")
    if copy.large_objects:
        yield Leak("the copy", "large objects", f"{copy.large_objects} large objects were copied")
