"""Argo CD: a cluster is registered by a Secret beside it, which says where the cluster is and how to log in there.

The administrator's kubeconfig is what Cluster API makes, so that is what Argo CD gets; the Secret follows when it is
renewed.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

import orjson

from steelyard.compose import names
from steelyard.compose.composed import FIRST_STAGE, Desired
from steelyard.compose.shape import Shape
from steelyard.kube import foreignconfig, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from steelyard.settings.integrations import ArgoCD, Chart

APPLICATIONS: Final = Resource("argoproj.io", "v1alpha1", "applications", "Application")
CLUSTER: Final = "argocd-cluster"
"""The resource name of the registration."""

_SECRET_TYPE: Final = "argocd.argoproj.io/secret-type"  # noqa: S105 (a label, not a secret)


def registration(shape: Shape, claim: Object, settings: ArgoCD, kubeconfig: Object | None) -> dict[str, Desired]:
    """Nothing before there is a kubeconfig to register the cluster with."""
    found = _connection(kubeconfig)
    if found is None:
        return {}
    server, config = found
    name = names.external(objects.namespace(claim), objects.name(claim))
    data = {"name": name, "server": server, "config": orjson.dumps(config).decode()}
    obj: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": f"cluster-{name}",
            "namespace": settings.namespace,
            "labels": {_SECRET_TYPE: "cluster", **labels(shape)},
        },
        "type": "Opaque",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }
    return {CLUSTER: Desired(SECRETS, obj, deletion_stage=FIRST_STAGE)}


def application(
    shape: Shape,
    claim: Object,
    settings: ArgoCD,
    *,
    name: str,
    chart: str,
    source: Chart,
    endpoint: str,
    namespace: str,
    parameters: Mapping[str, str],
) -> Desired:
    """A chart, installed in the cluster under its `name`. Without a finalizer of Argo CD's: it goes with its cluster,
    and nothing waits for it to be taken out of one that is being deleted."""
    obj: Object = {
        "apiVersion": APPLICATIONS.api_version,
        "kind": APPLICATIONS.kind,
        "metadata": {
            "name": f"{names.external(objects.namespace(claim), objects.name(claim))}-{name}",
            "namespace": settings.namespace,
            "labels": labels(shape),
        },
        "spec": {
            "project": settings.project,
            "source": {
                "chart": chart,
                "repoURL": source.repository,
                "targetRevision": source.version,
                "helm": {
                    # The Application's own name may be longer than Helm allows.
                    "releaseName": name,
                    "parameters": [{"name": key, "value": value} for key, value in parameters.items()],
                },
            },
            "destination": {"server": endpoint, "namespace": namespace},
            "syncPolicy": {
                "automated": {"prune": True, "selfHeal": True},
                # Some definitions are too large for the annotation that is left by applying without the server.
                "syncOptions": ["CreateNamespace=true", "ServerSideApply=true"],
            },
        },
    }
    return Desired(APPLICATIONS, obj, deletion_stage=FIRST_STAGE)


def labels(shape: Shape) -> dict[str, str]:
    """By which an ApplicationSet selects clusters."""
    return {"environment": shape.environment, "cluster-type": shape.cluster_type}


def waiting_for(observed: Object | None) -> str:
    """What keeps an Application from being in place, in Argo CD's own words; empty if it is."""
    sync = str(objects.at(observed, "status", "sync", "status") or "")
    health = str(objects.at(observed, "status", "health", "status") or "")
    if sync == "Synced" and health == "Healthy":
        return ""
    return ", ".join(filter(None, (sync, health))) or "Argo CD has not looked at it yet"


def _connection(kubeconfig: Object | None) -> tuple[str, dict[str, Any]] | None:
    """The server, and what Argo CD wants to know of it."""
    value = objects.at(kubeconfig, "data", "value")
    if not value:
        return None
    try:
        config = foreignconfig.document(base64.b64decode(str(value)))
        context = dict(foreignconfig.named(config, "contexts", "context")).get(str(config.get("current-context"))) or {}
        cluster = dict(foreignconfig.named(config, "clusters", "cluster")).get(str(context.get("cluster"))) or {}
        user = dict(foreignconfig.named(config, "users", "user")).get(str(context.get("user"))) or {}
    except ValueError:
        return None
    tls = {
        "caData": cluster.get("certificate-authority-data"),
        "certData": user.get("client-certificate-data"),
        "keyData": user.get("client-key-data"),
    }
    if not cluster.get("server"):
        return None
    return str(cluster["server"]), {
        "tlsClientConfig": {"insecure": False, **{key: value for key, value in tls.items() if value}}
    }
