"""Clusters as integrations meet them: a claim, and what is observed once it has an address and a kubeconfig."""

from __future__ import annotations

import base64
from typing import Any, cast

import orjson

from steelyard import settings
from steelyard.compose import names
from steelyard.compose.composed import NOTHING, Composed, Observed
from steelyard.compose.infrastructures.simulated import SIMULATED
from steelyard.compose.integrations.subject import Subject
from steelyard.compose.shape import ControlPlane, Network, Shape, Sizes
from steelyard.kube.objects import Object
from tests.compose import cases

CONTROL_PLANE_UID = "u-plane"
SERVER = "https://192.168.0.225:6443"
EVERYTHING = """
integrations:
  argocd: {enabled: true}
  vault: {enabled: true, clusterAddress: "https://vault.example.org:8200"}
  externalSecrets: {enabled: true}
  sharedServices: {enabled: true, dns: 10.96.0.10}
  istio: {enabled: true}
  backstage: {enabled: true}
"""


def claim(infrastructure: str = "kubevirt", name: str = "shop", namespace: str = "team-a", **parameters: Any) -> Object:
    return {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": "WorkloadCluster",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"parameters": {"environment": "dev", "infrastructure": infrastructure, **parameters}},
    }


def up(asked: Object, resources: dict[str, Object] | None = None, **required: Object) -> Observed:
    """As far as the kubeconfig; `resources` are further parts that are there, `required` what else is looked up."""
    name = str(asked["metadata"]["name"])
    owner: Object = {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane"}
    plane: Object = {**owner, "metadata": {"name": f"{name}-control-plane", "uid": CONTROL_PLANE_UID}}
    reference = {**owner, "name": f"{name}-control-plane", "uid": CONTROL_PLANE_UID, "controller": True}
    config: Object = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": SERVER, "certificate-authority-data": "Y2E="}}],
        "users": [{"name": "u", "user": {"client-certificate-data": "Y2VydA==", "client-key-data": "a2V5"}}],
    }
    kubeconfig: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": names.kubeconfig_secret(name), "ownerReferences": [reference]},
        "data": {"value": base64.b64encode(orjson.dumps(config)).decode()},
    }
    host, port = SERVER.removeprefix("https://").split(":")
    cluster: Object = {"spec": {"controlPlaneEndpoint": {"host": host, "port": int(port)}}}
    return Observed(
        {"cluster": cluster, "control-plane": plane, **(resources or {})},
        {"kubeconfig": [kubeconfig], **{key.replace("_", "-"): [each] for key, each in required.items()}},
    )


def compose(asked: Object, platform: str = "", observed: Observed = NOTHING) -> Composed:
    return cases.compose(asked, observed, settings.parse(platform))


def subject(asked: Object, file: str) -> Subject:
    """Such a cluster as integrations are told of it, before anything of it is there."""
    platform, (namespace, name) = settings.parse(file), (str(asked["metadata"][key]) for key in ("namespace", "name"))
    shape = Shape(
        name=name,
        namespace=namespace,
        environment=platform.environment_name(asked["spec"]["parameters"]["environment"]),
        version="v1.32.1",
        control_plane=ControlPlane(1, Sizes(2, 4, 20)),
        pools=(),
        network=Network("10.243.0.0/16", "10.95.0.0/16"),
        revision="v2",
    )
    return Subject(shape, asked, SIMULATED, platform, NOTHING, machines=(), endpoint="", kubeconfig=None)


def inside(composed: Composed, part: str) -> list[Object]:
    """The objects that one part of a composition brings into the cluster."""
    data = composed.desired[part].object["data"]
    texts = [base64.b64decode(value).decode() for value in data.values()]
    return [each for text in texts for each in cast("list[Object]", orjson.loads(text))]
