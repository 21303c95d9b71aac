"""What an API server refuses in a claim, on creation, on change, in a dry run; and whom it does not lock out."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from steelyard.api import crd, resources, versions, workloadcluster
from steelyard.kube import errors, objects
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.server.api import Api
from steelyard.kube.store.store import Store

CLAIMS = resources.workload_clusters("steelyard.dev")


def claim(name: str = "shop", *, connection: Object | None = None, **parameters: Any) -> Object:
    spec: Object = {"parameters": {"environment": "dev", **parameters}}
    if connection is not None:
        spec["writeConnectionSecretToRef"] = connection
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


@contextlib.asynccontextmanager
async def server(folder: Path) -> AsyncGenerator[LocalClient]:
    store = await Store.open(folder / "main.db", fsync=False)
    api = await Api.start(store)
    client = LocalClient(api)
    await define(client)
    try:
        yield client
    finally:
        await api.close()
        await store.close()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncGenerator[LocalClient]:
    async with server(tmp_path) as opened:
        yield opened


async def define(client: LocalClient, *infrastructures: str, without_rules: bool = False) -> None:
    """The claim's definition; `without_rules` as an older version had it, so that anything can be stored."""
    definition = objects.copy(crd.definition(workloadcluster.kind("steelyard.dev", infrastructures or ("simulated",))))
    if without_rules:
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema.pop("x-kubernetes-validations")
        for field in ("kubernetesVersion", "infrastructure"):
            schema["properties"]["spec"]["properties"]["parameters"]["properties"][field].pop(
                "x-kubernetes-validations"
            )
    await client.apply(CUSTOM_RESOURCE_DEFINITIONS, definition, field_manager="test", force=True)


async def runs(client: LocalClient, version: str) -> None:
    """The controller reports what the cluster runs."""
    used: Object = {
        "environment": "dev", "infrastructure": "simulated", "controlPlaneReplicas": 1, "workerReplicas": 2,
        "cpuCores": 8, "memoryGi": 32, "diskGb": 100, "kubernetesVersion": version,
    }  # fmt: skip
    await client.patch(CLAIMS, "shop", {"status": {"parameters": used}}, "default", subresource="status")


async def refusal(client: LocalClient, asked: Object, *, dry_run: bool = False) -> str:
    with pytest.raises(errors.Invalid) as caught:
        await client.create(CLAIMS, asked, dry_run=dry_run)
    return caught.value.message


async def change(client: LocalClient, **parameters: Any) -> Object:
    return await client.patch(CLAIMS, "shop", {"spec": {"parameters": parameters}}, "default")


_RANGE = "clusters are made of Kubernetes v1.22 to v1.35, written as v1.34.0; the nearest is"


@pytest.mark.parametrize(
    ("version", "words"),
    [
        pytest.param("v99.1", f"{_RANGE} v1.35.0", id="no such version"),
        pytest.param("v1.99.0", f"{_RANGE} v1.35.0", id="minor of the future"),
        pytest.param("latest", f"{_RANGE} v1.35.0", id="a word"),
        pytest.param("1.2.3.4", f"{_RANGE} v1.22.0", id="too many numbers"),
        pytest.param("v1.21.2", f"{_RANGE} v1.22.0", id="too old"),
        pytest.param("v1.34", "a version names its patch, too: write v1.34.0", id="without patch"),
        pytest.param("1.34", "a version names its patch, too: write v1.34.0", id="without v and patch"),
        pytest.param("v1.32.100", f"{_RANGE} v1.35.0", id="patch that never was"),
        pytest.param("v1.32.01", f"{_RANGE} v1.35.0", id="leading zero"),
        pytest.param("v1.32.1-rc.0", f"{_RANGE} v1.35.0", id="release candidate"),
        pytest.param("v1.32.1\n", _RANGE.partition(";")[0], id="line break"),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True], ids=["for good", "dry run"])
async def test_an_impossible_version_is_refused_with_the_nearest_valid_one(
    client: LocalClient, version: str, words: str, dry_run: bool
) -> None:
    message = await refusal(client, claim(kubernetesVersion=version), dry_run=dry_run)

    assert message.startswith(
        'WorkloadCluster.compute.steelyard.dev "shop" is invalid: spec.parameters.kubernetesVersion:'
    )
    assert message.endswith(f": {words}")


@pytest.mark.parametrize("version", ["v1.32.1", "v1.31.0", "1.30.0", "v1.35.0", "1.22.17", None])
async def test_versions_of_the_documents_and_what_is_offered_are_accepted(
    client: LocalClient, version: str | None
) -> None:
    await client.create(CLAIMS, claim(kubernetesVersion=version) if version else claim())


