"""Claims with mistakes: everything that is wrong is told at once, each with its field, the value, the reason and what
would do; and an API server says the same of each as is said of a file."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from steelyard import settings
from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.compose import checking, offering
from steelyard.compose.claimkind import ClaimKind
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from tests.api import references
from tests.controllers.claims import stage as stages
from tests.controllers.claims.stage import NAMESPACE, Stage

PARAMETERS = "spec.parameters"
CONNECTION = "spec.writeConnectionSecretToRef"
ANNOTATION = f"metadata.annotations.{EXTERNAL_NAME}"

MISTAKES: dict[str, dict[str, tuple[dict[str, Any], str]]] = {
    "": {
        "no such environment": (
            {f"{PARAMETERS}.environment": "devv"},
            "spec.parameters.environment: there is no environment devv; did you mean dev? There are: dev, staging",
        ),
        "environment of another type": (
            {f"{PARAMETERS}.environment": 5},
            'spec.parameters.environment: Invalid value: "integer": spec.parameters.environment in body must be of '
            'type string: "integer"',
        ),
        "Secret of Cluster API's": (
            {f"{CONNECTION}.name": "other-ca"},
            "Cluster API makes a Secret called other-ca for a cluster in this namespace; choose another name, such as "
            "shop-connection",
        ),
        "name of a Secret": (
            {f"{CONNECTION}.name": "My Secret"},
            'spec.writeConnectionSecretToRef.name: Invalid value: "My Secret"',
        ),
    },
    "WorkloadCluster": {
        "even control plane": (
            {f"{PARAMETERS}.controlPlaneReplicas": 2},
            'spec.parameters.controlPlaneReplicas: Unsupported value: 2: supported values: "1", "3"',
        ),
        "fewer than none": ({f"{PARAMETERS}.workerReplicas": -1}, "spec.parameters.workerReplicas: Invalid value: -1"),
        "no memory": (
            {f"{PARAMETERS}.memoryGi": 0},
            "spec.parameters.memoryGi: Invalid value: 0: spec.parameters.memoryGi in body should be greater than or "
            "equal to",
        ),
        "version": (
            {f"{PARAMETERS}.kubernetesVersion": "v1.99.0"},
            "clusters are made of Kubernetes v1.22 to v1.35, written as v1.34.0; the nearest is v1.35",
        ),
        "infrastructure": (
            {f"{PARAMETERS}.infrastructure": "moon"},
            "spec.parameters.infrastructure: Invalid value",
        ),
    },
    "KubernetesCluster": {
        "even control plane": (
            {f"{PARAMETERS}.controlPlaneNodes": 2},
            "an even number survives no more losses than one node less, since most must agree: choose 1, 3 or 5",
        ),
        "cores": ({f"{PARAMETERS}.workerCPU": "many"}, "spec.parameters.workerCPU: "),
        "memory without a unit": ({f"{PARAMETERS}.workerMemory": "8"}, "write whole GiB, from 1Gi to 16384Gi"),
        "network plugin": (
            {f"{PARAMETERS}.networkPlugin": "weave"},
            'spec.parameters.networkPlugin: Unsupported value: "weave": supported values: "kube-ovn", "calico"',
        ),
        "path in Vault": (
            {f"{PARAMETERS}.vaultPath": "secret/apps/team-a"},
            "spec.parameters.vaultPath: secret/apps/team-a: it must be secret/clusters/",
        ),
    },
    "VirtualCluster": {
        "version": ({f"{PARAMETERS}.k8sVersion": "1.99.0"}, "spec.parameters.k8sVersion"),
        "no cores": ({f"{PARAMETERS}.cpuCores": 0}, "spec.parameters.cpuCores: Invalid value: 0"),
        "memory": ({f"{PARAMETERS}.memoryGi": "much"}, "spec.parameters.memoryGi: Invalid value"),
        "ingress class": (
            {f"{PARAMETERS}.ingressClass": "haproxy"},
            'spec.parameters.ingressClass: Unsupported value: "haproxy": supported values: ',
        ),
    },
    "PostgreSQLInstance": {
        "size": (
            {f"{PARAMETERS}.size": "huge"},
            'spec.parameters.size: Unsupported value: "huge": supported values: "small", "medium", "large"',
        ),
        "storage": ({f"{PARAMETERS}.storageGB": 0}, "spec.parameters.storageGB: Invalid value: 0"),
        "own server": ({f"{PARAMETERS}.multiTenant": False}, "no claim gets a server of its own; leave the field out"),
        "path in Vault": (
            {f"{PARAMETERS}.vaultPath": "secret/apps/team-b/shop"},
            "spec.parameters.vaultPath: secret/apps/team-b/shop: it must be secret/apps/ or secret/database/",
        ),
        "external name": (
            {ANNOTATION: "prod_shop"},
            "the annotation crossplane.io/external-name: prod_shop is outside of environment dev",
        ),
        "extension": (
            {f"{PARAMETERS}.extensions[]": "dblink"},
            "spec.parameters.extensions: dblink: none that the platform file allows (postgresql.extensions)",
        ),
        "time to live": ({f"{PARAMETERS}.ttl": "5m"}, "from 10m to 8760h, as in 168h for a week"),
        "refresh of no copy": ({f"{PARAMETERS}.refreshEvery": "24h"}, "only the copy of a database is made anew"),
    },
    "PostgreSQLAccess": {
        "no name": ({f"{PARAMETERS}.instance": "My Shop"}, 'spec.parameters.instance: Invalid value: "My Shop"'),
        "no span": ({f"{PARAMETERS}.ttl": "long"}, 'spec.parameters.ttl: Invalid value: "long"'),
        "access": (
            {f"{PARAMETERS}.access": "all"},
            'spec.parameters.access: Unsupported value: "all": supported values: "readWrite", "readOnly"',
        ),
    },
    "RedisInstance": {
        "no server": ({f"{PARAMETERS}.replicas": 0}, "spec.parameters.replicas: Invalid value: 0"),
        "memory": ({f"{PARAMETERS}.memoryGB": "much"}, "spec.parameters.memoryGB: Invalid value"),
        "external name": ({ANNOTATION: "vault"}, "the annotation crossplane.io/external-name: vault: it must begin"),
    },
}
"""By kind; under no kind, those that all have."""

each_kind = pytest.mark.parametrize("kind", offering.STANDARD.kinds, ids=lambda kind: kind.resource("").kind)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage]:
    async with stages.opened(tmp_path) as stage:
        await stage.crash()
        yield stage


def mistakes(kind: ClaimKind) -> dict[str, tuple[dict[str, Any], str]]:
    known = kind.parameter_names
    of_all = {
        title: found
        for title, found in MISTAKES[""].items()
        if "environment" in known or f"{PARAMETERS}.environment" not in found[0]
    }
    return {**of_all, **MISTAKES[kind.resource("").kind]}


def claim(kind: ClaimKind, values: dict[str, Any]) -> Object:
    resource = kind.resource("steelyard.dev")
    sound: Object = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "shop", "namespace": NAMESPACE},
        "spec": {"parameters": objects.copy(kind.guide.example)["parameters"]},
    }
    return references.with_values(sound, values)


def told_of_file(kind: ClaimKind, obj: Object) -> list[str]:
    return checking.of(kind, settings.parse(""))(obj)


async def told_by_api(stage: Stage, kind: ClaimKind, obj: Object) -> list[str]:
    try:
        await stage.client.create(kind.resource("steelyard.dev"), obj, dry_run=True)
    except errors.ApiError as error:
        _, denied, message = error.message.partition("denied request: ")
        return [message] if denied else [_line(cause.field, cause.message) for cause in error.causes]
    return []


def without_rest(lines: list[str]) -> list[str]:
    """A server that has found something asks some of its rules no more, and says so; for a file they are asked where
    that is possible. Of a number of replicas it complains twice, the second time with a dot in front."""
    return [line for line in lines if "some validation rules were not checked" not in line and line[0] != "."]


def _line(field: str, message: str) -> str:
    where = field.removeprefix("<nil>")
    return f"{where}: {message}" if where else message


@each_kind
def test_an_example_has_no_mistake(kind: ClaimKind) -> None:
    assert told_of_file(kind, claim(kind, {})) == []


@each_kind
async def test_a_file_and_an_api_are_told_the_same(kind: ClaimKind, stage: Stage) -> None:
    for title, (values, expected) in mistakes(kind).items():
        bad = claim(kind, values)
        of_file, by_api = told_of_file(kind, bad), await told_by_api(stage, kind, bad)
        assert any(expected in line for line in of_file), (title, of_file)
        assert without_rest(by_api) == without_rest(of_file), title


@each_kind
async def test_everything_is_told_at_once(kind: ClaimKind, stage: Stage) -> None:
    """A file gets it all; an API asks its policies only about what fits the definition."""
    together: dict[str, Any] = {}
    for values, _ in mistakes(kind).values():
        together |= {field: value for field, value in values.items() if field not in together}
    bad = claim(kind, together)
    of_file, by_api = told_of_file(kind, bad), await told_by_api(stage, kind, bad)

    told = [expected for values, expected in mistakes(kind).values() if values.items() <= together.items()]
    assert [expected for expected in told if not any(expected in line for line in of_file)] == []
    assert len(of_file) >= len(told) > 3
    assert without_rest(by_api) == without_rest([line for line in of_file if line in by_api])


@pytest.mark.parametrize(
    "kind",
    [each for each in offering.STANDARD.kinds if "environment" in each.parameter_names],
    ids=lambda kind: kind.resource("").kind,
)
def test_an_unknown_field_is_told_with_the_nearest(kind: ClaimKind) -> None:
    bad = claim(kind, {f"{PARAMETERS}.enviroment": "dev", "spec.writeConectionSecretToRef.name": "x"})

    assert told_of_file(kind, bad) == [
        "spec.parameters.enviroment: unknown field; did you mean environment?",
        "spec.writeConectionSecretToRef: unknown field; did you mean writeConnectionSecretToRef?",
    ]


@each_kind
def test_a_claim_of_another_domain_is_told_its_own(kind: ClaimKind) -> None:
    resource = kind.resource("example.org")
    bad = {**claim(kind, {}), "apiVersion": resource.api_version}

    (told,) = told_of_file(kind, bad)
    assert f"{resource.api_version} is not this platform's" in told
    assert f"write {kind.resource('steelyard.dev').api_version}" in told


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("dve", "dev"),
        ("prd", "prod"),
        ("produktion", "production"),
        ("pre-prod", "preprod"),
        ("stage", "staging"),
        ("development", "dev"),
        ("moon", ""),
    ],
)
def test_the_nearest_environment_is_named(written: str, meant: str) -> None:
    kind = offering.STANDARD.kinds[0]
    (told,) = told_of_file(kind, claim(kind, {f"{PARAMETERS}.environment": written}))

    assert (f"there is no environment {written}; did you mean {meant}?" in told) is bool(meant)
    assert ("did you mean" in told) is bool(meant)
