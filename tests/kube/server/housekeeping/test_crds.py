"""CustomResourceDefinitions are served as soon as they are written, and leave nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from steelyard.kube import errors, objects
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from steelyard.kube.server.definitions import crdstatus
from steelyard.kube.server.housekeeping import crds
from steelyard.kube.store.store import Store
from tests.kube.server.bench import (
    PARTS,
    WIDGETS,
    Bench,
    eventually,
    make,
    simple_definition,
    take,
    widget,
    widget_definition,
)  # fmt: skip

GADGETS = Resource("example.com", "v1", "gadgets", "Gadget")
HOLD = "example.com/hold"
CRD = CUSTOM_RESOURCE_DEFINITIONS.plural


async def test_a_definition_is_served_when_its_create_returns(bench: Bench) -> None:
    created = await bench.create(CUSTOM_RESOURCE_DEFINITIONS, simple_definition(GADGETS))
    asked = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]}
    assert created["status"] == asked
    await bench.create(GADGETS, make(GADGETS, "a"))
    served = await bench.get(CUSTOM_RESOURCE_DEFINITIONS, GADGETS.group_resource)
    conditions = {each["type"]: each["status"] for each in served["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert served["status"]["acceptedNames"]["listKind"] == "GadgetList"


async def test_a_definition_that_went_before_it_was_durable_is_not_served(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_gone = asyncio.Event()
    settled: list[str] = []

    async def slowly(store: Store, key: str) -> None:
        settled.append(key)
        if len(settled) == 1:
            await is_gone.wait()

    monkeypatch.setattr(Store, "settled", slowly)
    creating = asyncio.create_task(bench.create(CUSTOM_RESOURCE_DEFINITIONS, simple_definition(GADGETS)))
    await eventually(lambda: bench.store.get(f"main/apiextensions.k8s.io/{CRD}/{GADGETS.group_resource}") is not None)
    await bench.delete(CUSTOM_RESOURCE_DEFINITIONS, GADGETS.group_resource)
    await eventually(lambda: bench.store.get(f"main/apiextensions.k8s.io/{CRD}/{GADGETS.group_resource}") is None)
    is_gone.set()
    await creating
    with pytest.raises(errors.NotFound):
        await bench.create(GADGETS, make(GADGETS, "a"))


async def test_watches_of_a_kind_end_with_its_definition_after_its_last_event(bench: Bench) -> None:
    await bench.create(CUSTOM_RESOURCE_DEFINITIONS, simple_definition(GADGETS))
    stream = await bench.watch(GADGETS, resourceVersion=str(bench.store.revision))
    await bench.create(GADGETS, make(GADGETS, "a"))
    await bench.delete(CUSTOM_RESOURCE_DEFINITIONS, GADGETS.group_resource)
    async with asyncio.timeout(60):
        events = [event.type async for event in stream]
    assert events == ["ADDED", "DELETED"]


async def test_watchers_see_a_definition_become_established_and_go(bench: Bench) -> None:
    stream = await bench.watch(CUSTOM_RESOURCE_DEFINITIONS, namespace="", resourceVersion=str(bench.store.revision))
    await bench.create(CUSTOM_RESOURCE_DEFINITIONS, simple_definition(GADGETS))
    await bench.delete(CUSTOM_RESOURCE_DEFINITIONS, GADGETS.group_resource)
    events = [
        (event.type, [(each["type"], each["reason"]) for each in event.object["status"]["conditions"] or ()])
        for event in await take(stream, 6)
    ]
    stream.close()
    accepted, installing = ("NamesAccepted", "NoConflicts"), ("Established", "Installing")
    established = ("Established", "InitialNamesAccepted")
    pending, underway = ("Terminating", "InstanceDeletionPending"), ("Terminating", "InstanceDeletionInProgress")
    assert events == [
        ("ADDED", []),
        ("MODIFIED", [accepted, installing]),
        ("MODIFIED", [accepted, established]),
        ("MODIFIED", [accepted, established, pending]),
        ("MODIFIED", [accepted, established, underway]),
        ("DELETED", [accepted, established, underway]),
    ]


async def test_applying_a_definition_again_writes_nothing(bench: Bench) -> None:
    await bench.apply(CUSTOM_RESOURCE_DEFINITIONS, simple_definition(GADGETS))
    revision = bench.store.revision
    await bench.apply(CUSTOM_RESOURCE_DEFINITIONS, simple_definition(GADGETS))
    await bench.update(
        CUSTOM_RESOURCE_DEFINITIONS, await bench.get(CUSTOM_RESOURCE_DEFINITIONS, GADGETS.group_resource)
    )
    assert bench.store.revision == revision


async def test_a_changed_schema_counts_at_once(bench: Bench) -> None:
    operation = {
        "op": "add",
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/weight",
        "value": {"type": "integer"},
    }
    await bench.patch(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS.group_resource, [operation], "json")
    assert (await bench.create(WIDGETS, widget("a", {"weight": 3})))["spec"]["weight"] == 3


async def test_a_version_that_is_served_no_more_is_not_found(bench: Bench) -> None:
    operation = {"op": "replace", "path": "/spec/versions/1/served", "value": False}
    await bench.patch(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS.group_resource, [operation], "json")
    with pytest.raises(errors.NotFound):
        await bench.list(Resource("example.com", "v1alpha1", "widgets", "Widget"))
    assert await bench.names(WIDGETS) == []


async def test_a_bad_definition_is_refused(bench: Bench) -> None:
    definition = simple_definition(GADGETS)
    definition["spec"]["versions"] = []
    with pytest.raises(errors.Invalid, match=r"spec\.versions"):
        await bench.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    misnamed = simple_definition(GADGETS)
    misnamed["metadata"]["name"] = "gizmos.example.com"
    with pytest.raises(errors.Invalid, match=r"metadata\.name"):
        await bench.create(CUSTOM_RESOURCE_DEFINITIONS, misnamed)


async def test_names_that_are_taken_are_not_served_until_they_are_free(bench: Bench) -> None:
    clashing = simple_definition(GADGETS)
    clashing["spec"]["names"]["shortNames"] = ["wd"]
    await bench.create(CUSTOM_RESOURCE_DEFINITIONS, clashing)
    refused = await bench.get(CUSTOM_RESOURCE_DEFINITIONS, GADGETS.group_resource)
    assert _condition(refused, "NamesAccepted") == "False"
    with pytest.raises(errors.NotFound):
        await bench.list(GADGETS)
    await bench.delete(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS.group_resource)

    async def is_served() -> bool:
        definition = await bench.get(CUSTOM_RESOURCE_DEFINITIONS, GADGETS.group_resource)
        return _condition(definition, "Established") == "True"

    await eventually(is_served)
    await eventually(lambda: _is_listed(bench))


async def test_a_deleted_definition_takes_its_objects_along(bench: Bench) -> None:
    for index in range(20):
        await bench.create(WIDGETS, widget(f"w{index}"))
    await bench.create(WIDGETS, widget("held", finalizers=[HOLD]))
    stream = await bench.watch(WIDGETS, resourceVersion=str(bench.store.revision), labelSelector="x!=y")
    marked = await bench.delete(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS.group_resource)
    assert objects.finalizers(marked) == [crdstatus.FINALIZER]
    assert len(await take(stream, 20)) == 20
    stream.close()
    with pytest.raises(errors.Forbidden, match=r'"late" is forbidden: create not allowed while .* is terminating'):
        await bench.create(WIDGETS, widget("late"))

    async def reports() -> bool:
        definition = await bench.get(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS.group_resource)
        return _condition(definition, "Terminating") == "True" and await bench.names(WIDGETS) == ["held"]

    await eventually(reports)
    await bench.patch(WIDGETS, "held", {"metadata": {"finalizers": None}})
    await eventually(lambda: _is_gone(bench))
    with pytest.raises(errors.NotFound, match="could not find the requested resource"):
        await bench.list(WIDGETS)
    await bench.create(CUSTOM_RESOURCE_DEFINITIONS, widget_definition())
    assert await bench.names(WIDGETS) == []


async def test_a_restart_serves_what_was_defined(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a"))
    await bench.api.close()
    again = await Bench.start(bench.store, define=False)
    assert await again.names(WIDGETS) == ["a"]
    assert await again.names(PARTS) == []
    await again.api.close()


async def test_servers_share_what_a_definition_describes(bench: Bench) -> None:
    definition = await bench.get(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS.group_resource)
    assert crds.served_by(definition) == crds.served_by(objects.copy(definition))


async def test_many_definitions_at_once(bench: Bench) -> None:
    resources = [Resource("bulk.example.com", "v1", f"kind{index}s", f"Kind{index}") for index in range(30)]
    await asyncio.gather(
        *(bench.apply(CUSTOM_RESOURCE_DEFINITIONS, simple_definition(resource)) for resource in resources)
    )
    for resource in resources:
        assert await bench.names(resource) == []


def _condition(definition: objects.Object, type_: str) -> str:
    conditions = objects.sequence(objects.at(definition, "status", "conditions"))
    return next((str(each["status"]) for each in conditions if each["type"] == type_), "")


async def _is_gone(bench: Bench) -> bool:
    return not await bench.exists(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS.group_resource)


async def _is_listed(bench: Bench) -> bool:
    try:
        return await bench.names(GADGETS) == []
    except errors.NotFound:
        return False


async def test_a_protected_group_is_told_whether_it_is_approved(bench: Bench) -> None:
    resource = Resource("example.k8s.io", "v1", "gadgets", "Gadget")
    definition = simple_definition(resource)
    with pytest.raises(errors.Invalid, match=r"metadata\.annotations\[api-approved\.kubernetes\.io\]: Required value"):
        await bench.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    definition["metadata"]["annotations"] = {crdstatus.APPROVAL: "https://example.com/pull/1"}
    await bench.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    served = await bench.get(CUSTOM_RESOURCE_DEFINITIONS, resource.group_resource)
    assert _condition(served, "KubernetesAPIApprovalPolicyConformant") == "True"


async def test_metadata_of_embedded_objects_is_read_as_metadata(bench: Bench) -> None:
    template = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    await bench.create(CUSTOM_RESOURCE_DEFINITIONS, _definition_with({"template": template}))
    inner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"a": 1}}}
    wanted = (
        r"spec\.template\.metadata: Invalid value: .* cannot unmarshal number into Go struct field ObjectMeta\.labels"
    )
    with pytest.raises(errors.BadRequest, match=wanted):
        await bench.create(GADGETS, make(GADGETS, "a", {"template": inner}))


async def test_what_the_stored_version_does_not_know_is_lost(bench: Bench) -> None:
    definition = _definition_with({"a": {"type": "string"}})
    newer = objects.copy(definition)["spec"]["versions"][0]
    newer.update(name="v2", storage=False)
    newer["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["b"] = {"type": "string"}
    definition["spec"]["versions"].append(newer)
    await bench.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    later = Resource(GADGETS.group, "v2", GADGETS.plural, GADGETS.kind)
    created = await bench.create(later, make(later, "a", {"a": "x", "b": "y"}))
    assert created["spec"] == {"a": "x"}
    assert (await bench.get(GADGETS, "a"))["spec"] == {"a": "x"}


async def test_a_refused_definition_is_printed_as_upstream_holds_it(bench: Bench) -> None:
    definition = simple_definition(GADGETS)
    definition["spec"]["versions"][0]["storage"] = False
    with pytest.raises(errors.Invalid) as refused:
        await bench.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    assert [cause.field for cause in refused.value.causes] == ["spec.versions", "status.storedVersions"]
    assert refused.value.causes[0].message == (
        'Invalid value: [{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,'
        '"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]: must have '
        "exactly one version marked as storage version"
    )


def _definition_with(properties: objects.Object) -> objects.Object:
    definition = simple_definition(GADGETS)
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    definition["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    return definition
