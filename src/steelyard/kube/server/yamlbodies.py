"""YAML as Kubernetes reads it, by way of JSON: timestamps stay strings, keys become strings, the first document counts.

Aliases are expanded against a budget, so that a few lines cannot stand for gigabytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, cast

import yaml
from yaml.scanner import ScannerError

from steelyard.kube import errors, fields
from steelyard.kube.server import bodies

_MAX_NODES: Final = 200_000
_ALIAS: Final = re.compile(r"\*([^\s,\[\]{}]+)")
_STRING: Final = "tag:yaml.org,2002:str"


def load(data: bytes, max_depth: int) -> tuple[Any, tuple[str, ...]]:
    """The value, and the keys that were given twice. Raises Unreadable in go-yaml's words."""
    try:
        text = data.decode("utf-8")
        _check_depth(text, max_depth)
        loader = cast(Any, _Loader(text))
        try:
            node = cast("yaml.Node | None", loader.get_node() if loader.check_node() else None)
            document = loader.construct_document(node) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise bodies.Unreadable(_problem(error, data.decode())) from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise bodies.Unreadable("yaml: " + str(error).replace("\n", " ")) from None
    repeated: list[str] = []
    if node is not None:
        _find_repeated(node, repeated, set())
    return _Expansion(max_depth).expand(document, 0), tuple(repeated)


def _problem(error: yaml.MarkedYAMLError, text: str) -> str:
    if error.problem == "found undefined alias" and error.problem_mark:
        line = text.splitlines()[error.problem_mark.line]
        found = _ALIAS.match(line, error.problem_mark.column)
        return f"yaml: unknown anchor '{found[1] if found else ''}' referenced"
    line = (error.context_mark.line if error.context_mark else 0) or (
        error.problem_mark.line if error.problem_mark else 0
    )
    if line and isinstance(error, ScannerError):
        line += 1
    where = f"line {line}: " if line else ""
    return f"yaml: {where}{error.problem or 'unknown problem parsing YAML content'}"


def _find_repeated(node: yaml.Node, repeated: list[str], seen: set[int]) -> None:
    """In the order in which go-yaml meets them: what is inside of a value comes before its key."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for each in cast("list[yaml.Node]", node.value):
            _find_repeated(each, repeated, seen)
    elif isinstance(node, yaml.MappingNode):
        keys: set[tuple[str, str]] = set()
        for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            _find_repeated(value, repeated, seen)
            if not isinstance(key, yaml.ScalarNode):
                continue
            identity = (str(key.tag), str(key.value))
            if identity in keys:
                shown = fields.quote(identity[1]) if identity[0] == _STRING else identity[1]
                repeated.append(f"line {key.start_mark.line + 1}: key {shown} already set in map")
            keys.add(identity)


def _check_depth(text: str, max_depth: int) -> None:
    """Before it is loaded: the loader calls itself for each level in C, and would take the process with it."""
    if sum(map(text.count, "{[:-?")) <= max_depth:
        return
    depth = 0
    events = cast("Iterable[yaml.Event]", cast(Any, yaml).parse(text, Loader=_Loader))
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > max_depth:
                raise bodies.too_deep()
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


if TYPE_CHECKING:
    _SafeLoader = yaml.SafeLoader
else:
    # The one on libyaml, where PyYAML was built with it, is ten times faster.
    _SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):
    """Tells texts from numbers and booleans as go-yaml does: dates and `12:30` are texts, `y` and `1e3` are not."""


_PLAIN: Final = {
    "tag:yaml.org,2002:bool": (
        r"[yYnN]|[yY]es|YES|[nN]o|NO|[tT]rue|TRUE|[fF]alse|FALSE|[oO]n|ON|[oO]ff|OFF",
        "yYnNtTfFoO",
    ),
    "tag:yaml.org,2002:float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    "tag:yaml.org,2002:int": (
        r"[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+",
        "-+0123456789",
    ),
}  # fmt: skip


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    kept = {"tag:yaml.org,2002:merge", "tag:yaml.org,2002:null"}
    found = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag in kept]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for tag, (pattern, firsts) in _PLAIN.items():
        for first in firsts:
            found.setdefault(first, []).append((tag, re.compile(rf"^(?:{pattern})$")))
    return found


_Loader.yaml_implicit_resolvers = _resolvers()


def _construct_bool(loader: Any, node: yaml.ScalarNode) -> bool:
    return str(loader.construct_scalar(node)).lower() in {"y", "yes", "true", "on"}


_Loader.add_constructor("tag:yaml.org,2002:bool", _construct_bool)


class _Expansion:
    """Turns what YAML can express into what JSON can, sharing nothing between two places."""

    def __init__(self, max_depth: int) -> None:
        self._budget = _MAX_NODES
        self._max_depth = max_depth

    def expand(self, value: Any, depth: int) -> Any:
        self._budget -= 1
        if self._budget < 0 or depth > self._max_depth:
            raise errors.BadRequest(
                "the body of the request is not valid YAML: it is too large or too deep once expanded"
            )
        if isinstance(value, dict):
            mapping = cast("dict[Any, Any]", value)
            return {_key(key): self.expand(each, depth + 1) for key, each in mapping.items()}
        if isinstance(value, list):
            return [self.expand(each, depth + 1) for each in cast("list[Any]", value)]
        if isinstance(value, float) and not math.isfinite(value):
            raise bodies.Unreadable(
                "json: unsupported value: " + ("NaN" if math.isnan(value) else f"{value:+}".title())
            )
        if value is None or isinstance(value, str | bool | int | float):
            return value
        raise bodies.Unreadable(f"yaml: {type(value).__name__} has no JSON form")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int):
        return str(key)
    if isinstance(key, float):
        return fields.number(key)
    raise bodies.Unreadable("yaml: a key is neither a string, a number nor a boolean")
