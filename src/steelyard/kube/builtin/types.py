"""The types that built-in kinds are made of, read from the tables a package at a time, on first use.

A type is named by its Go package and name, e.g. `apps/v1.DeploymentSpec`. Schemas, the protobuf decoder and the OpenAPI
documents are all made from what is found here.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import orjson

from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.kube.schema.model import MISSING

META: Final = "meta/v1"
OBJECT_META: Final = f"{META}.ObjectMeta"
LIST_META: Final = f"{META}.ListMeta"
SCALARS: Final = frozenset({"string", "bytes", "bool", "int32", "int64", "double"})
SPECIAL: Final = frozenset(
    {
        *("Quantity", "Time", "MicroTime", "FieldsV1", "IntOrString", "RawExtension", "JSON", "StringList"),
        *("SchemaOrArray", "SchemaOrBool", "SchemaOrStrings"),
    }
)
"""Types whose JSON form is not an object with the fields of the type."""

_FOLDER: Final = Path(__file__).parent


@frozen
class Field:
    name: str
    base: str
    """A scalar, a special type, or the full name of a type."""
    number: int
    """Protobuf field number; 0 for apiVersion and kind, which travel in the envelope."""
    pointer: bool = False
    repeated: bool = False
    mapped: bool = False
    always: bool = False
    """Written to JSON even when empty (the Go field has no `omitempty`)."""
    omit_zero: bool = False
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    patch_strategy: tuple[str, ...] = ()
    patch_merge_key: str = ""
    default: Any = MISSING
    enum: tuple[str, ...] = ()
    go: str = ""
    """The type as Go prints it, where that does not follow from `base`: `v1.Protocol`, `[]v1.IPFamily`."""

    @property
    def is_struct(self) -> bool:
        return self.base not in SCALARS and self.base not in SPECIAL


@frozen
class Type:
    name: str
    fields: dict[str, Field]
    inline: tuple[tuple[str, int], ...] = ()
    """Types whose fields appear in JSON as fields of this one, but in protobuf as a message of their own."""
    required: tuple[str, ...] = ()
    map_type: str = ""

    def all_fields(self) -> dict[str, Field]:
        """Own and inlined fields: what JSON shows."""
        fields = dict(self.fields)
        for inlined, _ in self.inline:
            fields.update(get(inlined).all_fields())
        return fields

    def all_required(self) -> tuple[str, ...]:
        return (*self.required, *(name for inlined, _ in self.inline for name in get(inlined).all_required()))


def load(name: str) -> Object:
    return cast(Object, orjson.loads((_FOLDER / f"{name}.json").read_bytes()))


@cache
def digest() -> str:
    """Of all tables: changes whenever any of them does."""
    hashed = hashlib.sha256()
    for path in sorted(_FOLDER.glob("*.json")):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()


@cache
def package(name: str) -> Object:
    """`{"prefix": …, "types": {…}}` of a Go package such as `core/v1`."""
    return load(name.replace("/", "-"))


def exists(name: str) -> bool:
    home, _, local = name.rpartition(".")
    try:
        return local in package(home)["types"]
    except FileNotFoundError:
        return False


@cache
def get(name: str) -> Type:
    home, _, local = name.rpartition(".")
    entry = cast(Object, package(home)["types"][local])
    return Type(
        name,
        {key: _field(home, key, value) for key, value in cast("dict[str, list[Any]]", entry["fields"]).items()},
        tuple((_full(home, inlined), number) for inlined, number in entry.get("inline", ())),
        tuple(entry.get("required", ())),
        entry.get("map", ""),
    )


def _full(home: str, base: str) -> str:
    return base if base in SCALARS or base in SPECIAL or "." in base else f"{home}.{base}"


def _field(home: str, name: str, entry: list[Any]) -> Field:
    expression = cast(str, entry[0])
    more = cast(Object, entry[2]) if len(entry) > 2 else {}
    bare = expression.removeprefix("*")
    return Field(
        name,
        _full(home, bare.removeprefix("[]").removeprefix("{}")),
        entry[1],
        pointer=expression.startswith("*"),
        repeated=bare.startswith("[]"),
        mapped=bare.startswith("{}"),
        always="always" in more,
        omit_zero="omitZero" in more,
        list_type=more.get("list", ""),
        list_map_keys=tuple(more.get("keys", ())),
        map_type=more.get("map", ""),
        patch_strategy=tuple(more.get("patch", ())),
        patch_merge_key=more.get("mergeKey", ""),
        default=more.get("default", MISSING),
        enum=tuple(more.get("enum", ())),
        go=more.get("go", ""),
    )
