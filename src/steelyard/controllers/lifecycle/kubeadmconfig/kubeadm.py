"""kubeadm's own configuration files, made from the KubeadmConfig fields of the same meaning.

Kubernetes 1.31 and later read `kubeadm.k8s.io/v1beta4`, older ones `v1beta3`, in which extra arguments are a map,
durations sit in other places and some fields do not exist. What Cluster API counts in seconds or days, kubeadm takes
as a Go duration.
"""

from __future__ import annotations

import re
from typing import Any

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.server.bodies import yamlform

_V1BETA4_SINCE = (1, 31)
_OLDEST = (1, 22)
_VERSION = re.compile(r"v?(\d+)\.(\d+)")
_COMPONENTS = ("apiServer", "controllerManager", "scheduler")
_COPIED_CLUSTER_FIELDS = ("controlPlaneEndpoint", "certificatesDir", "imageRepository", "featureGates", "dns")
_TIMEOUTS = {
    "controlPlaneComponentHealthCheckSeconds": "controlPlaneComponentHealthCheck",
    "kubeletHealthCheckSeconds": "kubeletHealthCheck",
    "kubernetesAPICallSeconds": "kubernetesAPICall",
    "etcdAPICallSeconds": "etcdAPICall",
    "tlsBootstrapSeconds": "tlsBootstrap",
    "discoverySeconds": "discovery",
}


class UnsupportedVersion(ValueError):
    """The Kubernetes version cannot be read, or is older than kubeadm's oldest configuration we write."""


def api_version(kubernetes_version: str) -> str:
    """
    >>> api_version("v1.34.4")
    'kubeadm.k8s.io/v1beta4'
    """
    found = _VERSION.match(kubernetes_version)
    if found is None:
        raise UnsupportedVersion(f"{kubernetes_version!r} is not a Kubernetes version such as v1.34.4")
    version = (int(found[1]), int(found[2]))
    if version < _OLDEST:
        raise UnsupportedVersion(f"Kubernetes {kubernetes_version} is too old: v1.22 is the oldest that is supported")
    return "kubeadm.k8s.io/v1beta4" if version >= _V1BETA4_SINCE else "kubeadm.k8s.io/v1beta3"


def init_documents(config_spec: Object, cluster: Object, *, version: str, endpoint: str) -> str:
    """ClusterConfiguration and InitConfiguration, for `kubeadm init --config`."""
    api = api_version(version)
    init = objects.mapping(config_spec.get("initConfiguration"))
    cluster_configuration = objects.mapping(config_spec.get("clusterConfiguration"))
    documents = [
        _cluster(cluster_configuration, init, cluster, api, version=version, endpoint=endpoint),
        _init(init, api),
    ]
    return "---\n" + "---\n".join(_yaml(document) for document in documents)


def cluster_document(config_spec: Object, cluster: Object, *, version: str, endpoint: str) -> Object:
    """ClusterConfiguration alone, as kubeadm keeps it in the cluster."""
    init = objects.mapping(config_spec.get("initConfiguration"))
    configuration = objects.mapping(config_spec.get("clusterConfiguration"))
    return _cluster(configuration, init, cluster, api_version(version), version=version, endpoint=endpoint)


def join_document(join: Object, *, version: str) -> str:
    """JoinConfiguration, for `kubeadm join --config`."""
    api = api_version(version)
    document: Object = {
        "apiVersion": api,
        "kind": "JoinConfiguration",
        "nodeRegistration": _node_registration(join, api),
        "discovery": _discovery(join, api),
    }
    _copy(join, document, "caCertPath", "skipPhases", "patches")
    if join.get("controlPlane") is not None:
        document["controlPlane"] = {
            "localAPIEndpoint": objects.mapping(objects.at(join, "controlPlane", "localAPIEndpoint"))
        }
    timeouts = _timeouts(join)
    if timeouts and _is_v1beta4(api):
        document["timeouts"] = timeouts
    return _yaml(document)


def duration(seconds: int) -> str:
    """As Go prints it: 90 is `1m30s`, 3600 is `1h0m0s`."""
    hours, rest = divmod(seconds, 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes}m{left}s"
    return f"{minutes}m{left}s" if minutes else f"{left}s"


