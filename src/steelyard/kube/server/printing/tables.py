"""The other shapes an object can be asked for in: a Table for printing, or its metadata alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from steelyard.kube import effort, errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.server.call import MetaVersion
from steelyard.kube.server.printing.columns import Columns

_GROUP = "meta.k8s.io"
INCLUDE = frozenset({"", "None", "Metadata", "Object"})


def include_option(value: str) -> str:
    if value not in INCLUDE:
        problem = f"includeObject: Invalid value: \"{value}\": must be 'Metadata', 'Object', 'None', or empty"
        raise errors.BadRequest(f"Unable to convert to Table as requested: {problem}")
    return value or "Metadata"


def rows(columns: Columns, *, now: datetime, include: str, version: MetaVersion = "v1") -> Callable[[Object], Object]:
    """What makes the row of an object."""
    return lambda obj: _row(columns, obj, now, include, version)


def render(
    columns: Columns,
    rows: Iterable[Object],
    metadata: Object,
    *,
    version: MetaVersion = "v1",
    names_columns: bool = True,
) -> Object:
    """`names_columns` is for the first Table of a watch and every other: later ones of a watch leave them out."""
    return {
        "kind": "Table",
        "apiVersion": f"{_GROUP}/{version}",
        "metadata": metadata,
        "columnDefinitions": [column.definition() for column in columns] if names_columns else None,
        "rows": list(rows),
    }


def partial(obj: Object, version: MetaVersion = "v1") -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": f"{_GROUP}/{version}", "metadata": objects.metadata(obj)}


def partial_list(parts: Iterable[Object], metadata: Object, version: MetaVersion = "v1") -> Object:
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"{_GROUP}/{version}",
        "metadata": metadata,
        "items": list(parts),
    }


def _row(columns: Columns, obj: Object, now: datetime, include: str, version: MetaVersion) -> Object:
    with effort.LIMITED:
        row: Object = {"cells": [column.cell(obj, now) for column in columns]}
    match include:
        case "Metadata":
            row["object"] = partial(obj, version)
        case "Object":
            row["object"] = obj
        case _:
            row["object"] = None
    return row
