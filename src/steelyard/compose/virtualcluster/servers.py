"""The objects of a cluster of k3s servers in virtual machines: a namespace of their own, the Service that leads to the
API, what a server does at its first start, and the machines."""

from __future__ import annotations

import base64
from typing import Final

from steelyard.api import k3s
from steelyard.api.clusterapi import wellknown
from steelyard.api.k3s import API_PORT, VIRTUAL_MACHINES
from steelyard.compose import names
from steelyard.compose.clusterapi import NAMESPACE
from steelyard.compose.composed import FIRST_STAGE, Desired, Observed
from steelyard.compose.infrastructures import kubevirt, kubevirtpolicies
from steelyard.compose.integrations import sharedservices
from steelyard.compose.parts import of_cluster
from steelyard.compose.shape import Shape
from steelyard.compose.virtualcluster import cloudinit
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, SERVICES, Resource
from steelyard.settings import Platform
from steelyard.settings.kubevirt import Kubevirt

MAKES: Final[tuple[Resource, ...]] = (NAMESPACES, *kubevirtpolicies.MAKES, SERVICES, SECRETS, VIRTUAL_MACHINES)
API: Final = "api"
FIRST_START: Final = "first-start"
_MACHINES_STAGE: Final = FIRST_STAGE + 1
_REST_STAGE: Final = FIRST_STAGE + 2
"""After the machines, and before the namespace with everything else that is in it."""

_VM_LABEL: Final = "kubevirt.io/vm"
_ROOT, _CLOUD_INIT, _KEYS, _NETWORK = "root", "cloud-init", "keys", "default"


def parts(shape: Shape, platform: Platform, ingress_class: str, observed: Observed) -> dict[str, Desired]:
    """By resource name."""
    settings, shared = platform.kubevirt, platform.integrations.shared_services
    dns = sharedservices.for_first_start(shape, shared)
    first_start = _first_start(shape, cloudinit.user_data(shape, settings.k3s, ingress_class, dns))
    made = {
        NAMESPACE: Desired(NAMESPACES, _namespace(shape)),
        **kubevirtpolicies.parts(
            shape,
            settings.network_policies,
            has_load_balancers=False,
            shared=shared,
            open_ports=list(_ports(ingress_class).values()),
        ),
        API: Desired(SERVICES, _service(shape, ingress_class), deletion_stage=_REST_STAGE),
        FIRST_START: Desired(SECRETS, first_start, deletion_stage=_REST_STAGE),
    }
    for number in range(shape.control_plane.replicas):
        name = server(number)
        obj = _machine(shape, settings, f"{shape.name}-{name}", observed.resources.get(name))
        made[name] = Desired(VIRTUAL_MACHINES, obj, deletion_stage=_MACHINES_STAGE)
    return made


def server(number: int) -> str:
    """Its resource name; its own begins with that of the cluster."""
    return f"server-{number}"


def _namespace(shape: Shape) -> Object:
    obj = of_cluster(shape, NAMESPACES, shape.namespace)
    obj["metadata"]["labels"] |= {names.ENVIRONMENT: shape.environment, "cluster-type": shape.cluster_type}
    return obj


def _ports(ingress_class: str) -> dict[str, int]:
    return {"api": API_PORT} | ({} if ingress_class == "none" else {"http": 80, "https": 443})


def _service(shape: Shape, ingress_class: str) -> Object:
    return of_cluster(
        shape,
        SERVICES,
        k3s.api_service(shape.name),
        {
            "type": "LoadBalancer",
            "selector": {wellknown.CLUSTER_NAME_LABEL: shape.name},
            "ports": [
                {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}
                for name, port in _ports(ingress_class).items()
            ],
        },
    )


def _first_start(shape: Shape, text: str) -> Object:
    obj = of_cluster(shape, SECRETS, _first_start_name(shape))
    return {**obj, "type": "Opaque", "data": {"userdata": base64.b64encode(text.encode()).decode()}}


def _first_start_name(shape: Shape) -> str:
    return f"{shape.name}-first-start"


