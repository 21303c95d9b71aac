"""Databases for the pure tests, described in a few words."""

from __future__ import annotations

from typing import Any

from steelyard.masking.catalogue import Catalogue, Check, Column, ForeignKey, Table, Type, Unique
from steelyard.masking.planning import Plan, plan
from steelyard.masking.rules import MaskingRules

_CATEGORIES = {"text": "S", "character varying": "S", "integer": "N", "bigint": "N", "boolean": "B", "uuid": "U"}


def type_of(name: str, **more: Any) -> Type:
    """`text`, `character varying`, `integer[]`."""
    element = type_of(name.removesuffix("[]"), **more) if name.endswith("[]") else None
    if element is not None:
        return Type(name, "base", built_in=True, category="A", element=element)
    return Type(name, more.pop("kind", "base"), more.pop("built_in", True), _CATEGORIES.get(name, "U"), **more)


def column(name: str, of: str | Type = "text", **more: Any) -> Column:
    return Column(name, type_of(of) if isinstance(of, str) else of, **more)


def surrogate(name: str = "id") -> Column:
    return column(name, "bigint", not_null=True, identity=True)


def table(name: str, *columns: Column, key: tuple[str, ...] = (), **more: Any) -> Table:
    schema, _, relation = name.rpartition(".")
    uniques = (
        (Unique(f"{relation}_pkey", key, primary=True), *more.pop("uniques", ())) if key else more.pop("uniques", ())
    )
    more.setdefault("rows", 1000)
    more.setdefault("pages", 10)
    return Table(schema or "public", relation, columns, uniques=uniques, **more)


def refers(name: str, columns: tuple[str, ...], to: str, referenced: tuple[str, ...], **more: Any) -> ForeignKey:
    return ForeignKey(name, columns, to, referenced, **more)


def check(name: str, expression: str, *columns: str, **more: Any) -> Check:
    return Check(name, expression, columns, **more)


def planned(*tables: Table, rules: dict[str, Any]) -> Plan:
    return plan(Catalogue(tables), MaskingRules.model_validate(rules))


def said(found: Plan) -> list[str]:
    """The refusals as a user reads them."""
    return [str(refusal) for refusal in found.refusals]


def actions(found: Plan, name: str) -> dict[str, str]:
    return {each.column.name: each.mask.action for each in found.table(name).columns}
