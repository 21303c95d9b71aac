"""Objects as YAML: exactly what PyYAML writes for them, an order of magnitude sooner.

PyYAML takes a millisecond for each object, which is minutes for a repository of manifests. What most objects consist of
(keys and short texts that come again and again) is put together here from scalars that PyYAML has written once. What is
not so simple goes to PyYAML whole. Nothing is ever an alias of something else: people copy parts of it.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Final, cast

import yaml

_LONGEST: Final = 120
_SIMPLE: Final = re.compile(r"[ -~]*")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_NOT_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""What begins with a letter and is read as something else than a text."""


_NEXT_LINE: Final = "\x85"


class _Dumper(yaml.SafeDumper):
    """Quotes the texts that kubectl would read as a truth value or a number and Python would not: y, n, 1e3; and those
    with a character that PyYAML writes as it is and reads as the end of a line."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represented(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _NEXT_LINE in text else None)


cast(Any, _Dumper).add_representer(str, _represented)


def _quote_where(pattern: str, tag: str, first: str) -> None:
    cast(Any, _Dumper).add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))


_quote_where(r"^[yYnN]$", "bool", "yYnN")
_quote_where(r"^[-+]?(\.\d+|\d+(\.\d*)?)[eE][-+]?\d+$", "float", "-+.0123456789")


class _NotSimple(Exception):
    """It is left to PyYAML."""


def of(value: Any) -> str:
    lines: list[str] = []
    try:
        if not isinstance(value, dict) or not value:
            raise _NotSimple
        _mapping(cast("dict[Any, Any]", value), "", "", lines)
    except _NotSimple:
        return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
    lines.append("")
    return "\n".join(lines)


def _mapping(value: dict[Any, Any], first: str, indent: str, lines: list[str]) -> None:
    """`first` is what the first line begins with: the indentation, or the dash of a list."""
    start = first
    for key, each in value.items():
        if not key or not isinstance(key, str):
            raise _NotSimple
        _entry(f"{start}{_text(key)}:", each, indent, lines)
        start = indent


def _entry(head: str, value: Any, indent: str, lines: list[str]) -> None:
    if isinstance(value, dict) and value:
        lines.append(head)
        _mapping(cast("dict[Any, Any]", value), f"{indent}  ", f"{indent}  ", lines)
    elif isinstance(value, list) and value:
        lines.append(head)
        _sequence(cast("list[Any]", value), indent, indent, lines)
    else:
        lines.append(f"{head} {_leaf(value)}")


def _sequence(value: list[Any], first: str, indent: str, lines: list[str]) -> None:
    start = first
    for each in value:
        if isinstance(each, dict) and each:
            _mapping(cast("dict[Any, Any]", each), f"{start}- ", f"{indent}  ", lines)
        elif isinstance(each, list) and each:
            _sequence(cast("list[Any]", each), f"{start}- ", f"{indent}  ", lines)
        else:
            lines.append(f"{start}- {_leaf(each)}")
        start = indent


def _leaf(value: Any) -> str:
    if isinstance(value, dict):
        return "{}"
    return "[]" if isinstance(value, list) else _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise _NotSimple


def _text(text: str) -> str:
    is_word = len(text) <= _LONGEST and _WORD.fullmatch(text) is not None
    return text if is_word and text.lower() not in _NOT_WORDS else _written(text)


@functools.lru_cache(maxsize=20_000)
def _written(text: str) -> str:
    if len(text) > _LONGEST or not _SIMPLE.fullmatch(text):
        raise _NotSimple
    written = yaml.dump(text, Dumper=_Dumper, allow_unicode=True, width=1000)
    return written.removesuffix("\n").removesuffix("\n...")
