"""Crossplane's managed resources, composed: how far they have come, and the credentials that a provider keeps of them.

A provider writes what it made up, such as a password, into a Secret in a namespace of the platform's. It goes from
there into the Secret that the claim asks for and, where the platform works with Vault, to its path; and it goes only if
the very object that the claim made controls it.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from steelyard.api import state, troubles
from steelyard.api.crossplane import PUSH_SECRETS
from steelyard.api.resources import VAULT_ENTRIES
from steelyard.compose import comparing
from steelyard.compose.claimkind import ClaimKey
from steelyard.compose.composed import FIRST_STAGE, Condition, Desired, Observed
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

VAULT: Final = "vault"
"""Resource name of what puts credentials into Vault. Besides the connection Secret the one part that may be in another
namespace than the claim's: where the credentials are."""
_COPIES: Final = frozenset({PUSH_SECRETS, VAULT_ENTRIES})
"""What keeps in Vault what there is without it, too: while Vault is away it can be used as before."""
_HAS_BEEN_READY: Final = frozenset((state.AVAILABLE, state.UPDATING, state.DEGRADED))


class Pushing(Protocol):
    """Where credentials are that go to Vault, and by which store they do."""

    @property
    def credentials_namespace(self) -> str: ...

    @property
    def secret_store(self) -> str: ...


@frozen
class Progress:
    waiting_for: str
    """Empty when everything is as asked for."""
    lost: str
    """What had been ready and says that it no longer is."""


def part(resource: Resource, name: str, spec: Object, *, stage: int, annotations: Mapping[str, str]) -> Desired:
    metadata: Object = {"name": name, "annotations": dict(annotations)} if annotations else {"name": name}
    obj: Object = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
    return Desired(resource, obj, deletion_stage=stage)


def progress(desired: Mapping[str, Desired], observed: Observed) -> Progress:
    waiting = lost = ""
    for name, each in desired.items():
        here = observed.resources.get(name)
        waiting = waiting or waiting_for(each, here)
        if here is None or each.resource in _COPIES:
            continue
        if troubles.condition(here, "Ready").get("status") == "False":
            lost = lost or f"{_called(each)} is not ready{_because(here)}"
    return Progress(waiting, lost)


def with_readiness(desired: Mapping[str, Desired], observed: Observed) -> dict[str, Desired]:
    return {
        name: dataclasses.replace(each, ready=not waiting_for(each, observed.resources.get(name)))
        for name, each in desired.items()
    }


def waiting_for(desired: Desired, observed: Object | None) -> str:
    """What one part still lacks; nothing where it is as asked for."""
    if observed is None:
        return f"waiting for {_called(desired)} to be made"
    if desired.resource.group == "":
        return ""
    is_current = comparing.covers(observed.get("spec"), desired.object["spec"])
    is_ready = troubles.condition(observed, "Ready").get("status") == "True"
    is_synced = troubles.condition(observed, "Synced").get("status") != "False"
    if is_current and is_ready and is_synced and _is_about_now(observed):
        return ""
    return f"waiting for {_called(desired)}{_because(observed)}"


def _is_about_now(observed: Object) -> bool:
    seen = troubles.condition(observed, "Synced").get("observedGeneration")
    return seen is None or int(seen) >= objects.generation(observed)


def _because(observed: Object) -> str:
    for type_ in ("Synced", "Ready"):
        condition = troubles.condition(observed, type_)
        if condition.get("status") == "False" and condition.get("message"):
            return f": {condition['message']}"
    return ""


def _called(desired: Desired) -> str:
    return f"{desired.resource.kind} {objects.name(desired.object)}"


