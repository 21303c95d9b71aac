"""Kinds of Crossplane, its providers and External Secrets that claims are made of, and their words.

Of provider-sql v0.16 and provider-helm v1 the cluster-scoped kinds, as the documents have them, and not the namespaced
ones beside them: who administers a namespace could point a Database in it at anybody's. Only composites of Crossplane
v2 that are in a namespace must use those (`steelyard/crossplane/wrapping.py`).
"""

from __future__ import annotations

from typing import Final

from steelyard.kube.resources import Resource

EXTERNAL_NAME: Final = "crossplane.io/external-name"
"""Annotation: what the thing is called where it is, on the server."""

SQL_GROUP: Final = "postgresql.sql.crossplane.io"
DATABASES: Final = Resource(SQL_GROUP, "v1alpha1", "databases", "Database", namespaced=False)
ROLES: Final = Resource(SQL_GROUP, "v1alpha1", "roles", "Role", namespaced=False)
GRANTS: Final = Resource(SQL_GROUP, "v1alpha1", "grants", "Grant", namespaced=False)
EXTENSIONS: Final = Resource(SQL_GROUP, "v1alpha1", "extensions", "Extension", namespaced=False)
SCHEMAS: Final = Resource(SQL_GROUP, "v1alpha1", "schemas", "Schema", namespaced=False)
PROVIDER_CONFIGS: Final = Resource(SQL_GROUP, "v1alpha1", "providerconfigs", "ProviderConfig", namespaced=False)
RELEASES: Final = Resource("helm.crossplane.io", "v1beta1", "releases", "Release", namespaced=False)
PUSH_SECRETS: Final = Resource("external-secrets.io", "v1alpha1", "pushsecrets", "PushSecret")

PROVIDER_SQL: Final = "Crossplane's provider-sql"
PROVIDER_HELM: Final = "Crossplane's provider-helm"
EXTERNAL_SECRETS: Final = "External Secrets, or turn integrations.vault off in the platform file"
"""What there is to install for each."""

SQL_GROUP_OF_NAMESPACES: Final = "postgresql.sql.m.crossplane.io"
HELM_GROUP_OF_NAMESPACES: Final = "helm.m.crossplane.io"
IN_NAMESPACES: Final = {
    DATABASES: Resource(SQL_GROUP_OF_NAMESPACES, "v1alpha1", "databases", "Database"),
    ROLES: Resource(SQL_GROUP_OF_NAMESPACES, "v1alpha1", "roles", "Role"),
    GRANTS: Resource(SQL_GROUP_OF_NAMESPACES, "v1alpha1", "grants", "Grant"),
    EXTENSIONS: Resource(SQL_GROUP_OF_NAMESPACES, "v1alpha1", "extensions", "Extension"),
    SCHEMAS: Resource(SQL_GROUP_OF_NAMESPACES, "v1alpha1", "schemas", "Schema"),
    RELEASES: Resource(HELM_GROUP_OF_NAMESPACES, "v1beta1", "releases", "Release"),
}
"""The namespaced kind beside each of the above, which composites in a namespace are made of (Crossplane v2)."""
CLUSTER_PROVIDER_CONFIGS: Final = Resource(
    SQL_GROUP_OF_NAMESPACES, "v1alpha1", "clusterproviderconfigs", "ClusterProviderConfig", namespaced=False
)
"""What PROVIDER_CONFIGS is to the namespaced kinds: a server that every namespace may use."""
OBJECTS: Final = Resource("kubernetes.m.crossplane.io", "v1alpha1", "objects", "Object")
"""Of provider-kubernetes: any object at all, wherever it is."""
KUBERNETES_CONFIG: Final = "kubernetes-provider"
HELM_CONFIG: Final = "helm-provider"
"""ProviderConfigs, as the documents call them."""
USAGES: Final = Resource("protection.crossplane.io", "v1beta1", "usages", "Usage")
CLUSTER_USAGES: Final = Resource("protection.crossplane.io", "v1beta1", "clusterusages", "ClusterUsage", False)
"""What is used by something else, and is not deleted before it."""
COMPOSITE_DEFINITIONS: Final = Resource(
    "apiextensions.crossplane.io", "v1", "compositeresourcedefinitions", "CompositeResourceDefinition", namespaced=False
)
COMPOSITIONS: Final = Resource("apiextensions.crossplane.io", "v1", "compositions", "Composition", namespaced=False)
PROVIDER_KUBERNETES: Final = "Crossplane's provider-kubernetes"
