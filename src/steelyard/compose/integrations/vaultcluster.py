"""A cluster in Vault: an engine by which its service accounts log in, what they may then read, and the role for it.

sys/auth/kubernetes-<cluster>                         the engine, of this cluster alone
auth/kubernetes-<cluster>/config                      where the cluster is, and who signs for it
sys/policies/acl/steelyard-cluster-<cluster>          what its namespace has in Vault, to be read
auth/kubernetes-<cluster>/role/vcluster-<environment> for External Secrets' service account
"""

from __future__ import annotations

import base64
from typing import Final

from steelyard.compose import managed
from steelyard.compose.composed import FIRST_STAGE, Condition, Desired
from steelyard.compose.integrations import vaultentries, vaultpolicies
from steelyard.compose.integrations.subject import Integrated, Subject
from steelyard.compose.integrations.vaultentries import OWN
from steelyard.kube import foreignconfig, objects
from steelyard.kube.objects import Object

ACCOUNT: Final = "external-secrets-sa"
ENGINE: Final = "vault-auth"
CONFIG: Final = "vault-auth-config"
POLICY: Final = "vault-auth-policy"
ROLE: Final = "vault-auth-role"
RESOURCE_NAMES: Final = (ENGINE, CONFIG, POLICY, ROLE)
CONFIGURED: Final = "VaultConfigured"


def mount(subject: Subject) -> str:
    """Vault's engine for logins from this cluster: `kubernetes-team-a-shop-6b3e35`."""
    return f"{subject.platform.integrations.vault.auth_mount}-{subject.name}"


def role(subject: Subject) -> str:
    return f"vcluster-{subject.shape.environment}"


def of(subject: Subject) -> Integrated:
    authority = _authority(subject)
    if not subject.endpoint or not authority:
        waiting = Condition(CONFIGURED, "False", "WaitingForCluster", "waiting for the cluster's address and authority")
        return Integrated(retained=frozenset(RESOURCE_NAMES), conditions=[waiting])
    made = _parts(subject, authority)
    problem = managed.progress(made, subject.observed).waiting_for
    told = (
        Condition(CONFIGURED, "False", "Configuring", problem)
        if problem
        else Condition(CONFIGURED, "True", "Configured", f"at auth/{mount(subject)}, in the role {role(subject)}")
    )
    # A Vault that is away does not make a cluster unusable: the condition tells of it, and nothing waits.
    return Integrated(made, conditions=[told])


def _parts(subject: Subject, authority: str) -> dict[str, Desired]:
    settings = subject.platform.integrations.vault
    namespace = subject.platform.integrations.external_secrets.namespace
    engine, name = mount(subject), subject.name
    policy = f"{OWN}-cluster-{name}"
    rules = vaultpolicies.of_cluster(settings, subject.shape.environment, objects.namespace(subject.claim))
    described: Object = {"type": "kubernetes", "description": f"Logins from cluster {name}, made by Steelyard."}
    config: Object = {
        "kubernetes_host": subject.endpoint,
        "kubernetes_ca_cert": authority,
        # Vault asks with the token that logs in, and not with one of the machine on which it runs.
        "disable_local_ca_jwt": True,
    }
    bound: Object = {
        "bound_service_account_names": [ACCOUNT],
        "bound_service_account_namespaces": [namespace],
        "token_policies": [policy],
        "token_ttl": "1h",
        "token_max_ttl": "24h",
    }
    return {
        ENGINE: vaultentries.entry(settings, f"cluster-{name}", f"sys/auth/{engine}", described, stage=FIRST_STAGE + 1),
        CONFIG: vaultentries.entry(settings, f"cluster-{name}-config", f"auth/{engine}/config", config, stays=True),
        POLICY: vaultentries.policy(settings, policy, rules, stage=FIRST_STAGE + 1),
        ROLE: vaultentries.entry(settings, f"cluster-{name}-role", f"auth/{engine}/role/{role(subject)}", bound),
    }


def _authority(subject: Subject) -> str:
    """Who signed the certificate of the cluster's API, in PEM, out of its kubeconfig; empty until that is there."""
    value = objects.at(subject.kubeconfig, "data", "value")
    if not value:
        return ""
    try:
        config = foreignconfig.document(base64.b64decode(str(value)))
        for each in objects.sequence(config.get("clusters")):
            found = objects.at(each, "cluster", "certificate-authority-data")
            if found:
                return base64.b64decode(str(found)).decode()
    except ValueError:
        return ""
    return ""
