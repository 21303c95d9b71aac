"""The objects: definitions, policies, rights, and the program with its settings."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from steelyard import parts
from steelyard.api.clusterapi import definitions as clusterapi
from steelyard.api.clusterapi import resources as capi
from steelyard.compose import shipped
from steelyard.compose.infrastructures import kvmhosts
from steelyard.compose.integrations import vaultplatform
from steelyard.compose.offering import Offering
from steelyard.frozen import frozen
from steelyard.kube import objects, permits
from steelyard.kube.objects import Object
from steelyard.providers.toolkit.provider import Provider
from steelyard.settings import Platform

AsYaml: TypeAlias = Callable[[Object], str]

NAME: Final = "steelyard-controllers"
SETTINGS: Final = "steelyard-platform"
DATA: Final = "steelyard-data"
IMAGE: Final = "registry.steelyard.local/steelyard"
HEALTH_PORT: Final = 9440
LABELS: Final = {"app.kubernetes.io/name": "steelyard", "app.kubernetes.io/component": "controllers"}
_CLUSTERCTL: Final = {"clusterctl.cluster.x-k8s.io": ""}
_PROVIDER: Final = "cluster.x-k8s.io/provider"
_PROVIDERS: Final = {
    capi.CORE_GROUP: "cluster-api",
    capi.ADDONS_GROUP: "cluster-api",
    capi.BOOTSTRAP_GROUP: "bootstrap-kubeadm",
    capi.CONTROL_PLANE_GROUP: "control-plane-kubeadm",
}
"""What clusterctl calls the programs that these groups are of."""
_RBAC: Final = "rbac.authorization.k8s.io"
_SETTINGS_FILE: Final = "platform.yaml"
_SETTINGS_FOLDER: Final = "/etc/steelyard"
_DATA_FOLDER: Final = "/var/lib/steelyard"


@frozen
class Install:
    """What is to be installed. `namespace`, `image` and `replicas` may be placeholders."""

    wanted: tuple[str, ...]
    """Names of parts."""
    platform: Platform
    offering: Offering
    providers: tuple[Provider, ...]
    namespace: str
    image: str
    platform_text: str
    """The platform file as it was written."""
    version: str
    replicas: Any = 0
    """0 for as many as make sense."""

    @property
    def runs(self) -> list[Provider]:
        return [each for each in self.providers if each.name in self.wanted]

    @property
    def has_files(self) -> bool:
        return any(each.has_files for each in self.runs)


def documents(found: Iterable[Object], as_yaml: AsYaml) -> str:
    return "---\n".join(map(as_yaml, found))


def definitions(install: Install) -> list[Object]:
    """Of all kinds of ours, and of Cluster API's where we stand in for it. Those of others come with their programs."""
    found = list(shipped.definitions(install.platform, install.offering))
    own = {str(objects.at(each, "spec", "group")) for each in found}
    found += [
        each for provider in install.runs for each in provider.definitions() if objects.at(each, "spec", "group") in own
    ]
    if parts.LIFECYCLE in install.wanted:
        found += clusterapi.crds()
    return [_labelled(each) for each in found]


def guards(install: Install) -> list[Object]:
    if parts.CLAIMS not in install.wanted:
        return []
    return list(itertools.chain.from_iterable(shipped.guards(install.platform, install.offering)))


def rights(install: Install) -> list[Object]:
    needed = parts.needed(install.platform, install.offering, install.wanted, install.providers)
    everywhere, here = [*needed, *permits.of_every_controller()], permits.of_leases()
    subjects = [{"kind": "ServiceAccount", "name": NAME, "namespace": install.namespace}]

    def bound(kind: str) -> Object:
        return {"roleRef": {"apiGroup": _RBAC, "kind": kind, "name": NAME}, "subjects": subjects}

    return [
        _here(install, "v1", "ServiceAccount", NAME),
        {**_everywhere(f"{_RBAC}/v1", "ClusterRole", NAME), "rules": permits.rules(everywhere)},
        {**_everywhere(f"{_RBAC}/v1", "ClusterRoleBinding", NAME), **bound("ClusterRole")},
        {**_here(install, f"{_RBAC}/v1", "Role", NAME), "rules": permits.rules(here)},
        {**_here(install, f"{_RBAC}/v1", "RoleBinding", NAME), **bound("Role")},
    ]


