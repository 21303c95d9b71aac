"""The OpenAPI documents describe what is served, in the way kubectl reads them."""

import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, cast

import orjson
import pytest

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.catalogue.discovery import Discovery
from steelyard.kube.server.catalogue.registry import Registry, Served
from steelyard.kube.server.housekeeping import crds
from steelyard.kube.server.openapi import components, openapi
from steelyard.kube.server.openapi.openapi import OpenApi

WIDGETS = Resource("shop.example.com", "v1", "widgets", "Widget")
SCHEMA: Object = {
    "type": "object",
    "description": "Something to sell.",
    "required": ["spec"],
    "properties": {
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "default": 3, "description": "How large it is."},
                "ports": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"port": {"type": "integer"}}},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port"],
                },
                "limit": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
    },
}


def widgets(schema: Object = SCHEMA) -> tuple[Served, ...]:
    names: Object = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    version: Object = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
    }
    return crds.served_by(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.shop.example.com"},
            "spec": {"group": WIDGETS.group, "scope": "Namespaced", "names": names, "versions": [version]},
            "status": {"acceptedNames": names, "conditions": [{"type": "Established", "status": "True"}]},
        }
    )


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.serve("widgets.shop.example.com", widgets())
    return registry


def read(documents: OpenApi, path: str) -> Object:
    document = documents.document(path, "application/json")
    assert document is not None
    assert document.code == 200
    return cast(Object, orjson.loads(document.body))


def code(documents: OpenApi, path: str, accept: str = "") -> int:
    document = documents.document(path, accept)
    assert document is not None
    return document.code


def component(document: Object, name: str) -> Object:
    return objects.mapping(objects.at(document, "components", "schemas", name))


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in cast(Object, value).items():
            if key == "$ref" and isinstance(inner, str):
                yield inner
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from references(inner)


def test_the_index_names_every_group_and_version(registry: Registry) -> None:
    paths = read(OpenApi(registry), "/openapi/v3")["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/autoscaling/v2", "apis/shop.example.com/v1"} <= set(paths)
    url = paths["apis/shop.example.com/v1"]["serverRelativeURL"]
    assert url.startswith("/openapi/v3/apis/shop.example.com/v1?hash=")


def test_every_document_refers_only_to_what_it_contains(registry: Registry) -> None:
    documents = OpenApi(registry)
    for path in read(documents, "/openapi/v3")["paths"]:
        document = read(documents, f"/openapi/v3/{path}")
        known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert set(references(document)) <= known, path


def test_a_hash_changes_with_the_definition_and_only_then(registry: Registry) -> None:
    documents = OpenApi(registry)
    before = read(documents, "/openapi/v3")["paths"]
    changed = {**SCHEMA, "description": "Something else."}
    registry.serve("widgets.shop.example.com", widgets(changed))
    after = read(documents, "/openapi/v3")["paths"]
    assert before["apis/shop.example.com/v1"] != after["apis/shop.example.com/v1"]
    assert before["api/v1"] == after["api/v1"]


def test_a_definition_that_goes_takes_its_document_along(registry: Registry) -> None:
    documents = OpenApi(registry)
    assert code(documents, "/openapi/v3/apis/shop.example.com/v1") == 200
    registry.serve("widgets.shop.example.com", ())
    assert code(documents, "/openapi/v3/apis/shop.example.com/v1") == 404
    assert "apis/shop.example.com/v1" not in read(documents, "/openapi/v3")["paths"]


def test_built_in_documents_are_shared_between_servers(registry: Registry) -> None:
    one = OpenApi(registry).document("/openapi/v3/apis/apps/v1", "")
    assert one is OpenApi(Registry()).document("/openapi/v3/apis/apps/v1", "")


def test_a_custom_kind_is_published_as_its_definition_says(registry: Registry) -> None:
    widget = component(read(OpenApi(registry), "/openapi/v3/apis/shop.example.com/v1"), "com.example.shop.v1.Widget")
    assert widget["x-kubernetes-group-version-kind"] == [{"group": WIDGETS.group, "version": "v1", "kind": "Widget"}]
    assert widget["description"] == "Something to sell."
    assert widget["properties"]["spec"] == SCHEMA["properties"]["spec"]
    assert widget["properties"]["apiVersion"] == {"type": "string"}
    assert widget["properties"]["metadata"]["allOf"][0]["$ref"].endswith("meta.v1.ObjectMeta")


