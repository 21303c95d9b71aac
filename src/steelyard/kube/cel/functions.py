"""Functions as the checker sees them and the evaluator calls them; the libraries declare theirs with `declare`.

Signatures are written as they read: `string -> contains(string) bool` is called on a string, `int(string) int` is not.
One capital letter is a type variable.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from steelyard.frozen import frozen
from steelyard.kube.cel import types, values
from steelyard.kube.cel.types import Type

Implementation: TypeAlias = (
    Callable[[], Any] | Callable[[Any], Any] | Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]
)


@frozen
class Overload:
    name: str
    parameters: tuple[Type, ...]
    """The receiver first, if it has one."""
    result: Type
    is_member: bool
    implementation: Callable[..., Any]
    has_variables: bool

    def takes(self, arguments: Iterable[Any]) -> bool:
        """Whether values of unknown type turned out to be what this overload is for."""
        return all(map(_fits, self.parameters, arguments))


def _fits(parameter: Type, value: Any) -> bool:
    kind = parameter.kind
    if kind in ("dyn", "param"):
        return True
    return values.kind_of(value) == (parameter.name if kind == "opaque" else kind)


_SIGNATURE: Final = re.compile(r"(?:(?P<target>\S.*?) -> )?(?P<name>[^\s(]+)\((?P<arguments>.*)\) (?P<result>\S.*)")


def declare(signature: str, implementation: Implementation) -> Overload:
    match = _SIGNATURE.fullmatch(signature)
    assert match is not None, signature
    parameters = tuple(_type(each) for each in _split(match["arguments"]))
    if match["target"]:
        parameters = (_type(match["target"]), *parameters)
    result = _type(match["result"])
    has_variables = any(map(_is_open, (*parameters, result)))
    return Overload(match["name"], parameters, result, bool(match["target"]), implementation, has_variables)


def _is_open(type_: Type) -> bool:
    return type_.kind == "param" or any(map(_is_open, type_.parameters))


def _split(text: str) -> list[str]:
    """At the commas outside of parentheses."""
    parts: list[str] = []
    depth = start = 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


@functools.cache
def _type(text: str) -> Type:
    base, _, inner = text.partition("(")
    parameters = tuple(_type(each) for each in _split(inner[:-1])) if inner else ()
    if not parameters:
        if len(base) == 1 and base.isupper():
            return Type("param", name=base)
        if base == "authorizer":
            return types.AUTHORIZER
        return types.SIMPLE.get(base) or types.OPAQUE[base]
    return Type(base, parameters)


@functools.cache
def table() -> dict[str, tuple[Overload, ...]]:
    """Every function by name. The libraries are loaded when the first expression is compiled."""
    from steelyard.kube.cel.libraries import every

    found: dict[str, tuple[Overload, ...]] = {}
    for overload in every():
        found[overload.name] = (*found.get(overload.name, ()), overload)
    return found
