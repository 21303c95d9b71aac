"""Clusters of virtual machines, and what other programs do for them: each decision as a small case."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest
import yaml

from steelyard import settings
from steelyard.compose import names
from steelyard.compose.composed import NOTHING, Composed, Observed
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from tests.compose import cases
from tests.compose.observing import HOST, PORT, kubeconfig, machine, reachable

HOME = names.external("team-a", "dev")
PLATFORM = settings.parse("infrastructure: kubevirt")
WITH_ARGOCD = "infrastructure: kubevirt\nintegrations: {argocd: {enabled: true}}\n"
NODE_ROLE = "node-role.kubernetes.io/control-plane"


def claim(**parameters: Any) -> Object:
    return {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": "WorkloadCluster",
        "metadata": {"name": "dev", "namespace": "team-a", "uid": "u-1"},
        "spec": {"parameters": {"environment": "dev", **parameters}},
    }


def compose(obj: Object | None = None, observed: Observed = NOTHING, platform: Platform = PLATFORM) -> Composed:
    composed = cases.compose(obj or claim(), observed, platform)
    assert composed.refusal is None, composed.refusal
    return composed


def condition(composed: Composed, type_: str) -> Any:
    return next((each for each in composed.conditions if each.type == type_), None)


def virtual_machine(composed: Composed, part: str = "worker-machines") -> Object:
    return composed.desired[part].object["spec"]["template"]["spec"]["virtualMachineTemplate"]["spec"]


def test_the_cluster_is_in_a_namespace_of_its_own() -> None:
    composed = compose()

    assert next(iter(composed.desired)) == "namespace", "what is in it comes later"
    assert objects.name(composed.desired["namespace"].object) == HOME
    elsewhere = {
        name
        for name, part in composed.desired.items()
        if part.resource.namespaced and objects.namespace(part.object) != HOME
    }
    assert elsewhere == set()


def test_the_api_is_reached_by_a_load_balancer() -> None:
    spec = compose().desired["infrastructure"].object["spec"]

    assert spec == {"controlPlaneServiceTemplate": {"spec": {"type": "LoadBalancer"}}}


@pytest.mark.parametrize("part", ["control-plane-machines", "worker-machines"])
def test_machines_can_move_between_hosts(part: str) -> None:
    machine_of = virtual_machine(compose(), part)
    (disk,) = machine_of["dataVolumeTemplates"]

    assert disk["spec"]["pvc"]["accessModes"] == ["ReadWriteMany"]
    assert machine_of["template"]["spec"]["evictionStrategy"] == "LiveMigrate"
    assert machine_of["template"]["metadata"]["annotations"] == {
        "kubevirt.io/allow-pod-bridge-network-live-migration": "true"
    }


@pytest.mark.parametrize("part", ["control-plane-machines", "worker-machines"])
def test_a_machine_has_the_size_that_was_asked_for_and_is_waited_for_by_ssh(part: str) -> None:
    composed = compose(claim(cpuCores=3, memoryGi=7, diskGb=33, kubernetesVersion="v1.32.1"))
    made = virtual_machine(composed, part)
    (disk,) = made["dataVolumeTemplates"]
    domain = made["template"]["spec"]["domain"]

    assert (domain["cpu"]["cores"], domain["memory"]["guest"]) == (3, "7Gi")
    assert domain["devices"]["networkInterfaceMultiqueue"] is True
    assert disk["spec"]["pvc"]["resources"]["requests"]["storage"] == "33Gi"
    assert disk["spec"]["source"]["registry"]["url"].endswith(":v1.32.1")
    template = composed.desired[part].object["spec"]["template"]["spec"]
    assert template["virtualMachineBootstrapCheck"] == {"checkStrategy": "ssh"}


def test_the_storage_class_is_the_platform_files() -> None:
    platform = settings.parse("infrastructure: kubevirt\nkubevirt: {storageClass: ceph}")
    (disk,) = virtual_machine(compose(claim(kubernetesVersion="v1.32.1"), platform=platform))["dataVolumeTemplates"]

    assert disk["spec"]["pvc"]["storageClassName"] == "ceph"


def test_the_cloud_controller_runs_on_control_planes_and_sees_its_own_namespace_alone() -> None:
    composed = compose()
    deployment = composed.desired["cloud-controller"].object["spec"]["template"]["spec"]
    (container,) = deployment["containers"]

    assert deployment["nodeSelector"] == {NODE_ROLE: ""}, "not node-role.kubernetes.io/master, which is no more"
    assert "--cluster-name=dev" in container["args"]
    config = yaml.safe_load(composed.desired["cloud-controller-config"].object["data"]["cloud-config"])
    assert config["namespace"] == HOME
    binding = composed.desired["cloud-controller-binding"].object
    assert binding["roleRef"]["kind"] == "Role", "rights in one namespace, not in all"
    assert {each["namespace"] for each in binding["subjects"]} == {HOME}


def kubelet_arguments(composed: Composed) -> list[Object]:
    plane = composed.desired["control-plane"].object["spec"]["kubeadmConfigSpec"]
    workers = composed.desired["worker-bootstrap"].object["spec"]["template"]["spec"]
    registrations = (plane["initConfiguration"], plane["joinConfiguration"], workers["joinConfiguration"])
    return [
        argument for each in registrations for argument in each.get("nodeRegistration", {}).get("kubeletExtraArgs", [])
    ]


@pytest.mark.parametrize("enabled", [True, False], ids=["with", "without"])
def test_kubelets_leave_their_node_to_the_cloud_only_where_a_controller_of_it_runs(enabled: bool) -> None:
    text = f"infrastructure: kubevirt\nkubevirt: {{cloudControllerManager: {{enabled: {str(enabled).lower()}}}}}"
    composed = compose(platform=settings.parse(text))
    external = {"name": "cloud-provider", "value": "external"}

    assert ("cloud-controller" in composed.desired) is enabled
    assert kubelet_arguments(composed).count(external) == (3 if enabled else 0)


def platform_with(plugin: str) -> Platform:
    return settings.parse(f"{WITH_ARGOCD}kubevirt: {{networkPlugin: {plugin}}}\n")


def parameters_of(composed: Composed) -> dict[str, str]:
    source = composed.desired["network-plugin"].object["spec"]["source"]
    return {each["name"]: each["value"] for each in source["helm"]["parameters"]}


PLANES = (machine("b", "10.0.0.3"), machine("a", "10.0.0.2"), machine("w", "10.0.0.9", plane=False))


@pytest.mark.parametrize(
    ("plugin", "chart", "told"),
    [
        (
            "cilium",
            "cilium",
            {
                "ipam.mode": "kubernetes",
                "routingMode": "native",
                "ipv4NativeRoutingCIDR": "{pods}",
                "autoDirectNodeRoutes": "true",
                "enableIPv4Masquerade": "true",
                "kubeProxyReplacement": "false",
                "k8sServiceHost": HOST,
                "k8sServicePort": str(PORT),
            },
        ),
        (
            "calico",
            "tigera-operator",
            {
                "installation.calicoNetwork.ipPools[0].cidr": "{pods}",
                "kubernetesServiceEndpoint.host": HOST,
                "kubernetesServiceEndpoint.port": str(PORT),
            },
        ),
        (
            "kube-ovn",
            "kube-ovn",
            {"MASTER_NODES": "10.0.0.2,10.0.0.3", "ipv4.POD_CIDR": "{pods}", "ipv4.SVC_CIDR": "{services}"},
        ),
    ],
    ids=["cilium", "calico", "kube-ovn"],
)
def test_a_network_plugin_is_told_where_the_api_is_and_which_addresses_pods_have(
    plugin: str, chart: str, told: dict[str, str]
) -> None:
    composed = compose(observed=reachable(*PLANES), platform=platform_with(plugin))
    made = composed.desired["network-plugin"].object
    network = composed.desired["cluster"].object["spec"]["clusterNetwork"]
    ranges = {"pods": network["pods"]["cidrBlocks"][0], "services": network["services"]["cidrBlocks"][0]}

    assert made["spec"]["source"]["chart"] == chart
    assert made["spec"]["destination"]["server"] == f"https://{HOST}:{PORT}"
    expected = {key: value.format(**ranges) for key, value in told.items()}
    assert {key: parameters_of(composed).get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("plugin", "observed", "waiting"),
    [
        pytest.param("cilium", NOTHING, True, id="no address yet"),
        pytest.param("cilium", reachable(), False, id="cilium needs no more than that"),
        pytest.param("kube-ovn", reachable(), True, id="kube-ovn needs the machines"),
        pytest.param("kube-ovn", reachable(PLANES[2]), True, id="workers are no help"),
        pytest.param("kube-ovn", reachable(PLANES[0]), False, id="one will do"),
    ],
)
def test_a_network_plugin_waits_for_what_it_must_be_told(plugin: str, observed: Observed, waiting: bool) -> None:
    composed = compose(observed=observed, platform=platform_with(plugin))

    assert ("network-plugin" not in composed.desired) is waiting
    assert ("network-plugin" in composed.retained) is waiting, "what was installed before stays"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, "Argo CD has not looked at it yet"),
        ({"sync": {"status": "OutOfSync"}, "health": {"status": "Missing"}}, "OutOfSync, Missing"),
        ({"sync": {"status": "Synced"}, "health": {"status": "Progressing"}}, "Synced, Progressing"),
    ],
    ids=["new", "failed", "on its way"],
)
def test_ready_includes_the_network(status: Object, said: str) -> None:
    ready = cases.observed("workloadcluster-v2/on-kubevirt-ready-with-argocd")
    asked = cases.load("workloadcluster-v2/on-kubevirt-ready-with-argocd", "claim.yaml")
    platform = cases.platform("workloadcluster-v2/on-kubevirt-ready-with-argocd")
    assert condition(compose(asked, ready, platform), "Ready").status == "True"

    application = {**ready.resources["network-plugin"], "status": status}
    waiting = compose(asked, Observed({**ready.resources, "network-plugin": application}, ready.required), platform)
    assert condition(waiting, "Ready").status == "False"
    assert said in condition(waiting, "Ready").message


def test_nobody_who_installs_a_network_is_told() -> None:
    reported = condition(compose(), "NetworkInstalled")

    assert (reported.status, reported.reason) == ("Unknown", "NobodyInstallsIt")
    assert condition(compose(platform=settings.parse(WITH_ARGOCD)), "NetworkInstalled") is None


def registration(composed: Composed) -> tuple[Object, dict[str, str]]:
    secret = composed.desired["argocd-cluster"].object
    return secret, {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}


def test_argo_cd_is_told_of_the_cluster_by_a_secret_with_its_labels() -> None:
    secret, data = registration(compose(observed=reachable(), platform=settings.parse(WITH_ARGOCD)))

    assert (objects.name(secret), objects.namespace(secret)) == (f"cluster-{HOME}", "argocd")
    wanted = {"argocd.argoproj.io/secret-type": "cluster", "environment": "dev", "cluster-type": "workload"}
    assert objects.matches(wanted, secret)
    assert (data["name"], data["server"]) == (HOME, f"https://{HOST}:{PORT}")
    tls = {"insecure": False, "caData": "Y2E=", "certData": "Y2VydA==", "keyData": "a2V5"}
    assert orjson.loads(data["config"]) == {"tlsClientConfig": tls}


@pytest.mark.parametrize(
    ("observed", "platform"),
    [
        pytest.param(NOTHING, WITH_ARGOCD, id="no kubeconfig yet"),
        pytest.param(reachable(secret={"metadata": {"name": "x"}, "data": {}}), WITH_ARGOCD, id="empty"),
        pytest.param(
            reachable(secret={**kubeconfig(), "metadata": {"name": "dev-kubeconfig"}}), WITH_ARGOCD, id="not its own"
        ),
        pytest.param(reachable(secret=kubeconfig(exec="sh")), WITH_ARGOCD, id="runs a program"),
        pytest.param(reachable(), "infrastructure: kubevirt", id="not enabled"),
    ],
)
def test_a_cluster_is_not_registered(observed: Observed, platform: str) -> None:
    assert "argocd-cluster" not in compose(observed=observed, platform=settings.parse(platform)).desired


def test_registration_and_network_go_before_the_cluster() -> None:
    desired = compose(observed=reachable(), platform=settings.parse(WITH_ARGOCD)).desired
    first = max(desired[name].deletion_stage for name in ("argocd-cluster", "network-plugin"))

    assert first < min(desired[name].deletion_stage for name in ("cluster", "namespace", "infrastructure"))


@pytest.mark.parametrize(
    ("file", "image"),
    [
        pytest.param("", "quay.io/capk/ubuntu-2404-container-disk:v1.34.0", id="the built-in one"),
        pytest.param("image: 'reg/k8s:{version}'", "reg/k8s:v1.34.0", id="of the infrastructure"),
        pytest.param("image: reg/k8s, offered: {v1.34.0: {image: reg/own}}", "reg/own", id="of the version"),
    ],
)
def test_machines_boot_from_the_image_of_the_catalogue(file: str, image: str) -> None:
    platform = settings.parse(f"infrastructure: kubevirt\nversions: {{infrastructures: {{kubevirt: {{{file}}}}}}}")
    (disk,) = virtual_machine(compose(claim(kubernetesVersion="v1.34.0"), platform=platform))["dataVolumeTemplates"]
    assert disk["spec"]["source"]["registry"]["url"] == f"docker://{image}"
