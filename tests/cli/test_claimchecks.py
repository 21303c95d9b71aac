"""What `steelyard doctor` finds about claims: each finding with what to do, and nothing about what is well."""

from __future__ import annotations

import base64
import datetime
from typing import Any

import pytest
import yaml

from steelyard.cli import claimchecks
from steelyard.cli.claimchecks import Condition, Examined
from steelyard.kube import pki
from steelyard.kube.objects import Object
from tests.cli.test_describe import APPLIED, GONE, READY, claim, condition, machine

NOW = datetime.datetime(2026, 1, 10, 12, 0, 0, tzinfo=datetime.UTC)
PLACE = ("team", "shop-kubeconfig")


def kubeconfig(issued: datetime.datetime) -> Object:
    authority = pki.new_authority("test", now=issued)
    admin = pki.issue_client(authority, "admin", [], now=issued)
    user = {"client-certificate-data": base64.b64encode(admin.certificate).decode()}
    text = yaml.safe_dump({"users": [{"name": "admin", "user": user}]})
    return {"metadata": {"name": PLACE[1]}, "data": {"value": base64.b64encode(text.encode()).decode()}}


def with_parameters(obj: Object, **parameters: Any) -> Object:
    return {**obj, "spec": {"parameters": {**obj["spec"]["parameters"], **parameters}}}


def found(
    obj: Object, *machines: Object, secrets: dict[tuple[str, str], Object | None] | None = None, strangers: int = 0
) -> list[str]:
    strange: Object = {"apiVersion": "compute.old.example/v1alpha1", "metadata": {"name": "s", "namespace": "n"}}
    examined = Examined([Condition(obj, machines, secrets or {})], [strange] * strangers)
    return [str(each) for each in claimchecks.findings(examined, "steelyard.dev", NOW)]


FRESH = kubeconfig(NOW)
OLD = kubeconfig(NOW - datetime.timedelta(days=400))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(found(claim(*READY), secrets={PLACE: FRESH}), ["ok    claims: 1 of 1 well"], id="well"),
        pytest.param(
            found(claim(*READY), strangers=5),
            [
                "FAIL  claims of another domain: n/s, n/s, n/s and 2 more in compute.old.example: this platform's "
                "domain is steelyard.dev, so nobody looks after them; run it with their domain in the platform file, "
                "or delete them",
                "ok    claims: 1 of 1 well",
            ],
            id="claims of another domain",
        ),
        pytest.param(
            found(with_parameters(claim(*READY), kubernetesVersion="v99.1.0")),
            [
                'FAIL  claim team/shop: kubernetesVersion: "v99.1.0" is not offered: clusters are made of Kubernetes '
                "v1.22 to v1.35, written as v1.34.0; the nearest is v1.35.0; change it in the claim"
            ],
            id="a version that is not offered",
        ),
        pytest.param(
            found(with_parameters(claim(*READY), infrastructure="metal3")),
            [
                "FAIL  claim team/shop: infrastructure metal3 is not offered by this version, which offers: simulated, "
                "kubevirt, kvm",
            ],
            id="an infrastructure that is not offered",
        ),
        pytest.param(
            found(claim(APPLIED, condition("Ready", "False", "Degraded", "x")), machine("a", *GONE)),
            [
                "FAIL  claim team/shop: machine a: its Node a was deleted, since 2026-01-10T11:55:00Z; see: steelyard "
                "describe shop -n team"
            ],
            id="a node lost",
        ),
        pytest.param(
            found(claim(condition("Synced", "False", "ReconcileError", "create the namespace a"))),
            ["FAIL  claim team/shop: Failing: create the namespace a; see: steelyard describe shop -n team"],
            id="failing",
        ),
        pytest.param(
            found(claim(condition("Synced", "False", "ReconcilePaused", "x"))),
            ["note  claim team/shop: paused for 5m; see: steelyard describe shop -n team"],
            id="paused",
        ),
        pytest.param(
            found(claim()),
            [
                "FAIL  claim team/shop: no controller has reported on it yet, 10m after it was made; see: steelyard "
                "describe shop -n team"
            ],
            id="not reconciled",
        ),
        pytest.param(
            found(claim(creationTimestamp="2026-01-10T11:59:50Z")), ["ok    claims: 1 of 1 well"], id="made just now"
        ),
        pytest.param(
            found(
                claim(
                    APPLIED,
                    condition("Ready", "False", "Deleting", "waiting for the deletion of Cluster team/shop"),
                    deletionTimestamp="2026-01-10T11:00:00Z",
                )
            ),
            [
                "FAIL  claim team/shop: being deleted for 60m: waiting for the deletion of Cluster team/shop; see: "
                "steelyard describe shop -n team"
            ],
            id="deletion that does not end",
        ),
        pytest.param(
            found(claim(*READY), secrets={PLACE: None}),
            [
                "FAIL  claim team/shop: Secret team/shop-kubeconfig does not exist; it is made again when the claim is "
                "looked at next, e.g. after a restart of the platform"
            ],
            id="a Secret is missing",
        ),
        pytest.param(
            found(claim(*READY), secrets={PLACE: OLD}),
            [
                "FAIL  claim team/shop: the certificate in Secret team/shop-kubeconfig expired 2025-12-06; delete the "
                "Secret, and it is made anew"
            ],
            id="a certificate has expired",
        ),
        pytest.param(
            found(claim(*READY), secrets={PLACE: {"data": {"value": "bm90aGluZw=="}}}),
            ["ok    claims: 1 of 1 well"],
            id="a Secret that holds no kubeconfig",
        ),
    ],
)
def test_each_finding_says_what_to_do(lines: list[str], expected: list[str]) -> None:
    assert lines == expected
