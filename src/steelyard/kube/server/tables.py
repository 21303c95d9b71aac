"""The other shapes an object can be asked for in: a Table for printing, or its metadata alone."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.server.columns import Columns

META_V1 = "meta.k8s.io/v1"
INCLUDE = frozenset({"", "None", "Metadata", "Object"})


def include_option(value: str) -> str:
    if value not in INCLUDE:
        raise errors.BadRequest(
            f'includeObject: unsupported value "{value}": supported values: "None", "Metadata", "Object"'
        )
    return value or "Metadata"


def render(columns: Columns, items: Iterable[Object], metadata: Object, *, now: datetime, include: str) -> Object:
    return {
        "kind": "Table",
        "apiVersion": META_V1,
        "metadata": metadata,
        "columnDefinitions": [column.definition() for column in columns],
        "rows": [_row(columns, item, now, include) for item in items],
    }


def partial(obj: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": META_V1, "metadata": objects.metadata(obj)}


def partial_list(items: Iterable[Object], metadata: Object) -> Object:
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": META_V1,
        "metadata": metadata,
        "items": [partial(item) for item in items],
    }


def _row(columns: Columns, obj: Object, now: datetime, include: str) -> Object:
    row: Object = {"cells": [column.cell(obj, now) for column in columns]}
    match include:
        case "Metadata":
            row["object"] = partial(obj)
        case "Object":
            row["object"] = obj
        case _:
            row["object"] = None
    return row
