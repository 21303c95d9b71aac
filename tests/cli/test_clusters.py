"""Clusters of both kinds from the command line: flags for every parameter, and all mistakes at once."""

from __future__ import annotations

import json

import yaml

from steelyard.cli.exits import Exit
from tests.cli.terminal import Terminal


def test_a_kubernetes_cluster_is_created_with_flags(terminal: Terminal) -> None:
    done = terminal.quick(
        "create", "kubernetes-cluster", "big", "-n", "clusters",
        "--environment", "dev", "--control-plane-nodes", "3", "--worker-nodes", "2",
        "--control-plane-cpu", "2", "--control-plane-memory", "4Gi", "--worker-cpu", "4", "--worker-memory", "8Gi",
        "--worker-storage", "100Gi", "--enable-live-migration", "false", "--network-plugin", "calico",
        "--node-pools", "[{name: gpu, replicas: 2, labels: {gpu: 'true'}}]", "--pod-cidr", "10.200.0.0/16",
        "--add-ons", "metrics-server, node-exporter", "--ttl", "168h", "--deletion-protection", "true",
        "-o", "yaml", "--dry-run",
    )  # fmt: skip

    assert done.code == Exit.OK, done.err
    assert yaml.safe_load(done.out)["spec"]["parameters"] == {
        "environment": "dev",
        "controlPlaneNodes": 3,
        "workerNodes": 2,
        "controlPlaneCPU": "2",
        "controlPlaneMemory": "4Gi",
        "workerCPU": "4",
        "workerMemory": "8Gi",
        "workerStorage": "100Gi",
        "enableLiveMigration": False,
        "networkPlugin": "calico",
        "nodePools": [{"name": "gpu", "replicas": 2, "labels": {"gpu": "true"}}],
        "podCidr": "10.200.0.0/16",
        "addOns": ["metrics-server", "node-exporter"],
        "ttl": "168h",
        "deletionProtection": True,
    }


def test_a_kubernetes_cluster_becomes_ready_is_scaled_and_deleted(terminal: Terminal) -> None:
    made = terminal.run(
        "create", "kubernetes-cluster", "small", "-n", "clusters", "--environment", "dev", "--worker-nodes", "1",
        "--wait",
    )  # fmt: skip
    assert made.code == Exit.OK, made.err
    assert "KubernetesCluster clusters/small is Ready" in made.err
    assert terminal.quick("get", "kc", "small", "-n", "clusters").out.splitlines()[1].split()[0] == "small"

    scaled = terminal.run("scale", "small", "-n", "clusters", "--workers", "2", "--wait")
    assert scaled.code == Exit.OK, scaled.err
    too_many = terminal.quick("scale", "small", "-n", "clusters", "--workers", "11")
    assert too_many.code != Exit.OK
    assert "less than or equal to 10" in too_many.err

    assert terminal.run("delete", "small", "-n", "clusters", "--yes").code == Exit.OK


def test_all_mistakes_of_a_cluster_are_told_at_once(terminal: Terminal) -> None:
    done = terminal.quick(
        "create", "kubernetes-cluster", "bad", "--environment", "dev", "--control-plane-nodes", "4",
        "--worker-memory", "8", "--network-plugin", "callico", "--ttl", "5m", "--api-endpoint", "a.example.org:6443",
        "--add-ons", "metric-server",
    )  # fmt: skip

    assert done.code == Exit.FAILED
    for words in (
        "choose 1, 3 or 5",
        "write whole GiB",
        "did you mean calico?",
        "from 10m to 8760h",
        "did you mean metrics-server?",
        "cannot be chosen on simulated",
    ):
        assert words in done.err, done.err


def test_a_workload_cluster_takes_the_shared_fields_too(terminal: Terminal) -> None:
    done = terminal.quick(
        "create", "cluster", "pools", "--environment", "dev", "--node-pools", "[{name: gpu}]", "-o", "yaml", "--dry-run"
    )
    assert yaml.safe_load(done.out)["spec"]["parameters"]["nodePools"] == [{"name": "gpu"}]
    unreadable = terminal.quick("create", "cluster", "pools", "--environment", "dev", "--node-pools", "gpu")
    assert unreadable.code == Exit.FAILED
    assert "nodePools" in unreadable.err


def test_settings_of_machines_are_given_as_one_object(terminal: Terminal) -> None:
    asked = ("create", "cluster", "real", "--environment", "dev", "--infrastructure", "kvm", "-o", "yaml", "--dry-run")
    done = terminal.quick(*asked, "--node-settings", "{dnsServers: [10.0.0.53], containerVolumeGb: 40}")
    assert done.code == Exit.OK, done.err
    settings = yaml.safe_load(done.out)["spec"]["parameters"]["nodeSettings"]
    assert settings == {"dnsServers": ["10.0.0.53"], "containerVolumeGb": 40}
    unreadable = terminal.quick(*asked, "--node-settings", "dns")
    assert unreadable.code == Exit.FAILED
    assert "nodeSettings" in unreadable.err


def test_a_protected_cluster_says_how_to_delete_it(terminal: Terminal) -> None:
    terminal.quick(
        "create", "cluster", "safe", "-n", "clusters", "--environment", "dev", "--deletion-protection", "true"
    )
    done = terminal.quick("delete", "safe", "-n", "clusters", "--yes")
    assert done.code != Exit.OK
    assert "is protected by spec.parameters.deletionProtection; to delete it, set that to false first" in done.err


def test_a_kubernetes_cluster_is_explained(terminal: Terminal) -> None:
    told = terminal.quick("explain", "kubernetes-cluster.workerMemory").out
    assert "Memory of each worker node" in told
    assert "default from the environment" in told
    assert "nodePools[].minReplicas" in terminal.quick("explain", "kc.nodePools").out


def test_where_the_sizes_of_a_kubernetes_cluster_come_from_is_told(terminal: Terminal) -> None:
    claim = """
apiVersion: compute.steelyard.dev/v1alpha1
kind: KubernetesCluster
metadata: {name: shop, namespace: team-a}
spec: {parameters: {environment: dev, workerMemory: 8Gi}}
"""
    done = terminal.run("config", "-f", "-", "-o", "json", given=claim)

    origins = {each["field"].rpartition(".")[2]: (each["value"], each["from"]) for each in json.loads(done.out)}
    assert origins["workerMemory"] == ("8Gi", "claim")
    assert origins["controlPlaneMemory"] == ("32Gi", "environment dev, built-in")
    assert origins["workerNodes"] == (2, "environment dev, built-in")
