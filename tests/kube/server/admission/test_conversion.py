"""Custom resources whose versions a webhook converts: every verb in every version, one stored version."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import orjson
import pytest
from aiohttp import web

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from tests.kube.server.admission import hooks
from tests.kube.server.admission.hooks import MUTATING, Hooks, configuration, hook, put, rule
from tests.kube.server.bench import Bench, make, simple_definition, summary, take

NEW = Resource("example.com", "v2", "gadgets", "Gadget")
OLD = Resource("example.com", "v1", "gadgets", "Gadget")


def converted(obj: Object, wanted: str) -> Object:
    """v1 has `spec.host` with a port in it, v2 has `spec.address` and `spec.port`."""
    spec = objects.mapping(obj.get("spec"))
    out: Object = {key: value for key, value in spec.items() if key not in ("host", "address", "port")}
    if wanted == NEW.api_version and "host" in spec:
        address, _, port = str(spec["host"]).partition(":")
        out |= {"address": address, "port": int(port or 0)}
    elif wanted == OLD.api_version and "address" in spec:
        out["host"] = f"{spec['address']}:{spec.get('port', 0)}"
    return {**obj, "apiVersion": wanted, "spec": out}


def convert(request: Object) -> Object:
    wanted = request["desiredAPIVersion"]
    return {
        "result": {"status": "Success"},
        "convertedObjects": [converted(obj, wanted) for obj in request["objects"]],
    }


def definition(webhook: Hooks, storage: str = "v2") -> Object:
    def version(name: str, properties: Object) -> Object:
        spec: Object = {"type": "object", "properties": {**properties, "replicas": {"type": "integer"}}}
        return {
            "name": name,
            "served": True,
            "storage": name == storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            "subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
        }

    crd = simple_definition(NEW)
    crd["spec"]["versions"] = [
        version("v1", {"host": {"type": "string", "maxLength": 30}}),
        version("v2", {"address": {"type": "string"}, "port": {"type": "integer"}}),
    ]
    crd["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": ".spec.host"}]
    crd["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": webhook.client_config("/convert"), "conversionReviewVersions": ["v1"]},
    }
    return crd


@pytest.fixture
async def gadgets(bench: Bench, webhook: Hooks) -> Hooks:
    webhook.answers["/convert"] = convert
    await bench.create(CUSTOM_RESOURCE_DEFINITIONS, definition(webhook))
    return webhook


def stored(bench: Bench, name: str) -> Object:
    record = bench.store.get(f"main/example.com/gadgets/default/{name}")
    assert record is not None
    return cast(Object, orjson.loads(record.value))


async def test_an_object_is_stored_in_one_version_and_read_in_each(bench: Bench, gadgets: Hooks) -> None:
    created = await bench.create(OLD, make(OLD, "a", {"host": "10.0.0.1:80"}, labels={"x": "y"}))
    assert (created["apiVersion"], created["spec"]) == ("example.com/v1", {"host": "10.0.0.1:80"})
    assert stored(bench, "a")["apiVersion"] == "example.com/v2"
    assert stored(bench, "a")["spec"] == {"address": "10.0.0.1", "port": 80}
    assert await bench.get(OLD, "a") == created
    new = await bench.get(NEW, "a")
    assert new["spec"] == {"address": "10.0.0.1", "port": 80}
    assert new["metadata"] == created["metadata"]


async def test_every_write_works_in_a_version_that_is_not_stored(bench: Bench, gadgets: Hooks) -> None:
    created = await bench.create(NEW, make(NEW, "a", {"address": "h", "port": 1}))
    shown = await bench.get(OLD, "a")
    assert (await bench.update(OLD, {**shown, "spec": {"host": "h:2"}}))["spec"] == {"host": "h:2"}
    assert (await bench.patch(OLD, "a", {"spec": {"replicas": 3}}))["spec"] == {"host": "h:2", "replicas": 3}
    applied = await bench.apply(OLD, make(OLD, "a", {"host": "k:2"}), force="true")
    assert applied["spec"] == {"host": "k:2", "replicas": 3}
    scale = await bench.patch(OLD, "a", {"spec": {"replicas": 5}}, subresource="scale")
    assert scale["spec"] == {"replicas": 5}
    assert (await bench.get(OLD, "a", subresource="scale"))["spec"] == {"replicas": 5}
    final = stored(bench, "a")
    assert final["spec"] == {"address": "k", "port": 2, "replicas": 5}
    assert final["metadata"]["generation"] == created["metadata"]["generation"] + 4
    before = bench.store.revision
    await bench.patch(OLD, "a", {"spec": {"replicas": 5}})
    assert bench.store.revision == before, "nothing changed"
    with pytest.raises(errors.Invalid, match=r"spec.host: Too long"):
        await bench.patch(OLD, "a", {"spec": {"host": "x" * 31}})
    await bench.delete(OLD, "a")
    assert not await bench.exists(NEW, "a")


async def test_a_list_is_converted_with_one_call_and_then_selected(bench: Bench, gadgets: Hooks) -> None:
    for index in range(4):
        await bench.create(NEW, make(NEW, f"g{index}", {"address": "h", "port": index}))
    gadgets.requests.clear()
    listed = await bench.list(OLD)
    assert [item["spec"]["host"] for item in listed["items"]] == ["h:0", "h:1", "h:2", "h:3"]
    assert listed["apiVersion"] == "example.com/v1"
    assert len(gadgets.requests) == 1
    assert await bench.names(OLD, fieldSelector="spec.host=h:2") == ["g2"]
    gadgets.requests.clear()
    await bench.list(NEW)
    assert gadgets.requests == [], "they have that version already"


async def test_a_watch_tells_of_changes_in_its_version(bench: Bench, gadgets: Hooks) -> None:
    await bench.create(NEW, make(NEW, "a", {"address": "h", "port": 1}))
    stream = await bench.watch(OLD)
    await bench.create(NEW, make(NEW, "b", {"address": "h", "port": 2}))
    await bench.patch(NEW, "b", {"spec": {"port": 3}})
    await bench.delete(NEW, "a")
    items = await take(stream, 4)
    assert summary(items) == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "a")]
    assert [item.object["spec"]["host"] for item in items] == ["h:1", "h:2", "h:3", "h:1"]
    assert b'"apiVersion":"example.com/v1"' in items[1].encoded()
    selected = await bench.watch(OLD, fieldSelector="spec.host=h:4")
    await bench.patch(NEW, "b", {"spec": {"port": 4}})
    assert summary(await take(selected, 1)) == [("ADDED", "b")]


async def test_what_was_stored_before_the_storage_version_changed_is_converted(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/convert"] = convert
    await bench.create(CUSTOM_RESOURCE_DEFINITIONS, definition(webhook, storage="v1"))
    await bench.create(OLD, make(OLD, "a", {"host": "h:1"}))
    crd = await bench.get(CUSTOM_RESOURCE_DEFINITIONS, "gadgets.example.com")
    crd["spec"] = definition(webhook, storage="v2")["spec"]
    await bench.update(CUSTOM_RESOURCE_DEFINITIONS, crd)
    assert stored(bench, "a")["apiVersion"] == "example.com/v1"
    assert (await bench.get(NEW, "a"))["spec"] == {"address": "h", "port": 1}
    await bench.patch(NEW, "a", {"spec": {"port": 2}})
    assert stored(bench, "a")["spec"] == {"address": "h", "port": 2}


async def test_metadata_but_labels_and_annotations_stays(bench: Bench, gadgets: Hooks) -> None:
    def meddle(request: Object) -> Object:
        answer = convert(request)
        for obj in answer["convertedObjects"]:
            metadata = obj["metadata"]
            obj["metadata"] = {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
                               "labels": {"old": "yes"}, "finalizers": ["made/up"]}  # fmt: skip
        return answer

    created = await bench.create(NEW, make(NEW, "a", {"address": "h", "port": 1}, annotations={"k": "v"}))
    gadgets.answers["/convert"] = meddle
    metadata = (await bench.get(OLD, "a"))["metadata"]
    expected = {**created["metadata"], "labels": {"old": "yes"}}
    del expected["annotations"]
    assert metadata == expected


KIND = "example.com/v2, Kind=Gadget"
FAILURES: list[tuple[str, hooks.Answer | web.Response, str]] = [
    (
        "said so",
        lambda request: {"result": {"status": "Failure", "message": "cannot"}},
        f"conversion webhook for {KIND} failed: cannot",
    ),
    (
        "no status",
        lambda request: {"convertedObjects": []},
        f"conversion webhook for {KIND} failed: response.result.status was '', not 'Success'",
    ),
    (
        "too few",
        lambda request: {"result": {"status": "Success"}, "convertedObjects": []},
        f"conversion webhook for {KIND} returned 0 objects, expected 1",
    ),
    (
        "wrong version",
        lambda request: {"result": {"status": "Success"}, "convertedObjects": request["objects"]},
        f"conversion webhook for {KIND} returned invalid object at index 0: "
        "invalid groupVersion (expected example.com/v1, received example.com/v2)",
    ),
    ("down", web.Response(status=404), f"conversion webhook for {KIND} failed: the server could not find"),
    ("no JSON", web.Response(body=b"x"), f"conversion webhook for {KIND} failed: couldn't get version/kind"),
]


@pytest.mark.parametrize("what, answer, text", FAILURES, ids=[each[0] for each in FAILURES])
async def test_a_failed_conversion_fails_the_request(
    bench: Bench, gadgets: Hooks, what: str, answer: Any, text: str
) -> None:
    await bench.create(NEW, make(NEW, "a", {"address": "h", "port": 1}))
    if isinstance(answer, web.Response):
        gadgets.raw["/convert"] = answer
    else:
        gadgets.answers["/convert"] = answer
    with pytest.raises(errors.Unclassified) as failure:
        await bench.get(OLD, "a")
    assert failure.value.message.startswith(text)
    assert (await bench.get(NEW, "a"))["spec"]["port"] == 1, "the stored version needs no conversion"


async def test_an_object_may_not_change_its_name_on_the_way(bench: Bench, gadgets: Hooks) -> None:
    def rename(request: Object) -> Object:
        answer = convert(request)
        for obj in answer["convertedObjects"]:
            obj["metadata"]["name"] = "other"
        return answer

    gadgets.answers["/convert"] = rename
    with pytest.raises(errors.Unclassified, match="must have the same name: a != other"):
        await bench.create(OLD, make(OLD, "a", {"host": "h:1"}))
    assert not await bench.exists(NEW, "a")


async def test_a_failed_conversion_ends_a_watch_with_the_error(bench: Bench, gadgets: Hooks) -> None:
    stream = await bench.watch(OLD)
    gadgets.answers["/convert"] = lambda request: {"result": {"status": "Failure", "message": "cannot"}}
    await bench.create(NEW, make(NEW, "a", {"address": "h", "port": 1}))
    with pytest.raises(errors.Unclassified, match="failed: cannot"):
        await take(stream, 1)


async def test_a_change_during_a_conversion_is_not_lost(bench: Bench, gadgets: Hooks) -> None:
    await bench.create(NEW, make(NEW, "a", {"address": "h", "port": 1}))
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Object) -> Object:
        entered.set()
        await go_on.wait()
        return convert(request)

    gadgets.answers["/convert"] = slow
    patching = asyncio.create_task(bench.patch(OLD, "a", {"spec": {"replicas": 2}}))
    await entered.wait()
    await bench.patch(NEW, "a", {"spec": {"port": 7}})
    go_on.set()
    assert (await patching)["spec"] == {"host": "h:7", "replicas": 2}


async def test_an_admission_webhook_sees_its_version_and_its_patch_is_converted_back(
    bench: Bench, gadgets: Hooks
) -> None:
    gadgets.answers["/port"] = put("/spec/port", 8443)
    one = hook("port", gadgets.client_config("/port"), rule(NEW, "CREATE"))
    await bench.create(MUTATING, configuration(MUTATING, "port", one))
    created = await bench.create(OLD, make(OLD, "a", {"host": "h:1"}))
    assert created["spec"] == {"host": "h:8443"}
    request = next(request for path, request in gadgets.requests if path == "/port")
    assert request["object"]["spec"] == {"address": "h", "port": 1}
