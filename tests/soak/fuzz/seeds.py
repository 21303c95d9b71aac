"""Valid requests to start from: the sequences of the conformance corpus, and every built-in kind with every field.

Requests stay together in the order they were written in, so that what the later ones are about is there.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from steelyard.kube.builtin import tables
from tests.conformance import corpus, replay
from tests.kube.builtin import encoder
from tests.soak.fuzz.request import Request

NAMESPACE: Final = "fuzz"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON: Final = "application/json"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_PLAIN: Final = (
    "/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1",
    "/version", "/healthz", "/livez", "/readyz", "/readyz/ping", "/metrics", "/", "/openid/v1/jwks",
    "/.well-known/openid-configuration", "/api/v1/nodes", "/api/v1/namespaces/fuzz", "/api/v1/configmaps",
)  # fmt: skip
_SUBRESOURCES: Final = (
    "/apis/apps/v1/namespaces/fuzz/deployments/a/scale", "/apis/apps/v1/namespaces/fuzz/deployments/a/status",
    "/api/v1/namespaces/fuzz/serviceaccounts/a/token", "/api/v1/namespaces/fuzz/finalize",
    "/api/v1/namespaces/fuzz/status", "/api/v1/namespaces/fuzz/pods/a/log", "/api/v1/namespaces/fuzz/pods/a/exec",
    "/api/v1/namespaces/fuzz/pods/a/eviction", "/api/v1/namespaces/fuzz/services/a/proxy",
    "/apis/conformance.example.com/v1/namespaces/fuzz/widgets/a/status",
    "/apis/conformance.example.com/v1/namespaces/fuzz/widgets/a/scale",
)  # fmt: skip


def definitions(random_: random.Random, count: int) -> list[dict[str, Any]]:
    """Some of the corpus's definitions, for their objects to be served."""
    with_kind = [each for each in corpus.load() if each.crd is not None]
    return [corpus.definition(each, each.given()) for each in random_.sample(with_kind, min(count, len(with_kind)))]


def sequences() -> list[list[Request]]:
    plain = [[Request("GET", path)] for path in (*_PLAIN, *_SUBRESOURCES)]
    return [*_corpus(), *_built_in(), *plain]


def _corpus() -> Iterator[list[Request]]:
    for sequence in corpus.load():
        saved = {name: "" for step in sequence.steps for name in cast("dict[str, str]", step.get("save") or {})}
        given = {**replace(sequence, variables={**sequence.variables, "NS": NAMESPACE}).given(), **saved}
        made: list[Request] = []
        if sequence.crd is not None:
            made.append(
                _writing("POST", f"{DEFINITIONS}?dryRun=All", corpus.definition(sequence, sequence.given()), JSON)
            )
            given["GROUP"] = sequence.given()["GROUP"]
            given["G"] = f"/apis/{given['GROUP']}/v1/namespaces/{NAMESPACE}/gears"
        for step in sequence.steps:
            if "do" in step:
                made.append(_of_step(step, given))
            elif "watch" in step:
                made.append(_parsed("GET", corpus.expand(str(step["path"]), given)))
        yield made


def _of_step(step: Mapping[str, Any], given: Mapping[str, str]) -> Request:
    method, _, path = str(step["do"]).partition(" ")
    path = corpus.expand(path, given)
    if "raw" in step:
        made = replace(_parsed(method, path), body=corpus.expand(str(step["raw"]), given).encode())
    elif step.get("body") is not None:
        made = replace(_parsed(method, path), body=_encoded(corpus.filled(step["body"], given)))
    else:
        made = _parsed(method, path)
    if made.body is not None:
        made = made.with_header("Content-Type", replay.MEDIA[step.get("as", "json")])
    if "form" in step:
        made = made.with_header("Accept", replay.FORMS[step["form"]])
    for name, value in cast("dict[str, str]", step.get("headers") or {}).items():
        made = made.with_header(name, value)
    return made


def _built_in() -> Iterator[list[Request]]:
    for kind in tables.kinds():
        resource = kind.resource
        root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        path = (
            f"{root}/namespaces/{NAMESPACE}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
        )
        name = tables.type_name(resource.group, resource.version, resource.kind)
        if name is None:
            continue
        obj: dict[str, Any] = {**encoder.example(name), "apiVersion": resource.api_version, "kind": resource.kind}
        obj["metadata"] = {"name": "a", **({"namespace": NAMESPACE} if resource.namespaced else {})}
        yield [
            _writing("POST", path, obj, JSON),
            replace(_writing("POST", path, {}, PROTOBUF), body=encoder.encode(obj)),
            _writing("PUT", f"{path}/a", obj, JSON),
            _writing("PATCH", f"{path}/a", {"spec": obj.get("spec", {})}, replay.MEDIA["strategic"]),
            _writing("PATCH", f"{path}/a?fieldManager=f&force=true", obj, replay.MEDIA["apply"]),
            Request("GET", path, (), (("Accept", replay.FORMS["table"]),)),
            Request("GET", f"{path}/a", (), (("Accept", replay.FORMS["table"]),)),
            Request("GET", path, (("watch", "1"), ("timeoutSeconds", "1"))),
            Request("DELETE", f"{path}/a"),
        ]


def _writing(method: str, path: str, body: Any, content_type: str) -> Request:
    return replace(_parsed(method, path), body=_encoded(body)).with_header("Content-Type", content_type)


def _encoded(body: Any) -> bytes:
    """With any number, as large as it may be."""
    return json.dumps(body).encode()


def _parsed(method: str, target: str) -> Request:
    path, _, query = target.partition("?")
    pairs = (each.partition("=") for each in query.split("&")) if query else ()
    return Request(method, path, tuple((name, value) for name, _, value in pairs))
