"""The one statement that reads a table masked: `COPY (SELECT ...) TO STDOUT` over what this module writes. Pure."""

from __future__ import annotations

from steelyard.masking import expressions
from steelyard.masking.expressions import quoted
from steelyard.masking.planning import TablePlan


def select(plan: TablePlan, *, condition: str = "", limit: int | None = None) -> str:
    """The table's rows with every column as planned, named as in the table.

    The condition may speak of `t`, the table itself. Hashes that are used more than once are computed in a subquery;
    `OFFSET 0` keeps the server from writing them out again where they are used.
    """
    table, alias = plan.table, "t"
    source = f"ONLY {expressions.qualified(table.schema, table.relation)} AS t"
    if not plan.columns:
        return f"SELECT FROM {source}"
    shuffled = [each.column.name for each in plan.columns if each.mask.action == "shuffle"]
    if shuffled:
        source, condition = _shuffled(plan, shuffled), ""
    digests: dict[str, str] = {}
    for number, each in enumerate(plan.columns):
        reference = f"t.{quoted(each.column.name)}"
        digest = expressions.digest_of(reference, each.mask, table=table.name, alias="t")
        if digest is not None and not expressions.uses_digest_once(each.mask):
            digests[each.column.name] = f"{digest} AS steelyard_digest_{number}"
    where = f" WHERE {condition}" if condition else ""
    most = f" LIMIT {limit}" if limit is not None else ""
    if digests:
        # Dates of one row share their hash.
        names = ", ".join(f"t.{quoted(each.column.name)}" for each in plan.columns)
        inner = f"SELECT {names}, {', '.join(digests.values())} FROM {source}{where}{most} OFFSET 0"
        source, alias, where, most = f"({inner}) AS h", "h", "", ""
    made: list[str] = []
    for number, each in enumerate(plan.columns):
        reference = f"{alias}.{quoted(each.column.name)}"
        digest = expressions.digest_of(reference, each.mask, table=table.name, alias=alias) or "NULL::bytea"
        if each.column.name in digests:
            digest = f"{alias}.steelyard_digest_{number}"
        value = reference if each.mask.action == "shuffle" else expressions.masked(reference, digest, each.mask)
        made.append(f"{value} AS {quoted(each.column.name)}")
    return f"SELECT {', '.join(made)} FROM {source}{where}{most}"


def _shuffled(plan: TablePlan, shuffled: list[str]) -> str:
    """The table with some columns dealt out anew: each row's number meets a row of an order that the key decides."""
    table = expressions.qualified(plan.table.schema, plan.table.relation)
    key = f"(SELECT pg_catalog.current_setting('{expressions.KEY_SETTING}'))"
    kept = [quoted(each.column.name) for each in plan.columns if each.column.name not in shuffled]
    numbered = ", ".join(
        (*(f"s.{name}" for name in kept), "pg_catalog.row_number() OVER (ORDER BY s.ctid) AS steelyard_row")
    )
    parts = [f"(SELECT {numbered} FROM ONLY {table} AS s) AS s0"]
    names = [f"s0.{name}" for name in kept]
    for number, name in enumerate(shuffled, 1):
        purpose = expressions.literal(f":shuffle:{plan.table.name}.{name}:")
        order = f"pg_catalog.sha256(pg_catalog.convert_to({key} || {purpose} || s.ctid::text, 'UTF8'))"
        parts.append(
            f"JOIN (SELECT s.{quoted(name)}, pg_catalog.row_number() OVER (ORDER BY {order}) AS steelyard_row "
            f"FROM ONLY {table} AS s) AS s{number} ON s{number}.steelyard_row = s0.steelyard_row"
        )
        names.append(f"s{number}.{quoted(name)}")
    return f"(SELECT {', '.join(names)} FROM {' '.join(parts)}) AS t"
