"""Single decisions of a VirtualCluster's composition, and what a server does at its start."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from steelyard import settings
from steelyard.compose import checking, names, offering
from steelyard.compose.composed import NOTHING, Composed, Observed
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES
from steelyard.settings import Platform
from tests.compose import cases, printed, upstream

PLATFORM = settings.parse("infrastructure: kubevirt")


def claim(status: Object | None = None, **parameters: Any) -> Object:
    made: Object = {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": "VirtualCluster",
        "metadata": {"name": "dev", "namespace": "team-a", "uid": "u-1"},
        "spec": {"parameters": {"environment": "dev", **parameters}},
    }
    return made if status is None else {**made, "status": {"parameters": status}}


def compose(obj: Object, observed: Observed = NOTHING, platform: Platform = PLATFORM) -> Composed:
    return cases.compose(obj, observed, platform)


def used(obj: Object, platform: Platform = PLATFORM) -> Object:
    return objects.mapping(compose(obj, platform=platform).status["parameters"])


def servers(composed: Composed) -> dict[str, Object]:
    found = {name: part.object for name, part in composed.desired.items()}
    return {name: obj for name, obj in found.items() if obj["kind"] == "VirtualMachine"}


def user_data(composed: Composed) -> Any:
    text = base64.b64decode(composed.desired["first-start"].object["data"]["userdata"]).decode()
    assert text.startswith("#cloud-config\n")
    return yaml.load(text, yaml.CSafeLoader)


def files(composed: Composed) -> dict[str, str]:
    return {each["path"]: each["content"] for each in user_data(composed)["write_files"]}


@pytest.mark.parametrize("infrastructure", ["simulated", "kubevirt"])
@pytest.mark.parametrize("name", printed.VIRTUAL_CLUSTERS)
def test_printed_claims_are_valid_and_composed(name: str, infrastructure: str) -> None:
    platform = settings.parse(f"domain: pnats.cloud\ninfrastructure: {infrastructure}")
    wanted = printed.VIRTUAL_CLUSTERS[name]
    kind = offering.STANDARD.kind_of(wanted)
    assert kind is not None

    assert checking.of(kind, platform)(wanted) == []
    composed = compose(wanted, platform=platform)
    assert composed.refusal is None
    parameters = objects.mapping(composed.status["parameters"])
    assert parameters["k8sVersion"] == "v1.30.0"
    assert composed.status["controlPlane"]["desired"] == (3 if name == "001 production cluster" else 1)


@pytest.mark.parametrize(
    ("asked", "field", "expected"),
    [
        pytest.param({}, "cpuCores", 8, id="cores from the environment"),
        pytest.param({"cpuCores": 3}, "cpuCores", 3, id="cores from the claim"),
        pytest.param({}, "k8sVersion", "v1.32.1", id="version from the environment"),
        pytest.param({"k8sVersion": "1.30.0"}, "k8sVersion", "v1.30.0", id="version gets its v"),
        pytest.param({}, "highAvailability", False, id="one server where the environment has one"),
        pytest.param({"environment": "production"}, "highAvailability", True, id="three where it has three"),
        pytest.param(
            {"environment": "production", "highAvailability": False}, "highAvailability", False, id="one, if asked for"
        ),
        pytest.param({}, "ingressClass", "traefik", id="what k3s comes with"),
        pytest.param({"ingressClass": "none"}, "ingressClass", "none", id="no ingress controller"),
    ],
)
def test_what_is_used_for_a_parameter(asked: dict[str, Any], field: str, expected: object) -> None:
    assert used(claim(**asked))[field] == expected


def test_a_cluster_keeps_what_its_servers_were_made_with() -> None:
    before = used(claim())
    newer = settings.parse(
        "infrastructure: kubevirt\nkubevirt: {k3s: {ingressClass: nginx}}\n"
        "environments: {dev: {diskGb: 500, kubernetesVersion: v1.33.0, cpuCores: 16}}"
    )
    assert used(claim(before), newer) == {**before, "cpuCores": 16}


def test_the_environments_newer_version_is_told_where_servers_cannot_follow() -> None:
    case = "virtualcluster/ready-servers-of-k3s"
    wanted = cases.load(case, "claim.yaml")
    del wanted["spec"]["parameters"]["k8sVersion"]
    wanted["status"] = {"parameters": {**cases.load(case, "desired.yaml")["status"]["parameters"]}}
    composed = cases.compose(wanted, cases.observed(case), cases.platform(case))

    (up_to_date,) = [each for each in composed.conditions if each.type == "UpToDate"]
    assert (up_to_date.status, up_to_date.reason) == ("False", "VersionHeldBack")
    assert "is v1.32.1, and the servers were made with v1.30.0, which they keep" in up_to_date.message


def test_everything_that_cannot_change_is_told_at_once() -> None:
    before = {**used(claim()), "highAvailability": True}
    composed = compose(claim(before, diskGb=500, k8sVersion="1.33.0", ingressClass="nginx", highAvailability=False))

    assert composed.refusal is not None
    assert composed.refusal.reason == "CannotChange"
    assert composed.refusal.message.startswith(
        "spec.parameters.diskGb (100 now), spec.parameters.k8sVersion (v1.32.1 now), spec.parameters.ingressClass "
        "(traefik now), spec.parameters.highAvailability (true now) cannot change once the servers are made: new ones "
        "would be empty, and what is in the cluster lost. "
    )
    assert composed.desired == {}


def test_disks_stay_as_they_were_filled() -> None:
    first = compose(claim())
    observed = Observed({name: part.object for name, part in first.desired.items()})
    newer = settings.parse("infrastructure: kubevirt\nkubevirt: {storageClass: fast, k3s: {image: example.org/other}}")

    assert servers(compose(claim(), observed, newer)) == servers(first)
    assert servers(compose(claim(), platform=newer)) != servers(first)


def test_composing_again_with_what_was_made_changes_nothing() -> None:
    first = compose(claim())
    observed = Observed({name: part.object for name, part in first.desired.items()})

    again = compose(claim(), observed)
    assert {name: part.object for name, part in again.desired.items()} == {
        name: part.object for name, part in first.desired.items()
    }


def test_a_namespace_that_was_made_by_hand_is_not_entered() -> None:
    theirs: Object = {
        "apiVersion": NAMESPACES.api_version,
        "kind": NAMESPACES.kind,
        "metadata": {"name": names.external("team-a", "dev")},
    }
    composed = compose(claim(), Observed(required={"namesake": [theirs]}))

    assert composed.refusal is not None
    assert composed.refusal.reason == "NamespaceTaken"


def test_a_kubeconfig_that_only_has_the_name_is_passed_on_to_nobody() -> None:
    case = "virtualcluster/ready-servers-of-k3s"
    observed = cases.observed(case)
    secret = objects.copy(observed.required["kubeconfig"][0])
    secret["metadata"]["ownerReferences"][0]["uid"] = "of-something-else"
    composed = cases.compose(
        cases.load(case, "claim.yaml"),
        Observed(observed.resources, {**observed.required, "kubeconfig": [secret]}),
        cases.platform(case),
    )

    assert "connection" not in composed.desired
    assert "argocd-cluster" not in composed.desired
    assert "the one of that name is not this cluster's" in composed.conditions[0].message


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        pytest.param(
            {},
            {"memoryGi": 64},
            [
                "server dev-server-0: recreate: it is restarted, and the API is away meanwhile: memory 32Gi -> 64Gi",
            ],
            id="one server",
        ),
        pytest.param(
            {"highAvailability": True},
            {"highAvailability": True, "cpuCores": 4},
            [f"server dev-server-{number}: it is restarted, one after the other: cores 8 -> 4" for number in range(3)],
            id="three servers",
        ),
        pytest.param({}, {"environment": "staging", "cpuCores": 8, "memoryGi": 32}, [], id="labels alone"),
    ],
)
def test_what_a_change_does_to_servers(before: dict[str, Any], after: dict[str, Any], told: list[str]) -> None:
    kind = offering.STANDARD.kind_of(claim())
    assert kind is not None
    one, other = (
        {name: part.object for name, part in compose(claim(**each)).desired.items()} for each in (before, after)
    )
    assert [str(each) for each in kind.effects(one, other, {})] == told


def test_k3s_is_pinned_to_the_release_of_the_platform_file() -> None:
    platform = settings.parse(
        "infrastructure: kubevirt\nkubevirt: {k3s: {releaseSuffix: +k3s2, releases: {v1.30.0: v1.30.0+k3s9}}}"
    )
    install = "/usr/local/sbin/steelyard-k3s-install"

    assert "INSTALL_K3S_VERSION=v1.30.0+k3s1" in files(compose(claim(k8sVersion="1.30.0")))[install]
    assert "INSTALL_K3S_VERSION=v1.30.0+k3s9" in files(compose(claim(k8sVersion="1.30.0"), platform=platform))[install]
    assert "INSTALL_K3S_VERSION=v1.31.0+k3s2" in files(compose(claim(k8sVersion="1.31.0"), platform=platform))[install]


@pytest.mark.parametrize(
    ("asked", "disabled", "manifests", "ports"),
    [
        ("traefik", None, [], [6443, 80, 443]),
        ("nginx", ["traefik"], ["/var/lib/rancher/k3s/server/manifests/ingress-nginx.yaml"], [6443, 80, 443]),
        ("none", ["traefik"], [], [6443]),
    ],
)
def test_the_ingress_controller_that_is_asked_for(
    asked: str, disabled: object, manifests: list[str], ports: list[int]
) -> None:
    composed = compose(claim(ingressClass=asked))
    written = files(composed)

    assert yaml.load(written["/etc/rancher/k3s/config.yaml"], yaml.CSafeLoader).get("disable") == disabled
    found = [path for path in written if "manifests" in path]
    assert found == manifests
    for path in found:
        chart = yaml.load(written[path], yaml.CSafeLoader)
        assert (chart["kind"], chart["spec"]["version"]) == ("HelmChart", "4.12.1")
        assert (
            yaml.load(chart["spec"]["valuesContent"], yaml.CSafeLoader)["controller"]["ingressClassResource"]["name"]
            == asked
        )
    assert [each["port"] for each in composed.desired["api"].object["spec"]["ports"]] == ports


def test_nobody_logs_in_unless_the_platform_file_has_a_key() -> None:
    platform = settings.parse(
        'infrastructure: kubevirt\nkubevirt: {k3s: {sshAuthorizedKeys: ["ssh-ed25519 AAAA me@\\"here\\""]}}'
    )

    assert "users" not in user_data(compose(claim()))
    (user,) = user_data(compose(claim(), platform=platform))["users"]
    assert (user["name"], user["ssh_authorized_keys"]) == ("kube", ['ssh-ed25519 AAAA me@"here"'])


def test_nothing_secret_is_composed_before_there_are_keys() -> None:
    """What a server does is in a Secret for its size alone: KubeVirt takes 2048 bytes in a machine itself."""
    written = "\n".join(files(compose(claim())).values())
    assert "PRIVATE KEY" not in written
    assert "token-file: /etc/rancher/k3s/token" in written


@upstream.needed
def test_the_disks_of_servers_are_ones_that_cdi_accepts() -> None:
    schema = upstream.schema_of("datavolumes.cdi.kubevirt.io", "v1beta1")
    for server in servers(compose(claim(highAvailability=True))).values():
        for disk in server["spec"]["dataVolumeTemplates"]:
            volume: Object = {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", **disk}
            assert upstream.problems(schema, volume) == []


@pytest.mark.parametrize(
    ("parameters", "binding", "may_migrate"), [({}, "masquerade", False), ({"highAvailability": True}, "bridge", True)]
)
def test_servers_that_must_reach_each_other_have_addresses_of_their_own(
    parameters: dict[str, Any], binding: str, may_migrate: bool
) -> None:
    """Behind masquerade all of them would be 10.0.2.2."""
    for server in servers(compose(claim(**parameters))).values():
        template = server["spec"]["template"]
        assert template["spec"]["domain"]["devices"]["interfaces"] == [{"name": "default", binding: {}}]
        is_allowed = "kubevirt.io/allow-pod-bridge-network-live-migration" in objects.annotations(template)
        assert is_allowed is may_migrate
        assert template["spec"]["evictionStrategy"] == "LiveMigrate"


def test_machines_are_open_at_the_ports_of_the_service_alone() -> None:
    policy = compose(claim(ingressClass="none")).desired["network-policy"].object
    assert policy["spec"]["ingress"][-1] == {"ports": [{"port": 6443, "protocol": "TCP"}]}
    ports = compose(claim()).desired["network-policy"].object["spec"]["ingress"][-1]["ports"]
    assert [each["port"] for each in ports] == [80, 443, 6443]


def test_the_dns_of_servers_is_told_of_shared_services_when_they_first_start() -> None:
    shared = "infrastructure: kubevirt\nintegrations: {sharedServices: {enabled: true, dns: 10.96.0.10}}"
    path = "/var/lib/rancher/k3s/server/manifests/coredns-custom.json"
    composed = compose(claim(), platform=settings.parse(shared))

    told = yaml.load(files(composed)[path], yaml.CSafeLoader)
    assert told["metadata"] == {"name": "coredns-custom", "namespace": "kube-system"}
    assert "forward . 10.96.0.10" in str(told["data"])
    assert not [each for each in composed.conditions if each.type == "SharedServices"]

    overlapping = settings.parse(shared.replace("10.96.0.10", "10.95.0.10"))
    assert path not in files(compose(claim(), platform=overlapping))
    assert [each.reason for each in compose(claim(), platform=overlapping).conditions if each.type == "SharedServices"]


class Guest:
    """A server's files in a folder, with programs that do as the test says."""

    def __init__(self, folder: Path, hostname: str) -> None:
        self._folder = folder
        self.keys = folder / "run" / "k3s-keys"
        self.keys.mkdir(parents=True)
        pairs = [f"{name}.{kind}" for name in ("ca", "etcd", "proxy") for kind in ("crt", "key")]
        self.has({name: f"{name} of the platform\n" for name in (*pairs, "sa.key", "token")})
        self.has({"address": "192.0.2.7", "service": "10.96.0.7"})
        programs = {"mountpoint": "exit 0", "curl": 'exit "$ANSWER"', "hostname": f"echo {hostname}"}
        (folder / "bin").mkdir()
        for name, script in programs.items():
            (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / "bin" / name).chmod(0o755)

    def has(self, content: Mapping[str, str]) -> None:
        for name, text in content.items():
            (self.keys / name).write_text(text)

    def starts(self, *, answer: bool = False) -> int:
        script = files(compose(claim()))["/usr/local/sbin/steelyard-k3s-keys"]
        for place in ("/run/", "/etc/rancher", "/var/lib"):
            script = script.replace(f"={place}", f"={self._folder}{place}")
        environment = {"PATH": f"{self._folder}/bin:{os.environ['PATH']}", "ANSWER": "0" if answer else "7"}
        done = subprocess.run(["sh", "-c", script], env=environment, check=False, timeout=30)
        return done.returncode

    def read(self, path: str) -> str:
        return (self._folder / path).read_text()

    def config(self) -> Object:
        found: Object = {}
        for path in sorted((self._folder / "etc/rancher/k3s/config.yaml.d").iterdir()):
            found |= cast(Object, yaml.load(path.read_text(), yaml.CSafeLoader))
        return found


