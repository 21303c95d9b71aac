"""Everything the command line prints passes here: tables, JSON, YAML and names on stdout, the rest on stderr."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any

import orjson

from steelyard.cli import yamltext
from steelyard.kube import objects
from steelyard.kube.objects import Object

_NARROWEST = 24
_GAP = "   "
_RED, _PLAIN = "\x1b[31m", "\x1b[0m"


class Format(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def result(text: str) -> None:
    """A result as it is, without any interpretation of brackets or colours."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def flushed(text: str) -> None:
    """A result that is read while more of it is to come."""
    result(text)
    sys.stdout.flush()


def note(text: str) -> None:
    """Something for the person at the terminal: progress, a hint, what was done."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def failure(text: str) -> None:
    is_coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    note(f"{_RED}error:{_PLAIN} {text}" if is_coloured else f"error: {text}")


def as_json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def as_yaml(value: Any) -> str:
    return yamltext.of(value)


def object_name(obj: Object) -> str:
    """As kubectl writes it with `-o name`: `workloadcluster.compute.steelyard.dev/dev-cluster`."""
    group = str(obj.get("apiVersion") or "").rpartition("/")[0]
    kind = str(obj.get("kind") or "").lower()
    return f"{kind}.{group}/{objects.name(obj)}" if group else f"{kind}/{objects.name(obj)}"


def columns() -> int:
    """How wide the terminal is; 0 where the output goes elsewhere, and lines may be as long as they are."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def shortened(text: str, width: int) -> str:
    """What fits of a text, in whole words; a first word that is too long stays whole."""
    if len(text) <= width:
        return text
    kept = text[: max(width, 0)].rpartition(" ")[0].rstrip(" ,;:")
    return f"{kept} …" if kept else text.partition(" ")[0]


def aligned(
    table: Sequence[Sequence[str]], *, indent: str = "", width: int = 0, droppable: Sequence[str] = ()
) -> Iterator[str]:
    """The lines of a table in kubectl's manner: columns padded to their widest cell, no word ever cut.

    With a `width`, columns of the headings in `droppable` go where there is no room for them, the first one first. A
    last column of sentences goes on below itself, or, where even that is too narrow, on lines of its own.
    """
    if not table:
        return
    table = _without(table, droppable, width - len(indent)) if width else table
    widths = [max(len(row[index]) for row in table) for index in range(len(table[0]))]
    room = width - len(indent) - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)
    is_stacked = bool(width) and room < min(_NARROWEST, widths[-1])
    for row in table[1:] if is_stacked else table:
        *cells, last = row
        if is_stacked:
            yield (indent + _GAP.join(cell.ljust(size) for cell, size in zip(cells, widths, strict=False))).rstrip()
            below = f"{indent}    "
            yield from _filled(last, max(width - len(below), _NARROWEST), below)
            continue
        lines = list(_filled(last, room)) if width else []
        for number, line in enumerate(lines or [last]):
            shown = cells if number == 0 else [""] * len(cells)
            padded = [cell.ljust(size) for cell, size in zip((*shown, line), widths, strict=True)]
            yield (indent + _GAP.join(padded)).rstrip()


def _filled(text: str, width: int, indent: str = "") -> Iterator[str]:
    for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False):
        yield indent + line


def _without(table: Sequence[Sequence[str]], droppable: Sequence[str], width: int) -> Sequence[Sequence[str]]:
    """The table with as many of these columns left out as it takes for the others to fit."""
    for heading in droppable:
        *sizes, last = (max(map(len, column)) for column in zip(*table, strict=True))
        if sum(sizes) + min(last, _NARROWEST) + len(_GAP) * len(sizes) <= width:
            break
        if heading in table[0]:
            place = list(table[0]).index(heading)
            table = [[*row[:place], *row[place + 1 :]] for row in table]
    return table


def wrapped(text: str, width: int, *, indent: str = "") -> Iterator[str]:
    """A sentence on lines that fit; never a command, which must be copied whole."""
    sentence, colon, command = text.partition(": ")
    is_command = colon and command.split(" ")[0] in ("steelyard", "kubectl")
    if is_command:
        fits = len(indent) + len(text) <= width
        below = [f"{indent}{sentence}:", *(f"{indent}  {each}" for each in command.split("; "))]
        yield from [f"{indent}{text}"] if fits else below
        return
    yield from textwrap.wrap(
        text, max(width, _NARROWEST), initial_indent=indent, subsequent_indent=f"{indent}  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def object_(obj: Object, format_: Format, *, done: str = "") -> None:
    """One object; as a table, what was done to it."""
    obj = _legible(obj)
    match format_:
        case Format.JSON:
            result(as_json(obj))
        case Format.YAML:
            result(as_yaml(obj))
        case Format.NAME:
            result(object_name(obj))
        case _:
            namespace = objects.namespace(obj)
            result(f"{object_name(obj)} {done}" + (f" in namespace {namespace}" if namespace else ""))


def list_(items: Iterable[Object], format_: Format) -> None:
    if format_ is Format.NAME:
        for item in items:
            result(object_name(item))
        return
    listing = {"apiVersion": "v1", "kind": "List", "items": list(map(_legible, items))}
    result(as_json(listing) if format_ is Format.JSON else as_yaml(listing))


def _legible(obj: Object) -> Object:
    """Without who manages which field, as kubectl prints it: nobody reads that, and it is half of the object."""
    metadata = objects.metadata(obj)
    if "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
