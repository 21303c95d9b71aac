"""Reads docs/documents.md: which field of a printed manifest is where in what is composed, row by row.

A section is about the manifests that its heading names, and says which golden case or which definition its rows point
into. A row has patterns of fields, where they are, and how:

    same          to the letter
    as `{}Gi`     written so
    among         one of a list, or of the keys, there
    filled in     the manifest has a placeholder
    changed: …    another value is there, because …
    dropped: …    nothing is there, because …
    later: …      not yet

The first row that fits a field is the one that counts. `*` at the end of a pattern is the rest of the field, which goes
to where the target has its own `*`; without one in the pattern, the whole field goes there. `[*]` is any item of a
list, and `[name=a]` in a target the item of that name. `…` stands for anything; in a target, what is behind it must be
in one place only.
"""

from __future__ import annotations

import base64
import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast

import yaml

from tests.compose.documents import Manifest
from tests.harness import ROOT

FILE: Final = ROOT / "docs" / "documents.md"
MISSING: Final = object()
WITHOUT_TARGET: Final = ("dropped", "later")
WITH_REASON: Final = ("changed", *WITHOUT_TARGET)
HOW: Final = ("same", "as", "among", "filled in", *WITH_REASON)

_HEADING: Final = re.compile(r"^### (\d{3}(?:, \d{3})*): (\w+)(?: (.+))?$")
_SOURCE: Final = re.compile(r"^(Golden|Definition): `([^`]+)`\.")
_CODE: Final = re.compile(r"`([^`]+)`")
_ITEM: Final = re.compile(r"^\[(?:(\d+)|(\w+)=([^\]]*))\]")


@dataclass(frozen=True)
class Row:
    patterns: tuple[str, ...]
    targets: tuple[str, ...]
    how: str
    detail: str
    line: int

    def fits(self, path: str) -> list[str] | None:
        """Where the field is, by this row; None if the row is not about it."""
        for pattern in self.patterns:
            found = _expression(pattern).fullmatch(path)
            if found:
                rest = found[1] if found.groups() else path
                return [f"{target[:-1]}{rest}" if target.endswith("*") else target for target in self.targets]
        return None


@dataclass
class Section:
    documents: tuple[str, ...]
    kind: str
    name: str
    line: int
    golden: str = ""
    definition: str = ""
    rows: list[Row] = field(default_factory=list[Row])

    @property
    def title(self) -> str:
        return f"{', '.join(self.documents)}: {self.kind} {self.name}".strip()

    def is_about(self, manifest: Manifest) -> bool:
        name = manifest.title.partition(f"{manifest.kind} ")[2]
        is_it = manifest.document in self.documents and manifest.kind == self.kind
        return is_it and (not self.name or name == self.name or fnmatch.fnmatchcase(name, self.name))


def sections() -> list[Section]:
    found: list[Section] = []
    for number, line in enumerate(FILE.read_text(encoding="utf-8").splitlines(), 1):
        if heading := _HEADING.match(line):
            found.append(Section(tuple(heading[1].split(", ")), heading[2], heading[3] or "", number))
        elif line.startswith("## "):
            found.append(Section((), "", "", number))
        elif found and (source := _SOURCE.match(line)):
            setattr(found[-1], source[1].lower(), source[2])
        elif found and line.startswith("| `"):
            found[-1].rows.append(_row(line, number))
    return [each for each in found if each.documents]


def later() -> dict[tuple[str, str], str]:
    """Manifests that are not followed, by document and kind, with where they belong."""
    _, _, text = FILE.read_text(encoding="utf-8").partition("## Not followed")
    found: dict[tuple[str, str], str] = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            names, documents, why = (cell.strip() for cell in line.strip("| ").split(" | "))
            for document in documents.split(", "):
                found.update({(document, name): why for name in _CODE.findall(names)})
    return found


def _row(line: str, number: int) -> Row:
    patterns, targets, how = (cell.strip() for cell in line.strip().strip("|").split(" | "))
    word = next((each for each in HOW if how == each or how.startswith((f"{each}: ", f"{each} `"))), how)
    detail = how.removeprefix(word).removeprefix(":").strip()
    return Row(tuple(_CODE.findall(patterns)), tuple(_CODE.findall(targets)), word, detail.strip("`"), number)


def _expression(pattern: str) -> re.Pattern[str]:
    escaped = re.escape(pattern).replace(r"\[\*\]", r"\[\d+\]").replace("…", ".*")
    return re.compile(escaped[:-2] + "(.*)" if escaped.endswith(r"\*") else escaped)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every field that holds something, with it: `spec.ports[0].port`."""
    if isinstance(value, dict) and value:
        for key, each in cast("dict[str, Any]", value).items():
            yield from leaves(each, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for number, each in enumerate(cast("list[Any]", value)):
            yield from leaves(each, f"{path}[{number}]")
    else:
        yield path, value


def at(value: Any, path: str) -> Any:
    """What is there; MISSING if nothing is. A key may contain dots: the longest that fits is the one."""
    head, is_cut, tail = path.partition("…")
    if is_cut:
        within = at(value, head)
        found = [each for place, each in _places(within) if place == tail or place.endswith(f".{tail}")]
        return found[0] if len(found) == 1 else MISSING
    while path:
        value = _read(value) if isinstance(value, str) else value
        if item := _ITEM.match(path):
            value, path = _item(value, item), path[item.end() :].removeprefix(".")
            if value is MISSING:
                return MISSING
            continue
        if not isinstance(value, dict):
            return MISSING
        fields = cast("dict[str, Any]", value)
        key = max((each for each in fields if _begins(path, each)), key=len, default=None)
        if key is None:
            return MISSING
        value, path = fields[key], path[len(key) :].removeprefix(".")
    return value


def _read(text: str) -> Any:
    """A document within a document: YAML or JSON, in base64 where a Secret holds it."""
    for written in (text, _decoded(text)):
        found = yaml.load(written, yaml.CSafeLoader)
        if isinstance(found, dict | list):
            return cast(Any, found)
    return MISSING


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return ""


def _places(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Everything in it, not only leaves."""
    if isinstance(value, dict):
        for key, each in cast("dict[str, Any]", value).items():
            place = f"{path}.{key}" if path else key
            yield place, each
            yield from _places(each, place)
    elif isinstance(value, list):
        for number, each in enumerate(cast("list[Any]", value)):
            yield f"{path}[{number}]", each
            yield from _places(each, f"{path}[{number}]")


def _begins(path: str, key: str) -> bool:
    return path == key or path.startswith((f"{key}.", f"{key}["))


def _item(value: Any, found: re.Match[str]) -> Any:
    if not isinstance(value, list):
        return MISSING
    items = cast("list[dict[str, Any]]", value)
    if found[1] is not None:
        return items[int(found[1])] if int(found[1]) < len(items) else MISSING
    return next((each for each in items if str(each.get(found[2])) == found[3]), MISSING)
