"""Asking the policies about one request, each once for every binding and every set of parameters.

What an expression finds wrong is refused, warned of or put into the audit log, as the binding says. An expression that
cannot be evaluated counts as a refusal, or for nothing, as the policy's failurePolicy says. The words are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from steelyard.frozen import frozen
from steelyard.kube import effort, errors, objects, turns
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.admission import asking, params, review
from steelyard.kube.server.admission.dispatching import Outcome, in_version
from steelyard.kube.server.catalogue import matching
from steelyard.kube.server.catalogue.matching import Attributes
from steelyard.kube.server.catalogue.policies import Binding, Policy
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.core import Core
from steelyard.kube.server.expressions import matchconditions
from steelyard.kube.server.expressions.compiling import Compiled, Validation
from steelyard.kube.server.expressions.vocabulary import Expression, Scope

if TYPE_CHECKING:
    from steelyard.kube.cel.program import Budget

_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_FAILURES: Final = "validation.policy.admission.k8s.io/validation_failure"
_CODES: Final = {"Forbidden": 403, "RequestEntityTooLarge": 413}
_LONGEST_MESSAGE: Final = 5 * 1024
_LONGEST_ANNOTATION: Final = 10 * 1024


@frozen
class Decision:
    """What was found wrong."""

    message: str
    reason: str = "Invalid"
    index: int = 0
    """Of the validation."""


class _NotEvaluated(Exception):
    pass


async def judge(core: Core, policies: Sequence[Policy], attributes: Attributes, outcome: Outcome) -> None:
    """Raises the refusal of the first policy that has one; all of them are asked."""
    refusals: list[tuple[str, Decision]] = []
    for policy in policies:
        served = attributes.served
        target = matching.target(
            policy.criteria, core.registry, served, attributes.subresource, attributes.operation, attributes.name
        )
        if target is None or not matching.selects(policy.criteria, attributes, core.namespace):
            continue
        asked = _Asked(core, policy, attributes, target, outcome)
        refusals += await asked.refusals()
    if refusals:
        raise _refusal(attributes, *refusals[0])


class _Asked:
    """One policy that is concerned with the request."""

    def __init__(self, core: Core, policy: Policy, attributes: Attributes, target: Served, outcome: Outcome) -> None:
        self._core = core
        self._policy = policy
        self._attributes = attributes
        self._target = target
        self._outcome = outcome
        self._title = f"ValidatingAdmissionPolicy '{policy.name}'"
        self._published: dict[str, list[str]] = {}

    async def refusals(self) -> list[tuple[str, Decision]]:
        """Who refuses, and why."""
        policy = self._policy
        try:
            kind = params.resource(self._core.registry, policy.param_kind)
        except params.Unknown as error:
            return self._misconfigured(self._title, f"failed to configure policy: {error}")
        found: list[tuple[str, Decision]] = []
        scope = await self._scope()
        pause = turns.Pause()
        for binding in policy.bindings:
            if not self._is_concerned(binding):
                continue
            title = f"{self._title} with binding '{binding.name}'"
            try:
                given = await params.collect(self._core, kind, binding.reference, self._attributes.namespace)
            except params.Unknown as error:
                found += self._misconfigured(title, f"failed to configure binding: {error}")
                continue
            for param in given:
                decisions, failures = evaluate(policy, {**scope, "params": param}, self._publish)
                await pause.if_due()
                self._act(binding, title, decisions, found)
                found += [(title, failure) for failure in failures]
        for key, values in self._published.items():
            self._outcome.annotations.setdefault(f"{policy.name}/{key}", ", ".join(values))
        return found

    def _misconfigured(self, title: str, message: str) -> list[tuple[str, Decision]]:
        return [] if self._policy.ignores_failure else [(title, Decision(message))]

    def _is_concerned(self, binding: Binding) -> bool:
        if binding.criteria is None:
            return True
        attributes = self._attributes
        target = matching.target(
            binding.criteria,
            self._core.registry,
            attributes.served,
            attributes.subresource,
            attributes.operation,
            attributes.name,
        )
        return target is not None and matching.selects(binding.criteria, attributes, self._core.namespace)

    async def _scope(self) -> Object:
        attributes, target = self._attributes, self._target
        is_namespace = attributes.served.resource.plural == "namespaces" and not attributes.served.resource.group
        has_namespace = bool(attributes.namespace) and not is_namespace
        return {
            "object": await in_version(self._core, attributes, target, attributes.obj),
            "oldObject": await in_version(self._core, attributes, target, attributes.old),
            "request": review.content(attributes, target),
            "authorizer": asking.rights(self._core.authorizer, attributes),
            "namespaceObject": self._core.namespace(attributes.namespace) if has_namespace else None,
        }

    def _act(
        self, binding: Binding, title: str, decisions: Sequence[Decision], refusals: list[tuple[str, Decision]]
    ) -> None:
        for decision in decisions:
            for action in binding.actions:
                match action:
                    case "Deny":
                        refusals.append((title, decision))
                    case "Warn":
                        self._outcome.warnings.append(f"Validation failed for {title}: {decision.message}")
                    case _:
                        told = [{
                            "message": decision.message,
                            "policy": self._policy.name,
                            "binding": binding.name,
                            "expressionIndex": decision.index,
                            "validationActions": list(binding.actions),
                        }]  # fmt: skip
                        self._outcome.annotations.setdefault(_FAILURES, orjson.dumps(told).decode())

    def _publish(self, key: str, value: str) -> None:
        known = self._published.setdefault(key, [])
        if value not in known:
            known.append(value[:_LONGEST_ANNOTATION])


def evaluate(policy: Policy, scope: Scope, publish: Any) -> tuple[list[Decision], list[Decision]]:
    """What the policy finds wrong, and what went wrong with its annotations, which is refused whatever a binding says.

    `publish` takes the annotations for the audit log. All expressions together have the time of one validation.
    """
    with effort.LIMITED:
        return _evaluated(policy, scope, publish)


def _evaluated(policy: Policy, scope: Scope, publish: Any) -> tuple[list[Decision], list[Decision]]:
    from steelyard.kube.cel.program import Budget

    try:
        if not matchconditions.hold(
            policy.conditions, {**scope, "namespaceObject": None}, params=bool(policy.param_kind)
        ):
            return [], []
    except matchconditions.NotEvaluated as error:
        return _failed(policy, str(error)), []
    compiled = policy.compiled
    budget = Budget()
    variables = Variables(compiled, scope, budget)
    decisions: list[Decision] = []
    for index, validation in enumerate(compiled.validations):
        try:
            if _value(validation.expression, variables) is True:
                continue
        except _NotEvaluated as error:
            if budget.is_spent:
                return _failed(policy, _OUT_OF_BUDGET), []
            decisions += _failed(policy, str(error), index)
            continue
        message = _message(validation, Variables(compiled, {**scope, "authorizer": None}, budget))
        decisions.append(Decision(message, validation.reason, index))
    failures: list[Decision] = []
    variables = Variables(compiled, scope, Budget())
    for key, expression in compiled.annotations:
        try:
            value = _value(expression, variables)
        except _NotEvaluated as error:
            failures += _failed(policy, str(error))
            continue
        if isinstance(value, str) and value.strip():
            publish(key, value.strip())
    return decisions, failures


class Variables:
    """The values of a policy's variables, each found out when it is first asked for; behaves as expressions expect."""

    __slots__ = ("_compiled", "_found", "budget", "scope")

    def __init__(self, compiled: Compiled, scope: Scope, budget: Budget) -> None:
        self._compiled = compiled
        self._found: dict[str, Any] = {}
        self.budget = budget
        self.scope: Scope = {**scope, "variables": self}

    def __getitem__(self, name: str) -> Any:
        from steelyard.kube.cel.problems import EvaluationError

        if name not in self._found:
            expression = self._compiled.variables[name]
            if expression.program is None:
                raise EvaluationError(f'composited variable "{name}" fails to compile: {expression.problem}')
            try:
                self._found[name] = expression.program.within(self.budget, *expression.arguments(self.scope))
            except EvaluationError as error:
                raise EvaluationError(f'composited variable "{name}" fails to evaluate: {error}') from None
        return self._found[name]

    def get(self, name: str) -> Any:
        return self[name]


