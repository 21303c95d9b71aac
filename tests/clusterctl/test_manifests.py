"""What clusterctl installs the provider of KVM hosts from: to its contract, with the documents' variables, and with no
more rights than are used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import steelyard
from steelyard.api import crd, kvm
from steelyard.api.clusterapi import definitions
from steelyard.cli import main
from steelyard.clusterctl import components, template
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.schema import parse, prune, validate
from tests.compose import documents

_TABLE = re.compile(r"^\| \$\{(\w+)\}.*\| *([^|]+?) *\|$", re.MULTILINE)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "v0"
    done = CliRunner().invoke(main.app, ["provider", "kvm", "manifests", "-o", str(folder), "--image", "example/it:1"])
    assert done.exit_code == 0, done.output
    return folder


def installed(folder: Path) -> list[Object]:
    return list(yaml.load_all((folder / "infrastructure-components.yaml").read_text(), yaml.CSafeLoader))


def filled(**variables: str) -> list[Object]:
    """The template, with the variables filled in as clusterctl does."""
    said = {"CLUSTER_NAME": "shop", "NAMESPACE": "team-a", "KUBERNETES_VERSION": "v1.34.4", **variables}

    def value(found: re.Match[str]) -> str:
        return said.get(found[1], found[2] or "")

    text = re.sub(r"\$\{(\w+)(?::=([^}]*))?\}", value, template.text())
    return list(yaml.load_all(text, yaml.CSafeLoader))


def test_the_release_says_which_contract_it_keeps(written: Path) -> None:
    metadata = yaml.load((written / "metadata.yaml").read_text(), yaml.CSafeLoader)
    (series,) = metadata["releaseSeries"]

    assert f"{series['major']}.{series['minor']}." in steelyard.__version__
    assert series["contract"] == "v1beta2"


def test_everything_carries_the_label_of_the_provider(written: Path) -> None:
    for each in installed(written):
        assert objects.labels(each)["cluster.x-k8s.io/provider"] == "infrastructure-kvm"


def test_the_definitions_are_those_that_the_platform_serves(written: Path) -> None:
    found = {objects.name(each): each for each in installed(written) if each["kind"] == "CustomResourceDefinition"}

    assert found == {objects.name(each): each for each in map(crd.definition, kvm.KINDS)}


def test_everything_else_is_in_one_namespace(written: Path) -> None:
    for each in installed(written):
        is_namespaced = each["kind"] in ("ServiceAccount", "Role", "RoleBinding", "Deployment")
        assert objects.namespace(each) == (components.NAMESPACE if is_namespaced else "")


def test_the_container_is_called_as_clusterctl_wants_it_and_gives_nothing_away(written: Path) -> None:
    (deployment,) = (each for each in installed(written) if each["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert (container["name"], container["image"]) == ("manager", "example/it:1")
    assert container["args"][:2] == ["provider", "kvm"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert not any("hostPath" in each for each in pod["volumes"])


def test_rights_are_no_wider_than_what_is_used() -> None:
    granted = {
        (group, resource): set(rule["verbs"])
        for rule in components.rules()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }

    assert granted["", "secrets"] == {"get"}, "never listed"
    assert all("*" not in (*place, *verbs) for place, verbs in granted.items())
    assert not any({"create", "delete", "update"} & verbs for place, verbs in granted.items() if place[0])


@pytest.mark.skipif(not documents.FOLDER.is_dir(), reason="the documents are not here")
def test_the_variables_of_the_template_are_the_documents() -> None:
    text = next(
        path.read_text() for path in documents.FOLDER.iterdir() if "CONTROL_PLANE_MACHINE_CPUS" in path.read_text()
    )
    printed = {name: default for name, default in _TABLE.findall(text) if default != "None"}

    assert dict(template.VARIABLES) == printed


def test_a_filled_in_template_passes_the_schemas() -> None:
    served = [*map(crd.definition, kvm.KINDS), *definitions.crds()]
    schemas = {
        (each["spec"]["group"], each["spec"]["names"]["kind"]): next(
            version["schema"]["openAPIV3Schema"]
            for version in each["spec"]["versions"]
            if version["name"] in ("v1beta2", "v1alpha4")
        )
        for each in served
    }
    checked = 0
    for each in filled(POD_IP_RANGE="10.77.0.0/16", WORKER_MACHINE_COUNT="1"):
        group = str(each["apiVersion"]).partition("/")[0]
        if (group, each["kind"]) not in schemas:
            assert each["kind"] in ("Secret", "ClusterResourceSet")
            continue
        schema = parse.from_openapi(schemas[group, each["kind"]])
        assert validate.validate(schema, each) == []
        assert prune.prune(schema, objects.copy(each)) == []
        checked += 1
    assert checked >= 7


def test_what_is_chosen_arrives_where_it_is_meant() -> None:
    made = {(each["kind"], objects.name(each)): each for each in filled(WORKER_MACHINE_CPUS="2", VOLUME_SIZE_GB="15")}

    workers = made["KVMMachineTemplate", "shop-md-0"]["spec"]["template"]["spec"]["resources"]
    plane = made["KVMMachineTemplate", "shop-control-plane"]["spec"]["template"]["spec"]["resources"]
    assert workers == {"cpu": 2, "memory": "8GB", "disk": "15GB", "dockerVolumeSize": "40GB"}
    assert plane == {"cpu": 4, "memory": "8GB", "disk": "40GB", "dockerVolumeSize": "40GB"}
    assert made["Cluster", "shop"]["spec"]["clusterNetwork"]["pods"]["cidrBlocks"] == ["172.24.0.0/16"]
    flannel = yaml.load(made["Secret", "shop-flannel"]["stringData"]["flannel.json"], yaml.CSafeLoader)
    assert [each["kind"] for each in flannel][-1] == "DaemonSet"


def test_the_example_of_a_host_is_one(written: Path) -> None:
    host = yaml.load((written / "kvmhost-example.yaml").read_text(), yaml.CSafeLoader)
    schema = parse.from_openapi(crd.definition(kvm.KVM_HOST)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])

    assert validate.validate(schema, host) == []
    assert prune.prune(schema, objects.copy(host)) == []
