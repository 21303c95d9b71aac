"""Clusters of machines on plain KVM hosts: each decision as a small case. No platform makes them yet."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard import settings
from steelyard.api.infrastructures import OFFERED
from steelyard.compose import offering
from steelyard.compose.composable import COMPOSABLE
from steelyard.compose.composed import NOTHING, Composed, Observed
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from tests.compose import cases
from tests.compose.observing import reachable

MACHINES = ("control-plane-machines", "worker-machines")


def platform(file: str = "") -> Platform:
    return settings.parse(f"infrastructure: kvm\n{file}", infrastructures=COMPOSABLE.infrastructure_names)


def claim(**parameters: Any) -> Object:
    return {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": "WorkloadCluster",
        "metadata": {"name": "dev", "namespace": "team-a", "uid": "u-1"},
        "spec": {"parameters": {"environment": "dev", **parameters}},
    }


def compose(file: str = "", observed: Observed = NOTHING, **parameters: Any) -> Composed:
    composed = cases.compose(claim(**parameters), observed, platform(file))
    assert composed.refusal is None, composed.refusal
    return composed


def machine(composed: Composed, part: str) -> Object:
    return composed.desired[part].object["spec"]["template"]["spec"]


def started(composed: Composed) -> list[Object]:
    """What the machines are told at their start: those of the control plane, and workers."""
    plane = composed.desired["control-plane"].object["spec"]["kubeadmConfigSpec"]
    return [plane, composed.desired["worker-bootstrap"].object["spec"]["template"]["spec"]]


def registrations(composed: Composed) -> list[Object]:
    return [
        each["nodeRegistration"]
        for config in started(composed)
        for name, each in config.items()
        if name in ("initConfiguration", "joinConfiguration")
    ]


def files(composed: Composed) -> dict[str, str]:
    plane, workers = (
        [(each["path"], each["content"]) for each in config.get("files", [])] for config in started(composed)
    )
    assert plane == workers
    return dict(plane)


def condition(composed: Composed, type_: str) -> Any:
    return next((each for each in composed.conditions if each.type == type_), None)


def test_no_platform_offers_what_nothing_brings_about() -> None:
    assert offering.STANDARD.infrastructure_names == OFFERED
    assert "kvm" not in OFFERED
    kind = offering.STANDARD.kind_of(claim())
    assert kind is not None
    refusal = kind.compose(claim(infrastructure="kvm"), NOTHING, settings.parse("")).refusal
    assert refusal is not None
    assert refusal.reason == "InfrastructureNotAvailable"


def test_everything_that_is_offered_can_be_composed_and_more() -> None:
    assert set(offering.STANDARD.infrastructure_names) < set(COMPOSABLE.infrastructure_names)
    offered, composable = (
        {objects.name(each) for each in known.definitions("steelyard.dev")} for known in (offering.STANDARD, COMPOSABLE)
    )
    kinds = ("kvmclusters", "kvmmachines", "kvmmachinetemplates", "kvmhosts")
    assert composable - offered == {f"{each}.infrastructure.cluster.x-k8s.io" for each in kinds}


def test_the_cluster_is_in_the_claims_namespace_and_asks_no_cloud() -> None:
    composed = compose()

    assert {objects.namespace(part.object) for part in composed.desired.values()} == {"team-a"}
    assert set(composed.desired) == {
        "infrastructure", "control-plane-machines", "control-plane", "cluster", "worker-machines", "worker-bootstrap",
        "workers", "control-plane-health", "worker-health",
    }  # fmt: skip


def test_a_claim_pinned_to_the_first_revision_gets_no_cluster_without_a_network() -> None:
    pinned = {**claim(), "status": {"compositionRevision": "v1"}}
    refusal = cases.compose(pinned, NOTHING, platform()).refusal

    assert refusal is not None
    assert "composition revision v1" in refusal.message


@pytest.mark.parametrize("part", MACHINES)
def test_a_machine_has_the_size_that_was_asked_for(part: str) -> None:
    made = machine(compose(cpuCores=3, memoryGi=7, diskGb=33, kubernetesVersion="v1.32.1"), part)

    assert made == {
        "resources": {"cpu": 3, "memory": "7Gi", "disk": "33Gi"},
        "image": "debian-12-kubernetes-v1.32.1.qcow2",
    }


@pytest.mark.parametrize(
    ("catalogue", "image"),
    [
        ("", "debian-12-kubernetes-v1.32.1.qcow2"),
        ("{image: 'node-{version}.qcow2', offered: {v1.32: {}}}", "node-v1.32.1.qcow2"),
        ("{image: 'node-{version}.qcow2', offered: {v1.32.1: {image: special.qcow2}}}", "special.qcow2"),
        ("{offered: {v1.32.1: {}}}", "debian-12-kubernetes-v1.32.1.qcow2"),
    ],
    ids=["no catalogue", "by version", "one of its own", "no image named"],
)
def test_machines_boot_from_the_image_of_the_catalogue(catalogue: str, image: str) -> None:
    file = f"versions: {{infrastructures: {{kvm: {catalogue}}}}}" if catalogue else ""

    assert machine(compose(file, kubernetesVersion="v1.32.1"), "worker-machines")["image"] == image


@pytest.mark.parametrize(
    ("file", "field", "value"),
    [
        ("storageRoot: /srv/disks", "storageRoot", "/srv/disks"),
        ("dnsServers: [10.0.0.53]", "dnsServers", ["10.0.0.53"]),
        ("ntpServers: [ntp.example.org]", "ntpServers", ["ntp.example.org"]),
    ],
    ids=["storage", "DNS", "NTP"],
)
@pytest.mark.parametrize("part", MACHINES)
def test_settings_of_machines_reach_all_of_them(file: str, field: str, value: object, part: str) -> None:
    assert field not in machine(compose(), part)
    assert machine(compose(f"kvm: {{{file}}}"), part)[field] == value


def test_volumes_of_their_own() -> None:
    sizes = machine(compose("kvm: {containerVolumeGb: 40, kubeletVolumeGb: 20}"), "worker-machines")["resources"]

    assert (sizes["dockerVolumeSize"], sizes["kubeletVolumeSize"]) == ("40Gi", "20Gi")


@pytest.mark.parametrize(
    ("file", "network"),
    [
        ("", {"mode": "NAT"}),
        ("kvm: {network: {mode: isolated}}", {"mode": "Isolated"}),
        ("kvm: {network: {mode: bridge, bridge: br0}}", {"mode": "Bridge", "bridge": "br0"}),
    ],
    ids=["nat", "isolated", "bridge"],
)
def test_what_connects_a_cluster(file: str, network: Object) -> None:
    assert compose(file).desired["infrastructure"].object["spec"] == {"network": network}


def test_the_address_of_the_api_can_be_chosen() -> None:
    granted = "networks: {apiEndpoints: [{claimsIn: ['*'], hosts: ['*.k8s.example.org']}]}"
    spec = compose(granted, apiEndpoint="dev.k8s.example.org:6443").desired["infrastructure"].object["spec"]

    assert spec["controlPlaneEndpoint"] == {"host": "dev.k8s.example.org", "port": 6443}


def test_machines_that_kubeadm_would_refuse_are_refused() -> None:
    refusal = cases.compose(claim(memoryGi=1), NOTHING, platform()).refusal

    assert refusal is not None
    assert "1 GiB of memory" in refusal.message


def test_kubelets_say_themselves_which_machine_they_are_and_wait_for_no_cloud() -> None:
    found = registrations(compose())

    assert len(found) == 3
    for each in found:
        assert each["name"] == "{{ ds.meta_data.hostname }}"
        assert each["kubeletExtraArgs"] == [{"name": "provider-id", "value": "kvm://{{ ds.meta_data.instance_id }}"}]


def test_a_control_plane_alone_takes_what_is_to_run() -> None:
    asked: Object = {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": "VirtualCluster",
        "metadata": {"name": "dev", "namespace": "team-a", "uid": "u-1"},
        "spec": {"parameters": {"environment": "dev"}},
    }
    composed = cases.compose(asked, NOTHING, platform())
    assert composed.refusal is None, composed.refusal
    alone = composed.desired["control-plane"].object["spec"]["kubeadmConfigSpec"]

    assert [alone[each]["nodeRegistration"]["taints"] for each in ("initConfiguration", "joinConfiguration")] == [
        [],
        [],
    ]
    assert all("taints" not in each for each in registrations(compose())), "where there are workers"


def test_machines_are_told_nothing_of_registries_where_the_file_says_nothing() -> None:
    for config in started(compose()):
        assert set(config) <= {"initConfiguration", "joinConfiguration"}


@pytest.mark.parametrize(
    ("mirrors", "path", "content"),
    [
        pytest.param(
            "docker.io: [https://mirror.example.org/]",
            "docker.io",
            'server = "https://registry-1.docker.io"\n\n'
            '[host."https://mirror.example.org"]\n  capabilities = ["pull", "resolve"]\n',
            id="of docker.io, which is elsewhere",
        ),
        pytest.param(
            "registry.k8s.io: [https://harbor.example.org/v2/k8s]",
            "registry.k8s.io",
            'server = "https://registry.k8s.io"\n\n'
            '[host."https://harbor.example.org/v2/k8s"]\n  capabilities = ["pull", "resolve"]\n'
            "  override_path = true\n",
            id="under a path",
        ),
        pytest.param(
            '"*": [http://10.0.0.5:5000]',
            "_default",
            '[host."http://10.0.0.5:5000"]\n  capabilities = ["pull", "resolve"]\n',
            id="of all others",
        ),
    ],
)
def test_containerd_asks_a_mirror_first(mirrors: str, path: str, content: str) -> None:
    composed = compose(f"kvm: {{registryMirrors: {{{mirrors}}}}}")

    assert files(composed) == {f"/etc/containerd/certs.d/{path}/hosts.toml": content}
    assert all("preKubeadmCommands" not in config for config in started(composed)), "it is read at each pull"


def test_containerd_pulls_through_a_proxy_but_for_the_clusters_own_addresses() -> None:
    composed = compose("kvm: {proxy: {https: 'http://proxy:3128', exceptions: [.example.org]}}")

    assert files(composed) == {
        "/etc/systemd/system/containerd.service.d/http-proxy.conf": "[Service]\n"
        'Environment="HTTPS_PROXY=http://proxy:3128"\n'
        'Environment="NO_PROXY=localhost,127.0.0.0/8,::1,10.243.0.0/16,10.95.0.0/16,.example.org"\n'
    }
    for config in started(composed):
        assert config["preKubeadmCommands"] == ["systemctl daemon-reload", "systemctl restart containerd"]


def test_users_with_their_keys() -> None:
    for config in started(compose("kvm: {users: {thomas: [ssh-rsa AAA]}}")):
        assert config["users"] == [{"name": "thomas", "sshAuthorizedKeys": ["ssh-rsa AAA"]}]


def test_another_proxy_replaces_machines() -> None:
    names = {
        objects.name(compose(file).desired["worker-bootstrap"].object)
        for file in ("", "kvm: {proxy: {http: 'http://a:1'}}", "kvm: {proxy: {http: 'http://b:1'}}")
    }

    assert len(names) == 3


@pytest.mark.parametrize(("file", "plugin"), [("", "cilium"), ("networkPlugin: calico", "calico")], ids=str)
def test_the_network_of_pods_comes_by_a_plugin(file: str, plugin: str) -> None:
    composed = compose(f"integrations: {{argocd: {{enabled: true}}}}\nkvm: {{{file}}}", reachable(namespace="team-a"))

    assert objects.name(composed.desired["network-plugin"].object).endswith(f"-{plugin}")


def test_who_installs_no_network_is_told_where_to_name_one() -> None:
    assert "kvm.networkManifests" in condition(compose(), "NetworkInstalled").message


def test_manifests_of_the_network_are_those_of_the_infrastructure() -> None:
    composed = compose(
        "kvm: {networkManifests: {cilium: [{name: of-kvm}]}}\nkubevirt: {networkManifests: {cilium: [{name: other}]}}"
    )

    assert composed.requirements["network-manifests-0"].name == "of-kvm"
    told = condition(composed, "NetworkInstalled").message
    assert "there is no ConfigMap steelyard-system/of-kvm, which the platform file names (kvm.networkManifests)" in told
