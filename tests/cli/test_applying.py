"""`apply -f` and `delete -f`: all documents or none, what was done to each, mistakes with their place."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from steelyard.api import resources
from steelyard.cli.exits import Exit
from steelyard.kube.client.http import HttpClient
from tests.cli.terminal import Terminal
from tests.harness import PlatformProcess

CLAIM = """\
apiVersion: compute.steelyard.dev/v1alpha1
kind: WorkloadCluster
metadata: {name: NAME, namespace: applied}
spec: {parameters: {environment: dev, workerReplicas: 0}}
"""
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: applied}\n"
KIND = "workloadcluster.compute.steelyard.dev"


def test_a_directory_is_created_then_unchanged_then_configured_then_deleted(terminal: Terminal, tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "claims.yaml").write_text("---\n".join(CLAIM.replace("NAME", name) for name in ("one", "two")))
    (folder / "namespace.yml").write_text(NAMESPACE)
    (folder / "README.md").write_text("no manifest: {")

    first = terminal.quick("apply", "-f", str(folder))
    assert first.out.splitlines() == ["namespace/applied created", f"{KIND}/one created", f"{KIND}/two created"]
    again = terminal.quick("apply", "-f", str(folder))
    assert [line.split()[-1] for line in again.out.splitlines()] == ["unchanged"] * 3
    (folder / "claims.yaml").write_text(CLAIM.replace("NAME", "one").replace("workerReplicas: 0", "workerReplicas: 1"))
    assert f"{KIND}/one configured" in terminal.quick("apply", "-f", str(folder)).out

    removed = terminal.quick("delete", "-f", str(folder / "claims.yaml"), "--yes")
    assert (removed.code, removed.out) == (Exit.OK, "")
    assert "WorkloadCluster applied/one deleted after" in removed.err
    assert terminal.quick("get", "-n", "applied", "-o", "name").out == f"{KIND}/two\n"
    assert "is not there" in terminal.quick("delete", "-f", str(folder / "claims.yaml"), "--yes").err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: [", "standard input: "),
        ("kind: ConfigMap\nmetadata: {name: x}", "it has no apiVersion"),
        ("apiVersion: v1\nkind: ConfigMap", "it has no metadata.name"),
        ("apiVersion: v1\nkind: Gadget\nmetadata: {name: x}", "document 2: this API serves no Gadget of v1"),
    ],
    ids=["no YAML", "no apiVersion", "no name", "no such kind"],
)
def test_one_unreadable_document_keeps_all_others_from_being_applied(
    terminal: Terminal, text: str, complaint: str
) -> None:
    given = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: kept-out, namespace: default}}\n---\n{text}\n"
    done = terminal.quick("apply", "-f", "-", given=given)
    assert done.code != Exit.OK
    assert complaint in done.err
    assert "kept-out" not in terminal.quick("get", "configmaps", "-n", "default", "-o", "name").out


def test_mistakes_of_all_documents_are_told_with_their_place(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    bad = CLAIM.replace("NAME", "bad").replace("environment: dev", "enviroment: dev").replace("applied", "default")
    fine = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept-out}\n"
    file.write_text(f"{bad}---\n{fine}---\n{bad.replace('bad', 'worse')}")
    done = terminal.quick("apply", "-f", str(file))
    assert (done.code, done.out) == (Exit.FAILED, "")
    for number, name in ((1, "bad"), (3, "worse")):
        assert f"{file}, document {number}: WorkloadCluster default/{name} has 2 mistakes:" in done.err
    assert done.err.count("spec.parameters.enviroment: unknown field; did you mean environment?") == 2
    assert done.err.count("spec.parameters.environment: Required value") == 2
    assert "kept-out" not in terminal.quick("get", "configmaps", "-n", "default", "-o", "name").out


def test_what_a_dry_run_prints_is_what_one_would_commit(terminal: Terminal, tmp_path: Path) -> None:
    flags = ("--environment", "dev", "--worker-replicas", "0", "--dry-run", "-o", "yaml")
    made = terminal.quick("create", "cluster", "committed", "-n", "applied-later", *flags)
    assert made.out == (
        "apiVersion: compute.steelyard.dev/v1alpha1\nkind: WorkloadCluster\nmetadata:\n  name: committed\n"
        "  namespace: applied-later\nspec:\n  parameters:\n    environment: dev\n    workerReplicas: 0\n"
    )
    for spelling in ("--dry-run=server", "--dry-run=client"):
        words = [spelling if word == "--dry-run" else word for word in flags]
        assert terminal.quick("create", "cluster", "committed", "-n", "applied-later", *words).out == made.out
    refused = terminal.quick("create", "cluster", "x", *flags, "--control-plane-replicas", "2")
    assert (refused.code, refused.out) == (Exit.FAILED, "")


def test_a_dry_run_of_the_client_asks_the_api_for_no_opinion(terminal: Terminal) -> None:
    bad = CLAIM.replace("NAME", "unseen").replace("environment: dev", "enviroment: dev").replace("applied", "default")
    assert terminal.quick("apply", "-f", "-", "--dry-run=client", given=bad).out == f"{KIND}/unseen read (dry run)\n"
    assert terminal.quick("apply", "-f", "-", "--dry-run", given=bad).code == Exit.FAILED


def test_a_field_of_somebody_else_is_not_taken_without_being_told_to(
    shared: PlatformProcess, terminal: Terminal
) -> None:
    manifest = CLAIM.replace("NAME", "shared").replace("applied", "default")
    flags = ("--environment", "dev", "--worker-replicas", "2")
    assert terminal.quick("create", "cluster", "shared", *flags).code == Exit.OK
    scaled = terminal.quick("scale", "shared", "--replicas", "1", "-n", "default")
    assert scaled.out == f"{KIND}/shared scaled to 1\n"
    ours = terminal.quick("apply", "-f", "-", given=manifest)
    assert ours.out == f"{KIND}/shared configured\n", ours.err

    asyncio.run(_set_workers(shared, 2))
    refused = terminal.quick("apply", "-f", "-", given=manifest)
    assert (refused.code, refused.out) == (Exit.FAILED, "")
    assert 'conflict with "somebody"' in refused.err
    assert "to take the fields over: --force-conflicts" in refused.err
    assert terminal.quick("apply", "-f", "-", "--force-conflicts", given=manifest).code == Exit.OK
    shown = terminal.quick("get", "cluster", "shared", "-o", "yaml").out
    assert "workerReplicas: 0" in shown
    assert "managedFields" not in shown
    assert "cannot be scaled" in terminal.quick("scale", "namespace", "default", "--workers", "1").err


async def _set_workers(shared: PlatformProcess, count: int) -> None:
    client = HttpClient.from_kubeconfig(shared.data_dir.kubeconfig, field_manager="somebody")
    patch = {"spec": {"parameters": {"workerReplicas": count}}}
    try:
        await client.patch(resources.workload_clusters("steelyard.dev"), "shared", patch, "default")
    finally:
        await client.close()