def test_a_built_in_kind_carries_what_merging_needs() -> None:
    document = read(OpenApi(Registry()), "/openapi/v3/apis/apps/v1")
    deployment = component(document, "io.k8s.api.apps.v1.Deployment")
    assert deployment["x-kubernetes-group-version-kind"] == [{"group": "apps", "version": "v1", "kind": "Deployment"}]
    ports = component(document, "io.k8s.api.core.v1.Container")["properties"]["ports"]
    assert ports == {
        "type": "array",
        "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.ContainerPort"},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": "containerPort",
    }


def test_patching_takes_the_parameters_kubectl_looks_for(registry: Registry) -> None:
    documents = OpenApi(registry)
    for path, item in (
        ("apis/shop.example.com/v1", "/apis/shop.example.com/v1/namespaces/{namespace}/widgets/{name}"),
        ("api/v1", "/api/v1/namespaces/{name}"),
    ):
        patch = read(documents, f"/openapi/v3/{path}")["paths"][item]["patch"]
        names = {parameter["name"] for parameter in patch["parameters"] if parameter["in"] == "query"}
        assert {"dryRun", "fieldManager", "fieldValidation", "force"} <= names


def test_only_built_in_kinds_take_strategic_patches(registry: Registry) -> None:
    documents = OpenApi(registry)
    strategic = "application/strategic-merge-patch+json"
    custom = read(documents, "/openapi/v3/apis/shop.example.com/v1")["paths"]
    content = custom["/apis/shop.example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]["requestBody"][
        "content"
    ]
    assert strategic not in content
    builtin = read(documents, "/openapi/v3/api/v1")["paths"]["/api/v1/nodes/{name}"]["patch"]["requestBody"]["content"]
    assert strategic in builtin


def test_subresources_have_paths_of_their_own(registry: Registry) -> None:
    paths = read(OpenApi(registry), "/openapi/v3/apis/shop.example.com/v1")["paths"]
    item = "/apis/shop.example.com/v1/namespaces/{namespace}/widgets/{name}"
    scale = paths[f"{item}/scale"]["get"]
    assert scale["x-kubernetes-group-version-kind"] == {"group": WIDGETS.group, "version": "v1", "kind": "Widget"}
    assert scale["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].endswith("autoscaling.v1.Scale")
    assert paths[f"{item}/status"]["put"]["x-kubernetes-action"] == "put"
    identifiers = [
        operation["operationId"]
        for operations in paths.values()
        for method, operation in operations.items()
        if method != "parameters"
    ]
    assert len(identifiers) == len(set(identifiers))


@pytest.mark.parametrize(
    ("path", "accept", "expected"),
    [
        pytest.param("/openapi/v3", "text/html", 200, id="the index is for everybody"),
        pytest.param("/openapi/v3/api/v1", "application/*", 200, id="any of a type"),
        pytest.param("/openapi/v3/api/v1", "*/*", 200, id="anything"),
        pytest.param("/openapi/v3/api/v1", "text/html, application/json;q=0.1", 200, id="the second choice"),
        pytest.param("/openapi/v3/api/v1", "application/yaml", 406, id="YAML"),
        pytest.param("/openapi/v3/api/v9", "", 404, id="no such version"),
        pytest.param("/openapi/v3/api/v9", "text/html", 404, id="in any form"),
        pytest.param("/openapi/v3/", "", 404, id="a slash too many"),
        pytest.param("/openapi/v2", "text/html", 406, id="version 2 as a page"),
    ],
)
def test_a_document_is_there_in_a_form_that_is_accepted(
    registry: Registry, path: str, accept: str, expected: int
) -> None:
    assert code(OpenApi(registry), path, accept) == expected


def test_a_document_is_found_by_the_hash_in_the_index(registry: Registry) -> None:
    documents = OpenApi(registry)
    for key, listed in read(documents, "/openapi/v3")["paths"].items():
        document = documents.document(f"/openapi/v3/{key}", "")
        assert document is not None
        assert document.hashed
        assert listed["serverRelativeURL"] == f"/openapi/v3/{key}?hash={document.etag}"


@pytest.mark.parametrize(
    ("method", "path", "name", "codes", "parameters"),
    [
        ("delete", "/widgets", "deleteShopExampleComV1CollectionNamespacedWidget", ["200", "401"], 10),
        ("post", "/widgets", "createShopExampleComV1NamespacedWidget", ["200", "201", "202", "401"], 3),
        ("get", "/widgets/{name}", "readShopExampleComV1NamespacedWidget", ["200", "401"], 1),
        ("put", "/widgets/{name}", "replaceShopExampleComV1NamespacedWidget", ["200", "201", "401"], 3),
        ("delete", "/widgets/{name}", "deleteShopExampleComV1NamespacedWidget", ["200", "202", "401"], 5),
    ],
)
def test_an_operation_names_its_answers_and_parameters(
    registry: Registry, method: str, path: str, name: str, codes: list[str], parameters: int
) -> None:
    paths = read(OpenApi(registry), "/openapi/v3/apis/shop.example.com/v1")["paths"]
    operation = paths[f"/apis/shop.example.com/v1/namespaces/{{namespace}}{path}"][method]
    assert operation["operationId"] == name
    assert operation["tags"] == ["shopExampleCom_v1"]
    assert sorted(operation["responses"]) == codes
    assert len(operation["parameters"]) == parameters


def test_parameters_of_all_operations_are_the_paths(registry: Registry) -> None:
    everywhere = read(OpenApi(registry), "/openapi/v3/apis/shop.example.com/v1")["paths"][
        "/apis/shop.example.com/v1/widgets"
    ]
    assert "parameters" not in everywhere["get"]
    assert {"watch", "limit", "pretty"} <= {each["name"] for each in everywhere["parameters"]}


_EITHER: Final = [{"type": "integer"}, {"type": "string"}]


@pytest.mark.parametrize(
    ("given", "added"),
    [
        pytest.param({}, {"anyOf": _EITHER}, id="nothing said"),
        pytest.param({"anyOf": _EITHER}, {}, id="said"),
        pytest.param({"allOf": [{"anyOf": _EITHER}, {"pattern": "a"}]}, {}, id="said among others"),
        pytest.param({"anyOf": [{"minimum": 1}]}, {"allOf": [{"anyOf": _EITHER}]}, id="something else said"),
    ],
)
def test_a_number_or_text_names_both_types(given: Object, added: Object) -> None:
    ratio: Object = {"x-kubernetes-int-or-string": True, **given}
    published = components.custom(WIDGETS, {"type": "object", "properties": {"ratio": ratio}}, [".spec.size"])
    assert published["properties"]["ratio"] == {**ratio, **added}
    assert published["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.size"}]


