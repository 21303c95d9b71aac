"""What `kubectl get` shows of each kind: the columns of a Table, built in or declared by a CRD.

Built-in columns are named and explained by the tables of facts; what stands in them is in `printing`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cache
from typing import Any, cast

import orjson

from steelyard.frozen import frozen
from steelyard.kube import ages, effort, jsonpath, objects
from steelyard.kube.builtin import types
from steelyard.kube.objects import Object
from steelyard.kube.server.printing import cells, cluster, workloads
from steelyard.kube.server.printing.cells import Cell


@frozen
class Column:
    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    priority: int = 0
    """0 is always shown, higher ones with `-o wide`."""
    description: str = ""

    def definition(self) -> Object:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


Columns = tuple[Column, ...]


def from_crd(declared: Iterable[Any]) -> Columns:
    """The columns of `additionalPrinterColumns`; the name, and the age where none is declared, come by themselves."""
    columns = [_declared(objects.mapping(column)) for column in declared]
    return (_explained("Name"), *columns) if columns else plain()


@cache
def plain() -> Columns:
    """Of a custom resource that declares none."""
    return _explained("Name"), Column("Age", _date_of_creation, "date", description=_explained("Age").description)


@cache
def builtin(group: str, plural: str) -> Columns:
    table = _facts()
    texts = cast("list[str]", table["texts"])
    own = workloads.CELLS.get(f"{group}/{plural}") or cluster.CELLS.get(f"{group}/{plural}") or {}
    listed = cast("dict[str, list[tuple[str, str, str, int, int]]]", table["columns"]).get(f"{group}/{plural}", [])
    return tuple(
        Column(name, own.get(name) or cells.COMMON[name], type_, format_, priority, texts[text])
        for name, type_, format_, priority, text in listed
    )


@cache
def _facts() -> Object:
    return types.load("columns")


def _explained(name: str) -> Column:
    """A column that every kind may have, as the built-in ones have it."""
    return next(column for column in builtin("", "configmaps") if column.name == name)


def _date_of_creation(obj: Object, now: datetime) -> Any:
    return _typed("date", objects.metadata(obj).get("creationTimestamp"), now)


def _declared(column: Object) -> Column:
    path = jsonpath.lenient(str(column.get("jsonPath") or ""))
    kind = str(column.get("type") or "string")

    def cell(obj: Object, now: datetime) -> Any:
        try:
            return _typed(kind, jsonpath.find(path, obj), now)
        except effort.Exhausted:
            return None

    return Column(
        str(column.get("name") or ""),
        cell,
        kind,
        str(column.get("format") or ""),
        int(column.get("priority") or 0),
        str(
            column.get("description") or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
        ),
    )


def _typed(kind: str, value: Any, now: datetime) -> Any:
    if value is None:
        return None
    match kind:
        case "string":
            if isinstance(value, str):
                return value
            return orjson.dumps(value).decode()
        case "date":
            return ages.since(value, now)
        case "integer":
            return int(value) if isinstance(value, int | float) else None
        case "number":
            return value if isinstance(value, int | float) and not isinstance(value, bool) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case _:
            return None