def namespace(install: Install) -> Object:
    return _everywhere("v1", "Namespace", install.namespace)


def program(install: Install) -> list[Object]:
    settings: Object = {
        **_here(install, "v1", "ConfigMap", SETTINGS),
        "data": {_SETTINGS_FILE: install.platform_text},
    }
    service: Object = {
        **_here(install, "v1", "Service", NAME),
        "spec": {
            "selector": dict(LABELS),
            "ports": [{"name": "metrics", "port": HEALTH_PORT, "targetPort": "health"}],
        },
    }
    found = [settings, service, _deployment(install)]
    if install.has_files:
        claim: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
        found.insert(1, {**_here(install, "v1", "PersistentVolumeClaim", DATA), "spec": claim})
    return found


def monitor(install: Install) -> Object:
    return {
        **_here(install, "monitoring.coreos.com/v1", "ServiceMonitor", NAME),
        "spec": {"selector": {"matchLabels": dict(LABELS)}, "endpoints": [{"port": "metrics", "interval": "30s"}]},
    }


def standing(install: Install) -> list[Object]:
    """What the embedded platform makes of its settings at every start."""
    found = [obj for _, obj in vaultplatform.standing(install.platform)] if parts.CLAIMS in install.wanted else []
    if "kvm" in install.wanted:
        found += [obj for _, obj in kvmhosts.standing(install.platform)]
    return found


def _deployment(install: Install) -> Object:
    # The second waits for the leases of the first; two cannot have the same files.
    replicas = install.replicas or (1 if install.has_files else 2)
    strategy: Object = {"strategy": {"type": "Recreate"}} if install.has_files else {}
    return {
        **_here(install, "apps/v1", "Deployment", NAME),
        "spec": {
            "replicas": replicas,
            **strategy,
            "selector": {"matchLabels": dict(LABELS)},
            "template": {"metadata": {"labels": dict(LABELS)}, "spec": _pod(install)},
        },
    }


def _pod(install: Install) -> Object:
    volumes: list[Object] = [
        {"name": "settings", "configMap": {"name": SETTINGS}},
        {"name": "tmp", "emptyDir": {}},
    ]
    if install.has_files:
        volumes.append({"name": "data", "persistentVolumeClaim": {"claimName": DATA}})
    return {
        "serviceAccountName": NAME,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
        "containers": [_container(install)],
        "volumes": volumes,
    }


def _container(install: Install) -> Object:
    mounts: list[Object] = [
        {"name": "settings", "mountPath": _SETTINGS_FOLDER, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 (inside the container)
    ]
    if install.has_files:
        mounts.append({"name": "data", "mountPath": _DATA_FOLDER})
    return {
        "name": "manager",
        "image": install.image,
        "imagePullPolicy": "IfNotPresent",
        "args": _arguments(install),
        "env": [_from_pod("POD_NAMESPACE", "metadata.namespace"), _from_pod("POD_IP", "status.podIP")],
        "ports": [{"name": "health", "containerPort": HEALTH_PORT}],
        "livenessProbe": _probe("/healthz"),
        "readinessProbe": _probe("/readyz"),
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _arguments(install: Install) -> Sequence[str]:
    found = ["controllers", "--with", ",".join(install.wanted), "--platform", f"{_SETTINGS_FOLDER}/{_SETTINGS_FILE}"]
    found += ["--health-address", f"0.0.0.0:{HEALTH_PORT}"]
    if install.has_files:
        found += ["--data-dir", _DATA_FOLDER, "--host", "$(POD_IP)"]
    return found


def _from_pod(name: str, field: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def _probe(path: str) -> Object:
    return {"httpGet": {"path": path, "port": "health"}, "periodSeconds": 10}


def _here(install: Install, api_version: str, kind: str, name: str) -> Object:
    made = _everywhere(api_version, kind, name)
    return {**made, "metadata": {**made["metadata"], "namespace": install.namespace}}


def _everywhere(api_version: str, kind: str, name: str) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": dict(LABELS)}}


def _labelled(definition: Object) -> Object:
    group = str(objects.at(definition, "spec", "group"))
    known = {_PROVIDER: _PROVIDERS[group]} if group in _PROVIDERS else {}
    labels = {**known, **_CLUSTERCTL, **objects.labels(definition)}
    return {**definition, "metadata": {**objects.metadata(definition), "labels": labels}}
