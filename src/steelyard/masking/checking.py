"""What would happen to each column: the rows of `steelyard db anonymise --check`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from steelyard.frozen import frozen
from steelyard.masking import expressions, selecting
from steelyard.masking.planning import Plan, Refusal, TablePlan

if TYPE_CHECKING:
    import psycopg

_LONGEST_EXAMPLE = 60


@frozen
class CheckedColumn:
    """One line."""

    table: str
    column: str
    type: str
    action: str
    """`refused` where there is a reason against it."""
    reason: str
    """Why this is done, or why it cannot be."""
    example: str = ""
    """The masked form of one of its values; empty for what is kept, and where there is none."""

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "column": self.column,
            "type": self.type,
            "action": self.action,
            "reason": self.reason,
            "example": self.example,
        }


def rows(connection: psycopg.Connection[Any], plan: Plan, refusals: Sequence[Refusal]) -> tuple[CheckedColumn, ...]:
    """In the order of the tables; refusals that are about no column of the database come first."""
    by_place: dict[tuple[str | None, str | None], list[Refusal]] = {}
    for refusal in refusals:
        by_place.setdefault((refusal.table, refusal.column), []).append(refusal)
    columns: list[CheckedColumn] = []
    for table in plan.tables:
        refused_here = any(place[0] == table.table.name for place in by_place)
        examples = _examples(connection, table) if table.copied and not refused_here else {}
        for each in table.columns:
            against = by_place.pop((table.table.name, each.column.name), [])
            action = "refused" if against else each.mask.action if _is_copied(table) else "no rows"
            reason = " ".join(f"{one.reason} {one.instead}" for one in against) or each.reason
            columns.append(
                CheckedColumn(
                    table.table.name,
                    each.column.name,
                    each.column.type.domains[0] if each.column.type.domains else each.column.type.name,
                    action,
                    reason,
                    examples.get(each.column.name, ""),
                )
            )
        columns += [
            CheckedColumn(table.table.name, column.name, column.type.name, "computed", "generated from other columns")
            for column in table.table.columns
            if column.generated
        ]
    others = [
        CheckedColumn(place[0] or "", place[1] or "", "", "refused", f"{one.reason} {one.instead}".strip())
        for place, against in by_place.items()
        for one in against
    ]
    return (*others, *columns)


def _is_copied(table: TablePlan) -> bool:
    return table.copied or table.table.kind == "partitioned"


def _examples(connection: psycopg.Connection[Any], table: TablePlan) -> dict[str, str]:
    """Of the first row that has a value; made by the same SQL as the copy, so nothing in clear is read."""
    import psycopg

    hidden = [each for each in table.masked_columns() if each.mask.action != "shuffle"]
    if not hidden or any(each.mask.action == "shuffle" for each in table.columns):
        hidden = []
    found: dict[str, str] = {}
    for each in hidden:
        name = expressions.quoted(each.column.name)
        only = selecting.select(table, condition=f"t.{name} IS NOT NULL", limit=1)
        query = f"SELECT pg_catalog.left(pg_catalog.concat(q.{name}), {_LONGEST_EXAMPLE}) FROM ({only}) AS q"
        try:
            with connection.transaction():
                row = connection.execute(query.encode()).fetchone()
        except psycopg.Error:
            continue
        if row is not None:
            found[each.column.name] = row[0]
    return found
