"""Bootstrap data and Nodes: what is written for a machine, and what a machine writes onto its Node."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from steelyard.controllers.lifecycle.certificates import File
from steelyard.controllers.lifecycle.kubeadmconfig import cloudinit, kubeadm
from steelyard.controllers.lifecycle.machine import components, node
from steelyard.kube import objects
from steelyard.kube.objects import Object

CLUSTER: Object = {
    "metadata": {"name": "c"},
    "spec": {"clusterNetwork": {"pods": {"cidrBlocks": ["10.1.0.0/16", "fd00::/48"]}, "serviceDomain": "local"}},
}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param("v1.34.4", "kubeadm.k8s.io/v1beta4", id="new"),
        pytest.param("v1.31.0", "kubeadm.k8s.io/v1beta4", id="the first with v1beta4"),
        pytest.param("v1.30.9", "kubeadm.k8s.io/v1beta3", id="the last without"),
    ],
)
def test_kubeadm_is_spoken_to_in_its_versions_language(version: str, expected: str) -> None:
    assert kubeadm.api_version(version) == expected


@pytest.mark.parametrize("version", ["latest", "", "v1.21.0"])
def test_a_version_that_kubeadm_cannot_read_is_refused(version: str) -> None:
    with pytest.raises(kubeadm.UnsupportedVersion):
        kubeadm.api_version(version)


def test_the_init_files_carry_the_clusters_network_and_the_configs_settings() -> None:
    spec: Object = {
        "clusterConfiguration": {
            "apiServer": {"extraArgs": [{"name": "v", "value": "2"}], "certSANs": ["api.example"]},
            "certificateValidityPeriodDays": 30,
        },
        "initConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 90}},
    }
    text = kubeadm.init_documents(spec, CLUSTER, version="v1.34.4", endpoint="10.0.0.1:6443")
    cluster, init = yaml.safe_load_all(text)
    assert cluster["kind"] == "ClusterConfiguration"
    assert cluster["networking"] == {"podSubnet": "10.1.0.0/16,fd00::/48", "dnsDomain": "local"}
    assert cluster["controlPlaneEndpoint"] == "10.0.0.1:6443"
    assert cluster["apiServer"]["extraArgs"] == [{"name": "v", "value": "2"}]
    assert cluster["certificateValidityPeriod"] == "720h0m0s"
    assert init["timeouts"] == {"controlPlaneComponentHealthCheck": "1m30s"}


def test_an_older_kubeadm_gets_arguments_as_a_map_and_the_timeout_elsewhere() -> None:
    spec: Object = {
        "clusterConfiguration": {"apiServer": {"extraArgs": [{"name": "v", "value": "2"}]}},
        "initConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 90}},
    }
    cluster, init = yaml.safe_load_all(
        kubeadm.init_documents(spec, CLUSTER, version="v1.30.1", endpoint="10.0.0.1:6443")
    )
    assert cluster["apiServer"] == {"extraArgs": {"v": "2"}, "timeoutForControlPlane": "1m30s"}
    assert "timeouts" not in init


def test_the_cloud_config_writes_files_runs_commands_around_kubeadm_and_leaves_a_sign() -> None:
    spec: Object = {
        "verbosity": 5,
        "preKubeadmCommands": ["before"],
        "postKubeadmCommands": ["after"],
        "users": [{"name": "admin", "sshAuthorizedKeys": ["key"]}],
        "ntp": {"enabled": True, "servers": ["time.example"]},
        "diskSetup": {"partitions": [{"device": "/dev/sdb", "layout": True, "tableType": "gpt"}]},
        "mounts": [["/dev/sdb1", "/data"]],
    }
    text = cloudinit.join(spec, [File("/a", "one\ntwo\n", permissions="0600")], "kind: JoinConfiguration\n")
    assert text.startswith("## template: jinja\n#cloud-config\n")
    assert "content: |" in text
    config: Any = yaml.safe_load(text)
    assert config["write_files"][0] == {
        "path": "/a",
        "owner": "root:root",
        "permissions": "0600",
        "content": "one\ntwo\n",
    }
    assert config["write_files"][1]["path"] == "/run/kubeadm/kubeadm-join-config.yaml"
    assert config["runcmd"] == [
        "before",
        "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml --v 5"
        " && echo success > /run/cluster-api/bootstrap-success.complete",
        "after",
    ]
    assert config["users"] == [{"name": "admin", "ssh_authorized_keys": ["key"]}]
    assert config["disk_setup"] == {"/dev/sdb": {"table_type": "gpt", "layout": True}}
    assert config["mounts"] == [["/dev/sdb1", "/data"]]


MACHINE: Object = {
    "metadata": {
        "name": "m",
        "namespace": "team",
        "labels": {"node-role.kubernetes.io/worker": "", "team.node.cluster.x-k8s.io/a": "1", "other": "x"},
        "ownerReferences": [{"kind": "MachineSet", "name": "s", "controller": True}],
    },
    "spec": {"clusterName": "c"},
}


def test_a_node_in_line_with_its_machine_is_not_patched() -> None:
    fresh: Object = {"metadata": {"name": "m", "resourceVersion": "1"}, "spec": {}}
    patch = node.patch_for(fresh, MACHINE, outdated=False, interruptible=False)
    assert patch["metadata"]["labels"] == {"node-role.kubernetes.io/worker": "", "team.node.cluster.x-k8s.io/a": "1"}
    current: Object = {"metadata": {"name": "m", **patch["metadata"]}, "spec": {}}
    assert node.patch_for(current, MACHINE, outdated=False, interruptible=False) == {}


def test_a_label_taken_off_the_machine_is_taken_off_the_node_and_no_other() -> None:
    fresh: Object = {"metadata": {"name": "m", "labels": {"somebody": "else"}}, "spec": {}}
    given = node.patch_for(fresh, MACHINE, outdated=False, interruptible=False)["metadata"]
    current: Object = {
        "metadata": {"labels": {"somebody": "else", **given["labels"]}, "annotations": given["annotations"]},
        "spec": {},
    }
    without = objects.copy(MACHINE)
    del without["metadata"]["labels"]["team.node.cluster.x-k8s.io/a"]
    patch = node.patch_for(current, without, outdated=False, interruptible=False)
    assert patch["metadata"]["labels"] == {"team.node.cluster.x-k8s.io/a": None}


def test_taints_of_others_stay_when_ours_come_and_go() -> None:
    theirs = {"key": "theirs", "effect": "NoSchedule"}
    tainted: Object = {
        "metadata": {"name": "m", "resourceVersion": "7"},
        "spec": {"taints": [theirs, {"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"}]},
    }
    assert node.patch_for(tainted, MACHINE, outdated=False, interruptible=False)["spec"] == {"taints": [theirs]}
    outdated = node.patch_for(tainted, MACHINE, outdated=True, interruptible=False)
    assert [taint["key"] for taint in outdated["spec"]["taints"]] == [
        "theirs",
        "node.cluster.x-k8s.io/outdated-revision",
    ]
    assert outdated["metadata"]["resourceVersion"] == "7"


def _reporting(**statuses: str) -> Object:
    return {"status": {"conditions": [{"type": type_, "status": status} for type_, status in statuses.items()]}}


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        pytest.param(
            _reporting(Ready="True", MemoryPressure="False", DiskPressure="False", PIDPressure="False"),
            ("True", "NodeHealthy"),
            id="all well",
        ),
        pytest.param(
            _reporting(Ready="True", MemoryPressure="True", DiskPressure="False", PIDPressure="False"),
            ("False", "NodeNotHealthy"),
            id="under pressure",
        ),
        pytest.param(_reporting(Ready="True"), ("Unknown", "NodeHealthyUnknown"), id="not all reported"),
    ],
)
def test_a_node_is_as_healthy_as_it_reports(reported: Object, expected: tuple[str, str]) -> None:
    verdict = node.health(reported)
    assert (verdict.status, verdict.reason) == expected


def test_components_are_read_from_the_pods_where_a_cluster_shows_them() -> None:
    machine: Object = {"metadata": {"name": "m"}, "spec": {"readinessGates": components.gates(manages_etcd=True)}}
    on: Object = {"metadata": {"name": "n"}}
    assert all(verdict.is_true for verdict in components.inspect(machine, on, []))
    pod: Object = {
        "metadata": {"name": "kube-apiserver-n"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    found = {verdict.type: verdict.reason for verdict in components.inspect(machine, on, [pod])}
    assert found["APIServerPodHealthy"] == "Running"
    assert found["SchedulerPodHealthy"] == "DoesNotExist"
    assert {verdict.status for verdict in components.inspect(machine, None, [])} == {"Unknown"}
