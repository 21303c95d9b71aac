"""Where in Vault a cluster's kubeconfig goes: the claim's word as far as it may say so, else a path of its own."""

from __future__ import annotations

import dataclasses

import pytest

from steelyard.compose.integrations import vault
from steelyard.compose.integrations.subject import Subject
from steelyard.compose.refusing import Refused
from tests.compose.integrations import clusters


def subject(path: str | None, *, namespace: str = "team-a", environment: str = "dev", mount: str = "secret") -> Subject:
    asked = clusters.claim("simulated", namespace=namespace, environment=environment)
    platform = f"integrations: {{vault: {{enabled: true, mount: {mount}}}}}"
    return dataclasses.replace(clusters.subject(asked, platform), vault_path=path)


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        (subject(None), "secret/clusters/dev/team-a/shop"),
        (subject(None, namespace="dev"), "secret/clusters/dev/shop"),
        (subject(None, mount="kv"), "kv/clusters/dev/team-a/shop"),
        (subject(None, environment="prod"), "secret/clusters/production/team-a/shop"),
        (subject("secret/clusters/dev"), "secret/clusters/dev"),
        (subject("secret/clusters/prod", environment="prod"), "secret/clusters/prod"),
        (subject("secret/clusters/team-a/anything"), "secret/clusters/team-a/anything"),
    ],
    ids=["derived", "in its environment's namespace", "another engine", "of an alias", "as printed", "by an alias",
         "of the namespace"],
)  # fmt: skip
def test_where_a_kubeconfig_goes(asked: Subject, path: str) -> None:
    assert vault.path(asked) == path


@pytest.mark.parametrize(
    ("asked", "because"),
    [
        (subject("secret/clusters/production"), "dev/team-a/<name> or dev: other paths are other people's"),
        (subject("pki/dev"), "it must be secret/clusters/"),
        (subject("secret/clusters/developers"), "other paths are other people's"),
    ],
    ids=["another environment", "another engine", "a word that begins alike"],
)
def test_a_path_of_others_is_refused(asked: Subject, because: str) -> None:
    with pytest.raises(Refused) as refused:
        vault.of(asked)
    assert refused.value.reason == "VaultPathForbidden"
    assert because in refused.value.message