def _cluster(configuration: Object, init: Object, cluster: Object, api: str, *, version: str, endpoint: str) -> Object:
    network = objects.mapping(objects.at(cluster, "spec", "clusterNetwork"))
    networking = {
        "dnsDomain": str(network.get("serviceDomain") or ""),
        "podSubnet": ",".join(objects.sequence(objects.at(network, "pods", "cidrBlocks"))),
        "serviceSubnet": ",".join(objects.sequence(objects.at(network, "services", "cidrBlocks"))),
    }
    document: Object = {
        "apiVersion": api,
        "kind": "ClusterConfiguration",
        "clusterName": objects.name(cluster),
        "kubernetesVersion": version,
        "networking": {name: value for name, value in networking.items() if value},
        "controlPlaneEndpoint": endpoint,
        "dns": {},
        "etcd": _etcd(objects.mapping(configuration.get("etcd")), api),
    }
    _copy(configuration, document, *_COPIED_CLUSTER_FIELDS)
    for component in _COMPONENTS:
        document[component] = _component(objects.mapping(configuration.get(component)), api)
    if _is_v1beta4(api):
        for days, name in (
            ("certificateValidityPeriodDays", "certificateValidityPeriod"),
            ("caCertificateValidityPeriodDays", "caCertificateValidityPeriod"),
        ):
            if configuration.get(days):
                document[name] = duration(int(configuration[days]) * 86400)
    else:
        health_check = objects.at(init, "timeouts", "controlPlaneComponentHealthCheckSeconds")
        if health_check:
            document["apiServer"]["timeoutForControlPlane"] = duration(int(health_check))
    return document


def _init(init: Object, api: str) -> Object:
    document: Object = {
        "apiVersion": api,
        "kind": "InitConfiguration",
        "localAPIEndpoint": objects.mapping(init.get("localAPIEndpoint")),
        "nodeRegistration": _node_registration(init, api),
    }
    _copy(init, document, "skipPhases", "patches")
    tokens = [_bootstrap_token(objects.mapping(token)) for token in objects.sequence(init.get("bootstrapTokens"))]
    if tokens:
        document["bootstrapTokens"] = tokens
    timeouts = _timeouts(init)
    if timeouts and _is_v1beta4(api):
        document["timeouts"] = timeouts
    return document


def _discovery(join: Object, api: str) -> Object:
    discovery = objects.mapping(join.get("discovery"))
    document: Object = {}
    _copy(discovery, document, "bootstrapToken", "tlsBootstrapToken")
    path = objects.at(discovery, "file", "kubeConfigPath")
    if path:
        document["file"] = {"kubeConfigPath": path}
    seconds = objects.at(join, "timeouts", "tlsBootstrapSeconds")
    if seconds and not _is_v1beta4(api):
        document["timeout"] = duration(int(seconds))
    return document


def _node_registration(configuration: Object, api: str) -> Object:
    registration = objects.mapping(configuration.get("nodeRegistration"))
    document: Object = {"taints": registration.get("taints")}
    _copy(registration, document, "name", "criSocket", "ignorePreflightErrors", "imagePullPolicy")
    if _is_v1beta4(api):
        _copy(registration, document, "imagePullSerial")
    arguments = _arguments(registration.get("kubeletExtraArgs"), api)
    if arguments:
        document["kubeletExtraArgs"] = arguments
    return document


def _component(component: Object, api: str) -> Object:
    document: Object = {}
    _copy(component, document, "certSANs", "extraVolumes")
    if _is_v1beta4(api):
        _copy(component, document, "extraEnvs")
    arguments = _arguments(component.get("extraArgs"), api)
    if arguments:
        document["extraArgs"] = arguments
    return document


def _etcd(etcd: Object, api: str) -> Object:
    if etcd.get("external"):
        return {"external": etcd["external"]}
    local = objects.mapping(etcd.get("local"))
    if not local:
        return {}
    document: Object = {}
    _copy(local, document, "imageRepository", "imageTag", "dataDir", "serverCertSANs", "peerCertSANs")
    if _is_v1beta4(api):
        _copy(local, document, "extraEnvs")
    arguments = _arguments(local.get("extraArgs"), api)
    if arguments:
        document["extraArgs"] = arguments
    return {"local": document}


def _bootstrap_token(token: Object) -> Object:
    document: Object = {}
    _copy(token, document, "token", "description", "expires", "usages", "groups")
    if token.get("ttlSeconds"):
        document["ttl"] = duration(int(token["ttlSeconds"]))
    return document


def _timeouts(configuration: Object) -> Object:
    timeouts = objects.mapping(configuration.get("timeouts"))
    return {name: duration(int(timeouts[ours])) for ours, name in _TIMEOUTS.items() if timeouts.get(ours) is not None}


def _arguments(arguments: Any, api: str) -> Any:
    listed = [objects.mapping(argument) for argument in objects.sequence(arguments)]
    if _is_v1beta4(api):
        return listed
    return {str(argument.get("name")): str(argument.get("value") or "") for argument in listed}


def _is_v1beta4(api: str) -> bool:
    return api.endswith("v1beta4")


def _copy(source: Object, target: Object, *fields: str) -> None:
    for field in fields:
        if source.get(field) not in (None, "", [], {}):
            target[field] = source[field]


def _yaml(document: Object) -> str:
    """For a reader in Go, to which more words than to others are booleans and numbers: `n`, `1e3`."""
    return yamlform.dump(document).decode()
