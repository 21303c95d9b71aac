"""Answers as YAML in upstream's form: keys in order, text in double quotes only where it would mean something else.

A list is written item by item, so that it takes little more memory than its text. Long answers are written in a process
of their own (`workers`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import yaml

_STRING: Final = "tag:yaml.org,2002:str"
_LIKE_ANOTHER_TYPE: Final = re.compile(
    r"(|~|null|Null|NULL|y|Y|n|N|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF|true|True|TRUE|false|False|FALSE|<<"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
    r"|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"
    r"|[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+)"
    r"|[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ]+[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\.[0-9]*)?( *(Z|[-+][0-9:]+))?)?)\Z"
)
"""What a reader without the quotes takes for null, a boolean, a number or a time."""


if TYPE_CHECKING:
    _SafeDumper = yaml.SafeDumper
else:
    # The one on libyaml, where PyYAML was built with it, is five times faster.
    _SafeDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Parts that stand in several places are written out in each."""
        return True


def _text(_: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else '"' if _LIKE_ANOTHER_TYPE.match(value) else None
    return yaml.ScalarNode(_STRING, value, style=style)


_Dumper.add_representer(str, _text)


def dump(value: Any) -> bytes:
    items = cast("dict[str, Any]", value).get("items") if isinstance(value, dict) else None
    if not isinstance(items, list) or not items:
        return _dump(value)
    return b"".join(_parts(cast("dict[str, Any]", value)))


def _parts(value: dict[str, Any]) -> Iterator[bytes]:
    for key in sorted(value):
        if key != "items":
            yield _dump({key: value[key]})
            continue
        opening = b"items:\n"
        yield opening
        for item in value[key]:
            yield _dump({key: [item]})[len(opening) :]


def _dump(value: Any) -> bytes:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=True, allow_unicode=True).encode()
