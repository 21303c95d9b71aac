"""The `fieldPath` of a rule: a path within the value that a failure is reported at, e.g. `.spec.names['a.b']`."""

from __future__ import annotations

import re
from typing import Final

from steelyard.kube import fields
from steelyard.kube.schema.model import Schema

_STEP: Final = re.compile(r"\.(?P<name>[^.\[\]]+)|\['(?P<quoted>(?:[^'\\]|\\.)*)'\]", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_LETTERS: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\",
}  # fmt: skip


def normalise(path: str, schema: Schema) -> str | None:
    """As it is put behind the path of the value; None if the schema has no such field.

    >>> normalise(".a['b']", Schema("object", properties={"a": Schema("object", additional=Schema("string"))}))
    'a[b]'
    """
    found, position, node = "", 0, schema
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            return None
        position = step.end()
        name = step["name"] or _unescaped(step["quoted"])
        if name is None:
            return None
        if node.properties:
            child = node.properties.get(name)
            found = fields.child(found, name)
        else:
            child = node.additional
            found = f"{found}[{name}]"
        if child is None:
            return None
        node = child
    return found


def _unescaped(text: str) -> str | None:
    if any(match[1] not in _LETTERS for match in _ESCAPE.finditer(text)):
        return None
    return _ESCAPE.sub(lambda match: _LETTERS[match[1]], text)
