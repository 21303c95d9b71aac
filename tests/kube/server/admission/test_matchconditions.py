"""Match conditions: what they can ask, among it who may do what, and which are refused when they are written."""

from __future__ import annotations

import pytest

from steelyard.kube import errors
from steelyard.kube.server.call import AUTHENTICATED, User
from tests.kube.server.access.test_rbac import JANE, grant
from tests.kube.server.access.test_rbac import rule as right
from tests.kube.server.admission.hooks import VALIDATING, Hooks, configuration, deny, hook, rule
from tests.kube.server.bench import WIDGETS, Bench, widget


async def ask_if(bench: Bench, webhook: Hooks, *expressions: str, **more: str) -> None:
    """A webhook that denies everything it is asked about."""
    webhook.answers["/check"] = deny()
    conditions = [{"name": f"c{index}", "expression": text} for index, text in enumerate(expressions)]
    asked = hook("check", webhook.client_config("/check"), rule(WIDGETS, "*"), matchConditions=conditions, **more)
    await bench.create(VALIDATING, configuration(VALIDATING, "check", asked))


RESOURCE = "authorizer.group('example.com').resource('widgets')"
QUESTIONS: list[tuple[str, str, bool]] = [
    ("a right one has", f"{RESOURCE}.namespace('default').check('create').allowed()", True),
    ("elsewhere", f"{RESOURCE}.namespace('other').check('create').allowed()", False),
    ("another verb", f"{RESOURCE}.namespace('default').check('delete').allowed()", False),
    ("a subresource", f"{RESOURCE}.subresource('status').namespace('default').check('create').allowed()", False),
    ("one name", f"{RESOURCE}.namespace('default').name('a').check('break').allowed()", True),
    ("another name", f"{RESOURCE}.namespace('default').name('b').check('break').allowed()", False),
    ("the request itself", "authorizer.requestResource.check('create').allowed()", True),
    ("the request with another verb", "authorizer.requestResource.check('delete').allowed()", False),
    ("a path", "authorizer.path('/healthz').check('get').allowed()", True),
    ("another path", "authorizer.path('/metrics').check('get').allowed()", False),
    ("a service account", f"authorizer.serviceAccount('default', 'r').{RESOURCE[11:]}.check('get').allowed()", False),
    ("a reason", f"{RESOURCE}.namespace('default').check('create').reason().contains('RoleBinding')", True),
    ("no reason", f"{RESOURCE}.check('create').reason() == ''", True),
    ("selectors say nothing", f"{RESOURCE}.labelSelector('a=b').check('list').allowed()", False),
    ("nothing goes wrong", f"!{RESOURCE}.check('list').errored() && {RESOURCE}.check('list').error() == ''", True),
]


@pytest.mark.parametrize("expression, holds", [case[1:] for case in QUESTIONS], ids=[case[0] for case in QUESTIONS])
async def test_conditions_about_rights(bench: Bench, webhook: Hooks, expression: str, holds: bool) -> None:
    everything = right("create", "widgets", groups="example.com")
    single = right("break", "widgets", groups="example.com", names=["a"])
    await grant(bench, everything, single, namespace="default")
    await ask_if(bench, webhook, expression)
    user = User(JANE.name, (*JANE.groups, AUTHENTICATED))
    if holds:
        with pytest.raises(errors.BadRequest, match="denied the request"):
            await bench.call("create", WIDGETS, body=widget("a"), user=user)
    else:
        await bench.call("create", WIDGETS, body=widget("a"), user=user)


REFUSED: list[tuple[str, str, str]] = [
    ("an unknown variable", "nothing", "undeclared reference to 'nothing'"),
    ("an unknown field of the request", "request.nothing == 'a'", "undefined field 'nothing'"),
    ("another type", "request.name == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
    ("parameters", "params.x == 1", "undeclared reference to 'params'"),
    ("an authorizer is no decision", "authorizer.allowed()", "'kubernetes.authorization.Authorizer.()'"),
    ("text", "'x'", "must evaluate to bool but got string"),
    ("who knows", "object.x", "must evaluate to bool but got dyn"),
]


@pytest.mark.parametrize("expression, text", [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
async def test_conditions_that_are_refused(bench: Bench, webhook: Hooks, expression: str, text: str) -> None:
    with pytest.raises(errors.Invalid) as refusal:
        await ask_if(bench, webhook, expression)
    assert [cause.field for cause in refusal.value.causes] == ["webhooks[0].matchConditions[0].expression"]
    assert text in refusal.value.causes[0].message


@pytest.mark.parametrize("name", ["", " "])
async def test_a_resource_that_is_no_name_is_an_error(bench: Bench, webhook: Hooks, name: str) -> None:
    await ask_if(bench, webhook, f"authorizer.group('').resource('{name}').check('get').allowed()")
    with pytest.raises(errors.Forbidden, match="resource must not be empty"):
        await bench.create(WIDGETS, widget("a"))
