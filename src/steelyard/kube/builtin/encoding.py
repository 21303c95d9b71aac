"""The form that objects of built-in kinds have after Go has read and written them.

Upstream reads every body into a structure and writes the structure out again, so an object is not quite what its client
sent: nulls and empty values are gone where Go omits what is empty, structures, and fields that Go always writes, are
there though nobody sent them, quantities and times are in one notation.

    {"spec": {"paused": false}} as a Deployment becomes
    {"metadata": {}, "status": {}, "spec": {"selector": null, "strategy": {}, "template": {"metadata": {}, ...}}}

Who manages a field, and whether an update changes anything, is decided on
this form. Plans are made from the type tables on first use and shared by the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, TypeAlias, cast

from steelyard.kube import objects
from steelyard.kube.builtin import quantities, types
from steelyard.kube.objects import Object

Convert: TypeAlias = Callable[[Any], Any]
Make: TypeAlias = Callable[[], Any]

_KEEP, _PLAIN, _STRUCT, _STRUCTS, _CONVERTED, _CONVERTED_ITEMS, _ITEMS = range(7)
_ZERO: Final[dict[str, Any]] = {
    "string": "", "bytes": "", "bool": False, "int32": 0, "int64": 0, "double": 0, "Quantity": "0", "IntOrString": 0,
}  # fmt: skip
"""The rest of the types that are no structures are null when nobody has set them."""
_SCHEMA: Final = "apiextensions/v1.JSONSchemaProps"
_STORED_AS_JSON: Final = "apiextensions/v1."
"""An empty list survives there; all other kinds are stored as protobuf, which does not tell it from none."""
_TIME_LENGTH: Final = len("2006-01-02T15:04:05Z")
_MICRO_TIME_LENGTH: Final = len("2006-01-02T15:04:05.000000Z")


class Struct:
    """One type. `settle` brings a value of it into form, in place."""

    __slots__ = ("_always", "_lists", "_name", "_plan")

    def __init__(self, name: str) -> None:
        self._name = name
        self._plan: dict[str, tuple[int, Any, Make]] | None = None
        self._always: tuple[tuple[str, Make], ...] = ()
        self._lists: frozenset[str] = frozenset()
        """Which are written also when they are empty."""

    def settle(self, value: Object, *, is_whole: bool = False) -> None:
        """A whole object keeps the empty lists that a client has given, until `stored`: the client manages them."""
        plan = self._plan if self._plan is not None else self._make()
        dropped: list[str] = []
        for name, item in value.items():
            known = plan.get(name)
            if known is None:
                continue
            kind, child, zero = known
            if item is None:
                dropped.append(name)
            elif kind == _PLAIN:
                if not item:
                    dropped.append(name)
            elif kind == _STRUCT:
                child.settle(item)
            elif kind == _CONVERTED:
                value[name] = child(item)
            elif kind != _KEEP:
                if not item:
                    if not is_whole or name not in self._lists:
                        dropped.append(name)
                else:
                    _settle_all(kind, child, zero, item)
        for name in dropped:
            del value[name]
        for name, make in self._always:
            if name not in value:
                value[name] = make()

    def stored(self, value: Object) -> Object:
        for name in self._lists:
            if value.get(name) == []:
                value = {**value, name: None}
        return value

    def zero(self) -> Object:
        value: Object = {}
        self.settle(value)
        return value

    def _make(self) -> dict[str, tuple[int, Any, Make]]:
        keeps_empty = self._name.startswith(_STORED_AS_JSON)
        plan: dict[str, tuple[int, Any, Make]] = {}
        always: list[tuple[str, Make]] = []
        lists: set[str] = set()
        for name, field in types.get(self._name).all_fields().items():
            if name == "managedFields" and self._name == types.OBJECT_META:
                continue  # an empty list is a request there: to forget all managers
            plan[name] = (_kind(field, keeps_empty=keeps_empty), _child(field), _zero(field.base))
            if (make := _when_absent(field)) is not None:
                always.append((name, make))
            if field.repeated and field.always and not keeps_empty:
                lists.add(name)
        self._always = tuple(always)
        self._lists = frozenset(lists)
        self._plan = plan
        return plan


def _settle_all(kind: int, child: Any, zero: Make, items: dict[str, Any] | list[Any]) -> None:
    """The items of a list or the values of a map; nulls among them are read as the zero value."""
    values = items.values() if isinstance(items, dict) else items
    has_nulls = None in values
    if kind == _STRUCTS:
        for item in values:
            if item is not None:
                child.settle(item)
    if not has_nulls and kind != _CONVERTED_ITEMS:
        return
    places: Iterable[Any] = items if isinstance(items, dict) else range(len(items))
    settled = cast("dict[Any, Any]", items)
    for place in places:
        item = settled[place]
        if item is None:
            settled[place] = zero()
        elif kind == _CONVERTED_ITEMS:
            settled[place] = child(item)


def _kind(field: types.Field, *, keeps_empty: bool) -> int:
    is_converted = field.base in _CONVERTERS
    if field.repeated or field.mapped:
        if field.is_struct:
            return _STRUCTS
        if field.always and keeps_empty:
            return _KEEP
        return _CONVERTED_ITEMS if is_converted else _ITEMS
    if field.is_struct:
        return _STRUCT
    if is_converted:
        return _CONVERTED
    is_omitted = field.base in types.SCALARS and not field.pointer and not field.always
    return _PLAIN if is_omitted else _KEEP


def _child(field: types.Field) -> Any:
    return struct(field.base) if field.is_struct else _CONVERTERS.get(field.base)


def _when_absent(field: types.Field) -> Make | None:
    """What Go writes where nothing is set; None where it writes nothing."""
    if field.pointer or field.repeated or field.mapped or field.base == "bytes":
        return _null if field.always else None
    if field.omit_zero or (field.base in types.SCALARS and not field.always) or not field.number:
        return None
    return _zero(field.base)


def _null() -> None:
    return None


def _zero(base: str) -> Make:
    if base in types.SCALARS or base in types.SPECIAL:
        value = _ZERO.get(base)
        return lambda: value
    return struct(base).zero


@cache
def struct(name: str) -> Struct:
    return Struct(name)


def settle(name: str, obj: Object) -> None:
    """Brings an object of the named type into form, in place. Its values must have the types that Go can read."""
    struct(name).settle(obj, is_whole=True)


def stored(name: str, obj: Object) -> Object:
    """What is left of a settled object once it has been stored: protobuf does not tell an empty list from none."""
    return struct(name).stored(obj)


@cache
def blank(name: str) -> Object:
    """What Go writes for an object of which nothing is set; shared, read-only."""
    return struct(name).zero()


def _time(value: Any) -> Any:
    if len(value) == _TIME_LENGTH and value[-1] == "Z":
        return value
    moment = _moment(value)
    return value if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(value: Any) -> Any:
    if len(value) == _MICRO_TIME_LENGTH and value[-1] == "Z":
        return value
    moment = _moment(value)
    return value if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _schema(value: Any) -> Any:
    for item in objects.sequence(value) or [value]:
        if isinstance(item, dict):
            struct(_SCHEMA).settle(cast(Object, item))
    return value


_CONVERTERS: Final[dict[str, Convert]] = {
    "Quantity": quantities.canonical,
    "Time": _time,
    "MicroTime": _micro_time,
    "SchemaOrArray": _schema,
    "SchemaOrBool": _schema,
    "SchemaOrStrings": _schema,
}
