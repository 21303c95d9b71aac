"""What the command line tells of the language without a platform: explain, config, crds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from steelyard.cli.exits import Exit
from steelyard.kube import objects
from steelyard.kube.objects import Object
from tests.cli.terminal import Terminal
from tests.harness import ROOT

SHOP = str(ROOT / "examples" / "shop.yaml")


def _key(obj: Object) -> tuple[str, str]:
    return str(obj["kind"]), objects.name(obj)


@pytest.mark.parametrize("name", ["cluster", "WorkloadCluster", "workloadclusters", "wc"])
def test_a_kind_is_explained_by_any_of_its_names(idle: Terminal, name: str) -> None:
    done = idle.quick("explain", name)
    assert done.code == Exit.OK
    assert done.out.startswith("WorkloadCluster of compute.steelyard.dev/v1alpha1")
    for line in (
        "spec.parameters.environment  <string; at most 40 characters; ",
        "spec.parameters.controlPlaneReplicas  <integer; one of 1, 3; default from the environment>",
        "spec.parameters.workerReplicas  <integer; 0 to 100; default from the environment>",
        "default from the platform file: simulated>",
        "spec.writeConnectionSecretToRef.name  <string; at most 253 characters; ",
    ):
        assert line in done.out
    assert "status." not in done.out


def test_one_field_is_explained_by_its_path_or_its_name(idle: Terminal) -> None:
    short, long = idle.quick("explain", "cluster.diskGb"), idle.quick("explain", "cluster.spec.parameters.diskGb")
    assert short.out == long.out
    assert short.out.splitlines()[2:] == [
        "spec.parameters.diskGb  <integer; 1 to 65536; default from the environment>",
        "    Root disk of each node, in GiB. A change replaces the nodes. Default: the environment's.",
    ]
    reported = idle.quick("explain", "cluster.status.conditions").out
    assert "status.conditions[].lastTransitionTime  <string>" in reported


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("clutser", 'there is no kind of claim "clutser"; did you mean cluster?'),
        ("cluster.wokerReplicas", "did you mean workerReplicas?"),
        ("cluster.spec.paramters", "did you mean spec.parameters?"),
    ],
)
def test_what_is_not_there_leads_to_what_was_meant(idle: Terminal, asked: str, answer: str) -> None:
    done = idle.quick("explain", asked)
    assert (done.code, done.out) == (Exit.USAGE, "")
    assert answer in done.err


def test_explain_and_crds_follow_the_domain_of_the_platform_file(idle: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("domain: example.org\n")
    assert "compute.example.org/v1alpha1" in idle.quick("explain", "wc", "--platform", str(file)).out
    printed = list(yaml.load_all(idle.quick("crds", "--platform", str(file)).out, yaml.CSafeLoader))
    assert objects.name(printed[0]) == "workloadclusters.compute.example.org"


def test_crds_are_printed_or_written_with_the_policies(idle: Terminal, tmp_path: Path) -> None:
    printed = list(yaml.load_all(idle.quick("crds").out, yaml.CSafeLoader))
    assert [each["kind"] for each in printed].count("ValidatingAdmissionPolicyBinding") == [
        each["kind"] for each in printed
    ].count("ValidatingAdmissionPolicy")
    folder = tmp_path / "made"
    done = idle.quick("crds", "-o", str(folder))
    assert f"kubectl apply -f {folder}" in done.err
    written = [each for path in folder.iterdir() for each in yaml.load_all(path.read_text(), yaml.CSafeLoader)]
    assert {_key(each): each for each in written} == {_key(each): each for each in printed}


def test_config_says_where_each_value_of_a_claim_comes_from(idle: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("environments: {staging: {memoryGi: 7}}\n")
    claim = tmp_path / "claim.yaml"
    claim.write_text(
        "{apiVersion: compute.steelyard.dev/v1alpha1, kind: WorkloadCluster, metadata: {name: a},"
        " spec: {parameters: {environment: test, workerReplicas: 0}}}"
    )
    done = idle.quick("config", "-f", str(claim), "--platform", str(file), "-o", "json")
    assert done.code == Exit.OK, done.err
    found = {each["field"].rpartition(".")[2]: (each["value"], each["from"]) for each in json.loads(done.out)}
    assert found == {
        "environment": ("staging", "claim, as test"),
        "infrastructure": ("simulated", "built-in"),
        "controlPlaneReplicas": (1, "environment staging, built-in"),
        "workerReplicas": (0, "claim"),
        "cpuCores": (12, "environment staging, built-in"),
        "memoryGi": (7, "environment staging, platform file"),
        "diskGb": (200, "environment staging, built-in"),
        "kubernetesVersion": ("v1.32.1", "environment staging, built-in"),
    } | {key: value for key, value in found.items() if key.endswith("Cidr")}
    table = idle.quick("config", "-f", SHOP).out.splitlines()
    assert table[0].split() == ["FIELD", "VALUE", "FROM"]


def test_config_tells_everything_that_is_wrong_with_a_claim_as_the_api_would(idle: Terminal) -> None:
    done = idle.quick(
        "config",
        "-f",
        "-",
        given="{apiVersion: compute.steelyard.dev/v1alpha1, kind: WorkloadCluster, metadata: {name: a},"
        " spec: {parameters: {environment: devel, workerReplicas: 101, wokerReplicas: 1, kubernetesVersion: '1.34'}}}",
    )
    assert (done.code, done.out) == (Exit.FAILED, "")
    for words in (
        "spec.parameters.wokerReplicas: unknown field; did you mean workerReplicas?",
        "spec.parameters.workerReplicas: Invalid value: 101: ",
        "a version names its patch, too: write v1.34.0",
        "there is no environment devel; did you mean dev?",
    ):
        assert words in done.err


def test_config_without_a_claim_is_about_the_platform(idle: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("domain: example.org\n")
    lines = idle.quick("config", "--platform", str(file)).out.splitlines()
    assert next(line for line in lines if line.startswith("domain ")).split() == [
        "domain", "example.org", "platform", "file",
    ]  # fmt: skip
    assert next(line for line in lines if line.startswith("clusterNetwork.pods")).endswith("built-in")


def test_config_of_a_claim_that_is_there(terminal: Terminal, ready_claim: str) -> None:
    done = terminal.quick("config", ready_claim, "-n", "reading")
    assert done.code == Exit.OK, done.err
    assert done.err == "WorkloadCluster reading/ready\n"
    assert next(line for line in done.out.splitlines() if "cpuCores" in line).split() == [
        "spec.parameters.cpuCores", "8", "environment", "dev,", "built-in",
    ]  # fmt: skip
