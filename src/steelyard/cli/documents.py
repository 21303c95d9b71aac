"""Manifests from files, directories or standard input, for `apply -f` and `delete -f`: all of them are read first."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from steelyard.cli.exits import CommandError, Exit
from steelyard.frozen import frozen
from steelyard.kube import objects, plainyaml
from steelyard.kube.objects import Object

STANDARD_INPUT = "-"
SUFFIXES = (".yaml", ".yml", ".json")


@frozen
class Document:
    origin: str
    """The file, and which of its documents."""
    obj: Object

    def __str__(self) -> str:
        return f"{self.obj['kind']} {objects.qualified_name(self.obj)}"


def read(sources: Sequence[str]) -> list[Document]:
    """Raises CommandError that names everything that cannot be read."""
    complaints: list[str] = []
    found = _parsed((text for source in sources for text in _texts(source, complaints)), complaints)
    if not found:
        raise CommandError(f"there is no object in {', '.join(sources)}", code=Exit.USAGE)
    return found


def below(directory: Path) -> list[Document]:
    """Those of all files in a directory and in what is in it; there may be none."""
    complaints: list[str] = []
    files = sorted(each for each in directory.rglob("*") if each.suffix in SUFFIXES and each.is_file())
    return _parsed((text for file in files for text in _texts(str(file), complaints)), complaints)


def parse(texts: Iterable[tuple[str, bytes]]) -> list[Document]:
    """Of texts that were read elsewhere, each with its name; there may be none."""
    return _parsed(texts, [])


def _parsed(texts: Iterable[tuple[str, bytes]], complaints: list[str]) -> list[Document]:
    found: list[Document] = []
    for name, text in texts:
        try:
            values = [value for value in plainyaml.load_all(text) if value is not None]
        except plainyaml.Unreadable as error:
            complaints.append(f"{name}: {error}")
            continue
        for number, value in enumerate(values, start=1):
            origin = f"{name}, document {number}" if len(values) > 1 else name
            found += _documents(origin, value, complaints)
    if complaints:
        raise CommandError("\n".join((*complaints, "Nothing was done.")), code=Exit.USAGE)
    return found


def _texts(source: str, complaints: list[str]) -> Iterator[tuple[str, bytes]]:
    if source == STANDARD_INPUT:
        yield "standard input", sys.stdin.buffer.read()
        return
    path = Path(source)
    files = [path]
    if path.is_dir():
        files = sorted(each for each in path.iterdir() if each.suffix in SUFFIXES)
        if not files:
            complaints.append(f"{source} has no file that ends in {', '.join(SUFFIXES)}")
    for file in files:
        try:
            yield str(file), file.read_bytes()
        except OSError as error:
            complaints.append(f"{file}: {error.strerror}")


def _documents(origin: str, value: Any, complaints: list[str]) -> Iterator[Document]:
    obj = objects.mapping(value)
    if obj.get("kind") == "List" and obj.get("apiVersion") == "v1":
        for number, item in enumerate(objects.sequence(obj.get("items")), start=1):
            yield from _documents(f"{origin}, item {number}", item, complaints)
        return
    missing = [name for name in ("apiVersion", "kind") if not isinstance(obj.get(name), str) or not obj[name]]
    if not objects.name(obj):
        missing.append("metadata.name")
    if missing:
        complaints.append(f"{origin}: it has no {' and no '.join(missing)}")
    else:
        yield Document(origin, obj)