def test_the_first_server_starts_the_cluster_with_the_platforms_keys(tmp_path: Path) -> None:
    guest = Guest(tmp_path, "dev-server-0")

    assert guest.starts() == 0
    assert guest.config() == {"cluster-init": True, "tls-san": ["192.0.2.7", "10.96.0.7"]}
    tls = "var/lib/rancher/k3s/server/tls"
    placed = {str(path.relative_to(tmp_path / tls)) for path in (tmp_path / tls).rglob("*") if path.is_file()}
    authorities = ("server-ca", "client-ca", "request-header-ca", "etcd/server-ca", "etcd/peer-ca")
    assert placed == {f"{name}.{kind}" for name in authorities for kind in ("crt", "key")} | {"service.key"}
    assert guest.read(f"{tls}/client-ca.key") == "ca.key of the platform\n"
    assert (tmp_path / tls / "server-ca.key").stat().st_mode & 0o777 == 0o600
    assert guest.read("etc/rancher/k3s/token") == "token of the platform\n"


def test_another_server_waits_for_the_first_and_joins_it(tmp_path: Path) -> None:
    guest = Guest(tmp_path, "dev-server-1")

    assert guest.starts() == 1
    assert guest.starts(answer=True) == 0
    assert guest.config()["server"] == "https://10.96.0.7:6443"
    assert "cluster-init" not in guest.config()


