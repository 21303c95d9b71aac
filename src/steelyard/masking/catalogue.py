"""What a database has: the tables, columns, keys, checks and texts that decide how it can be masked and copied.

Pure data; `reading.py` fills it.
"""

from __future__ import annotations

from typing import Literal

from steelyard.frozen import frozen

TableKind = Literal["table", "partitioned", "foreign"]
TypeKind = Literal["base", "domain", "enum", "composite", "range", "multirange", "pseudo"]


@frozen
class Check:
    """A condition on a table's rows or on a domain's values."""

    name: str
    expression: str
    """SQL, as the server prints it: names qualified, VALUE for a domain's value."""
    columns: tuple[str, ...] = ()
    does_more: bool = False
    """It calls functions of the database's own, or built-in ones that may do more than compute: never tried by us."""


@frozen
class Type:
    """A column's type with domains resolved to what is below them."""

    name: str
    """As SQL writes it, qualified where it is not built in, without a limit: `bpchar`, since `character` has one."""
    kind: TypeKind
    built_in: bool
    category: str
    length: int | None = None
    """Characters that fit; for bit strings bits."""
    precision: int | None = None
    scale: int | None = None
    labels: int = 0
    """How many an enum has."""
    element: Type | None = None
    """Of an array."""
    domains: tuple[str, ...] = ()
    """What was resolved, outermost first."""
    checks: tuple[Check, ...] = ()
    not_null: bool = False
    """A domain says so."""


@frozen
class Column:
    name: str
    type: Type
    not_null: bool = False
    identity: bool = False
    generated: bool = False
    generated_from: tuple[str, ...] = ()
    default: str | None = None
    folds: bool = False
    """Its collation takes different texts for equal."""


@frozen
class Unique:
    """A primary key, unique constraint, unique index or exclusion constraint."""

    name: str
    columns: tuple[str, ...]
    primary: bool = False
    exclusion: bool = False
    nulls_distinct: bool = True
    expression: str | None = None
    """The index's definition, where it is over an expression."""


@frozen
class ForeignKey:
    name: str
    columns: tuple[str, ...]
    table: str
    """The referenced one, as in `Table.name`."""
    referenced: tuple[str, ...]
    full: bool = False
    """MATCH FULL: all of its columns are NULL or none."""


@frozen
class Table:
    schema: str
    relation: str
    columns: tuple[Column, ...]
    kind: TableKind = "table"
    root: str | None = None
    """Of a partition: the table that is partitioned, at the top."""
    partitioned_by: Literal["list", "range", "hash"] | None = None
    """Of a partition: how the tables above it deal out rows; the strictest of them."""
    partition_key: tuple[str, ...] = ()
    partition_expressions: bool = False
    uniques: tuple[Unique, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    checks: tuple[Check, ...] = ()
    rows: int = 0
    """An estimate."""
    pages: int = 0
    from_extension: bool = False

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.relation}"

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)


@frozen
class Sequence:
    schema: str
    relation: str
    last: int
    called: bool


@frozen
class MaterialisedView:
    schema: str
    relation: str
    populated: bool


@frozen
class Text:
    """A piece of the schema in which somebody may have written a value."""

    where: str
    """For people: `the default of public.people.city`."""
    text: str


@frozen
class Catalogue:
    tables: tuple[Table, ...]
    sequences: tuple[Sequence, ...] = ()
    views: tuple[MaterialisedView, ...] = ()
    texts: tuple[Text, ...] = ()
    comments: int = 0
    large_objects: int = 0
    extensions: tuple[str, ...] = ()
    version: int = 0

    def table(self, name: str) -> Table:
        return next(table for table in self.tables if table.name == name)
