"""Immutable values with named fields: frozen dataclasses that cost little to define and little to make.

A frozen dataclass writes, compiles and runs the source of six methods when its module is imported, and sets its fields
the long way round whenever one is made. With the hundred and more there are, that was a tenth of the platform's start.
Here only the constructor is compiled, and not before the first one is made: most classes of a start have none yet. That
nobody assigns to a field is checked with the types, not at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Equal to others of its class with equal fields, and hashed by them."""
    # Without one, a dataclass makes it of the class's signature, and that takes longer than all the rest.
    cls.__doc__ = cls.__doc__ or cls.__name__
    made: Any = dataclass(slots=True, init=False, repr=False, eq=False)(cls)
    compared = [each for each in fields(made) if each.compare]
    values = _values(compared)
    hashed = _values(each for each in compared if each.hash is not False)

    def is_equal(self: Any, other: Any) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hash_of(self: Any) -> int:
        return hash(hashed(self))

    def make_first(self: Any, *given: Any, **named: Any) -> None:
        made.__init__ = _constructor(made)
        made.__init__(self, *given, **named)

    made.__init__ = make_first
    made.__eq__ = is_equal
    made.__hash__ = hash_of
    made.__repr__ = _shown
    return made


def _constructor(cls: Any) -> Callable[..., None]:
    """The constructor that a dataclass with these fields has."""
    described: dict[str, Any] = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__annotations__": {each.name: each.type for each in fields(cls)},
    }
    for each in fields(cls):
        if each.default is not MISSING:
            described[each.name] = field(default=each.default, init=each.init, kw_only=each.kw_only)
        else:
            described[each.name] = field(default_factory=each.default_factory, init=each.init, kw_only=each.kw_only)
    if hasattr(cls, "__post_init__"):
        described["__post_init__"] = cls.__post_init__
    twin: Any = dataclass(repr=False, eq=False)(type(cls.__name__, (), described))
    return twin.__init__


def _values(of: Iterable[Field[Any]]) -> Callable[[Any], Any]:
    names = [each.name for each in of]
    return attrgetter(*names) if names else type


def _shown(self: Any) -> str:
    given = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({given})"
