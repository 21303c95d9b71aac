"""Policies: what they deny, warn of and leave alone. Word for word they are compared with upstream in conformance."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.kube import errors, objects
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS, Resource
from steelyard.kube.server.api import Api
from steelyard.kube.server.call import AUTHENTICATED, User
from steelyard.kube.server.expressions import compiling
from tests.kube.server.access.test_rbac import grant, rule
from tests.kube.server.bench import PARTS, WIDGETS, Bench, Clock, eventually, make, make_call, widget

GROUP = "admissionregistration.k8s.io"
POLICIES = Resource(GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False)
BINDINGS = Resource(
    GROUP, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
)
JANE = User("jane", (AUTHENTICATED,))
RULE: Object = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["widgets"]}


def policy(*expressions: str, name: str = "p", rules: Any = None, **spec: Any) -> Object:
    validations = [{"expression": expression} for expression in expressions]
    made: Object = {"matchConstraints": {"resourceRules": rules or [RULE]}, "validations": validations, **spec}
    return {"metadata": {"name": name}, "spec": made}


async def bind(bench: Bench, body: Object, *actions: str, **spec: Any) -> None:
    await bench.create(POLICIES, body, namespace="")
    made: Object = {"policyName": objects.name(body), "validationActions": list(actions) or ["Deny"], **spec}
    await bench.create(BINDINGS, {"metadata": {"name": objects.name(body)}, "spec": made}, namespace="")


async def test_a_policy_without_a_binding_says_nothing(bench: Bench) -> None:
    await bench.create(POLICIES, policy("false"), namespace="")
    await bench.create(WIDGETS, widget("a"))


async def test_a_policy_counts_with_the_answer_to_its_binding_and_no_longer_than_that(bench: Bench) -> None:
    await bind(bench, policy("false"))
    with pytest.raises(errors.Invalid) as caught:
        await bench.create(WIDGETS, widget("a"))
    assert caught.value.message == (
        "widgets.example.com \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: "
        "failed expression: false"
    )
    await bench.delete(BINDINGS, "p", namespace="")
    await bench.create(WIDGETS, widget("a"))


async def test_every_way_to_write_is_asked_about(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a"))
    await bind(bench, policy("false", rules=[{**RULE, "resources": ["widgets", "widgets/*"]}]))
    held = await bench.get(WIDGETS, "a")
    attempts = (
        bench.create(WIDGETS, widget("b")),
        bench.update(WIDGETS, {**held, "spec": {"size": 9}}),
        bench.patch(WIDGETS, "a", {"spec": {"size": 9}}),
        bench.apply(WIDGETS, widget("b")),
        bench.apply(WIDGETS, widget("a"), force="true"),
        bench.patch(WIDGETS, "a", {"status": {"ready": 1}}, subresource="status"),
        bench.delete(WIDGETS, "a"),
        bench.call("deletecollection", WIDGETS),
        bench.create(WIDGETS, widget("b"), dryRun="All"),
    )
    for attempt in attempts:
        with pytest.raises(errors.Invalid, match="denied request"):
            await attempt
    assert await bench.names(WIDGETS) == ["a"]


async def test_another_version_of_the_same_kind_is_no_way_around(bench: Bench) -> None:
    await bind(bench, policy("object.apiVersion == 'example.com/v1' && false"))
    old = Resource("example.com", "v1alpha1", "widgets", "Widget")
    with pytest.raises(errors.Invalid, match="failed expression"):
        await bench.create(old, {**widget("a"), "apiVersion": "example.com/v1alpha1"})


async def test_a_policy_survives_a_restart(bench: Bench) -> None:
    await bind(bench, policy("false"))
    again = await Api.start(bench.store, now=Clock())
    try:
        with pytest.raises(errors.Invalid, match="denied request"):
            await again.call(make_call("create", WIDGETS, body=widget("a")))
    finally:
        await again.close()


async def test_the_client_in_the_same_process_is_asked_about_too(bench: Bench) -> None:
    await bind(bench, policy("request.userInfo.username != 'steelyard'"))
    with pytest.raises(errors.Invalid, match="denied request"):
        await LocalClient(bench.api).create(WIDGETS, widget("a", namespace="default"))


async def test_warnings_and_audit_annotations_let_the_request_through(bench: Bench) -> None:
    body = policy("false", auditAnnotations=[{"key": "who", "valueExpression": "request.userInfo.username"}])
    await bind(bench, body, "Warn", "Audit")
    call = make_call("create", WIDGETS, body=widget("a"))
    reply = await bench.api.call(call)
    assert reply.warnings == (
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': failed expression: false",
    )
    assert call.annotations is not None
    assert call.annotations["p/who"] == "admin"
    assert '"expressionIndex":0' in call.annotations["validation.policy.admission.k8s.io/validation_failure"]


async def test_what_cannot_be_evaluated_fails_or_is_ignored_as_the_policy_says(bench: Bench) -> None:
    await bind(bench, policy("object.spec.nothing == 1"))
    with pytest.raises(errors.Invalid, match="resulted in error: no such key: nothing"):
        await bench.create(WIDGETS, widget("a"))
    await bench.patch(POLICIES, "p", {"spec": {"failurePolicy": "Ignore"}}, namespace="")
    await bench.create(WIDGETS, widget("a"))


async def test_expressions_share_what_they_may_cost(bench: Bench) -> None:
    """In steps and in time, whichever is spent first on this machine."""
    numbers: Any = list(range(490))
    squares = ["object.spec.all(a, object.spec.all(b, true))"] * 11
    await bind(bench, policy(*squares, rules=[{**RULE, "resources": ["parts"]}]))
    await bench.create(PARTS, make(PARTS, "a", spec=numbers[:30]))
    with pytest.raises(errors.Invalid, match=r"running out of cost budget|actual cost limit exceeded"):
        await bench.create(PARTS, make(PARTS, "b", spec=numbers))


async def test_a_variable_is_evaluated_once_and_only_if_it_is_asked_for(bench: Bench) -> None:
    variables = [
        {"name": "size", "expression": "object.spec.size"},
        {"name": "twice", "expression": "variables.size * 2"},
        {"name": "broken", "expression": "object.spec.nothing"},
    ]
    await bind(bench, policy("variables.twice < 10 || variables.broken == 1", variables=variables))
    await bench.create(WIDGETS, widget("a", {"size": 4}))
    with pytest.raises(errors.Invalid, match='composited variable "broken" fails to evaluate: no such key: nothing'):
        await bench.create(WIDGETS, widget("b", {"size": 5}))


async def test_a_policy_asks_what_the_author_may_do(bench: Bench) -> None:
    await grant(bench, rule("create", "widgets", groups="example.com"), namespace="default")
    asks = "authorizer.group('').resource('secrets').namespace('kube-system').check('create').allowed()"
    await bind(bench, policy(asks))
    await bench.create(WIDGETS, widget("by-admin"))
    with pytest.raises(errors.Invalid, match="denied request"):
        await bench.create(WIDGETS, widget("a"), user=JANE)
    await grant(bench, rule("create", "secrets"), namespace="kube-system", name="more")
    await bench.create(WIDGETS, widget("a"), user=JANE)


async def test_parameters_are_those_of_now(bench: Bench) -> None:
    limits: Object = {"metadata": {"name": "limits"}, "data": {"most": "3"}}
    await bench.create(CONFIG_MAPS, limits)
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    reference = {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}
    await bind(bench, policy("object.spec.size <= int(params.data.most)", paramKind=kind), paramRef=reference)
    await bench.create(WIDGETS, widget("a", {"size": 3}))
    await bench.patch(CONFIG_MAPS, "limits", {"data": {"most": "2"}})
    with pytest.raises(errors.Invalid, match="failed expression"):
        await bench.create(WIDGETS, widget("b", {"size": 3}))
    await bench.delete(CONFIG_MAPS, "limits")
    with pytest.raises(errors.Invalid, match="no params found for policy binding with `Deny`"):
        await bench.create(WIDGETS, widget("b", {"size": 1}))


async def test_who_may_not_read_secrets_cannot_have_a_policy_tell_of_them(bench: Bench) -> None:
    await grant(bench, rule("create", f"{POLICIES.plural} {BINDINGS.plural}", groups=GROUP))
    kind = {"apiVersion": "v1", "kind": "Secret"}
    with pytest.raises(errors.Invalid, match='must have "get" permission on all objects of the referenced paramKind'):
        await bench.create(POLICIES, policy("true", paramKind=kind), namespace="", user=JANE)
    await bench.create(POLICIES, policy("true", paramKind=kind), namespace="")
    reference = {"name": "s", "namespace": "default", "parameterNotFoundAction": "Allow"}
    spec = {"policyName": "p", "validationActions": ["Warn"], "paramRef": reference}
    with pytest.raises(errors.Invalid, match='does not have "get" permission on the object referenced by paramRef'):
        await bench.create(BINDINGS, {"metadata": {"name": "p"}, "spec": spec}, namespace="", user=JANE)


async def test_a_namespace_is_not_emptied_of_what_a_policy_protects(bench: Bench) -> None:
    await bench.create(NAMESPACES, {"metadata": {"name": "team"}}, namespace="")
    await bench.create(SECRETS, {"metadata": {"name": "kept"}}, namespace="team")
    deletes = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["secrets"]}]
    await bind(bench, policy("oldObject.metadata.name != 'kept'", rules=deletes))
    await bench.delete(NAMESPACES, "team", namespace="")

    async def is_told() -> bool:
        namespace = await bench.get(NAMESPACES, "team", namespace="")
        return "denied request" in str(objects.at(namespace, "status", "conditions"))

    await eventually(is_told)
    assert await bench.exists(SECRETS, "kept", namespace="team")
    await bench.delete(BINDINGS, "p", namespace="")


async def test_a_token_is_not_made_for_whom_a_policy_protects(bench: Bench) -> None:
    tokens = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["serviceaccounts/token"]}
    ]
    await bind(bench, policy("request.name != 'default' || object.spec.expirationSeconds <= 600", rules=tokens))
    request: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}

    async def ask(**spec: Any) -> Object:
        body = {**request, "spec": spec}
        return await bench.create(SERVICE_ACCOUNTS, body, name="default", subresource="token")

    with pytest.raises(errors.Invalid, match="denied request"):
        await ask()
    assert (await ask(expirationSeconds=600))["status"]["token"]


def test_what_a_policy_says_is_compiled_once_and_again_when_it_says_something_else() -> None:
    variables = [{"name": "size", "expression": "object.spec.size"}]
    given: Object = policy("variables.size < 5", variables=variables)["spec"]
    known = compiling.compile_(given)
    assert compiling.compile_({**given, "matchConstraints": {}}) is known
    for changed in (
        policy("variables.size < 6", variables=variables),
        policy(
            "variables.size < 5", variables=[{"name": "size", "expression": "params.size"}], paramKind={"kind": "A"}
        ),
        policy("variables.size < 5"),
    ):
        again = compiling.compile_(changed["spec"])
        assert again is not known
        assert again.validations[0] != known.validations[0]
