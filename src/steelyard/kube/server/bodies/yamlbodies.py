"""YAML as Kubernetes reads it, by way of JSON: timestamps stay strings, keys become strings, the first document counts.

Aliases and merge keys are expanded against a budget while they are expanded, so that a few lines cannot stand for
gigabytes. Longer texts are read in a process of their own (`workers`), which imports little but this module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, cast

import yaml
from yaml.reader import ReaderError
from yaml.scanner import ScannerError

from steelyard.kube import fields
from steelyard.kube.server.bodies.syntax import Unreadable
from steelyard.kube.server.fairness import budgets

_ALIAS: Final = re.compile(r"\*([^\s,\[\]{}]+)")
_STRING: Final = "tag:yaml.org,2002:str"
_MERGE: Final = "tag:yaml.org,2002:merge"
_LONGEST_INTEGER: Final = 100
"""In characters; what has more is no integer of 64 bits however it is written."""


def load(data: bytes, max_depth: int = budgets.MAX_DEPTH) -> tuple[Any, tuple[str, ...]]:
    """The value, and the keys that were given twice. Raises Unreadable in go-yaml's words, or what `budgets` do."""
    repeated: list[str] = []
    try:
        text = data.decode("utf-8")
        _check_size(text, max_depth)
        loader = cast(Any, _Loader(text))
        try:
            node = cast("yaml.Node | None", loader.get_node() if loader.check_node() else None)
            if node is not None:
                _find_repeated(node, repeated, set())
            document = loader.construct_document(node) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise Unreadable(_problem(error, data.decode())) from None
    except ReaderError:
        raise Unreadable("yaml: control characters are not allowed") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Unreadable("yaml: " + str(error).replace("\n", " ")) from None
    return _Expansion(max_depth, has_aliases=b"*" in data).expand(document, 0), tuple(repeated)


def _excessive() -> Unreadable:
    return Unreadable("yaml: document contains excessive aliasing")


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
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            identity = (str(key.tag), str(key.value))
            if identity in keys:
                shown = fields.quote(identity[1]) if identity[0] == _STRING else identity[1]
                repeated.append(f"line {key.start_mark.line + 1}: key {shown} already set in map")
            keys.add(identity)


def _check_size(text: str, max_depth: int) -> None:
    """Before it is loaded: the loader calls itself for each level in C, and would take the process with it."""
    if len(text) <= budgets.MAX_VALUES and sum(map(text.count, "{[:-?")) <= max_depth:
        return
    depth = nodes = 0
    events = cast("Iterable[yaml.Event]", cast(Any, yaml).parse(text, Loader=_Loader))
    for event in events:
        if isinstance(event, yaml.NodeEvent):
            nodes += 1
            if nodes > 2 * budgets.MAX_VALUES:
                raise budgets.too_many_values()
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > max_depth:
                raise budgets.too_deep()
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


if TYPE_CHECKING:
    _SafeLoader = yaml.SafeLoader
else:
    # The one on libyaml, where PyYAML was built with it, is ten times faster.
    _SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):
    """Tells texts from numbers and booleans as go-yaml does: dates and `12:30` are texts, `y` and `1e3` are not."""

    _budget = budgets.MAX_VALUES

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Puts what is merged before the mapping's own; each time it is put somewhere counts."""
        pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
        merged: list[tuple[yaml.Node, yaml.Node]] = []
        own: list[tuple[yaml.Node, yaml.Node]] = []
        # A mapping that merges itself finds nothing of its own to merge.
        node.value = own
        for key, value in pairs:
            if key.tag != _MERGE:
                own.append((key, value))
                continue
            for each in reversed(self._merged(node, value)):
                self.flatten_mapping(each)
                self._budget -= len(each.value)
                if self._budget < 0:
                    raise _excessive()
                merged += each.value
        if merged:
            node.value = merged + own

    def _merged(self, node: yaml.MappingNode, value: yaml.Node) -> list[yaml.MappingNode]:
        given = cast("list[yaml.Node]", value.value) if isinstance(value, yaml.SequenceNode) else [value]
        found = [each for each in given if isinstance(each, yaml.MappingNode)]
        if len(found) < len(given):
            raise yaml.constructor.ConstructorError(
                None, None, "map merge requires map or sequence of maps as the value", value.start_mark
            )
        return found


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


def _construct_integer(loader: Any, node: yaml.ScalarNode) -> int | float | str:
    """What does not fit 64 bits is a float, and what is no float either a text."""
    text = str(loader.construct_scalar(node))
    number = loader.construct_yaml_int(node) if len(text) <= _LONGEST_INTEGER else 1 << 64
    if -(1 << 63) <= number < 1 << 64:
        return number
    try:
        approximate = float(text)
    except ValueError:
        return text
    return text if math.isinf(approximate) else approximate


_Loader.add_constructor("tag:yaml.org,2002:bool", _construct_bool)
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_integer)


class _Expansion:
    """Turns what YAML can express into what JSON can, sharing nothing between two places."""

    def __init__(self, max_depth: int, *, has_aliases: bool) -> None:
        self._budget = budgets.MAX_VALUES
        self._has_aliases = has_aliases
        self._max_depth = max_depth

    def expand(self, value: Any, depth: int) -> Any:
        self._budget -= 1
        if self._budget < 0:
            raise _excessive() if self._has_aliases else budgets.too_many_values()
        if depth > self._max_depth:
            raise budgets.too_deep()
        if isinstance(value, dict):
            mapping = cast("dict[Any, Any]", value)
            return {_key(key): self.expand(each, depth + 1) for key, each in mapping.items()}
        if isinstance(value, list):
            return [self.expand(each, depth + 1) for each in cast("list[Any]", value)]
        if isinstance(value, float) and not math.isfinite(value):
            raise Unreadable("json: unsupported value: " + ("NaN" if math.isnan(value) else f"{value:+}".title()))
        if value is None or isinstance(value, str | bool | int | float):
            return value
        raise Unreadable(f"yaml: {type(value).__name__} has no JSON form")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int):
        return str(key)
    if isinstance(key, float):
        return fields.number(key)
    raise Unreadable("yaml: a key is neither a string, a number nor a boolean")
