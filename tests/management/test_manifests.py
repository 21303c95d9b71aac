"""What `steelyard manifests` writes: complete, least rights, taken by the tools it is for, and nobody else's files."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from steelyard.cli import main
from steelyard.kube import objects
from steelyard.kube.objects import Object
from tests.harness import built, found

WANTED = "claims,lifecycle,simulated,kvm"
PLATFORM = """\
domain: example.org
kvm:
  hosts:
    rack-1:
      uri: qemu+tls://rack-1.example.org/system
      storageRoots: [/srv/machines]
      networks: {ranges: [10.201.0.0/16]}
"""


def written(folder: Path, *arguments: str) -> str:
    done = CliRunner().invoke(main.app, ["manifests", "-o", str(folder), *arguments])
    assert done.exit_code == 0, done.output
    return done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("manifests")
    (made / "settings.yaml").write_text(PLATFORM)
    arguments = ["--with", WANTED, "--image", "example/it:1", "--platform", str(made / "settings.yaml")]
    written(made / "all", *arguments, "--namespace", "fleet")
    return made / "all"


def of(path: Path) -> list[Object]:
    return [each for each in yaml.load_all(path.read_text(), yaml.CSafeLoader) if each]


def base(folder: Path) -> list[Object]:
    (listing,) = of(folder / "kustomization.yaml")
    return list(itertools.chain.from_iterable(of(folder / name) for name in listing["resources"]))


def kinds(items: list[Object], kind: str) -> dict[str, Object]:
    return {objects.name(each): each for each in items if each["kind"] == kind}


def test_definitions_carry_the_labels_of_clusterctl(folder: Path) -> None:
    defined = kinds(base(folder), "CustomResourceDefinition")
    assert {"workloadclusters.compute.example.org", "kvmmachines.infrastructure.cluster.x-k8s.io"} <= set(defined)
    for each in defined.values():
        assert objects.labels(each)["clusterctl.cluster.x-k8s.io"] == ""
    labels = objects.labels(defined["kubeadmcontrolplanes.controlplane.cluster.x-k8s.io"])
    assert labels["cluster.x-k8s.io/provider"] == "control-plane-kubeadm"
    assert labels["cluster.x-k8s.io/v1beta2"] == "v1beta2"
    labels = objects.labels(defined["kvmmachines.infrastructure.cluster.x-k8s.io"])
    assert labels["cluster.x-k8s.io/provider"] == "infrastructure-kvm"


def test_cluster_apis_own_definitions_come_with_cluster_api(tmp_path: Path) -> None:
    written(tmp_path, "--with", "claims")
    defined = kinds(base(tmp_path), "CustomResourceDefinition")
    assert "workloadclusters.compute.steelyard.dev" in defined
    assert "clusters.cluster.x-k8s.io" not in defined


def test_policies_are_in_force_and_speak_of_the_domain_of_the_platform_file(folder: Path) -> None:
    policies = kinds(base(folder), "ValidatingAdmissionPolicy")
    bindings = kinds(base(folder), "ValidatingAdmissionPolicyBinding")
    assert "connection-secrets.compute.example.org" in policies
    assert {each["spec"]["policyName"] for each in bindings.values()} == set(policies)


def test_rights_have_no_wildcard_and_follow_what_runs(folder: Path, tmp_path: Path) -> None:
    def granted(items: list[Object]) -> dict[tuple[str, str], set[str]]:
        (role,) = kinds(items, "ClusterRole").values()
        found: dict[tuple[str, str], set[str]] = {}
        for rule in role["rules"]:
            for place in itertools.product(rule["apiGroups"], rule["resources"]):
                found.setdefault(place, set()).update(rule["verbs"])
        return found

    everything = granted(base(folder))
    assert not [place for place, verbs in everything.items() if "*" in (*place, *verbs)]
    assert not {"escalate", "bind", "impersonate", "deletecollection"} & set().union(*everything.values())
    assert everything["compute.example.org", "workloadclusters/status"] == {"patch"}
    assert "create" in everything["cluster.x-k8s.io", "machines"]
    written(tmp_path, "--with", "kvm")
    alone = granted(base(tmp_path))
    assert alone["", "secrets"] == {"get"}
    assert alone["cluster.x-k8s.io", "machines"] == {"get", "list", "watch"}
    assert ("compute.steelyard.dev", "workloadclusters") not in alone


def test_the_program_runs_as_that_account_with_those_settings(folder: Path) -> None:
    items = base(folder)
    (deployment,) = kinds(items, "Deployment").values()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "example/it:1"
    assert container["args"][:3] == ["controllers", "--with", WANTED]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert objects.namespace(deployment) == "fleet"
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    (binding,) = kinds(items, "ClusterRoleBinding").values()
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "fleet"}]
    (settings,) = kinds(items, "ConfigMap").values()
    assert settings["data"] == {"platform.yaml": PLATFORM}
    (service,) = kinds(items, "Service").values()
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]


def test_hosts_of_the_platform_file_are_applied_after_their_definitions(folder: Path) -> None:
    (host,) = of(folder / "standing" / "objects.yaml")
    assert (host["kind"], objects.name(host)) == ("KVMHost", "rack-1")


def test_files_of_others_are_not_touched_and_old_ones_of_its_own_go(tmp_path: Path) -> None:
    written(tmp_path, "--with", "claims,lifecycle")
    stale = tmp_path / "crds" / "clusters.cluster.x-k8s.io.yaml"
    assert stale.exists()
    mine = tmp_path / "mine.yaml"
    mine.write_text("a: 1\n")
    assert "removed" in written(tmp_path, "--with", "claims")
    assert not stale.exists()
    assert mine.read_text() == "a: 1\n"

    (tmp_path / "rights.yaml").write_text("# by hand\n")
    before = (tmp_path / "controllers.yaml").read_text()
    done = CliRunner().invoke(main.app, ["manifests", "-o", str(tmp_path), "--with", "claims", "--image", "other:2"])
    assert done.exit_code == 1
    assert f"{tmp_path / 'rights.yaml'} was not written by this command" in done.stderr
    assert (tmp_path / "controllers.yaml").read_text() == before
    assert (tmp_path / "rights.yaml").read_text() == "# by hand\n"


def test_what_was_written_for_another_cluster_into_a_folder_below_stays(tmp_path: Path) -> None:
    written(tmp_path / "other", "--with", "claims,kvm")
    before = sorted((tmp_path / "other").rglob("*"))
    assert "removed" not in written(tmp_path, "--with", "claims")
    assert sorted((tmp_path / "other").rglob("*")) == before


def test_kustomize_takes_the_base(folder: Path, tmp_path: Path) -> None:
    (kubectl,) = built("kubectl")
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=True)
    made = [each for each in yaml.load_all(done.stdout, yaml.CSafeLoader) if each]

    def names(items: list[Object]) -> list[tuple[str, str]]:
        return sorted((each["kind"], objects.name(each)) for each in items)

    assert names(made) == names(base(folder))
    overlay = {"resources": ["../all"], "components": ["../all/monitoring"]}
    (folder.parent / "overlay").mkdir(exist_ok=True)
    (folder.parent / "overlay" / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    done = subprocess.run(
        [kubectl, "kustomize", str(folder.parent / "overlay")], capture_output=True, text=True, check=True
    )
    assert "kind: ServiceMonitor" in done.stdout


@pytest.mark.skipif(not found("helm"), reason="helm has not been built here")
def test_helm_takes_the_chart_and_makes_the_same_objects(folder: Path) -> None:
    chart = str(folder / "chart")
    helm = found("helm")
    subprocess.run([helm, "lint", "--strict", chart], capture_output=True, text=True, check=True)
    command = [helm, "template", "it", chart, "--namespace", "fleet", "--include-crds", "--kube-version", "1.34.0"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    made = {(each["kind"], objects.name(each)): each for each in yaml.load_all(done.stdout, yaml.CSafeLoader) if each}
    wanted = {(each["kind"], objects.name(each)): each for each in base(folder) if each["kind"] != "Namespace"}
    assert made == wanted
    more = ["--set", "serviceMonitor.enabled=true", "--set", "replicas=5", "--set-string", "image.tag=2"]
    done = subprocess.run([*command, *more], capture_output=True, text=True, check=True)
    made = {(each["kind"], objects.name(each)): each for each in yaml.load_all(done.stdout, yaml.CSafeLoader) if each}
    assert ("ServiceMonitor", "steelyard-controllers") in made
    deployment = made["Deployment", "steelyard-controllers"]["spec"]
    assert deployment["replicas"] == 5
    assert deployment["template"]["spec"]["containers"][0]["image"] == "example/it:2"
