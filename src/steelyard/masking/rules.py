"""What a user writes about an anonymised copy: for each table and column, what happens to its values.

    unclassified: refuse
    tables:
      customers:
        columns:
          full_name: {action: fakeName}
          email: {action: fakeEmail}
          born: {action: shiftDates, days: 90}
          country: {action: keep}
      audit.events: {rows: none}

The models are part of claims and of kinds of ours, so every field has a bound and a description. What a rule means for
a given database, and whether it can be followed there, is `planning.py`'s to say.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from steelyard.api.model import ApiModel

Action = Literal[
    "keep", "null", "constant", "hash", "fakeName", "fakeEmail", "fakePhone", "fakeAddress", "shiftDates", "shuffle"
]
Unclassified = Literal["refuse", "keep", "null"]
DEFAULT_DAYS: Final = 180

_Name = Annotated[str, Field(min_length=1, max_length=200)]


class ColumnRule(ApiModel):
    """What happens to the values of one column. NULL stays NULL; shuffle deals it out like any other value."""

    action: Action = Field(
        description=(
            "keep: as it is. null: no value. constant: `value` in every row. hash: a keyed hash in the column's type, "
            "the same for equal values. fakeName, fakeEmail, fakePhone, fakeAddress: made up, the same for equal "
            "values. "
            "shiftDates: up to `days` days earlier or later, all dates of a row by the same number of days. "
            "shuffle: the column's own values, dealt out to other rows."
        )
    )
    value: str | None = Field(
        default=None,
        max_length=1024,
        description="For constant: the value, as text that the column's type understands.",
    )
    days: int | None = Field(
        default=None,
        ge=1,
        le=36500,
        description=f"For shiftDates: by how many days at most; {DEFAULT_DAYS} where nothing is said.",
    )
    acknowledged: bool | None = Field(
        default=None,
        description=(
            "For keep: somebody has looked at the column, and it may hold words that also occur in masked columns. "
            "Without it the leak scan refuses the copy when it finds such words there."
        ),
    )


class TableRules(ApiModel):
    """The rules of one table, and of its partitions."""

    columns: dict[_Name, ColumnRule] = Field(
        default_factory=dict[str, ColumnRule],
        max_length=1600,
        description="By the column's name. A name may be a pattern with `*`; the exact name wins.",
    )
    unclassified: Unclassified | None = Field(
        default=None, description="For columns without a rule, instead of what is said for all tables."
    )
    rows: Literal["all", "none"] | None = Field(
        default=None, description="none: the table is there and empty, and its columns need no rules."
    )


class MaskingRules(ApiModel):
    """How a database is anonymised."""

    tables: dict[_Name, TableRules] = Field(
        default_factory=dict[str, TableRules],
        max_length=2000,
        description=(
            "By the table's name: `customers` or `sales.customers`; without a schema, `public` is meant. "
            "A name may be a pattern with `*`; the exact name wins."
        ),
    )
    unclassified: Unclassified = Field(
        default="refuse",
        description=(
            "What happens to columns without a rule, whatever their type; surrogate keys and booleans are always kept. "
            "refuse: the copy is not made and the columns are listed."
        ),
    )
    known_literals: list[Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=list[str],
        max_length=1000,
        description=(
            "Words that may stand in the schema (defaults, checks, views, functions, enum labels, partition bounds) "
            "although a masked column has them as values too, such as `unknown`."
        ),
    )
