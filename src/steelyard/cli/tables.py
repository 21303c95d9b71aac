"""Tables as the server makes them, fitted to the terminal.

Where a line is wider than that, columns go: first those that `-o wide` did not ask for, from the right, but never the
name, the state or the age; then what is left of a sentence is cut after a whole word. Somewhere else than on a
terminal, everything is printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from steelyard.cli import output
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object

ACCEPT: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_KEPT: Final = ("namespace", "name", "age")
_STATES: Final = ("state", "phase", "status", "ready")
"""The first of them that a table has says how a thing is."""
_SHORTEST: Final = 20
_GAP: Final = "   "


@frozen
class Column:
    heading: str
    priority: int = 0


class Table:
    """One kind's rows, of one or several answers: those of a watch come one by one and keep the first widths."""

    def __init__(self, answer: Object, *, wide: bool, namespaces: bool, kind: str = "", width: int = 0) -> None:
        """`kind` is put before each name, for listings of several kinds."""
        given = [objects.mapping(column) for column in objects.sequence(answer.get("columnDefinitions"))]
        self._shown = [index for index, column in enumerate(given) if wide or not column.get("priority")]
        self._namespaces, self._kind = namespaces, kind
        columns = [
            Column(str(given[index].get("name") or ""), given[index].get("priority") or 0) for index in self._shown
        ]
        self._columns = [*([Column("Namespace")] if namespaces else []), *columns]
        self.rows = [self.row(row) for row in map(objects.mapping, objects.sequence(answer.get("rows")))]
        self._places = _fitting(self._columns, self.rows, width, wide=wide)
        self._cut: set[int] = set()
        self._widths = self._measured(width)

    def row(self, row: Object) -> list[str]:
        cells = objects.sequence(row.get("cells"))
        line = [_cell(cells[index]) if index < len(cells) else "" for index in self._shown]
        if self._kind and line:
            line[0] = f"{self._kind}/{line[0]}"
        return [objects.namespace(objects.mapping(row.get("object"))), *line] if self._namespaces else line

    def lines(self) -> Iterator[str]:
        yield self.line([column.heading.upper() for column in self._columns])
        for row in self.rows:
            yield self.line(row)

    def line(self, row: Sequence[str]) -> str:
        cells = [
            (output.shortened(row[place], size) if place in self._cut else row[place]).ljust(size)
            for place, size in zip(self._places, self._widths, strict=True)
        ]
        return _GAP.join(cells).rstrip()

    def _measured(self, width: int) -> list[int]:
        everything = [[column.heading for column in self._columns], *self.rows]
        sizes = [max(len(row[place]) for row in everything) for place in self._places]
        excess = sum(sizes) + len(_GAP) * (len(sizes) - 1) - width
        if not width or excess <= 0:
            return sizes
        sentences = [index for index, place in enumerate(self._places) if any(" " in row[place] for row in self.rows)]
        for index in sorted(sentences, key=lambda index: -sizes[index]):
            cut = min(excess, max(sizes[index] - _SHORTEST, 0))
            sizes[index] -= cut
            excess -= cut
            self._cut |= {self._places[index]} if cut else set()
        return sizes


def _fitting(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, *, wide: bool) -> list[int]:
    """The places of the columns that are shown."""
    places = list(range(len(columns)))
    if not width:
        return places
    names = [column.heading.lower() for column in columns]
    kept = {names.index(name) for name in (*_KEPT, *[each for each in _STATES if each in names][:1]) if name in names}
    others = [place for place in reversed(places) if place not in kept]
    # Who asks for the wide form wants what it adds.
    others.sort(key=lambda place: columns[place].priority if wide else -columns[place].priority)

    def size(place: int) -> int:
        cells = [row[place] for row in rows]
        longest = max((len(cell) for cell in cells), default=0)
        is_sentence = any(" " in cell for cell in cells)
        return max(len(names[place]), min(longest, _SHORTEST) if is_sentence else longest)

    while others and sum(map(size, places)) + len(_GAP) * (len(places) - 1) > width:
        places.remove(others.pop(0))
    return places


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
