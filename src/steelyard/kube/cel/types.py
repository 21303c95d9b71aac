"""The types expressions are checked with, and which of them may stand where another is asked for.

A type variable (`param`) stands for a type not known yet: of an empty list, of a function's arguments. `Bindings` holds
what is known of the variables of one expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from steelyard.frozen import frozen

ListKind: TypeAlias = Literal["atomic", "set", "map"]


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    kind: str
    parameters: tuple[Type, ...] = ()
    name: str = ""
    """Of an object, an opaque type or a variable."""
    fields: Mapping[str, Field] = field(default_factory=dict[str, "Field"])
    list_kind: ListKind = "atomic"
    list_keys: tuple[str, ...] = ()
    convert: Callable[[Any], Any] | None = None
    """Makes of the JSON value the one to compute with, where they differ. Objects are converted field by field."""

    def __str__(self) -> str:
        """As messages have it: `list(string)`."""
        if self.kind == "null_type":
            return "null"
        if self.kind == "error":
            return "!error!"
        base = self.name if self.kind in ("object", "opaque", "param") else self.kind
        base = "optional_type" if base == "optional" else base
        return f"{base}({', '.join(map(str, self.parameters))})" if self.parameters else base


@frozen
class Field:
    """A field of an object: `name` is the key in JSON, the type has fields by their escaped names."""

    name: str
    type: Type


DYN: Final = Type("dyn")
ERROR: Final = Type("error")
BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null_type")
DURATION: Final = Type("duration")
TIMESTAMP: Final = Type("timestamp")
TYPE: Final = Type("type")
SIMPLE: Final = {
    each.kind: each for each in (DYN, BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, DURATION, TIMESTAMP, TYPE)
}
OPAQUE: Final = {
    short: Type("opaque", name=name)
    for short, name in (
        ("ip", "net.IP"),
        ("cidr", "net.CIDR"),
        ("url", "kubernetes.URL"),
        ("quantity", "kubernetes.Quantity"),
        ("semver", "kubernetes.Semver"),
        ("format", "kubernetes.NamedFormat"),
        ("pathcheck", "kubernetes.authorization.PathCheck"),
        ("groupcheck", "kubernetes.authorization.GroupCheck"),
        ("resourcecheck", "kubernetes.authorization.ResourceCheck"),
        ("decision", "kubernetes.authorization.Decision"),
    )
}
AUTHORIZER: Final = Type(
    "object",
    name="kubernetes.authorization.Authorizer",
    fields={"requestResource": Field("requestResource", OPAQUE["resourcecheck"])},
)


def list_of(element: Type) -> Type:
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("optional", (value,))


def type_of(value: Type) -> Type:
    return Type("type", (value,))


def is_dynamic(type_: Type) -> bool:
    return type_.kind in ("dyn", "error")


_TAKE_NULL: Final = frozenset(("opaque", "optional", "object", "duration", "timestamp", "null_type"))


class Bindings:
    """What the type variables of an expression stand for."""

    __slots__ = ("_count", "_known")

    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        self._count = 0

    def variable(self) -> Type:
        self._count += 1
        return Type("param", name=f"_var{self._count}")

    def resolve(self, type_: Type, *, unknown_is_dynamic: bool = False) -> Type:
        if type_.kind == "param":
            known = self._known.get(type_.name)
            if known is not None:
                return self.resolve(known, unknown_is_dynamic=unknown_is_dynamic)
            return DYN if unknown_is_dynamic else type_
        if not type_.parameters:
            return type_
        parameters = tuple(self.resolve(each, unknown_is_dynamic=unknown_is_dynamic) for each in type_.parameters)
        if all(new is old for new, old in zip(parameters, type_.parameters, strict=True)):
            return type_
        return Type(type_.kind, parameters, type_.name, type_.fields, type_.list_kind, type_.list_keys, type_.convert)

    def assign_all(self, given: Iterable[Type], wanted: Iterable[Type]) -> bool:
        """Whether every type given may stand where the other is wanted; what that says of variables is kept if so."""
        before = dict(self._known)
        for actual, formal in zip(given, wanted, strict=True):
            if not self._assign(actual, formal):
                self._known = before
                return False
        return True

    def assign(self, given: Type, wanted: Type) -> bool:
        return self.assign_all((given,), (wanted,))

    def join(self, first: Type, second: Type) -> Type | None:
        """The type of which both are, or None."""
        if not self.assign(first, second):
            return None
        return first if self._is_less_specific(first, second) else second

    def _assign(self, given: Type, wanted: Type) -> bool:
        if wanted.kind == "param":
            is_valid, was_known = self._substitute(given, wanted)
            if is_valid:
                return True
            if was_known:
                return False
        if given.kind == "param":
            return self._substitute(wanted, given)[0]
        if is_dynamic(given) or is_dynamic(wanted):
            return True
        if given.kind == "null_type":
            return wanted.kind in _TAKE_NULL
        if wanted.kind == "null_type":
            return given.kind in _TAKE_NULL
        if given.kind != wanted.kind:
            return False
        if given.kind in ("object", "opaque"):
            return given.name == wanted.name
        if given.kind == "type":
            return True
        return all(self._assign(one, other) for one, other in zip(given.parameters, wanted.parameters, strict=True))

    def _substitute(self, given: Type, variable: Type) -> tuple[bool, bool]:
        if given.kind == "param" and given.name == variable.name:
            return True, True
        known = self._known.get(variable.name)
        if known is not None:
            if not self._assign(given, known):
                return False, True
            general = given if self._is_less_specific(given, known) else known
            if not self._occurs(variable, general):
                self._known[variable.name] = general
            return True, True
        if self._occurs(variable, given):
            return False, False
        self._known[variable.name] = given
        return True, False

    def _occurs(self, variable: Type, within: Type) -> bool:
        if within.kind == "param":
            if within.name == variable.name:
                return True
            known = self._known.get(within.name)
            return known is not None and self._occurs(variable, known)
        return any(self._occurs(variable, each) for each in within.parameters)

    def _is_less_specific(self, first: Type, second: Type) -> bool:
        if is_dynamic(first) or first.kind == "param":
            return True
        if is_dynamic(second) or second.kind == "param":
            return False
        if first.kind != second.kind:
            return False
        return all(
            self._is_less_specific(one, other)
            for one, other in zip(first.parameters, second.parameters, strict=len(first.parameters) > 0)
        )
