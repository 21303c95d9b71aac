"""Reads what the declarations of an API package in Go say about its JSON form: tags, pointers, enumerations.

Only the declarations that upstream writes in one regular manner are understood (`type X struct`, one field per line,
tags in backquotes, constants with their type): they are what upstream's own generators read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_STRUCT: Final = re.compile(r"^type (\w+) struct ?\{(?:\}|\n(.*?)^\})", re.MULTILINE | re.DOTALL)
_ALIAS: Final = re.compile(r"^type (\w+) (?!struct|interface)(\S+)$", re.MULTILINE)
_FIELD: Final = re.compile(r"^\t(?:(\w+)[ \t]+)?([*\[\]\w.]+)[ \t]+`([^`]*)`", re.MULTILINE)
_TAG: Final = re.compile(r'(\w+):"([^"]*)"')
_ENUM: Final = re.compile(r"((?:^//[^\n]*\n)+)type (\w+) string$", re.MULTILINE)
_CONSTANT: Final = re.compile(r'^\s*(?:const )?\w+\s+(\w+)\s*=\s*"([^"]*)"', re.MULTILINE)
_IMPORT: Final = re.compile(r'^\s*(?:import )?(?:(\w+) )?"(k8s\.io/[^"]+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    """In JSON; empty for a struct whose fields are inlined."""
    type: str
    """As written in Go, e.g. `*int32`, `[]v1.Container`."""
    number: int
    """Protobuf field number; 0 for what is not part of the message."""
    omit_empty: bool
    omit_zero: bool
    inline: bool

    @property
    def pointer(self) -> bool:
        return self.type.startswith("*")

    @property
    def base(self) -> str:
        """The type's name alone: `v1.Container` of `[]v1.Container`, `Quantity` of `map[string]Quantity`."""
        return re.sub(r"^(?:\*|\[\]|map\[[\w.]+\])+", "", self.type)


@dataclass(slots=True)
class Package:
    structs: dict[str, tuple[Field, ...]] = field(default_factory=dict[str, tuple[Field, ...]])
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    enums: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    imports: dict[str, str] = field(default_factory=dict[str, str])
    """Import path by the name it is used under."""


def fields(body: str) -> Iterator[Field]:
    for found in _FIELD.finditer(body):
        _, kind, text = found.groups()
        tags = dict(_TAG.findall(text))
        if "json" not in tags:
            continue
        name, *options = tags["json"].split(",")
        if name == "-":
            continue
        wire = tags.get("protobuf", "").split(",")
        yield Field(
            name=name,
            type=kind,
            number=int(wire[1]) if len(wire) > 1 else 0,
            omit_empty="omitempty" in options,
            omit_zero="omitzero" in options,
            inline=not name,
        )


def read(folder: Path) -> Package:
    package = Package()
    for path in sorted(folder.glob("*.go")):
        if path.name.endswith("_test.go") or path.name.startswith(("zz_generated", "generated.pb")):
            continue
        text = path.read_text()
        for alias, target in _IMPORT.findall(text):
            package.imports[alias or target.rsplit("/", 1)[-1]] = target
        for name, body in _STRUCT.findall(text):
            package.structs[name] = tuple(fields(body))
        package.aliases.update(_ALIAS.findall(text))
        marked = {name for comment, name in _ENUM.findall(text) if re.search(r"^// \+enum\s*$", comment, re.MULTILINE)}
        for kind, value in _CONSTANT.findall(text):
            if kind in marked:
                package.enums[kind] = (*package.enums.get(kind, ()), value)
    return package
