"""What others have done by the time that everything can be composed: an API with an address and its kubeconfig, and
credentials that a provider made up."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import yaml

from steelyard.api.clusterapi import wellknown
from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.compose import names
from steelyard.compose.composed import Composed, Observed
from steelyard.kube import objects
from steelyard.kube.objects import Object

HOST, PORT = "192.168.0.225", 6443
CLUSTER, PLANE = "u-cluster", "u-plane"
"""UIDs of the Cluster and of its control plane."""
MAKERS: Mapping[str, tuple[str, ...]] = {"PostgreSQLInstance": ("login",), "RedisInstance": ("release", "server")}
"""Parts whose provider makes credentials up, by the kind of the claim."""


def finished(claim: Object, composed: Composed) -> Observed:
    """Enough for every part of the claim to be composed, given what is composed of it at first."""
    if claim["kind"] == "PostgreSQLAccess":
        return accessible(claim)
    for maker in MAKERS.get(str(claim["kind"]), ()):
        if maker in composed.desired:
            return credentials(maker, composed.desired[maker].object)
    if "api" in composed.desired:
        return served(composed)
    home = composed.requirements.get("kubeconfig")
    return reachable(machine("a", "10.0.0.2"), namespace=home.namespace) if home is not None else Observed()


def accessible(claim: Object) -> Observed:
    """The database that a login is for."""
    instance: Object = {
        "kind": "PostgreSQLInstance",
        "metadata": {
            "name": claim["spec"]["parameters"]["instance"],
            "namespace": objects.namespace(claim),
            "annotations": {EXTERNAL_NAME: "dev-shop"},
        },
        "spec": {"parameters": {"environment": "dev"}},
    }
    spec = {"providerConfigRef": {"name": "postgres-provider"}}
    database: Object = {"metadata": {"name": "dev-shop", "labels": names.claim_labels(instance)}, "spec": spec}
    return Observed(required={"instance": [instance], "database": [database]})


def credentials(maker: str, made: Object) -> Observed:
    owner = {**made, "metadata": {**objects.metadata(made), "uid": "u-1"}}
    found = {"username": "u", "password": "p", "endpoint": "db.example.org", "port": "5432"}
    secret: Object = {
        "metadata": {"name": "s", "ownerReferences": [objects.owner_reference(owner, controller=True)]},
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in found.items()},
    }
    return Observed({maker: owner}, {"credentials": [secret]})


def reachable(*machines: Object, namespace: str = "", secret: Object | None = None) -> Observed:
    """A cluster whose API has an address, with its kubeconfig."""
    endpoint: Object = {"controlPlaneEndpoint": {"host": HOST, "port": PORT}}
    cluster: Object = {"metadata": {"name": "dev", "uid": CLUSTER}, "spec": endpoint}
    plane: Object = {"metadata": {"name": "dev-control-plane", "uid": PLANE}, "spec": {}}
    required = {"kubeconfig": [secret or kubeconfig(namespace)], "machines": list(machines)}
    return Observed({"cluster": cluster, "control-plane": plane}, required)


def served(composed: Composed) -> Observed:
    """Servers in virtual machines: their Service has an address, and the platform has made the kubeconfig."""
    home = objects.copy(composed.desired["namespace"].object)
    home["metadata"]["uid"] = CLUSTER
    service = {
        **composed.desired["api"].object,
        "spec": {**composed.desired["api"].object["spec"], "clusterIP": "10.96.0.7"},
        "status": {"loadBalancer": {"ingress": [{"ip": HOST}]}},
    }
    secret = kubeconfig(objects.name(home))
    secret["metadata"]["ownerReferences"] = [objects.owner_reference(home, controller=True)]
    return Observed({"namespace": home, "api": service}, {"kubeconfig": [secret], "namesake": [home]})


def kubeconfig(namespace: str = "", **user: str) -> Object:
    """The Secret that Cluster API makes, with the administrator's certificate unless another login is given."""
    login = user or {"client-certificate-data": "Y2VydA==", "client-key-data": "a2V5"}
    server = {"server": f"https://{HOST}:{PORT}", "certificate-authority-data": "Y2E="}
    config = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "dev", "user": "admin"}}],
        "clusters": [{"name": "dev", "cluster": server}],
        "users": [{"name": "admin", "user": login}],
    }
    owner: Object = {"apiVersion": "v1", "kind": "KubeadmControlPlane", "metadata": {"name": "p", "uid": PLANE}}
    owners = [objects.owner_reference(owner, controller=True)]
    return {
        "metadata": {"name": "dev-kubeconfig", "namespace": namespace, "ownerReferences": owners},
        "data": {"value": base64.b64encode(yaml.safe_dump(config).encode()).decode()},
    }


def machine(name: str, address: str, *, plane: bool = True) -> Object:
    labels = {wellknown.CONTROL_PLANE_LABEL: ""} if plane else {}
    addresses = [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]
    return {"metadata": {"name": name, "labels": labels}, "status": {"addresses": addresses}}
