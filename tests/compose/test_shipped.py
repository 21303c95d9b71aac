"""The policies that a platform brings: those that it vouches for are judged here instead of at its start."""

from __future__ import annotations

import copy

import pytest

from steelyard.compose import offering, shipped
from steelyard.kube.objects import Object
from steelyard.kube.server.expressions import compiling
from steelyard.kube.server.strategies.policies import PolicyStrategy
from steelyard.settings import Platform

POLICIES = [policy for policy, _ in shipped.guards(Platform(), offering.STANDARD)]


@pytest.fixture(autouse=True)
def _nobody_has_vouched(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] (pytest has it)
    monkeypatch.setattr(compiling, "_VOUCHED", set[bytes]())


def judged(policy: Object) -> list[str]:
    made = copy.deepcopy(dict(policy))
    strategy = PolicyStrategy()
    strategy.prepare_create(made)
    return [f"{cause.field}: {cause.message}" for cause in strategy.validate_create(made)]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy["metadata"]["name"])
def test_nothing_is_wrong_with_a_policy_that_the_platform_vouches_for(policy: Object) -> None:
    assert judged(policy) == []


@pytest.mark.parametrize("field", ["matchConditions", "variables", "validations", "auditAnnotations"])
def test_what_is_vouched_for_is_every_word_of_it(field: str) -> None:
    policy = copy.deepcopy(dict(POLICIES[0]))
    compiling.vouch(policy["spec"])
    assert judged(policy) == []
    wrong = {"name": "wrong", "key": "wrong", "expression": "object.", "valueExpression": "object."}
    policy["spec"][field] = [*policy["spec"].get(field, []), wrong]
    assert any("compilation failed" in each for each in judged(policy))
