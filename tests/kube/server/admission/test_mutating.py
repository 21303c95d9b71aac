"""Mutating webhooks: their patches, their order, and who is asked again."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from aiohttp import web

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from tests.kube.server.admission import hooks
from tests.kube.server.admission.hooks import MUTATING, VALIDATING, Hooks, configuration, deny, hook, patch, put, rule
from tests.kube.server.bench import OLD_WIDGETS, WIDGETS, Bench, make, widget


async def mutate(bench: Bench, webhook: Hooks, name: str, *rules: Object, **more: Any) -> None:
    one = hook(name, webhook.client_config(f"/{name}"), *(rules or (rule(WIDGETS, "*"),)), **more)
    await bench.create(MUTATING, configuration(MUTATING, name, one))


async def test_a_patch_changes_what_is_stored_and_not_who_manages_it(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/size"] = put("/spec/size", 7)
    await mutate(bench, webhook, "size")
    created = await bench.create(WIDGETS, widget("a", {"replicas": 1}), fieldManager="me")
    assert created["spec"] == {"replicas": 1, "size": 7, "color": "red"}
    [entry] = created["metadata"]["managedFields"]
    assert entry["manager"] == "me"
    assert entry["fieldsV1"]["f:spec"] == {".": {}, "f:color": {}, "f:replicas": {}}
    assert await bench.get(WIDGETS, "a") == created


async def test_a_new_object_is_shown_with_its_defaults_and_without_what_only_the_server_knows(
    bench: Bench, webhook: Hooks
) -> None:
    await mutate(bench, webhook, "look")
    await bench.create(WIDGETS, {**widget("", {}), "metadata": {"generateName": "w-"}})
    request = webhook.last()
    assert request["object"]["spec"] == {"color": "red"}
    assert "uid" not in request["object"]["metadata"]
    assert "name" not in request


async def test_updates_patches_and_applies_are_mutated_too(bench: Bench, webhook: Hooks) -> None:
    created = await bench.create(WIDGETS, widget("a"))
    webhook.answers["/mark"] = put("/metadata/labels", {"by": "webhook"})
    await mutate(bench, webhook, "mark")
    updated = await bench.update(WIDGETS, {**created, "spec": {"size": 2}})
    assert objects.labels(updated) == {"by": "webhook"}
    webhook.answers["/mark"] = put("/spec/size", 5)
    assert (await bench.patch(WIDGETS, "a", {"spec": {"replicas": 3}}))["spec"]["size"] == 5
    applied = await bench.apply(WIDGETS, widget("a", {"color": "blue"}), force="true")
    assert applied["spec"] == {"size": 5, "replicas": 3, "color": "blue"}
    assert applied["metadata"]["generation"] == 4


async def test_what_a_webhook_makes_is_judged_like_any_object(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/bad"] = put("/spec/size", -1)
    await mutate(bench, webhook, "bad")
    with pytest.raises(errors.Invalid, match=r"spec.size: Invalid value: -1"):
        await bench.create(WIDGETS, widget("a"))


async def test_fields_the_schema_does_not_know_are_dropped(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/extra"] = put("/spec/unknown", 1)
    await mutate(bench, webhook, "extra")
    assert (await bench.create(WIDGETS, widget("a")))["spec"] == {"size": 1, "color": "red"}


async def test_webhooks_are_asked_in_the_order_of_their_configurations_and_see_each_others_work(
    bench: Bench, webhook: Hooks
) -> None:
    webhook.answers |= {"/b": put("/spec/size", 2), "/a": put("/spec/replicas", 1), "/c": put("/spec/color", "blue")}
    for name in ("c", "a", "b"):
        await mutate(bench, webhook, name)
    await bench.create(WIDGETS, widget("w"))
    assert webhook.paths() == ["/a", "/b", "/c"]
    assert webhook.last()["object"]["spec"] == {"size": 2, "replicas": 1, "color": "red"}


async def test_one_that_wants_to_is_asked_again_after_a_later_change(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/c"] = put("/spec/size", 9)
    await mutate(bench, webhook, "a", reinvocationPolicy="IfNeeded")
    await mutate(bench, webhook, "b")
    await mutate(bench, webhook, "c", reinvocationPolicy="IfNeeded")
    await bench.create(WIDGETS, widget("w"))
    assert webhook.paths() == ["/a", "/b", "/c", "/a"]
    assert webhook.last()["object"]["spec"]["size"] == 9
    webhook.requests.clear()
    await bench.create(WIDGETS, widget("w2", {"size": 9}))
    assert webhook.paths() == ["/a", "/b", "/c"], "nothing was changed"


async def test_a_mutating_webhook_may_deny(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/no"] = deny(code=409, reason="Conflict", message="busy")
    await mutate(bench, webhook, "no")
    with pytest.raises(errors.Conflict, match=r'admission webhook "no.example.com" denied the request: busy'):
        await bench.create(WIDGETS, widget("a"))


async def test_validating_webhooks_see_the_result(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/size"] = put("/spec/size", 7)
    await mutate(bench, webhook, "size")
    check = hook("check", webhook.client_config("/check"), rule(WIDGETS, "*"))
    await bench.create(VALIDATING, configuration(VALIDATING, "check", check))
    await bench.create(WIDGETS, widget("a"))
    assert webhook.paths() == ["/size", "/check"]
    assert webhook.last()["object"]["spec"]["size"] == 7


async def test_another_version_is_patched_in_the_version_of_the_rule(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/size"] = put("/spec/size", 7)
    await mutate(bench, webhook, "size", rule(WIDGETS, "CREATE"))
    created = await bench.create(OLD_WIDGETS, make(OLD_WIDGETS, "a", {"size": 1}))
    assert (created["apiVersion"], created["spec"]["size"]) == ("example.com/v1alpha1", 7)


async def test_a_scale_is_patched_as_a_scale(bench: Bench, webhook: Hooks) -> None:
    await bench.create(WIDGETS, widget("a", {"replicas": 1}))
    webhook.answers["/most"] = put("/spec/replicas", 2)
    await mutate(bench, webhook, "most", rule(WIDGETS, "UPDATE", subresource="scale"))
    scale = await bench.patch(WIDGETS, "a", {"spec": {"replicas": 50}}, subresource="scale")
    assert scale["spec"]["replicas"] == 2
    assert (await bench.get(WIDGETS, "a"))["spec"]["replicas"] == 2


async def test_a_status_write_cannot_be_turned_into_another(bench: Bench, webhook: Hooks) -> None:
    await bench.create(WIDGETS, widget("a"))
    webhook.answers["/both"] = patch(
        {"op": "add", "path": "/spec/size", "value": 8}, {"op": "add", "path": "/status/seen", "value": True}
    )
    await mutate(bench, webhook, "both", rule(WIDGETS, "UPDATE", subresource="status"))
    patched = await bench.patch(WIDGETS, "a", {"status": {"phase": "x"}}, subresource="status")
    assert patched["spec"]["size"] == 1
    assert patched["status"] == {"phase": "x", "seen": True}


async def test_a_deletion_cannot_be_patched(bench: Bench, webhook: Hooks) -> None:
    await bench.create(WIDGETS, widget("a"))
    webhook.answers["/del"] = put("/spec/size", 7)
    await mutate(bench, webhook, "del", rule(WIDGETS, "DELETE"))
    with pytest.raises(errors.InternalError, match="attempted to modify the object, which is not supported for this"):
        await bench.delete(WIDGETS, "a")


def _answer(**response: Any) -> hooks.Answer:
    return lambda request: {"allowed": True, **response}


BAD_PATCHES: list[tuple[str, hooks.Answer, str]] = [
    ("no type", _answer(patch="W10="), "webhook returned response.patch but not response.patchType"),
    ("no patch", _answer(patchType="JSONPatch"), "webhook returned response.patchType but not response.patch"),
    (
        "another type",
        _answer(patch=base64.b64encode(b'[{"op":"x"}]').decode(), patchType="Merge"),
        'unsupported patch type "Merge"',
    ),
    (
        "no JSON",
        _answer(patch=base64.b64encode(b"{").decode(), patchType="JSONPatch"),
        "received undecodable patch in webhook response",
    ),
    ("no such place", put("/spec/none/at/all", 1), "Internal error occurred: "),
]


@pytest.mark.parametrize("what, answer, text", BAD_PATCHES, ids=[each[0] for each in BAD_PATCHES])
async def test_a_bad_patch_fails_the_request(
    bench: Bench, webhook: Hooks, what: str, answer: hooks.Answer, text: str
) -> None:
    webhook.answers["/bad"] = answer
    await mutate(bench, webhook, "bad")
    with pytest.raises(errors.InternalError) as refusal:
        await bench.create(WIDGETS, widget("a"))
    assert text in refusal.value.message


async def test_one_that_may_fail_is_passed_over_and_the_next_is_asked(bench: Bench, webhook: Hooks) -> None:
    webhook.raw["/a"] = web.Response(status=500)
    webhook.answers["/b"] = put("/spec/size", 3)
    await mutate(bench, webhook, "a", failurePolicy="Ignore")
    await mutate(bench, webhook, "b")
    assert (await bench.create(WIDGETS, widget("w")))["spec"]["size"] == 3


async def test_who_manages_what_is_not_for_a_webhook_to_say(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/owner"] = patch(
        {"op": "remove", "path": "/metadata/managedFields"}, {"op": "add", "path": "/spec/size", "value": 4}
    )
    await mutate(bench, webhook, "owner")
    created = await bench.create(WIDGETS, widget("a"), fieldManager="me")
    assert [entry["manager"] for entry in created["metadata"]["managedFields"]] == ["me"]


async def test_a_write_that_changes_nothing_is_asked_about_and_not_stored(bench: Bench, webhook: Hooks) -> None:
    await bench.create(WIDGETS, widget("a"))
    await mutate(bench, webhook, "a")
    before = bench.store.revision
    await bench.patch(WIDGETS, "a", {"spec": {"size": 1}})
    assert webhook.paths() == ["/a"]
    assert bench.store.revision == before
