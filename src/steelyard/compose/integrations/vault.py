"""Vault: the kubeconfig of a cluster is put there by External Secrets, for whoever may read that path.

    <path>              api-url, kubeconfig (in base64)
    <path>/kubeconfig   value

The path is the claim's word, or `<mount>/clusters/<environment>/<namespace>/<name>`. What is put there is a copy in a
namespace of the platform's, made of a kubeconfig that was looked at: whoever may write Secrets beside the cluster does
not get anything into Vault.
"""

from __future__ import annotations

import base64
from typing import Final

from steelyard.api import vaultpaths
from steelyard.compose import managed
from steelyard.compose.composed import FIRST_STAGE, Desired
from steelyard.compose.integrations.subject import NOTHING, Integrated, Subject
from steelyard.compose.managed import VAULT
from steelyard.compose.refusing import Refused
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS

COPY: Final = "vault-copy"
KUBECONFIG: Final = "vault-kubeconfig"
"""Resource names: of the copy, and of what puts it at the second path. That of the first is the same for all claims."""

FOLDERS: Final = ("clusters",)
"""Of the engine: where claims for clusters may have something."""
_BELOW: Final = "kubeconfig"
"""What the second path has more than the first."""
_COPY_STAGE: Final = FIRST_STAGE + 1


def of(subject: Subject) -> Integrated:
    settings = subject.platform.integrations.vault
    if not settings.enabled:
        return NOTHING
    base = path(subject)
    status: Object = {"vaultPath": base}
    value = objects.at(subject.kubeconfig, "data", "value")
    if not value or not subject.endpoint:
        waiting = "waiting for a kubeconfig to put into Vault"
        return Integrated(retained=frozenset({COPY, VAULT, KUBECONFIG}), waiting_for=waiting, status=status)
    copy = _copy(subject, str(value))
    name = objects.name(copy.object)
    pushes = {
        VAULT: managed.push(
            settings, name, base, {"api-url": '{{ index . "api-url" }}', "kubeconfig": "{{ .kubeconfig | b64enc }}"}
        ),
        KUBECONFIG: managed.push(settings, name, f"{base}/{_BELOW}", {"value": "{{ .kubeconfig }}"}),
    }
    waiting = managed.progress(pushes, subject.observed).waiting_for
    return Integrated({COPY: copy, **pushes}, waiting_for=waiting, status=status)


def path(subject: Subject) -> str:
    """Where the cluster's kubeconfig goes. Raises `Refused` where the claim may not have it put where it says."""
    mount, environment = subject.platform.integrations.vault.mount, subject.shape.environment
    asked = subject.vault_path
    if asked is None:
        return _derived(subject, mount, environment)
    said = str(objects.at(subject.claim, "spec", "parameters", "environment") or environment)
    problem = vaultpaths.problem(asked, mount, FOLDERS, (said, environment), objects.namespace(subject.claim))
    if problem:
        raise Refused("VaultPathForbidden", f"spec.parameters.vaultPath: {asked}: {problem}; set it to such a path")
    return asked


def _derived(subject: Subject, mount: str, environment: str) -> str:
    found = managed.vault_path(subject.claim, mount, FOLDERS[0], environment)
    if objects.name(subject.claim) == _BELOW:
        raise Refused(
            "NameNotUsable",
            f"in Vault the cluster would have {found}, where the kubeconfig of another one may be; make a claim with "
            f"another name than {_BELOW}",
        )
    return found


def _copy(subject: Subject, kubeconfig: str) -> Desired:
    namespace = subject.platform.integrations.vault.credentials_namespace
    endpoint = base64.b64encode(subject.endpoint.encode()).decode()
    obj: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"kubeconfig-{subject.name}", "namespace": namespace},
        "type": "Opaque",
        "data": {"api-url": endpoint, "kubeconfig": kubeconfig},
    }
    return Desired(SECRETS, obj, deletion_stage=_COPY_STAGE)
