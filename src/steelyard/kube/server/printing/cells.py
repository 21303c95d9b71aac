"""The cells that tables of built-in kinds are made of, in the words of upstream's printers.

A cell is a function of the object and of now. Objects are taken as they are stored: what is missing counts as empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

from steelyard.kube import ages, objects
from steelyard.kube.objects import Object

Cell: TypeAlias = Callable[[Object, datetime], Any]
Cells: TypeAlias = Mapping[str, Cell]
"""By the column's name."""

NONE: Final = "<none>"
UNSET: Final = "<unset>"


def name(obj: Object, now: datetime) -> Any:
    return objects.name(obj)


def age(obj: Object, now: datetime) -> Any:
    return ages.since(objects.metadata(obj).get("creationTimestamp"), now)


def created(obj: Object, now: datetime) -> Any:
    return objects.metadata(obj).get("creationTimestamp")


COMMON: Final[Cells] = {"Name": name, "Age": age, "Created At": created}
"""Of every kind that has such a column and says nothing else."""


def at(*path: str | int, default: Any = "") -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        value = objects.at(obj, *path)
        return default if value is None or value == "" else value

    return cell


def text_at(*path: str | int, default: str = "") -> Cell:
    """For numbers that upstream shows as text."""

    def cell(obj: Object, now: datetime) -> Any:
        value = objects.at(obj, *path)
        return default if value is None else str(value)

    return cell


def number_at(*path: str) -> Cell:
    return at(*path, default=0)


def length(*path: str) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        value = objects.at(obj, *path)
        return len(objects.mapping(value)) or len(objects.sequence(value))

    return cell


def joined(*path: str, separator: str = ",", default: str = "") -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        return separator.join(str(item) for item in objects.sequence(objects.at(obj, *path))) or default

    return cell


def labels_at(*path: str) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        wanted = objects.mapping(objects.at(obj, *path))
        return ",".join(f"{key}={value}" for key, value in sorted(wanted.items())) or NONE

    return cell


def selector_at(*path: str, default: str = NONE) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        return selector(objects.mapping(objects.at(obj, *path))) or default

    return cell


def selector(given: Object) -> str:
    """`{"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}` is `a=b,c`."""
    terms = [(key, f"{key}={value}") for key, value in objects.mapping(given.get("matchLabels")).items()]
    for expression in map(objects.mapping, objects.sequence(given.get("matchExpressions"))):
        key = str(expression.get("key"))
        values = ",".join(sorted(str(value) for value in objects.sequence(expression.get("values"))))
        shown = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
        terms.append((key, shown.get(str(expression.get("operator")), key)))
    return ",".join(term for _, term in sorted(terms))


def ratio(have: tuple[str, ...], wanted: tuple[str, ...]) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        return f"{objects.at(obj, *have) or 0}/{objects.at(obj, *wanted) or 0}"

    return cell


def since(*path: str, default: str = ages.UNKNOWN) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        value = objects.at(obj, *path)
        return ages.since(value, now) if value else default

    return cell


def conditions(obj: Object) -> dict[str, Object]:
    """By type."""
    listed = map(objects.mapping, objects.sequence(objects.at(obj, "status", "conditions")))
    return {str(condition.get("type")): condition for condition in listed}


def is_met(obj: Object, condition: str) -> bool:
    return conditions(obj).get(condition, {}).get("status") == "True"


def shortened(shown: list[str], limit: int, *, separator: str = ",", default: str = "") -> str:
    """The first of a list that may be long: `a,b,c + 2 more...`."""
    text = separator.join(shown[:limit]) or default
    return f"{text} + {len(shown) - limit} more..." if len(shown) > limit else text
