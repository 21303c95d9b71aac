"""Settings that sessions of a role begin with (`ALTER ROLE ... SET`): compared, and changed where they differ.

Where a Role names any, those are all it has: others are reset, as provider-sql does. Where it names none, they are left
as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from psycopg.sql import Composed

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.providers.postgres import statements

_LISTS: Final = frozenset(
    (
        *("search_path", "datestyle", "temp_tablespaces", "session_preload_libraries", "local_preload_libraries"),
        *("createrole_self_grant",),
    )
)
"""Settings whose value is a list of names, each quoted by itself."""


def read(stored: Sequence[str]) -> dict[str, str]:
    """As pg_roles has them: `work_mem=4MB`."""
    pairs = (each.partition("=") for each in stored)
    return {name: value for name, _, value in pairs}


def is_met(parameters: Object, found: Mapping[str, str]) -> bool:
    wanted = _wanted(parameters)
    return wanted is None or _comparable(wanted) == _comparable(found)


def changes(role: str, parameters: Object, found: Mapping[str, str]) -> Iterator[Composed]:
    """The statements that bring a role from what it has to what is wanted. In a transaction of the caller's."""
    wanted = _wanted(parameters)
    if wanted is None:
        return
    asked, has = _comparable(wanted), _comparable(found)
    name = statements.name(role)
    for setting in sorted(has.keys() - asked.keys()):
        yield statements.of("ALTER ROLE {} RESET {}", name, statements.parameter(setting))
    for setting, value in wanted.items():
        if has.get(setting.lower()) != asked[setting.lower()]:
            parts = _items(value) if setting.lower() in _LISTS else [value]
            quoted = statements.joined(map(statements.value, parts))
            yield statements.of("ALTER ROLE {} SET {} = {}", name, statements.parameter(setting), quoted)


def _wanted(parameters: Object) -> dict[str, str] | None:
    given = parameters.get("configurationParameters")
    if given is None:
        return None
    items = map(objects.mapping, objects.sequence(given))
    return {str(each.get("name") or ""): str(each.get("value") or "") for each in items}


def _comparable(settings: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """PostgreSQL has its own spelling of names, and of lists."""
    return {
        name.lower(): tuple(_items(value)) if name.lower() in _LISTS else (value,) for name, value in settings.items()
    }


def _items(value: str) -> list[str]:
    return [each.strip().strip("'\"") for each in value.split(",")]
