"""Every claim under examples/, and the one that the mission's documents print, becomes a ready cluster."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import cast

import pytest
import yaml

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from tests import forked, inprocess
from tests.harness import ROOT, PlatformProcess
from tests.kubectl import Kubectl

EXAMPLES = sorted(
    path
    for path in (ROOT / "examples").rglob("*.yaml")
    if path.name != "platform.yaml" and path.parent.name not in ("rbac", "data")
)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
async def test_an_example_becomes_a_ready_cluster(tmp_path: Path, path: Path) -> None:
    claim = _read(path)
    async with inprocess.platform(tmp_path) as client:
        ready = await inprocess.becomes_ready(client, claim)

        assert objects.at(ready, "status", "workers", "ready") == objects.at(ready, "status", "workers", "desired")
        reference = objects.mapping(objects.at(claim, "spec", "writeConnectionSecretToRef"))
        if reference:
            secret = await client.get(SECRETS, str(reference["name"]), str(reference["namespace"]))
            assert secret["data"]["kubeconfig"] == secret["data"]["value"]
            assert b"current-context" in base64.b64decode(secret["data"]["kubeconfig"])


def _read(path: Path) -> Object:
    return cast(Object, yaml.load(path.read_text(), yaml.CSafeLoader))


def test_all_examples_are_found() -> None:
    assert {"shop", "dev", "staging", "uat", "preprod", "production", "sandbox"} <= {path.stem for path in EXAMPLES}


PRINTED = """
apiVersion: compute.pnats.cloud/v1alpha1
kind: WorkloadCluster
metadata: {name: dev-cluster, namespace: NAMESPACE}
spec:
  parameters:
    environment: dev
    controlPlaneReplicas: 1
    workerReplicas: 2
    cpuCores: 8
    memoryGi: 32
    diskGb: 100
    kubernetesVersion: "v1.32.1"
  writeConnectionSecretToRef: {name: dev-cluster-kubeconfig, namespace: argocd}
"""


@pytest.mark.parametrize("namespace", ["crossplane-system", "argocd"])
async def test_the_claim_of_the_documents_is_ready_beside_its_secret_too(tmp_path: Path, namespace: str) -> None:
    """Also where the claim itself is in the namespace of its Secret, and Cluster API makes one of the same name."""
    async with inprocess.platform(tmp_path, "domain: pnats.cloud\n") as client:
        await inprocess.namespace(client, "argocd")
        await inprocess.becomes_ready(
            client, cast(Object, yaml.load(PRINTED.replace("NAMESPACE", namespace), yaml.CSafeLoader))
        )

        secret = await client.get(SECRETS, "dev-cluster-kubeconfig", "argocd")
        assert secret["data"]["kubeconfig"] == secret["data"]["value"]


@pytest.mark.kubectl
def test_the_example_for_production_through_the_command_line(tmp_path: Path, kubectl: str) -> None:
    with PlatformProcess(tmp_path) as process:
        process.start()

        def steelyard(*arguments: str) -> str:
            done = forked.run([*arguments, "--data-dir", str(process.data_dir.root)])
            assert done.returncode == 0, done
            return done.stdout

        kube = Kubectl(kubectl, process.data_dir.kubeconfig, tmp_path / "cache")
        kube("apply", "-f", str(ROOT / "examples" / "environments" / "production.yaml"))
        steelyard("wait", "shop-production", "--timeout", "90s")
        listed = steelyard("get").splitlines()[1].split()
        assert listed[:-1] == [*("default", "shop-production", "production", "v1.32.1", "3/3", "5/5", "Ready", "True")]
        assert "WorkloadCluster default/shop-production: Ready" in steelyard("describe", "shop-production")
        config = tmp_path / "production.kubeconfig"
        config.write_text(steelyard("kubeconfig", "shop-production"))
        assert len(Kubectl(kubectl, config, tmp_path / "cache2").names("nodes")) == 8
        steelyard("delete", "shop-production", "--yes")
