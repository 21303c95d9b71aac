"""The Node that a simulated machine registers in its cluster's API, as a kubelet and kubeadm together would."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from steelyard.kube.objects import Object

CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"
_EXCLUDE_FROM_LOAD_BALANCERS_LABEL = "node.kubernetes.io/exclude-from-external-load-balancers"
_PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def node(
    machine: Object,
    name: str,
    address: str,
    *,
    version: str,
    control_plane: bool,
    now: datetime.datetime,
    labels: Mapping[str, str],
    taints: Sequence[Object],
) -> Object:
    """The Node with a healthy kubelet's first report, the machine's sizes as capacity. `labels` and `taints` are those
    that it was told to come with.

    `spec.providerID` carries the machine's UID and so ties the Node to this machine and to no later one of its name.
    """
    labels = {
        **labels,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    spec: Object = {"providerID": machine["spec"]["providerID"]}
    if control_plane:
        labels[CONTROL_PLANE_LABEL] = ""
        labels[_EXCLUDE_FROM_LOAD_BALANCERS_LABEL] = ""
        taints = [*taints, {"key": CONTROL_PLANE_LABEL, "effect": "NoSchedule"}]
    if taints:
        spec["taints"] = [dict(each) for each in taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": _status(machine, name, address, version=version, now=now),
    }


def _status(machine: Object, name: str, address: str, *, version: str, now: datetime.datetime) -> Object:
    spec = machine["spec"]
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    capacity = {
        "cpu": str(spec["cpuCores"]),
        "memory": f"{spec['memoryGi']}Gi",
        "ephemeral-storage": f"{spec['diskGb']}G",
        "pods": "110",
    }
    conditions = [_condition(type_, "False", reason, message, time) for type_, reason, message in _PRESSURES]
    conditions.append(_condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", time))
    return {
        "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}],
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": conditions,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": "",
            "containerRuntimeVersion": "simulated://1.0.0",
            "kernelVersion": "simulated",
            "kubeProxyVersion": "",
            "kubeletVersion": version,
            "machineID": machine["metadata"]["uid"],
            "operatingSystem": "linux",
            "osImage": "Simulated machine",
            "systemUUID": machine["metadata"]["uid"],
        },
    }


def _condition(type_: str, state: str, reason: str, message: str, time: str) -> Object:
    return {
        "type": type_,
        "status": state,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": time,
        "lastTransitionTime": time,
    }
