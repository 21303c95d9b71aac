"""A sample of `make soak ARGS=fuzz`, and that the fuzzer sees what it looks for."""

from __future__ import annotations

import random
from pathlib import Path

import orjson

from tests.soak.fuzz import campaign, findings, seeds
from tests.soak.fuzz.findings import Finding
from tests.soak.fuzz.request import Request
from tests.soak.fuzz.wire import Answer

REQUESTS = 600


async def test_odd_requests_get_no_5xx(tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)
    async with campaign.serving(tmp_path, random.Random(seed)) as target:
        figures = await campaign.run(target, seed, REQUESTS, lambda _: None)
    # The sample starts no kube-apiserver to ask about the others.
    figures.findings = [each for each in figures.findings if each.is_unforeseen]
    assert figures.problems() == [], f"seed {seed}"
    assert figures.sent == REQUESTS
    assert figures.codes[200] > REQUESTS / 20


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
