"""Names of API resources: group, version, plural and kind together, as a client needs them to build a path."""

from __future__ import annotations

import re
from typing import Final

from steelyard.frozen import frozen

_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?\Z")


@frozen
class Resource:
    """One served resource, e.g. `Resource("cluster.x-k8s.io", "v1beta2", "machines", "Machine")`."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """How Kubernetes writes it in messages: `machines.cluster.x-k8s.io`, or `secrets` for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, an object or a subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            root += f"/namespaces/{namespace}"
        return "/".join(filter(None, (f"{root}/{self.plural}", name, subresource)))


def split_api_version(api_version: str) -> tuple[str, str]:
    """`apps/v1` is ("apps", "v1"); `v1` is ("", "v1")."""
    group, _, version = api_version.rpartition("/")
    return group, version


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sorts v2 over v1 over v1beta2 over v1beta1 over v1alpha1 over anything else."""
    found = _VERSION.match(version)
    if found is None:
        return (0, 0, 0, version)
    stability = {None: 3, "beta": 2, "alpha": 1}[found[2]]
    return (stability, int(found[1]), int(found[3] or 0), "")


NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SECRETS = Resource("", "v1", "secrets", "Secret")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
EVENTS = Resource("", "v1", "events", "Event")
SERVICES = Resource("", "v1", "services", "Service")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
