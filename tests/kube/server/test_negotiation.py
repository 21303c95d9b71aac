from __future__ import annotations

import pytest

from steelyard.kube import errors
from steelyard.kube.server.negotiation import Accepted, accepted

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
            Accepted("json", "table"),
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


@pytest.mark.parametrize(
    "header",
    ["application/vnd.kubernetes.protobuf", "text/html", "application/json;as=Table;v=v2;g=meta.k8s.io", ";;,"],
)
def test_wishes_that_cannot_be_met_are_refused_with_what_can(header: str) -> None:
    with pytest.raises(errors.NotAcceptable, match="application/json, application/yaml"):
        accepted(header)
