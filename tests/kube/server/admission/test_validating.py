"""Validating webhooks: who is asked, what they are told, and what becomes of their answer or of none."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import orjson
import pytest
from aiohttp import web

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, Resource
from steelyard.kube.server.call import User
from tests.kube.server.admission import hooks
from tests.kube.server.admission.hooks import VALIDATING, Hooks, configuration, deny, hook, rule
from tests.kube.server.bench import OLD_WIDGETS, WIDGETS, Bench, eventually, make, make_call, owned_by, widget

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SERVICES = Resource("", "v1", "services", "Service")
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")


async def validate(bench: Bench, webhook: Hooks, *rules: Object, name: str = "check", **more: Any) -> None:
    client = more.pop("client", None) or webhook.client_config(f"/{name}")
    rules = rules or (rule(WIDGETS, "*"),)
    await bench.create(VALIDATING, configuration(VALIDATING, name, hook(name, client, *rules, **more)))


async def test_a_webhook_is_told_everything_about_a_create(bench: Bench, webhook: Hooks) -> None:
    await validate(bench, webhook)
    await bench.create(WIDGETS, widget("a"), fieldManager="me")
    request = webhook.last()
    assert request["operation"] == "CREATE"
    assert request["kind"] == request["requestKind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert request["resource"] == {"group": "example.com", "version": "v1", "resource": "widgets"}
    assert (request["name"], request["namespace"]) == ("a", "default")
    assert request["userInfo"] == {"username": "admin", "groups": ["system:masters"]}
    assert request["object"]["spec"] == {"size": 1, "color": "red"}
    assert request["object"]["metadata"]["uid"]
    assert request["oldObject"] is None
    assert request["dryRun"] is False
    assert request["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}
    assert "subResource" not in request


async def test_update_patch_apply_and_delete_show_the_old_object(bench: Bench, webhook: Hooks) -> None:
    created = await bench.create(WIDGETS, widget("a"))
    await validate(bench, webhook)
    await bench.update(WIDGETS, {**created, "spec": {"size": 2}})
    await bench.patch(WIDGETS, "a", {"spec": {"size": 3}})
    await bench.apply(WIDGETS, widget("a", {"replicas": 4}))
    await bench.delete(WIDGETS, "a")
    seen = [(request["operation"], request["oldObject"]["spec"]["size"]) for _, request in webhook.requests]
    assert seen == [("UPDATE", 1), ("UPDATE", 2), ("UPDATE", 3), ("DELETE", 3)]
    assert webhook.last()["object"] is None
    assert webhook.last()["options"] == {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}


async def test_a_denial_carries_the_webhooks_code_reason_and_message(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/check"] = deny(code=403, reason="Forbidden", message="no widgets today")
    await validate(bench, webhook)
    with pytest.raises(errors.Forbidden) as refusal:
        await bench.create(WIDGETS, widget("a"))
    message = 'admission webhook "check.example.com" denied the request: no widgets today'
    assert refusal.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "Forbidden",
        "code": 403,
    }
    assert not await bench.exists(WIDGETS, "a")


async def test_a_denial_without_words_is_a_bad_request(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/check"] = deny()
    await validate(bench, webhook)
    with pytest.raises(errors.BadRequest) as refusal:
        await bench.create(WIDGETS, widget("a"))
    assert refusal.value.message == ('admission webhook "check.example.com" denied the request without explanation')
    assert "reason" not in refusal.value.status()


async def test_a_denied_deletion_leaves_the_object(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/check"] = deny(message="needed")
    await validate(bench, webhook, rule(WIDGETS, "DELETE"))
    await bench.create(WIDGETS, widget("a"))
    for verb, name in (("delete", "a"), ("deletecollection", "")):
        with pytest.raises(errors.BadRequest, match="denied the request: needed"):
            await bench.call(verb, WIDGETS, name)  # type: ignore[arg-type]
    assert await bench.exists(WIDGETS, "a")
    webhook.answers.clear()
    await bench.call("deletecollection", WIDGETS)
    assert not await bench.exists(WIDGETS, "a")


async def test_what_the_server_deletes_itself_is_asked_about_too(bench: Bench, webhook: Hooks) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "brief"))
    await bench.create(WIDGETS, widget("inside"), namespace="brief")
    owner = await bench.create(WIDGETS, widget("owner"))
    await bench.create(WIDGETS, widget("owned", ownerReferences=owned_by(owner)))
    webhook.answers["/check"] = lambda request: {"allowed": request["name"] != "owned" or len(webhook.requests) > 3}
    await validate(bench, webhook, rule(WIDGETS, "DELETE"))
    await bench.delete(WIDGETS, "owner")
    await bench.delete(NAMESPACES, "brief")

    async def is_everything_gone() -> bool:
        return not await bench.exists(WIDGETS, "owned") and not await bench.exists(NAMESPACES, "brief")

    await eventually(is_everything_gone)
    asked = {(request["name"], request["userInfo"]["username"]) for _, request in webhook.requests}
    account = "system:serviceaccount:kube-system"
    assert asked == {
        ("owner", "admin"),
        ("owned", f"{account}:generic-garbage-collector"),
        ("inside", f"{account}:namespace-controller"),
    }


async def test_a_namespace_says_why_its_content_stays(bench: Bench, webhook: Hooks) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "brief"))
    await bench.create(WIDGETS, widget("inside"), namespace="brief")
    webhook.answers["/check"] = deny(message="needed")
    await validate(bench, webhook, rule(WIDGETS, "DELETE"))
    await bench.delete(NAMESPACES, "brief")

    async def failure() -> Object:
        conditions = objects.at(await bench.get(NAMESPACES, "brief"), "status", "conditions")
        return objects.mapping(objects.sequence(conditions)[2]) if conditions else {}

    async def is_told() -> bool:
        return (await failure()).get("status") == "True"

    await eventually(is_told)
    told = await failure()
    assert (told["type"], told["reason"]) == ("NamespaceDeletionContentFailure", "ContentDeletionFailed")
    assert told["message"] == (
        "Failed to delete all resource types, 1 remaining: "
        'admission webhook "check.example.com" denied the request: needed'
    )


async def test_warnings_reach_the_client_also_with_a_denial(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/check"] = lambda request: {"allowed": request["name"] == "a", "warnings": ["take care"]}
    await validate(bench, webhook)
    reply = await bench.call("create", WIDGETS, body=widget("a"))
    assert reply.warnings == ("take care",)
    with pytest.raises(errors.BadRequest) as refusal:
        await bench.create(WIDGETS, widget("b"))
    assert refusal.value.warnings == ("take care",)


BROKEN: list[tuple[str, web.Response | None, str]] = [
    (
        "no JSON",
        web.Response(body=b"hello"),
        "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go",
    ),
    ("nothing", web.Response(), "failed to call webhook: 0-length response with status code: 200 and content type: "),
    ("refused", web.Response(status=403, text="not you"), "failed to call webhook: not you"),
    (
        "tea",
        web.Response(status=418, text="short and stout"),
        "failed to call webhook: the server responded with the status code 418 but did not return more information",
    ),
    (
        "another kind",
        web.Response(body=b'{"apiVersion":"v1","kind":"Pod"}'),
        'failed to call webhook: no kind "Pod" is registered for version "v1" in scheme "pkg/runtime/scheme.go:110"',
    ),
    (
        "an older version",
        web.Response(body=b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}'),
        "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
    ),
    ("not found", web.Response(status=404), "failed to call webhook: the server could not find the requested resource"),
    ("an error", web.Response(status=500, text="oops"), 'failed to call webhook: an error on the server ("oops")'),
    ("no response", web.Response(body=b"{}"), "received invalid webhook response: webhook response was absent"),
    (
        "another uid",
        web.Response(body=b'{"response":{"uid":"x","allowed":true}}'),
        'received invalid webhook response: expected response.uid="',
    ),
]


@pytest.mark.parametrize("what, answer, text", BROKEN, ids=[each[0] for each in BROKEN])
async def test_a_bad_answer_fails_the_request(
    bench: Bench, webhook: Hooks, what: str, answer: web.Response, text: str
) -> None:
    webhook.raw["/check"] = answer
    await validate(bench, webhook)
    with pytest.raises(errors.InternalError) as refusal:
        await bench.create(WIDGETS, widget("a"))
    assert refusal.value.message.startswith('Internal error occurred: failed calling webhook "check.example.com": ')
    assert text in refusal.value.message


async def test_a_redirect_is_followed(bench: Bench, webhook: Hooks) -> None:
    webhook.raw["/here"] = web.Response(status=307, headers={"Location": "/there"})
    webhook.answers["/there"] = deny(message="found")
    await validate(bench, webhook, client=webhook.client_config("/here"))
    with pytest.raises(errors.BadRequest, match="denied the request: found"):
        await bench.create(WIDGETS, widget("a"))


async def test_a_patch_from_a_validating_webhook_is_a_bad_answer(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/check"] = hooks.put("/spec/size", 2)
    await validate(bench, webhook)
    with pytest.raises(errors.InternalError, match=r"validating webhook may not return response.patch$"):
        await bench.create(WIDGETS, widget("a"))


async def test_a_webhook_that_is_too_slow_fails_the_request_in_time(bench: Bench, webhook: Hooks) -> None:
    async def sleep(request: Object) -> Object:
        await asyncio.sleep(5)
        return hooks.allow(request)

    webhook.answers["/check"] = sleep
    await validate(bench, webhook, timeoutSeconds=1)
    async with asyncio.timeout(60):
        with pytest.raises(errors.InternalError) as refusal:
            await bench.create(WIDGETS, widget("a"))
    url = webhook.url("/check?timeout=1s")
    assert refusal.value.message == (
        'Internal error occurred: failed calling webhook "check.example.com": failed to call webhook: '
        f'Post "{url}": context deadline exceeded'
    )


async def test_a_certificate_of_another_authority_is_not_trusted(bench: Bench, webhook: Hooks) -> None:
    client = webhook.client_config("/check", hooks.OTHER_AUTHORITY)
    await validate(bench, webhook, client=client)
    with pytest.raises(errors.InternalError, match="x509: certificate signed by unknown authority"):
        await bench.create(WIDGETS, widget("a"))
    assert not webhook.requests


async def test_a_webhook_that_may_fail_is_passed_over(bench: Bench, webhook: Hooks) -> None:
    client = webhook.client_config("/check", hooks.OTHER_AUTHORITY)
    await validate(bench, webhook, client=client, failurePolicy="Ignore")
    await validate(bench, webhook, name="gone", client={"url": "https://127.0.0.1:1"}, failurePolicy="Ignore")
    await bench.create(WIDGETS, widget("a"))
    assert await bench.exists(WIDGETS, "a")


async def test_a_webhook_nobody_listens_for_fails_the_request(bench: Bench, webhook: Hooks) -> None:
    await validate(bench, webhook, client={"url": "https://127.0.0.1:1"})
    with pytest.raises(errors.InternalError, match=r"dial tcp 127.0.0.1:1: connect: "):
        await bench.create(WIDGETS, widget("a"))


async def test_selectors_decide_who_is_asked(bench: Bench, webhook: Hooks) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "lab", labels={"env": "lab"}))
    in_lab = {"matchLabels": {"env": "lab"}}
    is_red = {"matchExpressions": [{"key": "color", "operator": "In", "values": ["red"]}]}
    await validate(bench, webhook, name="lab", namespaceSelector=in_lab)
    await validate(bench, webhook, name="red", objectSelector=is_red)
    await bench.create(WIDGETS, widget("a"))
    assert webhook.paths() == []
    await bench.create(WIDGETS, widget("b"), namespace="lab")
    assert webhook.paths() == ["/lab"]
    await bench.create(WIDGETS, widget("c", labels={"color": "red"}))
    assert webhook.paths() == ["/lab", "/red"]
    await bench.patch(WIDGETS, "c", {"metadata": {"labels": None}})
    assert webhook.paths() == ["/lab", "/red", "/red"], "the old object still matched"


async def test_a_namespace_is_selected_by_its_own_labels(bench: Bench, webhook: Hooks) -> None:
    await validate(bench, webhook, rule(NAMESPACES, "*"), namespaceSelector={"matchLabels": {"env": "lab"}})
    await bench.create(NAMESPACES, make(NAMESPACES, "a"))
    await bench.create(NAMESPACES, make(NAMESPACES, "b", labels={"env": "lab"}))
    assert [request["namespace"] for _, request in webhook.requests] == ["b"]


async def test_rules_decide_by_operation_subresource_and_scope(bench: Bench, webhook: Hooks) -> None:
    await validate(bench, webhook, rule(WIDGETS, "UPDATE", subresource="status"), name="status")
    await validate(bench, webhook, rule(WIDGETS, "UPDATE", subresource="scale"), name="scale")
    await validate(bench, webhook, {**rule(WIDGETS, "*"), "scope": "Cluster"}, name="cluster")
    await bench.create(WIDGETS, widget("a", {"replicas": 1}))
    await bench.patch(WIDGETS, "a", {"spec": {"size": 7}})
    assert webhook.paths() == []
    await bench.patch(WIDGETS, "a", {"status": {"phase": "x"}}, subresource="status")
    assert webhook.paths() == ["/status"]
    assert webhook.last()["subResource"] == "status"
    await bench.patch(WIDGETS, "a", {"spec": {"replicas": 3}}, subresource="scale")
    assert webhook.paths() == ["/status", "/scale"]
    request = webhook.last()
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (request["oldObject"]["spec"], request["object"]["spec"]) == ({"replicas": 1}, {"replicas": 3})


async def test_another_version_is_shown_in_the_version_of_the_rule(bench: Bench, webhook: Hooks) -> None:
    await validate(bench, webhook, rule(WIDGETS, "CREATE"))
    await validate(bench, webhook, rule(WIDGETS, "CREATE"), name="exact", matchPolicy="Exact")
    await bench.create(OLD_WIDGETS, make(OLD_WIDGETS, "a", {"size": 1}))
    assert webhook.paths() == ["/check"]
    request = webhook.last()
    assert request["resource"]["version"] == "v1"
    assert request["requestResource"]["version"] == "v1alpha1"
    assert request["object"]["apiVersion"] == "example.com/v1"


async def test_a_dry_run_is_asked_about_and_said_to_be_one(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/check"] = lambda request: {"allowed": not request["dryRun"]}
    await validate(bench, webhook, sideEffects="NoneOnDryRun")
    with pytest.raises(errors.BadRequest):
        await bench.create(WIDGETS, widget("a"), dryRun="All")
    await bench.create(WIDGETS, widget("a"))
    assert webhook.requests[0][1]["options"]["dryRun"] == ["All"]


async def test_webhook_configurations_are_never_asked_about(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/check"] = deny()
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}
    await validate(bench, webhook, everything)
    await bench.delete(VALIDATING, "check")
    await bench.create(WIDGETS, widget("a"))
    assert webhook.requests == []


async def test_v1beta1_is_spoken_with_those_who_know_no_other(bench: Bench, webhook: Hooks) -> None:
    webhook.raw["/check"] = web.Response(body=orjson.dumps({"response": {"allowed": False}}))
    await validate(bench, webhook, admissionReviewVersions=["v1beta1"])
    with pytest.raises(errors.BadRequest, match="denied the request without explanation"):
        await bench.create(WIDGETS, widget("a"))


async def test_a_service_is_reached_through_its_endpoints(bench: Bench, webhook: Hooks) -> None:
    port: Object = {"name": "https", "port": 443, "protocol": "TCP"}
    await bench.create(SERVICES, make(SERVICES, "hook", {"ports": [port]}))
    slice_: Object = {
        **make(SLICES, "hook-1", labels={"kubernetes.io/service-name": "hook"}),
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["127.0.0.1"]}],
        "ports": [{"name": "https", "port": webhook.port, "protocol": "TCP"}],
    }
    await bench.create(SLICES, slice_)
    client = webhook.client_config()
    del client["url"]
    client["service"] = {"namespace": "default", "name": "hook", "path": "/check"}
    await validate(bench, webhook, client=client)
    await bench.create(WIDGETS, widget("a"))
    assert webhook.paths() == ["/check"]
    await bench.delete(SERVICES, "hook")
    with pytest.raises(errors.InternalError, match=r'hook.default.svc:443/check\?timeout=10s": service "hook" not'):
        await bench.create(WIDGETS, widget("b"))


async def test_connections_are_used_again(bench: Bench, webhook: Hooks) -> None:
    await validate(bench, webhook)
    for index in range(5):
        await bench.create(WIDGETS, widget(f"w{index}"))
    assert len(webhook.requests) == 5
    assert len(webhook.connections) == 1


async def test_a_change_while_a_webhook_thinks_is_not_lost(bench: Bench, webhook: Hooks) -> None:
    await bench.create(WIDGETS, widget("a"))
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Object) -> Object:
        if not entered.is_set():
            entered.set()
            await go_on.wait()
        return hooks.allow(request)

    webhook.answers["/check"] = slow
    await validate(bench, webhook, rule(WIDGETS, "UPDATE"), objectSelector={"matchLabels": {"slow": "yes"}})
    patching = asyncio.create_task(bench.patch(WIDGETS, "a", {"metadata": {"labels": {"slow": "yes"}}}))
    await entered.wait()
    await bench.patch(WIDGETS, "a", {"spec": {"size": 9}})
    go_on.set()
    patched = await patching
    assert patched["spec"]["size"] == 9
    assert patched["metadata"]["labels"] == {"slow": "yes"}
    assert [request["oldObject"]["spec"]["size"] for _, request in webhook.requests] == [1, 9]


async def test_an_update_that_was_overtaken_is_a_conflict(bench: Bench, webhook: Hooks) -> None:
    created = await bench.create(WIDGETS, widget("a"))

    async def meddle(request: Object) -> Object:
        webhook.answers.clear()
        await bench.patch(WIDGETS, "a", {"spec": {"size": 9}})
        return hooks.allow(request)

    webhook.answers["/check"] = meddle
    await validate(bench, webhook, rule(WIDGETS, "UPDATE"))
    with pytest.raises(errors.Conflict, match="the object has been modified"):
        await bench.update(WIDGETS, {**created, "spec": {"size": 2}})
    assert (await bench.get(WIDGETS, "a"))["spec"]["size"] == 9


async def test_what_was_created_or_went_meanwhile_is_seen(bench: Bench, webhook: Hooks) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "brief"))

    async def create_first(request: Object) -> Object:
        webhook.answers.clear()
        await bench.create(WIDGETS, widget("a"))
        return hooks.allow(request)

    async def remove_namespace(request: Object) -> Object:
        await bench.delete(NAMESPACES, "brief")
        return hooks.allow(request)

    await validate(bench, webhook, rule(WIDGETS, "CREATE"))
    webhook.answers["/check"] = create_first
    with pytest.raises(errors.AlreadyExists):
        await bench.create(WIDGETS, widget("a"))
    webhook.answers["/check"] = remove_namespace
    with pytest.raises((errors.Forbidden, errors.NotFound)):
        await bench.create(WIDGETS, widget("b"), namespace="brief")


async def test_a_port_that_was_taken_meanwhile_is_not_given_twice(bench: Bench, webhook: Hooks) -> None:
    exposed: Object = {"type": "NodePort", "ports": [{"port": 80}]}

    async def take_the_port(request: Object) -> Object:
        webhook.answers.clear()
        [port] = request["object"]["spec"]["ports"]
        spec = {**exposed, "ports": [{"port": 80, "nodePort": port["nodePort"]}]}
        await bench.create(SERVICES, make(SERVICES, "thief", spec))
        return hooks.allow(request)

    webhook.answers["/check"] = take_the_port
    await validate(bench, webhook, rule(SERVICES, "CREATE"))
    created = await bench.create(SERVICES, make(SERVICES, "a", exposed))
    taken = await bench.get(SERVICES, "thief")
    assert created["spec"]["ports"][0]["nodePort"] != taken["spec"]["ports"][0]["nodePort"]


async def test_conditions_decide_who_is_asked(bench: Bench, webhook: Hooks) -> None:
    big: Object = {"name": "big", "expression": "object.spec.size > 5"}
    mine: Object = {"name": "not-the-system", "expression": "!request.userInfo.username.startsWith('system:')"}
    await validate(bench, webhook, rule(WIDGETS, "CREATE"), matchConditions=[mine, big])
    await bench.create(WIDGETS, widget("a"))
    assert webhook.requests == []
    await bench.create(WIDGETS, widget("b", {"size": 6}))
    await bench.create(WIDGETS, widget("c", {"size": 6}), user=User("system:node:x", ("system:masters",)))
    assert [request["name"] for _, request in webhook.requests] == ["b"]


async def test_a_condition_without_an_answer_goes_by_the_failure_policy(bench: Bench, webhook: Hooks) -> None:
    condition: Object = {"name": "gone", "expression": "object.spec.ports[0].port > 0"}
    await validate(bench, webhook, matchConditions=[condition], failurePolicy="Ignore", name="ignore")
    await bench.create(WIDGETS, widget("a"))
    assert webhook.requests == []
    await validate(bench, webhook, matchConditions=[condition], name="fail")
    with pytest.raises(
        errors.Forbidden, match=r'widgets.example.com "b" is forbidden: expression .* resulted in error'
    ):
        await bench.create(WIDGETS, widget("b"))


async def test_the_audit_log_hears_what_a_webhook_has_to_say(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/check"] = lambda request: {
        "allowed": request["name"] == "a",
        "auditAnnotations": {"seen": request["operation"]},
    }
    await validate(bench, webhook)
    for name in ("a", "b"):
        call = make_call("create", WIDGETS, namespace="default", body=widget(name))
        with contextlib.suppress(errors.BadRequest):
            await bench.api.call(call)
        assert call.annotations == {"check.example.com/seen": "CREATE"}
