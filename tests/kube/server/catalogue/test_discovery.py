"""Discovery in both forms names what is served, in an order that clients can rely on."""

from __future__ import annotations

from typing import Any, cast

import orjson
import pytest

from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.server.catalogue import discovery
from steelyard.kube.store.store import Store
from tests.kube.server.bench import WIDGETS, Bench

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


def document(bench: Bench, path: str, accept: str = "application/json") -> Object:
    found = bench.api.document(path, accept)
    assert found is not None
    return cast(Object, orjson.loads(found.body))


async def test_plain_documents(bench: Bench) -> None:
    assert document(bench, "/api")["versions"] == ["v1"]
    groups = [group["name"] for group in document(bench, "/apis")["groups"]]
    assert groups[-1] == "example.com"
    assert "" not in groups
    assert groups.index("apps") < groups.index("coordination.k8s.io")
    group = document(bench, "/apis/example.com")
    assert group["preferredVersion"]["version"] == "v1"
    assert [version["version"] for version in group["versions"]] == ["v1", "v1alpha1"]
    resources = {each["name"]: each for each in document(bench, "/apis/example.com/v1")["resources"]}
    assert resources["widgets"]["shortNames"] == ["wd"]
    assert resources["widgets"]["categories"] == ["all"]
    assert resources["widgets"]["singularName"] == "widget"
    assert resources["widgets/scale"]["kind"] == "Scale"
    assert resources["widgets/scale"]["group"] == "autoscaling"
    assert "widgets/status" in resources
    core = {each["name"] for each in document(bench, "/api/v1")["resources"]}
    assert {"pods", "namespaces", "namespaces/finalize", "nodes/status"} <= core
    assert "pods/exec" not in core, "what is not served is not listed"


async def test_the_aggregated_form_is_negotiated(bench: Bench) -> None:
    found = bench.api.document("/apis", AGGREGATED)
    assert found is not None
    assert found.content_type == discovery.AGGREGATED_V2
    items = {item["metadata"]["name"]: item for item in orjson.loads(found.body)["items"]}
    versions = cast("list[Any]", items["example.com"]["versions"])
    assert [version["version"] for version in versions] == ["v1", "v1alpha1"]
    widgets = next(each for each in versions[0]["resources"] if each["resource"] == "widgets")
    assert widgets["responseKind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert widgets["scope"] == "Namespaced"
    assert {each["subresource"] for each in widgets["subresources"]} == {"status", "scale"}
    core = document(bench, "/api", AGGREGATED)
    assert core["items"][0]["versions"][0]["version"] == "v1"
    resources = {each["resource"]: each for each in core["items"][0]["versions"][0]["resources"]}
    assert resources["configmaps"]["responseKind"] == {"group": "", "version": "", "kind": "ConfigMap"}
    token = resources["serviceaccounts"]["subresources"][0]
    assert token["responseKind"] == {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}


async def test_a_version_of_the_aggregated_form_that_is_gone_is_passed_over(bench: Bench) -> None:
    gone = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
    assert document(bench, "/apis", gone)["kind"] == "APIGroupList"


async def test_the_etag_changes_with_the_content(bench: Bench) -> None:
    before, again = bench.api.document("/apis", AGGREGATED), bench.api.document("/apis", AGGREGATED)
    assert before is not None
    assert before is again
    await bench.delete(CUSTOM_RESOURCE_DEFINITIONS, "parts.example.com")
    after = bench.api.document("/apis", AGGREGATED)
    assert after is not None
    assert after.etag == before.etag or after.body != before.body


@pytest.mark.parametrize("path", ["/apis/nobody", "/apis/apps/v9", "/api/v2", "/apis/a/b/c", "/other", "/apisx", "/"])
async def test_paths_that_are_no_documents(bench: Bench, path: str) -> None:
    assert bench.api.document(path, "application/json") is None


async def test_servers_without_definitions_share_their_documents(store: Store) -> None:
    one = await Bench.start(store, space="one", define=False)
    two = await Bench.start(store, space="two", define=False)
    assert one.api.document("/apis", AGGREGATED) is two.api.document("/apis", AGGREGATED)
    await one.api.close()
    await two.api.close()


async def test_openapi_is_served_beside(bench: Bench) -> None:
    assert f"apis/{WIDGETS.api_version}" in document(bench, "/openapi/v3")["paths"]
