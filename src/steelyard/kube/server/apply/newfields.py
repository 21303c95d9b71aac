"""Which fields a create sets.

Objects of one kind mostly have the same ones, and finding them out anew was a tenth of the time of a create: so the
answer is remembered by the names of the fields.

That holds as long as the values do not matter. They do in lists, whose items are told apart by their values, and where
the kind has values of its own when nothing is set; such objects are looked through each time.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, cast

from steelyard.kube.objects import Object
from steelyard.kube.server.apply import fieldset, managedfields, typed
from steelyard.kube.server.apply.fieldset import FieldSet, Tree
from steelyard.kube.server.apply.shape import Shape

Names: TypeAlias = "tuple[str | tuple[str, Names], ...]"

_REMEMBERED: Final = 1024
_MOST_NAMES: Final = 200
_LONGEST_NAME: Final = 128
_NEVER: Final = managedfields.NEVER_MANAGED.tree


def find(kind: Shape, blank: Object, created: Object, ignored: FieldSet) -> Tree:
    """The fields of the created object that its creator manages; shared, read-only."""
    names = _names(created, [_MOST_NAMES]) if _has_no_values(blank) else None
    if names is None:
        return _look(kind, blank, created, ignored)
    key = (id(kind), id(blank), id(ignored), names)
    known = _KNOWN.get(key)
    if known is None:
        if len(_KNOWN) >= _REMEMBERED:
            _KNOWN.clear()
        # What the key identifies is held, so that nothing else can take its identity.
        known = _KNOWN[key] = (_look(kind, blank, created, ignored), kind, blank, ignored)
    return known[0]


def _look(kind: Shape, blank: Object, created: Object, ignored: FieldSet) -> Tree:
    changes = typed.compare(kind, blank, created).without(ignored.tree)
    return fieldset.difference(fieldset.union(changes.added, changes.modified), _NEVER)


def _names(value: Object, left: list[int]) -> Names | None:
    """None where values matter: `{"a": 1, "b": {"c": 2}}` is `("a", ("b", ("c",)))`; and where there are many."""
    left[0] -= len(value)
    if left[0] < 0:
        return None
    found: list[str | tuple[str, Names]] = []
    for name, item in value.items():
        if len(name) > _LONGEST_NAME:
            return None
        if item.__class__ is dict:
            below = _names(item, left)
            if below is None:
                return None
            found.append((name, below))
        elif item is None or item.__class__ is list:
            return None
        else:
            found.append(name)
    return tuple(found)


def _has_no_values(blank: Any) -> bool:
    return isinstance(blank, dict) and all(map(_has_no_values, cast(Object, blank).values()))


_KNOWN: Final[dict[tuple[int, int, int, Names], tuple[Tree, Shape, Object, FieldSet]]] = {}
