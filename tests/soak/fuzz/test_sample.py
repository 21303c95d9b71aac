"""A sample of `make soak ARGS=fuzz`, and that the fuzzer sees what it looks for."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import orjson

from tests.conformance import replay
from tests.soak.fuzz import campaign, findings, seeds, situation
from tests.soak.fuzz.findings import Finding
from tests.soak.fuzz.request import Request
from tests.soak.fuzz.wire import Answer

REQUESTS = 600
MERGE = replay.MEDIA["merge"]
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["UPDATE"]}


async def test_odd_requests_get_no_5xx(tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)
    async with campaign.serving(tmp_path, random.Random(seed)) as target:
        figures = await campaign.run(target, seed, REQUESTS, lambda _: None)
    # The sample starts no kube-apiserver to ask about the others.
    figures.findings = [each for each in figures.findings if each.is_unforeseen]
    assert figures.problems() == [], f"seed {seed}"
    assert figures.sent == REQUESTS
    assert figures.codes[200] > REQUESTS / 20


async def test_what_was_around_a_request_is_brought_to_another_server(tmp_path: Path) -> None:
    def writing(method: str, path: str, obj: dict[str, Any]) -> Request:
        return Request(method, path, body=orjson.dumps(obj)).with_header("Content-Type", seeds.JSON)

    path = f"/api/v1/namespaces/{seeds.NAMESPACE}/configmaps"
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["example.com/x"]}}
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    async with (
        campaign.serving(tmp_path / "one", random.Random(1)) as one,
        campaign.serving(tmp_path / "other", random.Random(1)) as other,
    ):
        await campaign.send(one.server, writing("POST", path, {**config_map, "data": {"k": "v"}}))
        await campaign.send(other.server, writing("POST", path, {**config_map, "data": {"k": "w"}}))
        hook = {"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"]}
        hook |= {"clientConfig": {"url": "https://127.0.0.1:1"}, "rules": [RULE]}
        configuration = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        configuration |= {"metadata": {"name": "a"}, "webhooks": [hook]}
        await campaign.send(one.server, writing("POST", situation.WEBHOOKS[1], configuration))
        request = writing("PATCH", f"{path}/a", {"data": {"k": "x"}}).with_header("Content-Type", MERGE)
        taken = await situation.taken(one.server, request)
        async with situation.brought(other.server, taken, with_webhooks=True):
            shown = await campaign.send(other.server, Request("GET", f"{path}/a"))
            refused = await campaign.send(other.server, request)
        accepted = await campaign.send(other.server, request)
    assert shown is not None
    assert orjson.loads(shown.body)["data"] == {"k": "v"}
    assert refused is not None
    assert refused.code == 500
    assert b"failed calling webhook" in refused.body
    assert accepted is not None
    assert accepted.code == 200


def test_the_seeds_are_requests_of_every_kind() -> None:
    requests = [each for sequence in seeds.sequences() for each in sequence]
    assert {each.method for each in requests} >= {"GET", "POST", "PUT", "PATCH", "DELETE"}
    assert len({each.path for each in requests}) > 200
    assert any((each.body or b"").startswith(b"k8s\0") for each in requests)


async def test_a_finding_is_made_small_enough_to_be_read() -> None:
    body = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"bad": 1, "good": [1, 2, 3]}, "data": {}}
    request = Request("POST", "/a", (("q", "1"),), (("X", "y"),), orjson.dumps(body))

    async def send(sent: Request) -> Answer:
        return Answer(500 if b'"bad"' in (sent.body or b"") else 400, b"")

    smallest, answer = await findings.minimised(Finding(request, Answer(500, b"")), send)
    assert smallest == Request("POST", "/a", body=b'{"spec":{"bad":1}}')
    assert answer.code == 500
