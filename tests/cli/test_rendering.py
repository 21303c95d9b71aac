"""`render`: claims as manifests, without a server; the same each time, and nothing of anybody else's touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.cli.exits import Exit
from tests.cli.terminal import Terminal
from tests.harness import ROOT

CLAIM = """\
apiVersion: compute.steelyard.dev/v1alpha1
kind: WorkloadCluster
metadata: {name: NAME, namespace: team-a}
spec: {parameters: {environment: dev}}
"""
DATABASE = (ROOT / "examples" / "data" / "database.yaml").read_text()
FOLDER = "team-a/workloadcluster-shop"


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def manifests(text: str) -> list[Any]:
    return list(yaml.load_all(text, yaml.CSafeLoader))


def test_a_claim_is_printed_as_its_objects_in_the_order_in_which_they_are_applied(idle: Terminal) -> None:
    done = idle.quick("render", "-f", "-", given=CLAIM.replace("NAME", "shop"))
    assert (done.code, done.err) == (Exit.OK, "")
    assert [each["kind"] for each in manifests(done.out)] == [
        "SimulatedCluster",
        "SimulatedMachineTemplate",
        "KubeadmControlPlane",
        "Cluster",
        "SimulatedMachineTemplate",
        "KubeadmConfigTemplate",
        "MachineDeployment",
    ]
    assert all(each["metadata"]["labels"]["steelyard.dev/claim-name"] == "shop" for each in manifests(done.out))
    assert "ownerReferences" not in done.out


def test_every_kind_of_claim_is_rendered(idle: Terminal) -> None:
    done = idle.quick("render", "-f", str(ROOT / "examples" / "data"))
    assert done.code == Exit.OK, done.err
    assert {"Database", "Role", "Grant", "RedisServer"} <= {each["kind"] for each in manifests(done.out)}


def test_the_platform_file_decides_and_what_is_made_later_is_told(idle: Terminal, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("environments: {dev: {memoryGi: 48}}\n")
    claim = CLAIM.replace("NAME", "shop").replace("spec: {", "spec: {writeConnectionSecretToRef: {name: copy}, ")
    done = idle.quick("render", "-f", "-", "--platform", str(tmp_path / "own.yaml"), given=claim)
    assert "memoryGi: 48" in done.out
    assert done.err == (
        "WorkloadCluster team-a/shop: left out, as what they are made from is not there yet: connection\n"
    )


def test_a_directory_is_the_same_after_a_second_time(idle: Terminal, tmp_path: Path) -> None:
    made = tmp_path / "made"
    claims = "---\n".join(CLAIM.replace("NAME", name) for name in ("shop", "other"))
    assert idle.quick("render", "-f", "-", "-o", str(made), given=claims).code == Exit.OK
    first = contents(made)
    assert set(first) >= {f"{FOLDER}/cluster.yaml", f"{FOLDER}/workers.yaml", f"{FOLDER}/worker-machines.yaml"}
    assert len(first) == 14
    assert idle.quick("render", "-f", "-", "-o", str(made), given=claims).code == Exit.OK
    assert contents(made) == first


def test_only_what_render_made_of_the_same_claim_is_taken_away(idle: Terminal, tmp_path: Path) -> None:
    made = tmp_path / "made"
    shop, other = (CLAIM.replace("NAME", name) for name in ("shop", "other"))
    assert idle.quick("render", "-f", "-", "-o", str(made), given=f"{shop}---\n{other}").code == Exit.OK
    stale = made / FOLDER / "workers-gone.yaml"
    stale.write_text((made / FOLDER / "workers.yaml").read_text())
    own = made / FOLDER / "kustomization.yaml"
    own.write_text("resources: []\n")

    done = idle.quick("render", "-f", "-", "-o", str(made), given=shop)

    assert "1 that are no longer made taken away" in done.err
    assert not stale.exists()
    assert own.exists()
    assert (made / "team-a/workloadcluster-other/cluster.yaml").exists()


def test_a_file_of_somebody_else_is_not_written_over(idle: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "made" / FOLDER / "cluster.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("mine\n")
    done = idle.quick("render", "-f", "-", "-o", str(tmp_path / "made"), given=CLAIM.replace("NAME", "shop"))
    assert done.code == Exit.FAILED
    assert "was not made by render" in done.err
    assert file.read_text() == "mine\n"


@pytest.mark.parametrize("place", ["team-a", FOLDER, f"{FOLDER}/cluster.yaml"], ids=["namespace", "claim", "file"])
def test_a_link_leads_nobody_out_of_the_directory(idle: Terminal, tmp_path: Path, place: str) -> None:
    outside, link = tmp_path / "outside", tmp_path / "made" / place
    outside.mkdir()
    link.parent.mkdir(parents=True)
    link.symlink_to(outside / "cluster.yaml" if place.endswith(".yaml") else outside)
    done = idle.quick("render", "-f", "-", "-o", str(tmp_path / "made"), given=CLAIM.replace("NAME", "shop"))
    assert done.code != Exit.OK
    assert list(outside.iterdir()) == []


def test_mistakes_of_all_claims_are_told_at_once_and_nothing_is_written(idle: Terminal, tmp_path: Path) -> None:
    bad = CLAIM.replace("NAME", "bad").replace("environment: dev", "environment: dve, workerReplicas: many")
    worse = CLAIM.replace("NAME", "worse").replace("environment: dev", "enviroment: dev")
    done = idle.quick("render", "-f", "-", "-o", str(tmp_path / "made"), given=f"{bad}---\n{worse}")
    assert (done.code, done.out) == (Exit.FAILED, "")
    for said in ("did you mean dev?", "spec.parameters.workerReplicas", "unknown field; did you mean environment?"):
        assert said in done.err
    assert not (tmp_path / "made").exists()


def test_a_claim_that_is_there_twice_is_refused(idle: Terminal) -> None:
    claim = CLAIM.replace("NAME", "shop")
    done = idle.quick("render", "-f", "-", given=f"{claim}---\n{claim}")
    assert done.code == Exit.FAILED
    assert "document 2: WorkloadCluster team-a/shop is in standard input, document 1 as well" in done.err


def test_what_is_no_claim_is_left_out_and_named(idle: Terminal) -> None:
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-a}\n"
    done = idle.quick("render", "-f", "-", given=f"{namespace}---\n{CLAIM.replace('NAME', 'shop')}")
    assert done.code == Exit.OK
    assert "Namespace team-a is no claim, and is left out" in done.err
    assert "kind: Namespace" not in done.out


def test_machines_of_kvm_hosts_can_be_rendered_where_there_are_none(idle: Terminal) -> None:
    claim = CLAIM.replace("NAME", "shop").replace("environment: dev", "environment: dev, infrastructure: kvm")
    done = idle.quick("render", "-f", "-", given=claim)
    assert (done.code, done.err) == (Exit.OK, "")
    assert [each["kind"] for each in manifests(done.out)].count("KVMMachineTemplate") == 2


def test_a_platform_takes_no_claim_for_machines_that_it_does_not_bring_about(terminal: Terminal) -> None:
    refused = terminal.quick("create", "cluster", "shop", "--environment", "dev", "--infrastructure", "metal3")
    assert refused.code == Exit.FAILED
    assert "cannot make machines of metal3; it offers: simulated, kubevirt, kvm" in refused.err
