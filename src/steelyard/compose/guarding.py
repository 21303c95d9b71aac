"""What the shipped policies would say of a new claim that no API server has seen: their own expressions are asked, so
that the words are the same wherever a claim is looked at.

What hangs on who asks, a caller's rights or name, is left to the server: nobody can know it here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.cel import program, types
from steelyard.kube.cel.problems import CostExceeded, EvaluationError
from steelyard.kube.cel.program import Program
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

Judge: TypeAlias = Callable[[Object], list[str]]
_NAMES: Final = ("object", "oldObject", "request", "authorizer", "variables")


@frozen
class _Validation:
    expression: Program
    message: Program | None
    otherwise: str


@frozen
class _Policy:
    conditions: tuple[Program, ...]
    variables: Mapping[str, Program]
    validations: tuple[_Validation, ...]


class _Variables:
    """The values of a policy's variables, each found out when it is first asked for; behaves as expressions expect."""

    __slots__ = ("_found", "_programs", "scope")

    def __init__(self, programs: Mapping[str, Program], claim: Object) -> None:
        request = {
            "namespace": objects.namespace(claim) or "default",
            "name": objects.name(claim),
            "operation": "CREATE",
        }
        self._programs = programs
        self._found: dict[str, Any] = {}
        self.scope = (claim, None, request, None, self)

    def __getitem__(self, name: str) -> Any:
        if name not in self._found:
            self._found[name] = self._programs[name](*self.scope)
        return self._found[name]

    def get(self, name: str) -> Any:
        return self[name]


def judge(guards: Sequence[tuple[Object, Object]], claims: Resource) -> Judge:
    """A function from a new claim to what the policies among `guards` refuse in it. Made once and used for many: it
    compiles their expressions."""
    compiled = [
        _compiled(objects.mapping(policy.get("spec")))
        for policy, binding in guards
        if "Deny" in objects.sequence(objects.at(binding, "spec", "validationActions")) and _concerns(policy, claims)
    ]
    return lambda claim: [message for policy in compiled for message in _refusals(policy, claim)]


def _concerns(policy: Object, claims: Resource) -> bool:
    rules = map(objects.mapping, objects.sequence(objects.at(policy, "spec", "matchConstraints", "resourceRules")))
    return any(
        claims.group in rule["apiGroups"] and claims.plural in rule["resources"] and "CREATE" in rule["operations"]
        for rule in rules
    )


def _compiled(spec: Object) -> _Policy:
    known: dict[str, types.Field] = {}
    variables: dict[str, Program] = {}
    for each in _each(spec, "variables"):
        name = str(each["name"])
        # Each may use those before it.
        variables[name] = _program(each["expression"], known)
        known[name] = types.Field(name, variables[name].type)
    return _Policy(
        tuple(_program(each["expression"], {}) for each in _each(spec, "matchConditions")),
        variables,
        tuple(
            _Validation(
                _program(each["expression"], known),
                _program(each["messageExpression"], known) if "messageExpression" in each else None,
                str(each.get("message") or each["expression"]),
            )
            for each in _each(spec, "validations")
        ),
    )


def _program(text: object, variables: Mapping[str, types.Field]) -> Program:
    declared = {
        **dict.fromkeys(_NAMES, types.DYN),
        "authorizer": types.AUTHORIZER,
        "variables": types.Type("object", name="kubernetes.variables", fields=dict(variables)),
    }
    return program.compile_(str(text), declared)


def _each(spec: Object, field: str) -> list[Object]:
    return [objects.mapping(each) for each in objects.sequence(spec.get(field))]


def _refusals(policy: _Policy, claim: Object) -> list[str]:
    variables = _Variables(policy.variables, claim)
    if not all(_value(each, variables) is True for each in policy.conditions):
        return []
    return [_message(each, variables) for each in policy.validations if _value(each.expression, variables) is False]


def _message(validation: _Validation, variables: _Variables) -> str:
    found = _value(validation.message, variables) if validation.message is not None else None
    return found if isinstance(found, str) else validation.otherwise


def _value(expression: Program, variables: _Variables) -> Any:
    """None where it cannot be known here."""
    try:
        return expression(*variables.scope)
    except (EvaluationError, CostExceeded):
        return None
