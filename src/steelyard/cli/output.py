"""Everything the command line prints passes here: tables, JSON, YAML and names on stdout, the rest on stderr."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, cast

import orjson
import yaml

from steelyard.kube import objects
from steelyard.kube.objects import Object

_NARROWEST = 24
_RED, _PLAIN = "\x1b[31m", "\x1b[0m"


class _Dumper(yaml.SafeDumper):
    """Quotes the texts that kubectl would read as a truth value or a number and Python would not: y, n, 1e3."""


def _quote_where(pattern: str, tag: str, first: str) -> None:
    cast(Any, _Dumper).add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))


_quote_where(r"^[yYnN]$", "bool", "yYnN")
_quote_where(r"^[-+]?(\.\d+|\d+(\.\d*)?)[eE][-+]?\d+$", "float", "-+.0123456789")


class Format(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def result(text: str) -> None:
    """A result as it is, without any interpretation of brackets or colours."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


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
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)


def object_name(obj: Object) -> str:
    """As kubectl writes it with `-o name`: `workloadcluster.compute.steelyard.dev/dev-cluster`."""
    group = str(obj.get("apiVersion") or "").rpartition("/")[0]
    kind = str(obj.get("kind") or "").lower()
    return f"{kind}.{group}/{objects.name(obj)}" if group else f"{kind}/{objects.name(obj)}"


def columns() -> int:
    """How wide the terminal is; 0 where the output goes elsewhere, and lines may be as long as they are."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def aligned(table: Sequence[Sequence[str]], *, indent: str = "", width: int = 0) -> Iterator[str]:
    """The lines of a table in kubectl's manner: columns padded to their widest cell, never cut.

    With a `width`, a last column of sentences goes on below itself where there is room for it.
    """
    if not table:
        return
    widths = [max(len(row[index]) for row in table) for index in range(len(table[0]))]
    room = width - len(indent) - sum(widths[:-1]) - 3 * (len(widths) - 1)
    for row in table:
        *cells, last = row
        lines = textwrap.wrap(last, room, break_long_words=False, break_on_hyphens=False) if room >= _NARROWEST else []
        for number, line in enumerate(lines or [last]):
            shown = cells if number == 0 else [""] * len(cells)
            padded = [cell.ljust(size) for cell, size in zip((*shown, line), widths, strict=True)]
            yield (indent + "   ".join(padded)).rstrip()


def wrapped(text: str, width: int, *, indent: str = "") -> Iterator[str]:
    """A sentence on lines that fit; never a command, which must be copied whole."""
    sentence, colon, command = text.partition(": ")
    is_command = colon and command.split(" ")[0] in ("steelyard", "kubectl")
    if is_command:
        fits = len(indent) + len(text) <= width
        yield from [f"{indent}{text}"] if fits else [f"{indent}{sentence}:", f"{indent}  {command}"]
        return
    yield from textwrap.wrap(
        text, max(width, _NARROWEST), initial_indent=indent, subsequent_indent=f"{indent}  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def server_table(table: Object, *, wide: bool, namespaces: bool) -> None:
    """A `meta.k8s.io/v1` Table as the server made it; columns of a priority above 0 only when `wide`."""
    columns = [objects.mapping(column) for column in objects.sequence(table.get("columnDefinitions"))]
    shown = [index for index, column in enumerate(columns) if wide or not column.get("priority")]
    headings = [str(columns[index].get("name") or "") for index in shown]
    body: list[list[str]] = []
    for row in map(objects.mapping, objects.sequence(table.get("rows"))):
        cells = objects.sequence(row.get("cells"))
        line = [_cell(cells[index]) if index < len(cells) else "" for index in shown]
        if namespaces:
            line.insert(0, objects.namespace(objects.mapping(row.get("object"))))
        body.append(line)
    if namespaces:
        headings.insert(0, "Namespace")
    for line in aligned([[heading.upper() for heading in headings], *body]):
        result(line)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