@pytest.mark.parametrize(
    ("running", "asked", "words"),
    [
        pytest.param("v1.32.1", "v1.32.1", "", id="the same, said aloud"),
        pytest.param("v1.32.1", "1.32.9", "", id="a later patch"),
        pytest.param("v1.32.1", "v1.33.0", "", id="the next minor"),
        pytest.param("v1.32.9", "v1.33.0", "", id="the next minor, whatever the patch"),
        pytest.param(
            "v1.32.1",
            "v1.34.0",
            "Kubernetes is upgraded one minor version at a time: from v1.32 go to v1.33 first",
            id="a minor skipped",
        ),
        pytest.param(
            "v1.22.0",
            "v1.35.0",
            "Kubernetes is upgraded one minor version at a time: from v1.22 go to v1.23 first",
            id="many minors skipped",
        ),
        pytest.param(
            "v1.32.1",
            "v1.31.9",
            "the cluster runs v1.32.1, and Kubernetes cannot go back to an older version; make a new cluster for that",
            id="an older minor",
        ),
        pytest.param(
            "v1.32.2",
            "v1.32.1",
            "the cluster runs v1.32.2, and Kubernetes cannot go back to an older version; make a new cluster for that",
            id="an older patch",
        ),
        pytest.param("v99.1.0", "v1.35.0", "", id="from what was never offered to what is"),
    ],
)
@pytest.mark.parametrize("was_asked_for", [True, False], ids=["from the claim", "from the environment"])
async def test_a_cluster_goes_up_one_minor_version_at_a_time(
    client: LocalClient, running: str, asked: str, words: str, was_asked_for: bool
) -> None:
    await define(client, without_rules=True)
    await client.create(CLAIMS, claim(kubernetesVersion=running) if was_asked_for else claim())
    await runs(client, running)
    await define(client)

    if not words:
        assert (await change(client, kubernetesVersion=asked))["spec"]["parameters"]["kubernetesVersion"] == asked
        return
    with pytest.raises(errors.Invalid) as caught:
        await change(client, kubernetesVersion=asked)
    assert "spec.parameters.kubernetesVersion" in caught.value.message
    assert caught.value.message.endswith(f": {words}")
    assert versions.step_problem(running, asked) == words, "doctor and the server say the same"


async def test_a_claim_whose_cluster_was_never_begun_may_change_to_any_version(client: LocalClient) -> None:
    await client.create(CLAIMS, claim(kubernetesVersion="v1.35.0"))

    await change(client, kubernetesVersion="v1.30.0")


async def test_an_infrastructure_that_is_not_offered_is_refused_with_those_that_are(client: LocalClient) -> None:
    message = await refusal(client, claim(infrastructure="kvm"), dry_run=True)
    assert message.endswith(": this platform cannot make machines of kvm; it offers: simulated")

    await define(client, "simulated", "kvm")
    await client.create(CLAIMS, claim(infrastructure="kvm"))
    message = await refusal(client, claim("other", infrastructure="kubevirt"))
    assert message.endswith(": this platform cannot make machines of kubevirt; it offers: simulated, kvm")


async def test_a_claim_that_is_stored_with_what_is_refused_now_is_not_locked_out(client: LocalClient) -> None:
    await define(client, without_rules=True)
    await client.create(
        CLAIMS, claim(kubernetesVersion="v99.1.0", infrastructure="kvm", connection={"name": "shop-ca"})
    )
    await define(client)

    await client.patch(CLAIMS, "shop", {"metadata": {"finalizers": ["steelyard.dev/claim"]}}, "default")
    await client.patch(CLAIMS, "shop", {"status": {"message": "so"}}, "default", subresource="status")
    changed = await change(client, workerReplicas=7)
    assert changed["spec"]["parameters"]["kubernetesVersion"] == "v99.1.0"
    with pytest.raises(errors.Invalid):
        await change(client, kubernetesVersion="v98.1.0")
    await change(client, kubernetesVersion="v1.34.0", infrastructure="simulated")
    await client.patch(CLAIMS, "shop", {"metadata": {"finalizers": None}}, "default")
    await client.delete(CLAIMS, "shop", "default")


@pytest.mark.parametrize(
    "name", ["shop-ca", "shop-etcd", "shop-sa", "shop-proxy", "shop-control-plane-x7k2p", "shop-md-0-abcde-fghij"]
)
@pytest.mark.parametrize("namespace", [None, "default", "argocd"])
async def test_the_name_of_a_secret_that_cluster_api_makes_is_refused_with_another(
    client: LocalClient, name: str, namespace: str | None
) -> None:
    reference: Object = {"name": name, **({"namespace": namespace} if namespace else {})}
    message = await refusal(client, claim(connection=reference))

    assert "spec.writeConnectionSecretToRef.name: Invalid value" in message
    assert message.endswith(
        ": Cluster API makes a Secret of this name for the cluster itself; choose another, such as shop-connection"
    )


@pytest.mark.parametrize(
    "name", ["shop-kubeconfig", "shop-connection", "shop", "other-ca", "shopping-ca", "shop-cache"]
)
async def test_any_other_name_is_accepted(client: LocalClient, name: str) -> None:
    await client.create(CLAIMS, claim(connection={"name": name, "namespace": "default"}))


def test_rules_and_functions_agree_on_every_minor() -> None:
    offered = [f"v1.{minor}.0" for minor in range(100) if versions.is_offered(f"v1.{minor}.0")]

    assert (offered[0], offered[-1]) == (versions.OLDEST, versions.NEWEST)
    assert all(re.fullmatch(r"v1\.\d\d\.0", each) for each in offered)
