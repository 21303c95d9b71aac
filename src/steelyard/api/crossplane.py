"""Kinds of Crossplane's providers and of External Secrets that databases and caches are made of, and their words.

Of provider-sql v0.16 and provider-helm v1 the cluster-scoped kinds, as the documents have them, and not the namespaced
ones beside them: who administers a namespace could point a Database in it at anybody's.
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
