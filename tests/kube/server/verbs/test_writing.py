"""create, update and patch do what kube-apiserver does."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS, Resource
from tests.kube.server.bench import OLD_WIDGETS, PARTS, WIDGETS, Bench, decoded, make, widget

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")


@pytest.mark.parametrize(
    ("metadata", "error", "message"),
    [
        pytest.param({"name": "a", "resourceVersion": "5"}, errors.Unclassified, "should not be set", id="new"),
        pytest.param({"resourceVersion": "5"}, errors.Invalid, "name or generateName is required", id="invalid"),
    ],
)
async def test_a_new_object_has_no_revision_yet(
    bench: Bench, metadata: Object, error: type[errors.ApiError], message: str
) -> None:
    """What is wrong with the object itself is told first, as upstream."""
    with pytest.raises(error, match=message):
        await bench.create(WIDGETS, {**widget("a"), "metadata": metadata})


async def test_create_fills_in_what_the_server_owns(bench: Bench) -> None:
    body = widget("a", {"size": 2}, uid="mine", generation=7, creationTimestamp=None)
    created = decoded(await bench.call("create", WIDGETS, body=body, fieldManager="tester"))
    metadata = created["metadata"]
    assert metadata["uid"] not in ("", "mine")
    assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert metadata["generation"] == 1
    assert metadata["namespace"] == "default"
    assert metadata["managedFields"][0]["manager"] == "tester"
    assert created["spec"] == {"size": 2, "color": "red"}
    assert await bench.get(WIDGETS, "a") == created
    assert metadata["resourceVersion"] == str(bench.store.revision)
    assert body["metadata"]["uid"] == "mine", "the caller's object is left as it was"


async def test_create_drops_status_of_kinds_with_a_status_subresource(bench: Bench) -> None:
    created = await bench.create(WIDGETS, {**widget("a"), "status": {"ready": True}})
    assert "status" not in created


async def test_an_existing_name_is_refused(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a"))
    with pytest.raises(errors.AlreadyExists, match=r'^widgets.example.com "a" already exists'):
        await bench.create(WIDGETS, widget("a"))


async def test_an_existing_name_that_is_on_its_way_out_is_refused_and_told(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a", finalizers=["example.com/hold"]))
    await bench.delete(WIDGETS, "a")
    with pytest.raises(errors.AlreadyExists, match=r'^object is being deleted: widgets.example.com "a" already exists'):
        await bench.create(WIDGETS, widget("a"))


async def test_times_that_are_none_have_no_effect_on_what_is_applied(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a"))
    applied = await bench.apply(WIDGETS, widget("a", creationTimestamp=2**64 - 1))
    assert applied["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


async def test_of_two_concurrent_creates_one_wins(bench: Bench) -> None:
    results = await asyncio.gather(*(bench.create(WIDGETS, widget("a")) for _ in range(2)), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["AlreadyExists", "dict"]


async def test_generated_names_differ(bench: Bench) -> None:
    body: Object = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"generateName": "w-"}, "spec": {}}
    created = await asyncio.gather(*(bench.create(WIDGETS, body) for _ in range(20)))
    names = {objects.name(obj) for obj in created}
    assert len(names) == 20
    assert all(name.startswith("w-") and len(name) == 7 for name in names)


@pytest.mark.parametrize(
    "body, error",
    [
        ([], errors.BadRequest),
        ("text", errors.BadRequest),
        (None, errors.BadRequest),
        ({}, errors.BadRequest),
        ({**widget("a"), "kind": "Gadget"}, errors.Invalid),
        ({**widget("a"), "apiVersion": "example.com/v9"}, errors.BadRequest),
        ({**widget("a"), "metadata": []}, errors.BadRequest),
        (widget("a", labels={"x": 1}), errors.BadRequest),
        (widget("a", resourceVersion="5"), errors.Unclassified),
        (widget("a", namespace="other"), errors.BadRequest),
        (widget("A_b"), errors.Invalid),
        (widget("a", labels={"-": "x"}), errors.Invalid),
        (widget("a", {"size": "big"}), errors.Invalid),
        (widget("a", {"size": -1}), errors.Invalid),
        (widget(""), errors.Invalid),
    ],
)
async def test_bad_objects_are_refused_and_nothing_is_stored(bench: Bench, body: Any, error: type[Exception]) -> None:
    before = bench.store.revision
    with pytest.raises(error):
        await bench.create(WIDGETS, body)
    assert bench.store.revision == before


async def test_invalid_names_the_field(bench: Bench) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await bench.create(WIDGETS, widget("a", {"color": "pink"}))
    assert caught.value.causes[0].field == "spec.color"
    assert str(caught.value) == (
        'Widget.example.com "a" is invalid: spec.color: Unsupported value: "pink": supported values: "red", "blue"'
    )


async def test_namespace_must_exist(bench: Bench) -> None:
    with pytest.raises(errors.NotFound, match='namespaces "nowhere" not found'):
        await bench.create(WIDGETS, widget("a"), namespace="nowhere")


async def test_unknown_fields_warn_or_are_refused_or_ignored(bench: Bench) -> None:
    body = widget("a", {"size": 1, "sizzle": 2})
    reply = await bench.call("create", WIDGETS, body=body, dryRun="All")
    assert reply.warnings == ('unknown field "spec.sizzle"',)
    assert "sizzle" not in decoded(reply)["spec"]
    ignored = await bench.call("create", WIDGETS, body=body, dryRun="All", fieldValidation="Ignore")
    assert ignored.warnings == ()
    with pytest.raises(errors.BadRequest, match=r'strict decoding error: unknown field "spec.sizzle"'):
        await bench.create(WIDGETS, body, fieldValidation="Strict")


async def test_dry_run_stores_nothing(bench: Bench) -> None:
    created = await bench.create(WIDGETS, widget("a"), dryRun="All")
    assert created["metadata"]["uid"]
    assert not await bench.exists(WIDGETS, "a")
    with pytest.raises(errors.Invalid):
        await bench.create(WIDGETS, widget("a"), dryRun="Some")


async def test_update_of_a_custom_resource_needs_the_newest_version(bench: Bench) -> None:
    first = await bench.create(WIDGETS, widget("a"))
    await bench.update(WIDGETS, {**first, "spec": {"size": 2}})
    with pytest.raises(errors.Conflict, match="please apply your changes to the latest version and try again"):
        await bench.update(WIDGETS, {**first, "spec": {"size": 3}})
    with pytest.raises(errors.Invalid) as raised:
        await bench.update(WIDGETS, widget("a", {"size": 4}))
    assert raised.value.message == (
        'widgets.example.com "a" is invalid: metadata.resourceVersion: '
        "Invalid value: 0: must be specified for an update"
    )


async def test_update_of_a_built_in_kind_needs_the_newest_version_or_none(bench: Bench) -> None:
    first = await bench.create(CONFIG_MAPS, make(CONFIG_MAPS, "a"))
    await bench.update(CONFIG_MAPS, {**first, "data": {"a": "1"}})
    with pytest.raises(errors.Conflict, match="please apply your changes to the latest version and try again"):
        await bench.update(CONFIG_MAPS, {**first, "data": {"a": "2"}})
    third = await bench.update(CONFIG_MAPS, {**make(CONFIG_MAPS, "a"), "data": {"a": "3"}})
    assert objects.uid(third) == objects.uid(first)
    assert third["data"] == {"a": "3"}


async def test_generation_counts_changes_of_the_specification_only(bench: Bench) -> None:
    obj = await bench.create(WIDGETS, widget("a"))
    obj = await bench.update(WIDGETS, {**obj, "spec": {"size": 9}})
    assert objects.generation(obj) == 2
    obj = await bench.patch(WIDGETS, "a", {"metadata": {"labels": {"a": "b"}}})
    assert objects.generation(obj) == 2
    obj = await bench.patch(WIDGETS, "a", {"status": {"x": 1}}, subresource="status")
    assert objects.generation(obj) == 2


async def test_an_update_that_changes_nothing_writes_nothing(bench: Bench) -> None:
    created = await bench.create(WIDGETS, widget("a"))
    revision = bench.store.revision
    bench.clock.advance(60)
    assert await bench.update(WIDGETS, created) == created
    assert await bench.patch(WIDGETS, "a", {"spec": {"size": 1}}) == created
    assert bench.store.revision == revision


async def test_status_and_specification_are_written_apart(bench: Bench) -> None:
    created = await bench.create(WIDGETS, widget("a"))
    changed = {**created, "spec": {"size": 5}, "status": {"ready": True}}
    written = await bench.update(WIDGETS, changed, subresource="status")
    assert (written["spec"]["size"], written["status"]) == (1, {"ready": True})
    again = await bench.update(WIDGETS, {**written, "spec": {"size": 5}, "status": {"ready": False}})
    assert (again["spec"]["size"], again["status"]) == (5, {"ready": True})
    status = decoded(await bench.call("get", WIDGETS, "a", subresource="status"))
    assert status == again


async def test_update_refuses_another_name_uid_or_an_absent_object(bench: Bench) -> None:
    created = await bench.create(WIDGETS, widget("a"))
    with pytest.raises(errors.BadRequest):
        await bench.call("update", WIDGETS, "b", body=created)
    with pytest.raises(errors.Conflict, match="UID in precondition"):
        await bench.update(WIDGETS, widget("a", uid="other"))
    with pytest.raises(errors.NotFound):
        await bench.update(WIDGETS, widget("absent"))


async def test_patches(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a", {"size": 1, "replicas": 2}))
    merged = await bench.patch(WIDGETS, "a", {"spec": {"replicas": None, "size": 3}})
    assert merged["spec"] == {"size": 3, "color": "red"}
    operations = [{"op": "test", "path": "/spec/size", "value": 3}, {"op": "replace", "path": "/spec/size", "value": 4}]
    assert (await bench.patch(WIDGETS, "a", operations, "json"))["spec"]["size"] == 4
    with pytest.raises(errors.Invalid):
        await bench.patch(WIDGETS, "a", [{"op": "test", "path": "/spec/size", "value": 9}], "json")
    with pytest.raises(errors.UnsupportedMediaType):
        await bench.patch(WIDGETS, "a", {"spec": {}}, "strategic")
    with pytest.raises(errors.Conflict):
        await bench.patch(WIDGETS, "a", {"metadata": {"resourceVersion": "1"}, "spec": {"size": 9}})
    with pytest.raises(errors.BadRequest):
        await bench.patch(WIDGETS, "a", {"metadata": {"name": "b"}})
    with pytest.raises(errors.NotFound):
        await bench.patch(WIDGETS, "absent", {"spec": {}})


async def test_concurrent_patches_all_take_effect(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a"))
    await asyncio.gather(*(bench.patch(WIDGETS, "a", {"metadata": {"labels": {f"l{i}": "x"}}}) for i in range(20)))
    assert len(objects.labels(await bench.get(WIDGETS, "a"))) == 20


async def test_strategic_patch_merges_containers_by_name(bench: Bench) -> None:
    pod: Object = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": "one"}]}}
    spec: Object = {"selector": {"matchLabels": {"a": "b"}}, "template": pod}
    await bench.create(DEPLOYMENTS, make(DEPLOYMENTS, "d", spec))
    added: Object = {"spec": {"template": {"spec": {"containers": [{"name": "y", "image": "two"}]}}}}
    patched = await bench.patch(DEPLOYMENTS, "d", added, "strategic")
    names = [each["name"] for each in patched["spec"]["template"]["spec"]["containers"]]
    assert sorted(names) == ["x", "y"]
    assert patched["metadata"]["generation"] == 2


async def test_apply_creates_then_updates_then_does_nothing(bench: Bench) -> None:
    reply = await bench.call("patch", WIDGETS, "a", body=widget("a", {"size": 1}), patch="apply", fieldManager="one")
    assert reply.code == 201
    assert decoded(reply)["metadata"]["managedFields"][0]["operation"] == "Apply"
    assert decoded(reply)["spec"] == {"size": 1, "color": "red"}
    changed = await bench.apply(WIDGETS, widget("a", {"size": 2}), "one")
    assert objects.generation(changed) == 2
    revision = bench.store.revision
    bench.clock.advance(5)
    assert await bench.apply(WIDGETS, widget("a", {"size": 2}), "one") == changed
    assert bench.store.revision == revision


async def test_apply_reports_conflicts_unless_forced(bench: Bench) -> None:
    await bench.apply(WIDGETS, widget("a", {"size": 1}), "one")
    with pytest.raises(errors.Conflict) as caught:
        await bench.apply(WIDGETS, widget("a", {"size": 2}), "two")
    assert caught.value.causes[0].field == ".spec.size"
    forced = await bench.apply(WIDGETS, widget("a", {"size": 2}), "two", force="true")
    assert forced["spec"]["size"] == 2


async def test_apply_needs_a_manager(bench: Bench) -> None:
    with pytest.raises(errors.Invalid, match="fieldManager: Required value"):
        await bench.call("patch", WIDGETS, "a", body=widget("a"), patch="apply")


async def test_apply_to_the_status_of_an_absent_object_is_not_found(bench: Bench) -> None:
    with pytest.raises(errors.NotFound):
        await bench.apply(WIDGETS, {**widget("a"), "status": {}}, subresource="status")


async def test_another_version_of_a_custom_kind_shares_the_objects(bench: Bench) -> None:
    created = await bench.create(OLD_WIDGETS, make(OLD_WIDGETS, "a", {"size": 1}))
    assert created["apiVersion"] == "example.com/v1alpha1"
    assert (await bench.get(WIDGETS, "a"))["apiVersion"] == "example.com/v1"
    listed = await bench.list(OLD_WIDGETS)
    assert listed["items"][0]["apiVersion"] == "example.com/v1alpha1"
    reply = await bench.call("get", OLD_WIDGETS, "a", subresource="")
    assert decoded(reply)["spec"] == {"size": 1}
    told = "example.com/v1alpha1 Widget is deprecated; use example.com/v1 Widget"
    assert (await bench.call("list", OLD_WIDGETS)).warnings == (told,)
    assert (await bench.call("get", OLD_WIDGETS, "a")).warnings == (told,)
    with pytest.raises(errors.NotFound) as refused:
        await bench.call("get", OLD_WIDGETS, "b")
    assert refused.value.warnings == (told,)


async def test_the_manager_of_a_client_that_names_none_is_its_program(bench: Bench) -> None:
    created = await bench.create(WIDGETS, widget("a"), userAgent="kubectl/v1.34.4 (linux/amd64)")
    assert created["metadata"]["managedFields"][0]["manager"] == "kubectl"


async def test_secrets_and_config_maps(bench: Bench) -> None:
    secret: Object = {**make(SECRETS, "s"), "stringData": {"a": "b"}}
    created = await bench.create(SECRETS, secret)
    assert (created["data"], created["type"]) == ({"a": "Yg=="}, "Opaque")
    assert "generation" not in created["metadata"]
    created = await bench.create(CONFIG_MAPS, {**make(CONFIG_MAPS, "c"), "data": {"a": "b"}, "immutable": True})
    with pytest.raises(errors.Invalid):
        await bench.patch(CONFIG_MAPS, "c", {"data": {"a": "c"}})


async def test_nulls_of_built_in_kinds_are_absent_fields(bench: Bench) -> None:
    created = await bench.create(
        CONFIG_MAPS,
        {**make(CONFIG_MAPS, "c", creationTimestamp=None, labels=None), "data": {"a": None}, "immutable": None},
    )
    assert created["data"] == {"a": ""}
    assert "immutable" not in created
    assert "labels" not in created["metadata"]


async def test_empty_metadata_is_absent_metadata(bench: Bench) -> None:
    created = await bench.create(WIDGETS, widget("a", annotations={}, labels={}, finalizers=[], ownerReferences=[]))
    assert not {"annotations", "labels", "finalizers", "ownerReferences"} & created["metadata"].keys()
    revision = bench.store.revision
    await bench.patch(WIDGETS, "a", {"metadata": {"annotations": {}}})
    assert bench.store.revision == revision


async def test_namespaces_start_active(bench: Bench) -> None:
    created = await bench.create(NAMESPACES, make(NAMESPACES, "n"))
    assert created["status"] == {"phase": "Active"}
    assert created["spec"] == {"finalizers": ["kubernetes"]}
    assert objects.labels(created) == {"kubernetes.io/metadata.name": "n"}


async def test_a_custom_resource_says_what_it_is(bench: Bench) -> None:
    nameless = {"metadata": {"name": "a"}}
    missing = """Object 'Kind' is missing in '{"metadata":{"name":"a"}}'"""
    with pytest.raises(errors.BadRequest) as raised:
        await bench.create(WIDGETS, nameless)
    assert raised.value.message == f"the object provided is unrecognized (must be of type Widget): {missing}"
    with pytest.raises(errors.BadRequest) as raised:
        await bench.create(WIDGETS, nameless, fieldValidation="Ignore")
    assert raised.value.message == f'Widget in version "v1" cannot be handled as a Widget: {missing}'


async def test_warnings_are_told_with_a_refusal(bench: Bench) -> None:
    with pytest.raises(errors.Invalid) as raised:
        await bench.create(CONFIG_MAPS, {**make(CONFIG_MAPS, "a"), "datum": 1, "data": {"a/b": "x"}})
    assert raised.value.warnings == ('unknown field "datum"',)


async def test_an_update_creates_objects_of_some_built_in_kinds(bench: Bench) -> None:
    roles = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
    role = {**make(roles, "a"), "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
    created = await bench.update(roles, role)
    assert objects.uid(created)
    assert (await bench.get(roles, "a")) == created
    with pytest.raises(errors.Conflict, match=r"UID in precondition: 1, UID in object meta: $"):
        await bench.update(roles, {**make(roles, "b", uid="1"), "rules": []})
    with pytest.raises(errors.NotFound):
        await bench.update(CONFIG_MAPS, make(CONFIG_MAPS, "a"))


async def test_a_deployment_counts_changes_of_its_annotations_too(bench: Bench) -> None:
    deployments = Resource("apps", "v1", "deployments", "Deployment")
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": "one"}]}}
    await bench.create(deployments, make(deployments, "a", {"selector": {"matchLabels": {"a": "b"}}, "template": pod}))
    labelled = await bench.patch(deployments, "a", {"metadata": {"labels": {"a": "b"}}})
    assert objects.generation(labelled) == 1
    annotated = await bench.patch(deployments, "a", {"metadata": {"annotations": {"a": "b"}}})
    assert objects.generation(annotated) == 2


async def test_a_status_write_notes_who_tried_to_change_the_metadata(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a"))
    patch = {"metadata": {"labels": {"a": "b"}}, "status": {"x": 1}}
    written = await bench.patch(WIDGETS, "a", patch, subresource="status", fieldManager="m")
    assert "labels" not in written["metadata"]
    managed = [entry["fieldsV1"] for entry in written["metadata"]["managedFields"] if entry["manager"] == "m"]
    assert managed[0]["f:metadata"] == {"f:labels": {".": {}, "f:a": {}}}


async def test_a_dry_run_shows_the_version_that_an_object_came_with(bench: Bench) -> None:
    shown = await bench.create(CONFIG_MAPS, make(CONFIG_MAPS, "a", resourceVersion="5"), dryRun="All")
    assert shown["metadata"]["resourceVersion"] == "5"
    assert not await bench.exists(CONFIG_MAPS, "a")


async def test_true_is_not_the_one_that_was_there_before(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a", {"size": 1}))
    with pytest.raises(errors.Invalid, match="in body must be of type integer"):
        await bench.patch(WIDGETS, "a", {"spec": {"size": True}, "metadata": {"labels": {"a": "b"}}})


@pytest.mark.parametrize(("resource", "part"), [(PARTS, "spec"), (WIDGETS, "status")])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(1, True, id="a number becomes a truth"),
        pytest.param(False, 0, id="a truth becomes a number"),
        pytest.param([{"a": 0}, 1], [{"a": False}, 1], id="deep within"),
    ],
)
async def test_what_python_takes_for_equal_is_written(
    bench: Bench, resource: Resource, part: str, before: Any, after: Any
) -> None:
    subresource = "status" if part == "status" else ""
    await bench.create(resource, make(resource, "a"))
    old = await bench.patch(resource, "a", {part: {"free": before}}, subresource=subresource)
    new = await bench.patch(resource, "a", {part: {"free": after}}, subresource=subresource)
    assert orjson.dumps(new[part]["free"]) == orjson.dumps(after)
    assert objects.generation(new) == objects.generation(old) + (part == "spec")
    again = await bench.patch(resource, "a", {part: {"free": after}}, subresource=subresource)
    assert objects.resource_version(again) == objects.resource_version(new)
