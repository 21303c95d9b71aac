"""What is asked of both servers: the same bytes but for the host and the token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import yaml

from bench.client import Target
from tests.harness import ROOT

NAMESPACES: Final = ("bench", "bench-ten-thousand", "bench-fan-out")
CONTROL_PLANE_CRD: Final = (
    ROOT.parent / "shared" / "crds" / "cluster-api" / "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io.yaml"
)
_GROUP: Final = "controlplane.bench.example.com"
"""The upstream definition is served under this group, so that no controller of either side takes its objects up."""


def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def create_config_map(target: Target, namespace: str, name: str) -> bytes:
    return target.request("POST", config_maps(namespace), _config_map(name))


def label_config_map(target: Target, namespace: str, name: str, label: str) -> bytes:
    body = json.dumps({"metadata": {"labels": {"turn": label}}}).encode()
    return target.request("PATCH", f"{config_maps(namespace)}/{name}", body, "application/merge-patch+json")


def get_config_map(target: Target, namespace: str, name: str) -> bytes:
    return target.request("GET", f"{config_maps(namespace)}/{name}")


def _config_map(name: str) -> bytes:
    return json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": "x" * 1024}}
    ).encode()


def create_namespace(target: Target, name: str) -> bytes:
    body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).encode()
    return target.request("POST", "/api/v1/namespaces", body)


def control_plane_definition(path: Path = CONTROL_PLANE_CRD) -> dict[str, Any]:
    definition = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    definition["spec"]["group"] = _GROUP
    definition["metadata"]["name"] = f"{definition['spec']['names']['plural']}.{_GROUP}"
    return definition


def define_control_planes(target: Target) -> bytes:
    body = json.dumps(control_plane_definition()).encode()
    return target.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)


def list_control_planes(target: Target, namespace: str) -> bytes:
    return target.request("GET", _control_planes(namespace))


def apply_control_plane(target: Target, namespace: str, name: str) -> bytes:
    path = f"{_control_planes(namespace)}/{name}?fieldManager=bench&force=true"
    return target.request("PATCH", path, json.dumps(_control_plane(name)).encode(), "application/apply-patch+yaml")


def _control_planes(namespace: str) -> str:
    return f"/apis/{_GROUP}/v1beta2/namespaces/{namespace}/kubeadmcontrolplanes"


def _control_plane(name: str) -> dict[str, Any]:
    """As a composition for three control-plane machines makes it, every list with CEL rules in use."""
    arguments = [{"name": "cloud-provider", "value": "external"}, {"name": "v", "value": "2"}]
    registration = {
        "kubeletExtraArgs": [*arguments, {"name": "node-labels", "value": "tier=control-plane"}],
        "name": "{{ ds.meta_data.local_hostname }}",
        "taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
    }
    template = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "SimulatedMachineTemplate", "name": name}
    return {
        "apiVersion": f"{_GROUP}/v1beta2",
        "kind": "KubeadmControlPlane",
        "metadata": {"name": name, "labels": {"cluster.x-k8s.io/cluster-name": name}},
        "spec": {
            "replicas": 3,
            "version": "v1.34.4",
            "machineTemplate": {"spec": {"infrastructureRef": template}},
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            "kubeadmConfigSpec": {
                "clusterConfiguration": {
                    "apiServer": {"extraArgs": arguments, "certSANs": ["localhost", "127.0.0.1"]},
                    "controllerManager": {"extraArgs": arguments},
                    "scheduler": {"extraArgs": arguments},
                    "etcd": {"local": {"dataDir": "/var/lib/etcd/data", "extraArgs": arguments}},
                },
                "initConfiguration": {"nodeRegistration": registration},
                "joinConfiguration": {"nodeRegistration": registration},
                "files": [
                    {
                        "path": "/etc/kubernetes/audit-policy.yaml",
                        "owner": "root:root",
                        "permissions": "0600",
                        "content": "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n",
                    }
                ],
                "preKubeadmCommands": ["hostnamectl set-hostname '{{ ds.meta_data.hostname }}'"],
                "users": [{"name": "ops", "sudo": "ALL=(ALL) NOPASSWD:ALL"}],
            },
        },
    }
