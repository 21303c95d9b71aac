from __future__ import annotations

import pytest

from steelyard.kube import errors
from steelyard.kube.server.bodies.negotiation import PROTOBUF, Accepted, accepted, check_route, of_errors

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        pytest.param("", Accepted(), id="nothing asked for"),
        pytest.param("*/*", Accepted(), id="anything"),
        pytest.param("application/json", Accepted(), id="JSON"),
        pytest.param("Application/JSON; charset=utf-8", Accepted(), id="case and other parameters do not matter"),
        pytest.param("application/yaml", Accepted("yaml"), id="YAML"),
        pytest.param("application/vnd.kubernetes.protobuf,application/json", Accepted(), id="Go client"),
        pytest.param(f"{TABLE},application/json", Accepted("json", "table"), id="kubectl get"),
        pytest.param(
            f"application/json;as=Table;v=v1beta1;g=meta.k8s.io,{TABLE}",
            Accepted("json", "table", "v1beta1"),
            id="older table first",
        ),
        pytest.param("application/json;as=Unknown;v=v1;g=meta.k8s.io,application/json", Accepted(), id="fallback"),
        pytest.param(
            f"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{METADATA_LIST}",
            Accepted("json", "metadata"),
            id="metadata client",
        ),
        pytest.param("application/yaml;q=0.5,application/json", Accepted(), id="weights"),
        pytest.param("application/json;q=0,application/yaml", Accepted("yaml"), id="weight zero means never"),
    ],
)
def test_the_first_wish_that_can_be_met_is_met(header: str, expected: Accepted) -> None:
    assert accepted(header) == expected


def test_protobuf_is_for_those_who_accept_nothing_else_and_never_for_custom_resources() -> None:
    assert accepted(PROTOBUF) == Accepted("protobuf")
    assert accepted(f"{PROTOBUF},application/yaml;q=0.1") == Accepted("yaml")
    with pytest.raises(errors.NotAcceptable):
        accepted(PROTOBUF, custom=True)


def test_what_has_one_representation_is_in_no_table() -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert accepted(f"{table}, application/yaml", whole=True).format == "yaml"
    with pytest.raises(errors.NotAcceptable):
        accepted(table, whole=True)


def test_a_watch_is_json() -> None:
    with pytest.raises(errors.NotAcceptable, match="application/json;stream=watch"):
        accepted("application/yaml", watch=True)


@pytest.mark.parametrize("header", ["text/html", "application/*", ";;,"])
def test_built_in_resources_refuse_a_form_with_the_words_of_upstreams_router(header: str) -> None:
    with pytest.raises(errors.NotAcceptable, match=r"^406: Not Acceptable\n\nAvailable representations: ") as refused:
        check_route(header)
    assert refused.value.status()["details"] == {}


@pytest.mark.parametrize(
    ("header", "expected"),
    [("", "json"), ("application/yaml", "yaml"), (f"{PROTOBUF},application/json", "json"), (PROTOBUF, "protobuf"),
     (TABLE, "json"), ("text/html", "json")],
)  # fmt: skip
def test_errors_come_in_a_form_that_is_accepted_or_as_json(header: str, expected: str) -> None:
    assert of_errors(header) == expected


@pytest.mark.parametrize(
    "header",
    ["text/html", "application/json;as=Table;v=v2;g=meta.k8s.io", ";;,"],
)
def test_wishes_that_cannot_be_met_are_refused_with_what_can(header: str) -> None:
    with pytest.raises(
        errors.NotAcceptable, match="only the following media types are accepted: application/json, application/yaml"
    ):
        accepted(header)
