"""Server-side apply as a client meets it."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, SECRETS, Resource
from tests.kube.server.bench import WIDGETS, Bench, make, widget

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
SERVICES = Resource("", "v1", "services", "Service")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
POD: Object = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": "one"}]}}
SPEC: Object = {"selector": {"matchLabels": {"a": "b"}}, "template": POD}


async def apply(bench: Bench, resource: Resource, body: Object, **options: str) -> Object:
    name = body["metadata"].get("name") or "a"
    return await bench.patch(resource, name, body, "apply", **{"fieldManager": "m", **options})


async def test_structures_have_no_owner_for_their_being_there(bench: Bench) -> None:
    created = await bench.create(DEPLOYMENTS, make(DEPLOYMENTS, "d", SPEC), fieldManager="u")
    spec = created["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert "." not in spec
    assert "." not in spec["f:strategy"]
    assert spec["f:strategy"]["f:rollingUpdate"]["."] == {}, "a pointer is somebody's"
    assert spec["f:template"]["f:spec"]["f:containers"]['k:{"name":"x"}']["f:resources"] == {}
    assert created["status"] == {}


async def test_what_the_server_fills_in_is_no_change(bench: Bench) -> None:
    body = {**make(CONFIG_MAPS, "a", creationTimestamp=None), "data": {"k": "v"}}
    first = await apply(bench, CONFIG_MAPS, body)
    assert await apply(bench, CONFIG_MAPS, body) == first


async def test_an_empty_map_is_owned_and_not_shown(bench: Bench) -> None:
    applied = await apply(bench, CONFIG_MAPS, {**make(CONFIG_MAPS, "a", labels={}), "data": {}})
    assert "data" not in applied
    assert applied["metadata"]["managedFields"][0]["fieldsV1"] == {"f:data": {}, "f:metadata": {"f:labels": {}}}


async def test_a_custom_resource_is_refused_the_null_that_is_left_of_a_list(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a", {"ports": [{"name": "x"}]}), fieldManager="u")
    await apply(bench, WIDGETS, widget("a", {"ports": [{"name": "y"}]}))
    await bench.patch(WIDGETS, "a", {"spec": {"ports": [{"name": "y"}]}}, fieldManager="u")
    with pytest.raises(errors.Invalid, match=r'spec.ports in body must be of type array: "null"'):
        await apply(bench, WIDGETS, widget("a", {}))


@pytest.mark.parametrize(
    ("resource", "body", "message"),
    [
        pytest.param(
            SERVICES,
            make(SERVICES, "a", {"ports": [{"port": 80, "targetPort": {"a": "b"}}]}),
            "failed to convert new object (/a; /v1, Kind=Service) to proper version: unable to convert "
            "unstructured object to /v1, Kind=Service: json: cannot unmarshal object into Go value of type int32",
            id="a map for a port",
        ),
        pytest.param(
            SECRETS,
            {**make(SECRETS, "a"), "data": {"k": "%%%"}},
            "failed to convert new object (/a; /v1, Kind=Secret) to proper version: unable to convert "
            "unstructured object to /v1, Kind=Secret: error decoding from json: illegal base64 data at input byte 0",
            id="no base64",
        ),
        pytest.param(
            DEPLOYMENTS,
            make(DEPLOYMENTS, "a", {"replicas": "1"}),
            "failed to create typed patch object (/a; apps/v1, Kind=Deployment): "
            ".spec.replicas: expected numeric (int or float), got string",
            id="a text for a number",
        ),
    ],
)
async def test_what_a_built_in_kind_cannot_hold(bench: Bench, resource: Resource, body: Any, message: str) -> None:
    with pytest.raises(errors.Unclassified) as raised:
        await apply(bench, resource, body)
    assert raised.value.message == message
    assert "reason" not in raised.value.status()


async def test_a_container_without_a_name_is_judged_by_the_kind(bench: Bench) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {**POD, "spec": {"containers": [{"image": "x"}]}}}
    with pytest.raises(errors.Invalid, match=r"spec.template.spec.containers\[0\].name: Required value"):
        await apply(bench, DEPLOYMENTS, make(DEPLOYMENTS, "a", spec))


async def test_an_empty_list_that_go_always_writes_is_null(bench: Bench) -> None:
    applied = await apply(bench, ROLES, {**make(ROLES, "a"), "rules": []})
    assert applied["rules"] is None
    assert applied["metadata"]["managedFields"][0]["fieldsV1"] == {"f:rules": {}}


async def test_a_headless_service_for_anyones_endpoints_has_both_families(bench: Bench) -> None:
    applied = await apply(bench, SERVICES, make(SERVICES, "a", {"clusterIP": "None", "ports": [{"port": 80}]}))
    assert applied["spec"]["ipFamilies"] == ["IPv4", "IPv6"]
    assert applied["spec"]["ipFamilyPolicy"] == "RequireDualStack"


async def test_an_apply_must_name_what_it_applies(bench: Bench) -> None:
    with pytest.raises(errors.BadRequest, match="was undeterminable: name must be provided"):
        await apply(bench, CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})
    await apply(bench, CONFIG_MAPS, make(CONFIG_MAPS, "a"))
    await apply(bench, CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"k": "v"}})


async def test_another_uid_is_a_change_that_is_not_allowed(bench: Bench) -> None:
    with pytest.raises(errors.Conflict, match="uid mismatch: the provided object specified uid 1, and no existing"):
        await apply(bench, CONFIG_MAPS, make(CONFIG_MAPS, "a", uid="1"))
    await apply(bench, CONFIG_MAPS, make(CONFIG_MAPS, "a"))
    with pytest.raises(errors.Invalid, match=r"metadata.uid: Invalid value: .*: field is immutable"):
        await apply(bench, CONFIG_MAPS, make(CONFIG_MAPS, "a", uid="1"))


async def test_entries_without_fields_are_dropped(bench: Bench) -> None:
    entry: Object = {"manager": "f", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    created = await bench.create(CONFIG_MAPS, {**make(CONFIG_MAPS, "a"), "data": {"k": "v"}})
    sent: Object = {
        **created,
        "metadata": {**created["metadata"], "managedFields": [{**entry, "fieldsV1": {"x:data": {}}}]},
    }
    updated = await bench.update(CONFIG_MAPS, sent)
    assert "managedFields" not in updated["metadata"]


async def test_a_dry_run_gives_back_the_version_that_the_applier_believed_in(bench: Bench) -> None:
    body = make(CONFIG_MAPS, "a", resourceVersion="1")
    assert (await apply(bench, CONFIG_MAPS, body, dryRun="All"))["metadata"]["resourceVersion"] == "1"
    assert (await apply(bench, CONFIG_MAPS, body))["metadata"]["resourceVersion"] != "1"