def test_an_embedded_object_has_the_fields_of_every_object() -> None:
    schema: Object = {
        "type": "object",
        "properties": {
            "parts": {
                "type": "array",
                "items": {"type": "object", "x-kubernetes-embedded-resource": True, "required": ["spec"]},
            },
            "spec": {"type": "object"},
        },
    }
    registry = Registry()
    registry.serve("widgets.shop.example.com", widgets(schema))
    widget = component(read(OpenApi(registry), "/openapi/v3/apis/shop.example.com/v1"), "com.example.shop.v1.Widget")
    part = widget["properties"]["parts"]["items"]
    assert set(part["properties"]) == {"apiVersion", "kind", "metadata"}
    assert part["required"] == ["spec", "kind", "apiVersion"]
    assert widget["properties"]["spec"] == {"type": "object"}


def test_other_paths_are_not_documents(registry: Registry) -> None:
    documents = OpenApi(registry)
    for path in ("/openapi", "/openapi/v4", "/openapi/v2/", "/apis"):
        assert documents.document(path, "") is None


class Handler(BaseHTTPRequestHandler):
    """Answers what kubectl asks before it explains a kind: discovery and OpenAPI."""

    discovery: Discovery
    documents: OpenApi

    def do_GET(self) -> None:
        path, accept = self.path.partition("?")[0], self.headers.get("Accept", "")
        found = self.documents.document(path, accept) or self.discovery.document(path, accept)
        body = found.body if found else b"{}"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", found.content_type if found else openapi.JSON)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not news."""


@pytest.fixture
def server(registry: Registry) -> Iterator[str]:
    handler = type("Serving", (Handler,), {"discovery": Discovery(registry), "documents": OpenApi(registry)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


@pytest.mark.kubectl
def test_kubectl_explains_custom_and_built_in_kinds(kubectl: str, server: str, tmp_path: Path) -> None:
    def explain(path: str) -> str:
        command = [kubectl, f"--server={server}", f"--cache-dir={tmp_path}", "explain", path]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout

    assert "Something to sell." in explain("widgets")
    spec = explain("widget.spec")
    assert "size\t<integer> -required-" in spec
    assert "How large it is." in spec
    assert "enum: Recreate, RollingUpdate" in explain("deployments.spec.strategy")
    assert "name\t<string> -required-" in explain("pods.spec.containers")