def conditions(claim: Object, noun: str, here: Progress, as_is: str) -> tuple[Condition, Condition]:
    """Ready, whether it can be used, and UpToDate, whether it is exactly as asked for. What can be used stays ready
    while it is changed. `as_is` is told of one that is as it should be."""
    if not here.waiting_for:
        return Condition("Ready", "True", state.AVAILABLE, as_is), Condition("UpToDate", "True", "AsAskedFor")
    before = troubles.condition(claim, "Ready")
    if before.get("reason") not in _HAS_BEEN_READY:
        ready = Condition("Ready", "False", state.CREATING, here.waiting_for)
    elif here.lost or before.get("status") != "True":
        ready = Condition("Ready", "False", state.DEGRADED, here.lost or here.waiting_for)
    else:
        ready = Condition("Ready", "True", state.UPDATING, here.waiting_for)
    because = here.waiting_for if ready.status == "True" else f"the {noun} is not ready"
    return ready, Condition("UpToDate", "False", ready.reason, because)


def not_in_force(sentences: Iterable[str]) -> list[Condition]:
    """What the claim says and this version does not act on."""
    told = "; ".join(sentences)
    return [Condition("InForce", "False", "NotAvailable", told)] if told else []


def credentials_name(prefix: str, claim: Object) -> str:
    """`postgresql.team-a.shop`: a namespace has no dot in its name, so the claim can be told from it again."""
    return f"{prefix}.{objects.namespace(claim)}.{objects.name(claim)}"


def claim_of_credentials(secret: Object, prefix: str) -> Iterable[ClaimKey]:
    """Behind a further dot, which no claim has in its name, may stand which of the claim's logins it is."""
    found, namespace, name = (*objects.name(secret).split(".")[:3], "", "", "")[:3]
    return [(namespace, name)] if found == prefix and namespace and name else []


def own(secret: Object | None, maker: Object | None) -> dict[str, str] | None:
    """What is in a Secret that the maker controls; None for one that only has the name, or cannot be read."""
    owner = objects.controller_of(secret) if secret is not None else None
    if secret is None or maker is None or owner is None:
        return None
    if not objects.uid(maker) or owner.get("uid") != objects.uid(maker):
        return None
    return decoded(secret)


def decoded(secret: Object) -> dict[str, str] | None:
    """What is in a Secret; None for one that cannot be read."""
    try:
        return {
            key: base64.b64decode(str(value), validate=True).decode()
            for key, value in objects.mapping(secret.get("data")).items()
        }
    except (binascii.Error, UnicodeDecodeError):
        return None


def encoded(values: Mapping[str, str]) -> dict[str, str]:
    return {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}


def vault_path(claim: Object, mount: str, kind: str, environment: str) -> str:
    """`secret/apps/dev/shop` in the namespace dev, `secret/apps/dev/team-a/shop` in another."""
    namespace, name = objects.namespace(claim), objects.name(claim)
    place = name if namespace == environment else f"{namespace}/{name}"
    return f"{mount}/{kind}/{environment}/{place}"


def push(settings: Pushing, secret: str, path: str, template: Mapping[str, str]) -> Desired:
    """Puts credentials into Vault, at a path whose first part is the engine that the store names.

    It is called after the path, so that two claims never write to the same one; and it is beside the credentials, where
    nobody but the platform can change it. `template` has the keys there, each with External Secrets' template of it.
    """
    digest = hashlib.sha256(path.encode()).hexdigest()[:10]
    spec: Object = {
        "refreshInterval": "5m0s",
        "deletionPolicy": "Delete",
        "secretStoreRefs": [{"name": settings.secret_store, "kind": "ClusterSecretStore"}],
        "selector": {"secret": {"name": secret}},
        "template": {"engineVersion": "v2", "data": dict(template)},
        "data": [
            {"match": {"secretKey": key, "remoteRef": {"remoteKey": path.partition("/")[2], "property": key}}}
            for key in template
        ],
    }
    obj: Object = {
        "apiVersion": PUSH_SECRETS.api_version,
        "kind": PUSH_SECRETS.kind,
        "metadata": {"name": f"vault-{digest}", "namespace": settings.credentials_namespace},
        "spec": spec,
    }
    return Desired(PUSH_SECRETS, obj, deletion_stage=FIRST_STAGE)