def _machine(shape: Shape, settings: Kubevirt, name: str, observed: Object | None) -> Object:
    spec: Object = {
        "runStrategy": "Always",
        "dataVolumeTemplates": _disks(shape, settings, name, observed),
        "template": {"metadata": _labelled(shape, name), "spec": _guest(shape, name)},
    }
    obj = of_cluster(shape, VIRTUAL_MACHINES, name, spec)
    obj["metadata"]["labels"] |= {"environment": shape.environment, "cluster-type": shape.cluster_type}
    return obj


def _labelled(shape: Shape, name: str) -> Object:
    labels = {
        wellknown.CLUSTER_NAME_LABEL: shape.name,
        _VM_LABEL: name,
        "environment": shape.environment,
        "cluster-type": shape.cluster_type,
    }
    may_migrate = _has_others(shape) and shape.live_migration
    return {"labels": labels, **({"annotations": {kubevirt.MAY_MIGRATE: "true"}} if may_migrate else {})}


def _disks(shape: Shape, settings: Kubevirt, name: str, observed: Object | None) -> list[Object]:
    """As they are where there are any: a disk is filled once, and follows no change of the platform file."""
    have = objects.sequence(objects.at(observed, "spec", "dataVolumeTemplates"))
    if have:
        return [_as_composed(objects.mapping(each)) for each in have]
    spec = kubevirt.disk_spec(shape, shape.control_plane.sizes, settings.storage_class)
    return [{"metadata": {"name": _disk(name)}, "spec": spec}]


def _as_composed(disk: Object) -> Object:
    """Without what the API server has added."""
    return {"metadata": {"name": objects.name(disk)}, "spec": objects.mapping(disk.get("spec"))}


def _disk(machine: str) -> str:
    return f"{machine}-root"


def _guest(shape: Shape, name: str) -> Object:
    sizes = shape.control_plane.sizes
    spec: Object = {
        "domain": {
            "cpu": {"cores": sizes.cpu_cores},
            "memory": {"guest": f"{sizes.memory_gi}Gi"},
            "devices": {
                "networkInterfaceMultiqueue": True,
                "disks": [
                    {"name": _ROOT, "disk": {"bus": "virtio"}, "bootOrder": 1},
                    {"name": _CLOUD_INIT, "disk": {"bus": "virtio"}},
                    {"name": _KEYS, "disk": {"bus": "virtio"}, "serial": cloudinit.KEYS_DISK},
                ],
                # Behind masquerade every machine has the same address, which never changes: right for one alone, and
                # nothing that several could reach each other by.
                "interfaces": [{"name": _NETWORK, **({"bridge": {}} if _has_others(shape) else {"masquerade": {}})}],
            },
        },
        "networks": [{"name": _NETWORK, "pod": {}}],
        "volumes": [
            {"name": _ROOT, "dataVolume": {"name": _disk(name)}},
            {"name": _CLOUD_INIT, "cloudInitNoCloud": {"secretRef": {"name": _first_start_name(shape)}}},
            # Until the Secret is there, KubeVirt does not start the machine.
            {"name": _KEYS, "secret": {"secretName": k3s.keys_secret(shape.name)}},
        ],
        # The Service leads to a server once it listens, and the machine is ready then.
        "readinessProbe": {"tcpSocket": {"port": API_PORT}, "initialDelaySeconds": 20, "periodSeconds": 5},
        "terminationGracePeriodSeconds": 180,
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_apart(shape)]}},
    }
    if shape.live_migration:
        spec["evictionStrategy"] = "LiveMigrate"
    return spec


def _has_others(shape: Shape) -> bool:
    return shape.control_plane.replicas > 1


def _apart(shape: Shape) -> Object:
    selected: Object = {"matchLabels": {wellknown.CLUSTER_NAME_LABEL: shape.name}}
    return {
        "weight": 100,
        "podAffinityTerm": {"labelSelector": selected, "topologyKey": "kubernetes.io/hostname"},
    }
