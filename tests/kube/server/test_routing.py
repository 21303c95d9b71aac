from __future__ import annotations

import pytest

from steelyard.kube import errors
from steelyard.kube.server import routing
from steelyard.kube.server.routing import Route


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        ("GET /api/v1/pods", Route("list", "", "v1", "pods")),
        ("HEAD /api/v1/pods", Route("list", "", "v1", "pods", regular=False)),
        ("PUT /api/v1/pods", Route("update", "", "v1", "pods", regular=False)),
        ("POST /api/v1/namespaces/a/pods/b", Route("create", "", "v1", "pods", "a", "b", regular=False)),
        ("OPTIONS /api/v1/pods", Route("", "", "v1", "pods", regular=False)),
        ("POST /api/v1/watch/pods", Route("watch", "", "v1", "pods", regular=False)),
        ("GET /api/v1/pods?watch=true", Route("watch", "", "v1", "pods")),
        ("GET /api/v1/pods?watch=1", Route("watch", "", "v1", "pods")),
        ("GET /api/v1/pods?watch", Route("watch", "", "v1", "pods")),
        ("GET /api/v1/pods?watch=false", Route("list", "", "v1", "pods")),
        ("GET /api/v1/pods?watch=0", Route("list", "", "v1", "pods")),
        ("POST /api/v1/namespaces/a/pods", Route("create", "", "v1", "pods", "a")),
        ("DELETE /api/v1/namespaces/a/pods", Route("deletecollection", "", "v1", "pods", "a")),
        ("GET /api/v1/namespaces", Route("list", "", "v1", "namespaces")),
        ("GET /api/v1/namespaces/a", Route("get", "", "v1", "namespaces", "", "a")),
        ("GET /api/v1/namespaces/a?watch=true", Route("get", "", "v1", "namespaces", "", "a")),
        ("PUT /api/v1/namespaces/a/status", Route("update", "", "v1", "namespaces", "", "a", "status")),
        ("PUT /api/v1/namespaces/a/finalize", Route("update", "", "v1", "namespaces", "", "a", "finalize")),
        ("GET /api/v1/namespaces/a/pods/b", Route("get", "", "v1", "pods", "a", "b")),
        ("GET /api/v1/namespaces/a/pods/b/", Route("get", "", "v1", "pods", "a", "b")),
        ("POST /api/v1/namespaces/a/pods/b/eviction", Route("create", "", "v1", "pods", "a", "b", "eviction")),
        ("PATCH /apis/g/v1/namespaces/a/things/b/scale", Route("patch", "g", "v1", "things", "a", "b", "scale")),
        ("DELETE /apis/x.io/v1/things/b", Route("delete", "x.io", "v1", "things", "", "b")),
        ("GET /api/v1/watch/pods", Route("watch", "", "v1", "pods")),
        ("GET /apis/apps/v1/watch/namespaces/a/deployments", Route("watch", "apps", "v1", "deployments", "a")),
    ],
)  # fmt: skip
def test_paths_and_methods_mean_what_kubernetes_means(request_line: str, expected: Route) -> None:
    method, url = request_line.split()
    path, _, query = url.partition("?")
    assert routing.route(method, path, routing.query(query.encode())) == expected


@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/api", "/api/", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/version"]
)
def test_paths_that_name_no_resource(path: str) -> None:
    assert routing.route("GET", path, {}) is None


def test_a_legacy_watch_of_one_object_selects_it_by_name() -> None:
    options: dict[str, str] = {}
    assert routing.route("GET", "/api/v1/watch/namespaces/a/pods/b", options) == Route("watch", "", "v1", "pods", "a")
    assert options == {"fieldSelector": "metadata.name=b"}


@pytest.mark.parametrize("path", ["/api/v1/namespaces/a/pods/b/proxy/x", "/api/v1//pods", "/api/v1/namespaces//pods"])
def test_a_path_that_can_mean_nothing_is_not_found(path: str) -> None:
    with pytest.raises(errors.NotFound):
        routing.route("GET", path, {})


@pytest.mark.parametrize(
    ("path", "is_status"),
    [("/api/v9", True), ("/apis/apps/v9", True), ("/apis/none.example.com/v1", False), ("/nowhere", False)],
)
def test_what_is_not_there_is_told_with_a_status_only_in_groups_of_kubernetes_own(path: str, is_status: bool) -> None:
    assert isinstance(routing.not_found(path), errors.NoSuchPath) != is_status


def test_query_parameters_are_decoded_and_the_first_counts() -> None:
    found = routing.query(b"labelSelector=a%3Db%2Cc&limit=5&limit=6&watch")
    assert found == {"labelSelector": "a=b,c", "limit": "5", "watch": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b"limit=%zz&watch=1", {"watch": "1"}, id="no hexadecimal digits in a value"),
        pytest.param(b"labelSelector=a%3&limit=5", {"limit": "5"}, id="an escape cut short at the end of a pair"),
        pytest.param(b"limit=5&labelSelector=a%", {"limit": "5"}, id="a lone percent sign at the end"),
        pytest.param(b"%zz=1&limit=5", {"limit": "5"}, id="in the name"),
        pytest.param(b"limit=%zz&limit=5", {"limit": "5"}, id="the first of two, so that the second is the first"),
        pytest.param(b"limit=5;watch=1&pretty=1", {"pretty": "1"}, id="a semicolon"),
        pytest.param(b"labelSelector=a%3Bb", {"labelSelector": "a;b"}, id="an escaped semicolon is a value's own"),
        pytest.param(b"a+b=c+d%2B&%25zz=%25zz", {"a b": "c d+", "%zz": "%zz"}, id="what is escaped well"),
        pytest.param(b"&&=&=1&a", {"": "", "a": ""}, id="empty names and values are pairs, empty pairs are none"),
    ],
)
def test_a_pair_that_cannot_be_unescaped_is_dropped_and_the_others_stay(text: bytes, expected: dict[str, str]) -> None:
    assert routing.query(text) == expected


@pytest.mark.parametrize("text", [b"a=%ff", b"&".join([b"a=1"] * 200), b"\xff=1"])
def test_a_query_that_cannot_be_read_is_a_bad_request(text: bytes) -> None:
    with pytest.raises(errors.BadRequest):
        routing.query(text)
