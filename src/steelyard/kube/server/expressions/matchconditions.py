"""matchConditions: CEL expressions over the request, all of which must hold for a webhook or a policy to be asked.

One that is false settles it. One that cannot be evaluated, where none is false, refuses the request or passes the
webhook over, as its failurePolicy says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from steelyard.kube import fields, namerules, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.expressions import vocabulary
from steelyard.kube.server.expressions.vocabulary import Expression, Scope

_MOST: Final = 64


class NotEvaluated(Exception):
    """What went wrong in the conditions that have no answer."""


def hold(conditions: Sequence[tuple[str, str]], scope: Scope, *, params: bool = False) -> bool:
    """Raises NotEvaluated. `scope` has what conditions may speak of, `params` only where there are some to speak of."""
    from steelyard.kube.cel.problems import CostExceeded, EvaluationError

    problems: list[str] = []
    for _, text in conditions:
        expression = vocabulary.read(text, params=params, rights=True)
        if expression.program is None:
            problems.append(f"compilation error: {expression.problem}")
            continue
        try:
            if expression.program(*expression.arguments(scope)) is False:
                return False
        except (EvaluationError, CostExceeded) as error:
            problems.append(f"expression '{text}' resulted in error: {error}")
    if problems:
        raise NotEvaluated(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return True


def validate(conditions: Sequence[Object], place: str, *, params: bool = False) -> Iterable[Cause]:
    if len(conditions) > _MOST:
        yield fields.too_many(place, len(conditions), _MOST)
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        each = f"{place}[{index}]"
        expression, name = str(condition.get("expression") or "").strip(), str(condition.get("name") or "")
        if not expression:
            yield fields.required(f"{each}.expression")
        else:
            yield from judge(vocabulary.read(expression, params=params, rights=True), f"{each}.expression", "bool")
        if not name:
            yield fields.required(f"{each}.name")
        for text in namerules.qualified_name(name) if name else ():
            yield fields.invalid(f"{each}.name", name, text)
        if name and name in seen:
            yield fields.duplicate(f"{each}.name", name)
        seen.add(name)


def judge(expression: Expression, place: str, *accepted: str) -> Iterable[Cause]:
    """What is wrong with an expression that must give one of these types; any will do where none is named."""
    if expression.program is None:
        yield fields.invalid(place, expression.text, expression.problem)
        return
    found = expression.type
    if accepted and found.kind not in accepted:
        wanted = accepted[0] if len(accepted) == 1 else f"one of [{' '.join(accepted)}]"
        yield fields.invalid(place, expression.text, f"must evaluate to {wanted} but got {found}")


def of(hook: Object) -> list[Object]:
    return [objects.mapping(each) for each in objects.sequence(hook.get("matchConditions"))]
