"""The expressions of a policy, compiled: when it is written, to refuse what is wrong, and then whenever it is used, by
every server of the process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from steelyard.frozen import frozen
from steelyard.kube import objects, remembering
from steelyard.kube.objects import Object
from steelyard.kube.server.expressions import vocabulary
from steelyard.kube.server.expressions.vocabulary import Expression

if TYPE_CHECKING:
    from steelyard.kube.cel.types import Type

_KEPT_BYTES: Final = 4 << 20
"""Twice what the policies of the platform itself take."""
_GROWTH: Final = 48
"""So many times the memory of its text takes what is compiled."""

_COMPILED: Final = ("variables", "validations", "auditAnnotations")


@frozen
class Validation:
    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str


@frozen
class Compiled:
    variables: Mapping[str, Expression]
    validations: tuple[Validation, ...]
    annotations: tuple[tuple[str, Expression], ...]


_KEPT: Final = remembering.Kept[bytes, Compiled](_KEPT_BYTES)
_VOUCHED: Final[set[bytes]] = set()
"""Digests of expressions that need not be judged when they are written."""


def vouch(spec: Object) -> None:
    """Says of a policy's expressions that nothing is wrong with them: for those of the program itself, which its tests
    check. They are compiled when they are first used; until then nothing of the language is loaded."""
    _VOUCHED.add(_digest(spec))


def is_vouched_for(spec: Object) -> bool:
    try:
        return bool(_VOUCHED) and _digest(spec) in _VOUCHED
    except TypeError:
        return False  # it cannot be written, so it is not the program's own


def _digest(spec: Object) -> bytes:
    told = [bool(spec.get("paramKind")), *(spec.get(name) for name in ("matchConditions", *_COMPILED))]
    return hashlib.sha256(orjson.dumps(told, option=orjson.OPT_SORT_KEYS)).digest()


def compile_(spec: Object) -> Compiled:
    """Every expression of a policy; those that do not compile say so."""
    told = [bool(spec.get("paramKind")), *(spec.get(name) for name in _COMPILED)]
    try:
        text = orjson.dumps(told)
    except TypeError:
        return _compiled(spec)  # it cannot be written, so there is nothing to know it again by
    key = hashlib.sha256(text).digest()
    found = _KEPT.get(key)
    return found if found is not None else _KEPT.put(key, _compiled(spec), _GROWTH * len(text))


def _compiled(spec: Object) -> Compiled:
    params = bool(spec.get("paramKind"))
    variables: dict[str, Expression] = {}
    types: dict[str, Type] | None = None

    def read(text: Any, *, rights: bool = True) -> Expression:
        return vocabulary.read(str(text or ""), params=params, rights=rights, variables=types)

    for variable in of(spec, "variables"):
        types = {} if types is None else types
        name = str(variable.get("name") or "")
        # Each may use those before it.
        variables[name] = read(variable.get("expression"))
        types[name] = variables[name].type
    return Compiled(
        variables,
        tuple(
            Validation(
                read(each.get("expression")),
                str(each.get("message") or "").strip(),
                read(each["messageExpression"], rights=False) if each.get("messageExpression") else None,
                str(each.get("reason") or "Invalid"),
            )
            for each in of(spec, "validations")
        ),
        tuple(
            (str(each.get("key") or ""), read(str(each.get("valueExpression") or "").strip()))
            for each in of(spec, "auditAnnotations")
        ),
    )


def of(spec: Object, field: str) -> list[Object]:
    return [objects.mapping(each) for each in objects.sequence(spec.get(field))]