def test_a_first_server_that_comes_back_empty_joins_the_others(tmp_path: Path) -> None:
    guest = Guest(tmp_path, "dev-server-0")

    assert guest.starts(answer=True) == 0
    assert guest.config()["server"] == "https://10.96.0.7:6443"


def test_a_server_keeps_keys_and_part_and_follows_the_address(tmp_path: Path) -> None:
    guest = Guest(tmp_path, "dev-server-0")
    guest.starts()
    guest.has({"ca.key": "another\n", "token": "another\n", "address": "192.0.2.8", "service": "fd00::7"})

    assert guest.starts(answer=True) == 0
    assert guest.read("var/lib/rancher/k3s/server/tls/server-ca.key") == "ca.key of the platform\n"
    assert guest.read("etc/rancher/k3s/token") == "token of the platform\n"
    assert guest.config() == {"cluster-init": True, "tls-san": ["192.0.2.8", "fd00::7"]}


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("kubevirt: {k3s: {sshAuthorizedKeys: [hello]}}", "sshAuthorizedKeys"),
        ("kubevirt: {k3s: {releases: {v1.30: v1.30.0+k3s1}}}", "v1.30.0"),
        ("kubevirt: {k3s: {releaseSuffix: k3s1}}", "releaseSuffix"),
        ("kubevirt: {k3s: {installer: get.k3s.io}}", "installer"),
    ],
)
def test_bad_settings_are_told(file: str, problem: str) -> None:
    with pytest.raises(settings.SettingsError, match=problem):
        settings.parse(file)
