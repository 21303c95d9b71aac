"""External Secrets' kinds that are composed and brought about here, and the words it uses on them."""

from __future__ import annotations

from typing import Final

from steelyard.kube.resources import Resource

GROUP: Final = "external-secrets.io"
CLUSTER_SECRET_STORES: Final = Resource(GROUP, "v1", "clustersecretstores", "ClusterSecretStore", namespaced=False)
SECRET_STORES: Final = Resource(GROUP, "v1", "secretstores", "SecretStore")
EXTERNAL_SECRETS: Final = Resource(GROUP, "v1", "externalsecrets", "ExternalSecret")
PUSH_SECRETS: Final = Resource(GROUP, "v1alpha1", "pushsecrets", "PushSecret")
PASSWORDS: Final = Resource("generators.external-secrets.io", "v1alpha1", "passwords", "Password")
"""Says how a password is made up."""

PUSH_FINALIZER: Final = "pushsecret.externalsecrets.io/finalizer"
EXTERNAL_FINALIZER: Final = "externalsecrets.external-secrets.io/externalsecret-cleanup"
MANAGED_LABEL: Final = "reconcile.external-secrets.io/managed"
DATA_HASH: Final = "reconcile.external-secrets.io/data-hash"
"""Annotation of Secrets that are made of an ExternalSecret."""
