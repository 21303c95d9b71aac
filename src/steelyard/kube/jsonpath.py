"""The part of JSONPath that printer columns and the scale subresource use.

Fields with escaped dots, indexes, wildcards and filters: `.metadata.annotations.example\\.com/size`, `.items[0].name`,
`.status.conditions[?(@.type=="Ready")].status`. A path that does not parse raises ValueError when it is compiled; a
compiled path finds nothing, and never fails, in an object of another shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from steelyard.kube import effort, objects, remembering

Step = Callable[[list[Any]], list[Any]]
Path = tuple[Step, ...]

_STEPS = 30
"""Of looking at one value, for the effort of going through a large object."""
_FIELD = re.compile(r"\.((?:\\.|[^.\[\]\\])+)")
_QUOTED = re.compile(r"\[\s*(?:'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\")\s*\]")
_INDEX = re.compile(r"\[\s*(-?\d{1,9}|\*)\s*\]")
_FILTER = re.compile(r"\[\?\(\s*(@[^=!<>]*?)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?)\s*)?\)\]")


@remembering.briefly(1024)
def compile_path(text: str) -> Path:
    source = text.strip()
    if source.startswith("{") and source.endswith("}"):
        source = source[1:-1].strip()
    if source.startswith("$"):
        source = source[1:]
    steps: list[Step] = []
    position = 0
    while position < len(source):
        if source.startswith(".[", position):
            position += 1
        if found := _FIELD.match(source, position):
            name = _unescape(found[1])
            steps.append(_every_value if name == "*" else _field(name))
        elif found := _QUOTED.match(source, position):
            steps.append(_field(_unescape(found[1] if found[1] is not None else found[2])))
        elif found := _INDEX.match(source, position):
            steps.append(_every_value if found[1] == "*" else _index(int(found[1])))
        elif found := _FILTER.match(source, position):
            steps.append(_filter(compile_path(found[1][1:]), found[2] or "", found[3] or ""))
        elif source == ".":
            break
        else:
            raise ValueError(f"cannot parse JSONPath {text!r} at {source[position:]!r}")
        position = found.end()
    return tuple(steps)


def lenient(text: str) -> Path:
    """A compiled path; for one that does not parse, a path that finds nothing."""
    try:
        return compile_path(text)
    except ValueError:
        return (_nothing,)


def find_all(path: Path, value: Any) -> list[Any]:
    values: list[Any] = [value]
    for step in path:
        effort.spend(len(values) * _STEPS)
        values = step(values)
        if not values:
            break
    return values


def find(path: Path, value: Any) -> Any:
    """The first match, or None."""
    found = find_all(path, value)
    return found[0] if found else None


def _nothing(values: list[Any]) -> list[Any]:
    return []


def _field(name: str) -> Step:
    def step(values: list[Any]) -> list[Any]:
        return [value[name] for value in values if isinstance(value, dict) and name in value]

    return step


def _index(index: int) -> Step:
    def step(values: list[Any]) -> list[Any]:
        lists = [cast("list[Any]", value) for value in values if isinstance(value, list)]
        return [items[index] for items in lists if -len(items) <= index < len(items)]

    return step


def _every_value(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found.extend(objects.mapping(value).values() or objects.sequence(value))
    return found


def _filter(path: Path, operator: str, literal: str) -> Step:
    wanted = _literal(literal) if operator else None

    def step(values: list[Any]) -> list[Any]:
        items = [item for value in values for item in objects.sequence(value)]
        if not operator:
            return [item for item in items if find_all(path, item)]
        return [item for item in items if any(_compare(have, operator, wanted) for have in find_all(path, item))]

    return step


def _literal(text: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return _unescape(text[1:-1])
    if text in {"true", "false"}:
        return text == "true"
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"cannot parse {text!r} in a JSONPath filter") from None


def _compare(have: Any, operator: str, wanted: Any) -> bool:
    if operator == "==":
        return have == wanted
    if operator == "!=":
        return have != wanted
    comparable = isinstance(have, str) == isinstance(wanted, str) and isinstance(have, str | int | float)
    if not comparable:
        return False
    match operator:
        case "<":
            return have < wanted
        case "<=":
            return have <= wanted
        case ">":
            return have > wanted
        case _:
            return have >= wanted


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text) if "\\" in text else text
