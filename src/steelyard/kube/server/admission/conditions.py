"""matchConditions: CEL expressions over the request, all of which must hold for a webhook to be asked.

One that is false settles it. One that cannot be evaluated, where none is false, refuses the request or passes the
webhook over, as its failurePolicy says.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from steelyard.kube import fields, names, objects, remembering
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object

if TYPE_CHECKING:
    from steelyard.kube.cel.program import Program
    from steelyard.kube.cel.types import Type

_MOST: Final = 64


class NotEvaluated(Exception):
    """What went wrong in the conditions that have no answer."""


def hold(
    conditions: Sequence[tuple[str, str]], obj: Object | None, old: Object | None, request: Object, rights: Any
) -> bool:
    """Raises NotEvaluated. `rights` is what conditions know as `authorizer`."""
    from steelyard.kube.cel.problems import CompileError, CostExceeded, EvaluationError

    problems: list[str] = []
    for _, expression in conditions:
        try:
            if _compiled(expression)(obj, old, request, rights, None) is False:
                return False
        except (EvaluationError, CostExceeded, CompileError) as error:
            problems.append(f"expression '{expression}' resulted in error: {error}")
    if problems:
        raise NotEvaluated(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return True


@remembering.briefly(1024, 4096)
def _compiled(expression: str) -> Program:
    from steelyard.kube.cel import program, types

    variables = {
        "object": types.DYN,
        "oldObject": types.DYN,
        "request": _request(),
        "authorizer": types.AUTHORIZER,
        "namespaceObject": types.DYN,
    }
    return program.compile_(expression, variables)


@functools.cache
def _request() -> Type:
    """What an AdmissionRequest consists of, so that a condition which names anything else is refused when written."""
    from steelyard.kube.cel import types

    def of(title: str, /, **given: Type) -> Type:
        known = {key: types.Field(key, type_) for key, type_ in given.items()}
        return types.Type("object", name=f"kubernetes.{title}", fields=known)

    text = types.STRING
    kind = of("GroupVersionKind", group=text, version=text, kind=text)
    resource = of("GroupVersionResource", group=text, version=text, resource=text)
    extra = types.map_of(text, types.list_of(text))
    user = of("UserInfo", username=text, uid=text, groups=types.list_of(text), extra=extra)
    return of(
        "AdmissionRequest",
        kind=kind,
        resource=resource,
        subResource=text,
        requestKind=kind,
        requestResource=resource,
        requestSubResource=text,
        name=text,
        namespace=text,
        operation=text,
        userInfo=user,
        dryRun=types.BOOL,
        options=types.DYN,
    )


def validate(conditions: Sequence[Object], place: str) -> Iterable[Cause]:
    if len(conditions) > _MOST:
        yield fields.too_many(place, len(conditions), _MOST)
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        each = f"{place}[{index}]"
        expression, name = str(condition.get("expression") or "").strip(), str(condition.get("name") or "")
        if not expression:
            yield fields.required(f"{each}.expression")
        else:
            yield from _validate_expression(expression, f"{each}.expression")
        if not name:
            yield fields.required(f"{each}.name")
        for text in names.qualified_name(name) if name else ():
            yield fields.invalid(f"{each}.name", name, text)
        if name and name in seen:
            yield fields.duplicate(f"{each}.name", name)
        seen.add(name)


def _validate_expression(expression: str, place: str) -> Iterable[Cause]:
    from steelyard.kube.cel.problems import CompileError

    try:
        type_ = _compiled(expression).type
    except CompileError as error:
        yield fields.invalid(place, expression, f"compilation failed: {error}")
        return
    if type_.kind != "bool":
        yield fields.invalid(place, expression, f"must evaluate to bool but got {type_}")


def of(hook: Object) -> list[Object]:
    return [objects.mapping(each) for each in objects.sequence(hook.get("matchConditions"))]
