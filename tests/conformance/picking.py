"""What of an answer a step compares where the whole cannot be the same: `pick` names what counts, `drop` what not.

    {do: GET /version, pick: [major, minor]}
    {do: GET /openapi/v3/api/v1, pick: [[components, schemas, io.k8s.api.core.v1.Pod]], drop: ["**.description"]}
    {do: GET /api/v1, drop: ["resources[name=pods/exec]"]}
    {do: "GET /readyz?verbose", pick: ["[+]ping ok", readyz check passed]}

A place is written with dots (`status.conditions`) or, where names contain dots, as a list of steps. A step is a field,
an index, `[field=value]`, `[metadata.name=value]` or `[=value]` for the items of a list that are so, `*` for the names
of all fields in order, `#` for a length; `**.field` is the text under that name wherever it is. Of an answer that is
text, lines are picked. Both servers' answers are cut alike. A place that is in neither is a mistake in the corpus and
counts as a difference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypeAlias, cast

Place: TypeAlias = str | Sequence[str]

_ITEMS: Final = re.compile(r"\[([^=\]]*)=([^\]]*)\]")
ABSENT: Final = "<absent>"


def pick(body: Any, places: Sequence[Place]) -> Any:
    """What stands at each of the places; `<absent>` where there is no such place."""
    if isinstance(body, str):
        return [line for line in body.splitlines() if line in places]
    return {_name(place): _at(body, steps(place)) for place in places}


def drop(body: Any, places: Sequence[Place]) -> Any:
    for place in places:
        if isinstance(place, str) and place.startswith("**."):
            body = _without_everywhere(body, place.removeprefix("**."))
        else:
            body = _without(body, steps(place))
    return body


def steps(place: Place) -> list[str]:
    """`resources[name=pods].verbs` is `resources`, `[name=pods]`, `verbs`."""
    if not isinstance(place, str):
        return [str(step) for step in place]
    return re.findall(r"\[[^\]]*\]|[^.\[]+", place)


def finds_nothing(picked: Any) -> bool:
    """Whether something that was picked is not there."""
    return picked == [] or (isinstance(picked, dict) and ABSENT in cast("dict[str, Any]", picked).values())


def _name(place: Place) -> str:
    return place if isinstance(place, str) else " ".join(map(str, place))


def _at(value: Any, path: Sequence[str]) -> Any:
    for step in path:
        if step == "#":
            value = len(cast("list[Any]", value)) if isinstance(value, list | dict) else ABSENT
        elif step == "*":
            value = sorted(cast("dict[str, Any]", value)) if isinstance(value, dict) else ABSENT
        elif isinstance(value, list):
            value = _of_list(cast("list[Any]", value), step)
        elif isinstance(value, dict):
            value = cast("dict[str, Any]", value).get(step, ABSENT)
        else:
            return ABSENT
    return value


def _of_list(items: list[Any], step: str) -> Any:
    if step.isdecimal():
        return items[int(step)] if int(step) < len(items) else ABSENT
    return next((item for item in items if _is_meant(item, step)), ABSENT)


def _is_meant(item: Any, step: str) -> bool:
    found = _ITEMS.fullmatch(step)
    if found is None:
        return False
    return (_at(item, found[1].split(".")) if found[1] else item) == found[2]


def _without(value: Any, path: Sequence[str]) -> Any:
    step, *rest = path
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if rest:
            return [_without(item, rest) if _is_meant(item, step) else item for item in items]
        return [item for item in items if not _is_meant(item, step)]
    if not isinstance(value, dict) or step not in value:
        return cast(Any, value)
    fields = cast("dict[str, Any]", value)
    if not rest:
        return {key: inner for key, inner in fields.items() if key != step}
    return {**fields, step: _without(fields[step], rest)}


def _without_everywhere(value: Any, field: str) -> Any:
    if isinstance(value, list):
        return [_without_everywhere(item, field) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        # A property may have the name of a keyword; a keyword's value is text.
        return {
            key: _without_everywhere(inner, field)
            for key, inner in fields.items()
            if key != field or not isinstance(inner, str)
        }
    return value
