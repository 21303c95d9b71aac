"""Clusters of machines on plain KVM hosts: each decision as a small case."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import yaml

from steelyard import settings
from steelyard.api.infrastructures import OFFERED
from steelyard.compose import offering
from steelyard.compose.composed import NOTHING, Composed, Observed
from steelyard.compose.infrastructures import kvm, kvmhosts
from steelyard.compose.integrations import flannel
from steelyard.compose.integrations.subject import Subject
from steelyard.compose.shape import ControlPlane, Network, Shape, Sizes
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.schema import parse, prune, validate
from steelyard.settings import Platform
from tests.compose import cases
from tests.compose.observing import reachable

MACHINES = ("control-plane-machines", "worker-machines")
KINDS = ("kvmclusters", "kvmclustertemplates", "kvmmachines", "kvmmachinetemplates", "kvmhosts")


def platform(file: str = "") -> Platform:
    return settings.parse(f"infrastructure: kvm\n{file}")


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


def inside(composed: Composed, what: str) -> list[Object]:
    """The objects that a ClusterResourceSet brings into the cluster."""
    data = composed.desired[f"inside-{what}-manifests"].object["data"]
    return [each for text in data.values() for each in yaml.safe_load(base64.b64decode(text))]


def test_every_platform_offers_them_and_defines_their_kinds() -> None:
    assert offering.STANDARD.infrastructure_names == OFFERED
    assert "kvm" in OFFERED
    defined = {objects.name(each) for each in offering.STANDARD.definitions("steelyard.dev")}
    assert {f"{each}.infrastructure.cluster.x-k8s.io" for each in KINDS} <= defined


def test_a_claim_may_choose_them_where_the_platforms_own_are_others() -> None:
    composed = cases.compose(claim(infrastructure="kvm"), NOTHING, settings.parse(""))

    assert composed.refusal is None
    assert composed.desired["infrastructure"].resource.kind == "KVMCluster"


def test_the_cluster_is_in_the_claims_namespace_and_asks_no_cloud() -> None:
    composed = compose()

    assert {objects.namespace(part.object) for part in composed.desired.values()} == {"team-a"}
    assert set(composed.desired) == {
        "infrastructure", "control-plane-machines", "control-plane", "cluster", "worker-machines", "worker-bootstrap",
        "workers", "control-plane-health", "worker-health", "inside-network-plugin", "inside-network-plugin-manifests",
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
    endpoint: dict[str, Any] = {"apiEndpoint": "192.168.7.10:6443"} if "bridge" in file else {}
    granted = "networks: {apiEndpoints: [{claimsIn: ['*'], hosts: ['192.168.7.10']}]}"
    spec = compose(f"{file}\n{granted}", **endpoint).desired["infrastructure"].object["spec"]

    assert (spec["network"], spec["dnsName"]) == (network, "dev.k8s.steelyard.dev")


def test_the_name_of_the_api_is_in_its_certificates() -> None:
    plane, workers = started(compose("domain: example.org"))

    assert plane["clusterConfiguration"]["apiServer"]["certSANs"] == ["dev.k8s.example.org"]
    assert "clusterConfiguration" not in workers


BRIDGED = (
    "kvm: {network: {mode: bridge, bridge: br0}}\n"
    "networks: {apiEndpoints: [{claimsIn: ['*'], hosts: ['192.168.7.10', '*.example.org']}]}"
)


def test_on_a_bridge_the_address_of_the_api_is_the_claims() -> None:
    spec = compose(BRIDGED, apiEndpoint="192.168.7.10:6443").desired["infrastructure"].object["spec"]

    assert spec["controlPlaneEndpoint"] == {"host": "192.168.7.10", "port": 6443}


@pytest.mark.parametrize(
    ("file", "asked", "told"),
    [
        (BRIDGED, {}, "give an address of that network"),
        (BRIDGED, {"apiEndpoint": "dev.example.org:6443"}, "dev.example.org is no address"),
        (BRIDGED, {"apiEndpoint": "192.168.7.11:6443"}, "is not for claims in team-a to name"),
        ("", {"apiEndpoint": "192.168.7.10:6443"}, "cannot be chosen on kvm"),
    ],
    ids=["none", "a name", "another's", "in a network of its own"],
)
def test_an_address_that_cannot_be_had_is_refused(file: str, asked: dict[str, str], told: str) -> None:
    refusal = cases.compose(claim(**asked), NOTHING, platform(file)).refusal

    assert refusal is not None
    assert told in refusal.message


def test_machines_that_kubeadm_would_refuse_are_refused() -> None:
    refusal = cases.compose(claim(memoryGi=1), NOTHING, platform()).refusal

    assert refusal is not None
    assert "1 GiB of memory" in refusal.message


@pytest.mark.parametrize(("cores", "ignored"), [(1, ["NumCPU"]), (2, None)])
def test_kubeadm_makes_a_control_plane_of_one_core_where_that_is_asked_for(
    cores: int, ignored: list[str] | None
) -> None:
    first, joining, worker = registrations(compose(cpuCores=cores))

    assert [each.get("ignorePreflightErrors") for each in (first, joining)] == [ignored, ignored]
    assert "ignorePreflightErrors" not in worker


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
        assert set(config) <= {"initConfiguration", "joinConfiguration", "clusterConfiguration"}


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


@pytest.mark.parametrize("plugin", ["cilium", "calico"])
def test_the_network_of_pods_comes_by_a_plugin(plugin: str) -> None:
    file = f"integrations: {{argocd: {{enabled: true}}}}\nkvm: {{networkPlugin: {plugin}}}"
    composed = compose(file, reachable(namespace="team-a"))

    assert objects.name(composed.desired["network-plugin"].object).endswith(f"-{plugin}")
    assert "inside-network-plugin" not in composed.desired


@pytest.mark.parametrize("file", ["", "integrations: {argocd: {enabled: true}}"], ids=["alone", "with Argo CD"])
def test_flannel_comes_without_a_download_whoever_else_installs_things(file: str) -> None:
    composed = compose(file, reachable(namespace="team-a"), podCidr="10.77.0.0/16")

    made = {each["kind"]: each for each in inside(composed, "network-plugin")}
    assert list(made) == [
        "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet",
    ]  # fmt: skip
    network = json.loads(made["ConfigMap"]["data"]["net-conf.json"])
    assert network == {"Network": "10.77.0.0/16", "Backend": {"Type": "vxlan"}}
    pod = made["DaemonSet"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == flannel.IMAGE
    assert pod["tolerations"] == [{"operator": "Exists"}], "it runs where nothing else may yet"
    assert "network-plugin" not in composed.desired
    assert composed.desired["inside-network-plugin"].object["spec"]["strategy"] == "Reconcile"


def test_a_cluster_is_not_ready_before_its_network_is_installed() -> None:
    found = {**reachable(namespace="team-a").resources}
    found |= {name: part.object for name, part in compose("", Observed(found)).desired.items() if name not in found}
    waiting = flannel.of(subject(Observed(found))).waiting_for
    assert waiting == (
        "waiting for flannel to be installed: ClusterResourceSet team-a/dev-network-plugin: Cluster API has not "
        "looked at it yet"
    )
    applied = {"conditions": [{"type": "ResourcesApplied", "status": "True"}]}
    found["inside-network-plugin"] = {**found["inside-network-plugin"], "status": applied}
    assert flannel.of(subject(Observed(found))).waiting_for == ""


def subject(observed: Observed) -> Subject:
    shape = Shape(
        name="dev", namespace="team-a", environment="dev", version="v1.32.1",
        control_plane=ControlPlane(1, Sizes(2, 4, 20)), pools=(), network=Network("10.243.0.0/16", "10.95.0.0/16"),
    )  # fmt: skip
    return Subject(shape, claim(), kvm.KVM, platform(), observed, (), "", None)


def test_flannel_is_refused_on_machines_that_do_not_have_it() -> None:
    asked = {**claim(networkPlugin="flannel", infrastructure="kubevirt"), "kind": "KubernetesCluster"}
    refusal = cases.compose(asked, NOTHING, settings.parse("")).refusal

    assert refusal is not None
    assert refusal.message == (
        "spec.parameters.networkPlugin: machines of kubevirt do not have flannel; choose another, or leave the field "
        "out"
    )


def test_who_installs_no_network_is_told_where_to_name_one() -> None:
    told = condition(compose("kvm: {networkPlugin: cilium}"), "NetworkInstalled").message

    assert "kvm.networkManifests" in told


def test_manifests_of_the_network_are_those_of_the_infrastructure() -> None:
    composed = compose(
        "kvm: {networkPlugin: cilium, networkManifests: {cilium: [{name: of-kvm}]}}\n"
        "kubevirt: {networkManifests: {cilium: [{name: other}]}}"
    )

    assert composed.requirements["network-manifests-0"].name == "of-kvm"
    told = condition(composed, "NetworkInstalled").message
    assert "there is no ConfigMap steelyard-system/of-kvm, which the platform file names (kvm.networkManifests)" in told


@pytest.mark.parametrize(
    ("file", "field", "value"),
    [
        ("etcdVolumeGb: 8", "etcdVolume", {"size": "8Gi"}),
        ("etcdHostPath: /srv/etcd", "etcdVolume", {"hostPath": "/srv/etcd"}),
        (
            "iscsiInitiatorName: 'iqn.2026-01.org.example:{machine}'",
            "iscsiInitiatorName",
            "iqn.2026-01.org.example:{machine}",
        ),
        ("limits: {guest: {cpu: '1.5'}}", "limits", {"guest": {"cpu": "1.5"}}),
    ],
    ids=["a disk for etcd", "a directory for etcd", "iSCSI", "limits"],
)
def test_settings_of_the_control_plane_reach_its_machines_alone(file: str, field: str, value: object) -> None:
    composed = compose(f"kvm: {{controlPlane: {{{file}}}}}")

    assert machine(composed, "control-plane-machines")[field] == value
    assert field not in machine(composed, "worker-machines")


@pytest.mark.parametrize(
    ("file", "field", "value"),
    [
        (
            "hostVolumes: [{name: data, hostPath: /srv/data, mountPath: /data, readOnly: true}]",
            "hostVolumes",
            [{"name": "data", "hostPath": "/srv/data", "mountPath": "/data", "readOnly": True}],
        ),
        ("limits: {process: {memory: 9Gi}}", "limits", {"process": {"memory": "9Gi"}}),
    ],
    ids=["directories", "limits"],
)
def test_settings_of_workers_reach_them_alone(file: str, field: str, value: object) -> None:
    composed = compose(f"kvm: {{workers: {{{file}}}}}")

    assert machine(composed, "worker-machines")[field] == value
    assert field not in machine(composed, "control-plane-machines")


NODE_SETTINGS: dict[str, Any] = {
    "containerVolumeGb": 40,
    "kubeletVolumeGb": 20,
    "etcdVolumeGb": 8,
    "hostVolumes": [{"name": "data", "hostPath": "/srv/data", "mountPath": "/data", "readOnly": True}],
    "dnsServers": ["10.0.0.53"],
    "ntpServers": ["ntp.example.org"],
    "registryMirrors": [{"registry": "docker.io", "urls": ["https://mirror.example.org"]}],
    "proxy": {"https": "http://proxy:3128"},
    "clusterDomain": "k8s.internal",
    "clusterDns": "169.254.20.10",
    "conntrack": {"maxPerCore": 1000},
}
AS_A_FILE = """kvm:
  containerVolumeGb: 40
  kubeletVolumeGb: 20
  controlPlane: {etcdVolumeGb: 8}
  workers: {hostVolumes: [{name: data, hostPath: /srv/data, mountPath: /data, readOnly: true}]}
  dnsServers: [10.0.0.53]
  ntpServers: [ntp.example.org]
  registryMirrors: {docker.io: [https://mirror.example.org]}
  proxy: {https: 'http://proxy:3128'}
  clusterDomain: k8s.internal
  clusterDns: 169.254.20.10
  conntrack: {maxPerCore: 1000}
"""


@pytest.mark.parametrize("file", ["", "kvm: {containerVolumeGb: 9, dnsServers: [10.9.9.9], clusterDns: 10.9.9.9}"])
def test_a_claim_says_of_its_machines_what_the_file_says_of_all(file: str) -> None:
    by_claim = compose(file, nodeSettings=NODE_SETTINGS)
    by_file = compose(AS_A_FILE)

    assert {name: part.object for name, part in by_claim.desired.items()} == {
        name: part.object for name, part in by_file.desired.items()
    }


def test_what_a_claim_does_not_say_of_its_machines_is_the_files() -> None:
    file = "kvm: {ntpServers: [ntp.example.org], users: {thomas: [ssh-rsa AAA]}, proxy: {http: 'http://a:1'}}"
    composed = compose(file, nodeSettings={"dnsServers": ["10.0.0.53"], "proxy": {"exceptions": [".example.org"]}})

    made = machine(composed, "worker-machines")
    assert (made["dnsServers"], made["ntpServers"]) == (["10.0.0.53"], ["ntp.example.org"])
    assert "http://a:1" in next(iter(files(composed).values()))
    assert ".example.org" in next(iter(files(composed).values()))
    assert compose("", nodeSettings={"proxy": {"exceptions": [".example.org"]}}).refusal is None, "of no proxy"
    limited = compose("kvm: {conntrack: {min: 7}}", nodeSettings={"conntrack": {"tcpCloseWaitTimeout": "1h"}})
    told = yaml.safe_load(started(limited)[0]["files"][-1]["content"].replace("---", ""))
    assert told["conntrack"] == {"min": 7, "tcpCloseWaitTimeout": "1h"}


@pytest.mark.parametrize("infrastructure", ["simulated", "kubevirt"])
def test_settings_of_machines_are_refused_where_there_are_none(infrastructure: str) -> None:
    asked = claim(nodeSettings={"containerVolumeGb": 40}, infrastructure=infrastructure)
    refusal = cases.compose(asked, NOTHING, settings.parse("")).refusal

    assert refusal is not None
    assert f"spec.parameters.nodeSettings: machines of {infrastructure} have no such settings" in refusal.message


def test_pods_ask_another_address_for_names_where_the_file_says_so() -> None:
    for each in registrations(compose("kvm: {clusterDns: 169.254.20.10}")):
        assert {"name": "cluster-dns", "value": "169.254.20.10"} in each["kubeletExtraArgs"]


def test_names_of_services_end_in_the_domain_that_a_cluster_was_made_with() -> None:
    file = "kvm: {clusterDomain: k8s.internal}"
    new = compose(file).desired["cluster"].object["spec"]["clusterNetwork"]
    kept = compose(file, reachable()).desired["cluster"].object["spec"]["clusterNetwork"]

    assert new["serviceDomain"] == "k8s.internal"
    assert "serviceDomain" not in kept, "it was made before the file said so"


def test_kube_proxy_gets_its_limits_from_the_machine_that_makes_the_cluster() -> None:
    file = "kvm: {conntrack: {maxPerCore: 1000, tcpEstablishedTimeout: 24h}, proxy: {http: 'http://a:1'}}"
    plane, workers = started(compose(file))

    added = plane["files"][-1]
    assert yaml.safe_load(added["content"].replace("---", "")) == {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "conntrack": {"maxPerCore": 1000, "tcpEstablishedTimeout": "24h"},
    }
    assert plane["preKubeadmCommands"][:-1] == workers["preKubeadmCommands"], (
        "what machines are told anyway comes first"
    )
    assert plane["preKubeadmCommands"][-1] == (
        f"test ! -f /run/kubeadm/kubeadm.yaml || cat {added['path']} >> /run/kubeadm/kubeadm.yaml"
    )


def test_slow_machines_get_the_time_that_they_need() -> None:
    composed = compose(
        "kvm: {timeouts: {startupMinutes: 60, silentMinutes: 15, unreadyMinutes: 30, kubeadmMinutes: 20}}"
    )

    plane, workers = started(composed)
    for each in (plane["initConfiguration"], plane["joinConfiguration"], workers["joinConfiguration"]):
        assert set(each["timeouts"].values()) == {1200}
    checks = composed.desired["worker-health"].object["spec"]["checks"]
    assert checks["nodeStartupTimeoutSeconds"] == 3600
    assert [each["timeoutSeconds"] for each in checks["unhealthyNodeConditions"]] == [900, 1800]
    assert all("timeouts" not in each for each in started(compose())[0].values()), "kubeadm's own are good enough"


def test_control_planes_that_stand_still_for_seconds_keep_their_leases() -> None:
    plane, _ = started(compose("kvm: {timeouts: {leaseSeconds: 60}}"))

    def arguments(of: Object) -> dict[str, str]:
        return {each["name"]: each["value"] for each in of["extraArgs"]}

    told = plane["clusterConfiguration"]
    for program in ("controllerManager", "scheduler"):
        assert arguments(told[program]) == {
            "leader-elect-lease-duration": "60s",
            "leader-elect-renew-deadline": "40s",
            "leader-elect-retry-period": "8s",
        }
    assert arguments(told["etcd"]["local"]) == {"election-timeout": "4000", "heartbeat-interval": "400"}
    usual = started(compose())[0]
    assert set(usual["clusterConfiguration"]) == {"apiServer"}, "Kubernetes' own are good enough"
    assert "patches" not in usual["initConfiguration"]


@pytest.mark.parametrize("more", ["", "registryMirrors: {docker.io: [https://mirror.example]}, conntrack: {min: 1000}"])
def test_control_planes_that_stand_still_for_seconds_are_not_started_anew(more: str) -> None:
    plane, workers = started(compose(f"kvm: {{timeouts: {{probeSeconds: 60}}, {more}}}"))

    for joining in (plane["initConfiguration"], plane["joinConfiguration"]):
        assert joining["patches"] == {"directory": "/etc/kubernetes/patches"}
    assert "patches" not in workers["joinConfiguration"]
    for program, container in _patched(plane).items():
        waits = {"timeoutSeconds": 60}
        assert container == {"name": program, "livenessProbe": waits, "startupProbe": waits}
    files = [each["path"] for each in plane["files"]]
    usual = {each["path"] for each in started(compose(f"kvm: {{{more}}}"))[0].get("files", [])}
    assert len(set(files)) == len(files)
    assert set(files) - usual == {path for path in files if path.startswith("/etc/kubernetes/patches/")}


@pytest.mark.parametrize(
    ("version", "asked"),
    [("v1.33.5", {"kube-apiserver"}), ("v1.34.0", {"kube-apiserver", "kube-scheduler", "etcd"})],
)
@pytest.mark.parametrize("waits", [{}, {"timeoutSeconds": 60}], ids=["usual patience", "more patience"])
def test_programs_of_slow_control_planes_are_asked_less_often(version: str, asked: set[str], waits: Object) -> None:
    more = "probeSeconds: 60, " if waits else ""
    settings = f"kvm: {{timeouts: {{{more}probePeriodSeconds: 30}}}}"
    plane, workers = started(compose(settings, kubernetesVersion=version))

    for joining in (plane["initConfiguration"], plane["joinConfiguration"]):
        assert joining["patches"] == {"directory": "/etc/kubernetes/patches"}
    assert "patches" not in workers["joinConfiguration"]
    for program, container in _patched(plane).items():
        assert container["livenessProbe"] == {**waits, "periodSeconds": 30}
        # How soon a program that has just been started is found to live is not for this to say.
        assert container.get("startupProbe", {}) == waits
        assert container.get("readinessProbe") == ({**waits, "periodSeconds": 30} if program in asked else None)


def _patched(plane: Object) -> dict[str, Object]:
    """What is changed of the container of each program of a control plane."""
    files = {each["path"]: each for each in plane["files"]}
    patched: dict[str, Object] = {}
    for program in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"):
        patch = json.loads(files[f"/etc/kubernetes/patches/{program}+strategic.json"]["content"])
        [patched[program]] = patch["spec"]["containers"]
        assert patched[program]["name"] == program
    return patched


@pytest.mark.parametrize(("workers", "at_most"), [(1, 1), (2, 1), (4, 1), (5, 2), (10, 4)])
def test_a_sick_machine_is_replaced_and_many_at_once_are_not(workers: int, at_most: int) -> None:
    check = compose(workerReplicas=workers).desired["worker-health"].object["spec"]["remediation"]

    assert check["triggerIf"] == {"unhealthyLessThanOrEqualTo": at_most}


@pytest.mark.parametrize(
    ("file", "asked"),
    [
        ("", {"podCidr": "10.200.0.0/16"}),
        ("", {"serviceCidr": "10.200.7.0/24"}),
        ("kvm: {hosts: {a: {networks: {ranges: [172.20.0.0/16]}}}}", {"podCidr": "172.16.0.0/12"}),
    ],
    ids=["pods", "Services", "of a host"],
)
def test_ranges_that_machines_have_their_addresses_in_are_refused(file: str, asked: dict[str, str]) -> None:
    refusal = cases.compose(claim(**asked), NOTHING, platform(file)).refusal

    assert refusal is not None
    assert "where the machines of such clusters have their addresses" in refusal.message


def test_what_keeps_the_network_of_a_cluster_from_being_made_is_told() -> None:
    ready = {
        "type": "InfrastructureReady",
        "status": "False",
        "reason": "NoHost",
        "message": "no KVMHost allows team-a",
    }
    cluster: Object = {"metadata": {"name": "dev"}, "spec": {}, "status": {"conditions": [ready]}}
    composed = compose("", Observed({"cluster": cluster}))

    assert condition(composed, "Ready").message.endswith(
        "waiting for the cluster's infrastructure: no KVMHost allows team-a"
    )


def test_hosts_of_the_file_become_objects() -> None:
    file = "kvm: {hosts: {rack-1: {uri: 'qemu+ssh://me@rack-1/system', capacity: {cpu: 8}, namespaces: [team-a]}}}"
    ((resource, host),) = kvmhosts.standing(platform(file))

    assert (resource.kind, objects.name(host)) == ("KVMHost", "rack-1")
    assert host["spec"] == {
        "uri": "qemu+ssh://me@rack-1/system",
        "namespaces": ["team-a"],
        "capacity": {"cpu": 8},
        "storageRoots": ["/var/lib/steelyard/machines"],
        "imageRoots": ["/var/lib/steelyard/images"],
        "networks": {"ranges": ["10.200.0.0/16"]},
    }


@pytest.mark.parametrize(
    ("file", "names"),
    [("", []), ("infrastructure: kvm", ["local"]), ("kvm: {hosts: {a: {}, b: {}}}", ["a", "b"])],
    ids=["nobody asks", "this machine", "as written"],
)
def test_this_machine_is_a_host_where_machines_are_of_kvm_and_the_file_names_none(file: str, names: list[str]) -> None:
    assert [objects.name(host) for _, host in kvmhosts.standing(settings.parse(file))] == names


@pytest.mark.parametrize(
    "file",
    [
        "",
        "kvm: {hosts: {a: {hostVolumeRoots: [{path: /srv/v, namespaces: ['*']}], overcommit: {cpu: 4.0},"
        " networks: {ranges: [], bridges: [{name: br0, namespaces: [team-a]}]}}}}",
    ],
    ids=["the default", "with everything"],
)
def test_hosts_pass_the_schema_that_the_platform_serves(file: str) -> None:
    definition = next(
        each for each in offering.STANDARD.definitions("steelyard.dev") if objects.name(each).startswith("kvmhosts.")
    )
    schema = parse.from_openapi(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])

    for _, host in kvmhosts.standing(platform(file)):
        assert validate.validate(schema, host) == []
        assert prune.prune(schema, objects.copy(host)) == []
