"""Reads upstream's `generated.proto` files: for each message its fields' wire types, by number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PACKAGE: Final = re.compile(r"^package ([\w.]+);", re.MULTILINE)
_MESSAGE: Final = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD: Final = re.compile(r"^  (?:(optional|repeated) ([\w.]+)|map<string, ([\w.]+)>) \w+ = (\d+);", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Wire:
    type: str
    """A scalar (`string`, `int32`, …) or the message's full name, without leading dot."""
    repeated: bool = False
    mapped: bool = False


def read(path: Path) -> dict[str, dict[int, Wire]]:
    """Full message name to fields."""
    text = re.sub(r"^\s*//[^\n]*\n", "", path.read_text(), flags=re.MULTILINE)
    found = _PACKAGE.search(text)
    assert found is not None, path
    package = found[1]
    local = dict(_MESSAGE.findall(text))

    def full(name: str) -> str:
        return f"{package}.{name}" if name in local else name.removeprefix(".")

    return {
        f"{package}.{message}": {
            int(number): Wire(full(kind or value), repeated=label == "repeated", mapped=bool(value))
            for label, kind, value, number in _FIELD.findall(body)
        }
        for message, body in local.items()
    }