def _value(expression: Expression, variables: Variables) -> Any:
    """Raises _NotEvaluated."""
    from steelyard.kube.cel.problems import CostExceeded, EvaluationError

    if expression.program is None:
        raise _NotEvaluated(f"compilation error: {expression.problem}")
    try:
        return expression.program.within(variables.budget, *expression.arguments(variables.scope))
    except (EvaluationError, CostExceeded) as error:
        raise _NotEvaluated(f"expression '{expression.text}' resulted in error: {error}") from None


def _failed(policy: Policy, message: str, index: int = 0) -> list[Decision]:
    return [] if policy.ignores_failure else [Decision(message, index=index)]


def _message(validation: Validation, variables: Variables) -> str:
    """The one that was computed, if it is one line of text; else the one that was written down, or the expression."""
    if validation.message_expression is not None:
        try:
            value = _value(validation.message_expression, variables)
        except _NotEvaluated:
            value = None
        text = value.strip() if isinstance(value, str) else ""
        if text and "\n" not in text and len(text.encode()) <= _LONGEST_MESSAGE:
            return text
    return validation.message or f"failed expression: {validation.expression.text.strip()}"


def _refusal(attributes: Attributes, title: str, decision: Decision) -> errors.ApiError:
    message = f"{title} denied request: {decision.message}"
    obj = attributes.obj or {}
    metadata = objects.metadata(obj)
    name = attributes.name or str(metadata.get("name") or metadata.get("generateName") or "Unknown")
    forbidden = errors.forbidden(attributes.served.group_resource, name, message, [Cause("", "", message)])
    status = {**forbidden.status(), "reason": decision.reason, "code": _CODES.get(decision.reason, 422)}
    error = errors.from_status(status)
    error.given = status
    return error
