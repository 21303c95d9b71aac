"""What only the rows can tell, asked of the source in the copy's own snapshot before anything is copied.

- Constants are values of their columns' types.
- Masked rows fulfil the checks of tables and domains: tried on the first rows of each table; the copy itself checks
  all.
- What the schema itself says (defaults, checks, views, functions, enum labels, bounds) holds no value of a masked
  column: quoted literals are compared with every row, their words with a sample.

Answers are yes or no, and keyed hashes: no value leaves the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from steelyard.masking import expressions, selecting, words
from steelyard.masking.catalogue import Catalogue
from steelyard.masking.expressions import qualified, quoted
from steelyard.masking.planning import ACTIONS_THAT_HIDE, ColumnPlan, Plan, Refusal, TablePlan
from steelyard.masking.rules import MaskingRules

if TYPE_CHECKING:
    import psycopg

_TRIED_ROWS: Final = 100_000
_SHORTEST_LITERAL: Final = 3
_LITERAL: Final = re.compile(r"'((?:[^']|'')*)'")
_MOST_LITERALS: Final = 20_000
_LONGEST_TEXT: Final = 1_000_000
"""Characters of a function, a view."""


def refusals(
    connection: psycopg.Connection[Any],
    catalogue: Catalogue,
    plan: Plan,
    rules: MaskingRules,
    *,
    scan_key: str,
    clear: words.Clear,
) -> tuple[Refusal, ...]:
    """Further reasons to refuse; empty when the plan holds. The plan itself has none. `clear` is what `words` found."""
    found = list(_constants(connection, plan))
    if not found:
        found += _checks(connection, plan)
    found += _literals(connection, catalogue, plan, rules)
    found += _words(connection, catalogue, scan_key, clear)
    return tuple({str(each): each for each in found}.values())


def _constants(connection: psycopg.Connection[Any], plan: Plan) -> Iterable[Refusal]:
    import psycopg

    for table in plan.tables:
        for each in table.columns if table.copied else ():
            if each.mask.action != "constant":
                continue
            try:
                with connection.transaction():
                    connection.execute(
                        f"SELECT {expressions.literal(each.mask.value or '')}::{each.mask.type.name}".encode()
                    )
            except psycopg.DataError:
                reason = f"the constant is no {each.mask.type.name}."
                yield Refusal(table.table.name, each.column.name, reason, "Write a `value` that its type understands.")


def _checks(connection: psycopg.Connection[Any], plan: Plan) -> Iterable[Refusal]:
    import psycopg

    for proof in plan.proofs:
        table = plan.table(proof.table)
        source = selecting.select(table, limit=_TRIED_ROWS)
        if proof.column is None:
            rows, what = f"({source}) AS {quoted(table.table.relation)}", f"check constraint {proof.check.name}"
            column = next(
                each.column.name for each in table.masked_columns() if each.column.name in proof.check.columns
            )
        else:
            rows, column = f"(SELECT q.{quoted(proof.column)} AS value FROM ({source}) AS q) AS q", proof.column
            what = f"condition {proof.check.name} of its domain"
        query = f"SELECT EXISTS (SELECT FROM {rows} WHERE NOT ({proof.check.expression}))"
        try:
            with connection.transaction():
                violated = connection.execute(query.encode()).fetchone() == (True,)
        except psycopg.Error as error:
            reason = f"whether masked values fulfil the {what} could not be tried ({type(error).__name__})."
            yield Refusal(proof.table, column, reason, "Use keep.")
            continue
        if violated:
            yield Refusal(
                proof.table,
                column,
                f"masked values do not fulfil the {what}.",
                "Use keep, null, shuffle or a fitting constant.",
            )


def _literals(
    connection: psycopg.Connection[Any], catalogue: Catalogue, plan: Plan, rules: MaskingRules
) -> Iterable[Refusal]:
    """A literal that is a whole value of a masked column, compared with all rows."""
    known = set(rules.known_literals)
    where: dict[str, str] = {}
    for text in catalogue.texts:
        for found in _LITERAL.findall(text.text):
            value = str(found).replace("''", "'")
            if len(value) >= _SHORTEST_LITERAL and value not in known and len(where) < _MOST_LITERALS:
                where.setdefault(value, text.where)
    if not where:
        return
    for table, each in hidden_texts(plan):
        relation = qualified(table.table.schema, table.table.relation)
        reference = f"t.{quoted(each.column.name)}"
        value = f"pg_catalog.concat({reference})" if not each.mask.type.built_in else f"{reference}::text"
        same = f"FROM ONLY {relation} AS t WHERE {value}".replace("%", "%%")
        query = f"SELECT DISTINCT {value.replace('%', '%%')} {same} = ANY (%s) LIMIT 5"
        # What comes back are literals of the schema, which everybody may read who may read the schema.
        for (literal,) in connection.execute(query.encode(), (list(where),)).fetchall():
            yield _in_clear(where[literal], table.table.name, each.column.name)


def _words(
    connection: psycopg.Connection[Any], catalogue: Catalogue, scan_key: str, clear: words.Clear
) -> Iterable[Refusal]:
    texts = {text.where: text.text for text in catalogue.texts}
    if not texts:
        return
    query = f"SELECT w, {words.normalised('x', _LONGEST_TEXT)} FROM unnest(%s::text[], %s::text[]) AS u(w, x)"
    for place, text in connection.execute(query.encode(), (list(texts), list(texts.values()))).fetchall():
        for table, column in words.hits(clear, [text], scan_key):
            yield _in_clear(place, table, column)


def _in_clear(place: str, table: str, column: str) -> Refusal:
    return Refusal(
        table,
        column,
        f"is masked, but {place} has one of its values in clear.",
        "Change that, or list the word under knownLiterals if it gives nobody away.",
    )


def hidden_texts(plan: Plan) -> Iterable[tuple[TablePlan, ColumnPlan]]:
    """The masked columns with texts that nobody shall read."""
    for table in plan.tables:
        for each in table.columns if table.copied else ():
            is_text = expressions.family(each.mask.type) == "text" and each.mask.type.element is None
            if is_text and each.mask.action in ACTIONS_THAT_HIDE:
                yield table, each
