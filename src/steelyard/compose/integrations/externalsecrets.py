"""External Secrets inside a cluster: a store by which secrets come from Vault, for every namespace there.

The store logs in to Vault with a service account of the cluster, at an engine that Vault has for this cluster alone, in
the role of its environment. Engine and role are set up by `vaultcluster.py`, unless the platform file leaves Vault's
configuration to somebody else: then a condition says what there is to do. Where Argo CD is enabled it installs External
Secrets, whose kinds the store is one of.
"""

from __future__ import annotations

import base64
from typing import Final

from steelyard.compose.composed import Condition, Desired
from steelyard.compose.integrations import argocd, inside, vaultcluster
from steelyard.compose.integrations.subject import NOTHING, Integrated, Subject
from steelyard.compose.integrations.vaultcluster import ACCOUNT, mount, role
from steelyard.kube import objects
from steelyard.kube.objects import Object

INSTALLED: Final = "external-secrets"
"""Resource name of the Application."""

_WHAT: Final = "secret-store"
_CHART: Final = "external-secrets"
_VERSION: Final = "external-secrets.io/v1"
_RBAC: Final = "rbac.authorization.k8s.io"
_NOBODY: Final = Condition(
    "VaultConfigured",
    "False",
    "NobodyBringsTheStore",
    "nothing here brings objects into a cluster that is not made by Cluster API, so there is no store of secrets in "
    "it; install External Secrets and make a ClusterSecretStore there by hand",
)


def of(subject: Subject) -> Integrated:
    programs = subject.platform.integrations
    if not (programs.vault.enabled and programs.external_secrets.enabled):
        return NOTHING
    if not subject.has_door:
        return Integrated(conditions=[_NOBODY])
    store = Integrated(
        inside.delivered(subject.shape, _WHAT, inside.manifests(_objects(subject))),
        waiting_for=_waiting_for_store(subject),
    )
    if programs.vault.configure:
        return _installed(subject) | store | vaultcluster.of(subject)
    return _installed(subject) | store | Integrated(conditions=[_to_configure(subject)])


def _installed(subject: Subject) -> Integrated:
    programs = subject.platform.integrations
    settings, chart = programs.external_secrets, programs.external_secrets.chart
    if not programs.argocd.enabled or chart is None:
        return NOTHING
    if not subject.endpoint:
        return Integrated(retained=frozenset({INSTALLED}))
    application = argocd.application(
        subject.shape,
        subject.claim,
        programs.argocd,
        name=_CHART,
        chart=_CHART,
        source=chart,
        endpoint=subject.endpoint,
        namespace=settings.namespace,
        parameters={},
    )
    parts: dict[str, Desired] = {INSTALLED: application}
    problem = argocd.waiting_for(subject.observed.resources.get(INSTALLED))
    called = objects.qualified_name(application.object)
    waiting = f"waiting for Argo CD to install External Secrets (Application {called}: {problem})" if problem else ""
    return Integrated(parts, waiting_for=waiting)


def _waiting_for_store(subject: Subject) -> str:
    problem = inside.waiting_for(subject.shape, _WHAT, subject.observed)
    if not problem:
        return ""
    return f"waiting for the store of secrets inside the cluster, where External Secrets must be installed ({problem})"


def _to_configure(subject: Subject) -> Condition:
    return Condition(
        "VaultConfigured",
        "Unknown",
        "NobodyConfiguresIt",
        f"the cluster logs in to Vault at auth/{mount(subject)} in the role {role(subject)}, which the platform file "
        "leaves to somebody else to set up (integrations.vault.configure): enable an engine of type kubernetes there "
        f"with the cluster's address and certificate authority, and give it that role for service account {ACCOUNT} "
        f"in namespace {subject.platform.integrations.external_secrets.namespace}",
    )


def _objects(subject: Subject) -> list[Object]:
    namespace = subject.platform.integrations.external_secrets.namespace
    account: Object = {"name": ACCOUNT, "namespace": namespace}
    # Vault asks the cluster whether a login is genuine with the very token that logs in.
    may_be_checked: Object = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "system:auth-delegator"},
        "subjects": [{"kind": "ServiceAccount", **account}],
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        may_be_checked,
        _store(subject, account),
    ]


def _store(subject: Subject, account: Object) -> Object:
    settings = subject.platform.integrations.vault
    vault: Object = {
        "server": settings.cluster_address or settings.address,
        "path": settings.mount,
        "version": "v2",
        "auth": {
            "kubernetes": {"mountPath": mount(subject), "role": role(subject), "serviceAccountRef": dict(account)}
        },
    }
    if settings.ca_certificates:
        vault["caBundle"] = base64.b64encode(settings.ca_certificates.encode()).decode()
    return {
        "apiVersion": _VERSION,
        "kind": "ClusterSecretStore",
        "metadata": {"name": settings.secret_store},
        "spec": {"provider": {"vault": vault}},
    }
