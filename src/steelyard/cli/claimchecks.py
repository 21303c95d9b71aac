"""What `steelyard doctor` looks at inside a running platform: each claim, its machines, its Secrets and certificates.

`gather` asks the API, `findings` is pure. A claim that is as it should be is only counted.
"""

from __future__ import annotations

import base64
import binascii
import datetime
from collections.abc import Iterator, Sequence

import yaml

from steelyard.api import catalogue, state, troubles, versions
from steelyard.api.clusterapi import resources as clusterapi
from steelyard.api.clusterapi import wellknown
from steelyard.cli import offered, targets
from steelyard.cli.findings import Finding
from steelyard.cli.hints import PLAIN, Hints
from steelyard.frozen import frozen
from steelyard.kube import ages, errors, objects, pki
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS

_EXPIRY_WARNING = datetime.timedelta(days=30)
_PENDING_SECONDS = 60
_DELETING_SECONDS = 600


@frozen
class Condition:
    """One claim and what belongs to it."""

    claim: Object
    machines: Sequence[Object]
    secrets: dict[tuple[str, str], Object | None]
    """The Secrets that the claim names, by namespace and name; None for one that does not exist."""


@frozen
class Examined:
    claims: Sequence[Condition]
    strangers: Sequence[Object]
    """Claims of another domain than the platform's."""


async def gather(client: Client, domain: str) -> Examined:
    """`domain` is the platform's; where it is not known, no claim counts as a stranger."""
    claims: list[Object] = []
    strangers: list[Object] = []
    for entry in await targets.claims(client):
        is_strange = bool(domain) and targets.is_of_another_domain(entry, domain)
        (strangers if is_strange else claims).extend((await client.list(entry.resource)).items)
    machines = (await client.list(clusterapi.MACHINES)).items if claims else ()
    return Examined([await _condition(client, claim, machines) for claim in claims], strangers)


async def _condition(client: Client, claim: Object, machines: Sequence[Object]) -> Condition:
    namespace, name = objects.namespace(claim), objects.name(claim)
    of_claim = [
        each
        for each in machines
        if objects.namespace(each) == namespace and objects.labels(each).get(wellknown.CLUSTER_NAME_LABEL) == name
    ]
    secrets: dict[tuple[str, str], Object | None] = {}
    for reference in (objects.at(claim, "status", "kubeconfigSecret"), _connection(claim)):
        place = objects.mapping(reference)
        if place:
            key = (str(place.get("namespace") or namespace), str(place.get("name")))
            secrets[key] = await _secret(client, *key)
    return Condition(claim, of_claim, secrets)


def _connection(claim: Object) -> object:
    """Not before the cluster is ready: until then nobody has promised it."""
    return objects.at(claim, "spec", "writeConnectionSecretToRef") if state.is_ready(claim) else None


async def _secret(client: Client, namespace: str, name: str) -> Object | None:
    try:
        return await client.get(SECRETS, name, namespace)
    except errors.NotFound:
        return None


def findings(examined: Examined, domain: str, now: datetime.datetime, hints: Hints = PLAIN) -> Iterator[Finding]:
    if examined.strangers:
        groups = sorted({str(each.get("apiVersion")).partition("/")[0] for each in examined.strangers})
        names = ", ".join(objects.qualified_name(each) for each in examined.strangers[:3])
        more = f" and {len(examined.strangers) - 3} more" if len(examined.strangers) > 3 else ""
        yield Finding(
            "FAIL",
            "claims of another domain",
            f"{names}{more} in {', '.join(groups)}: this platform's domain is {domain}, so nobody looks after them; "
            f"run it with their domain in the platform file, or delete them",
        )
    well = 0
    for each in examined.claims:
        found = list(_of_claim(each, now, hints))
        yield from found
        well += not found
    if well or not examined.claims:
        yield Finding("ok", "claims", f"{well} of {len(examined.claims)} well" if examined.claims else "none yet")


def _of_claim(examined: Condition, now: datetime.datetime, hints: Hints) -> Iterator[Finding]:
    claim = examined.claim
    subject = f"claim {objects.qualified_name(claim)}"
    yield from _of_parameters(claim, subject)
    yield from _of_state(examined, subject, now, hints)
    for (namespace, name), secret in examined.secrets.items():
        if secret is None:
            yield Finding(
                "FAIL",
                subject,
                f"Secret {namespace}/{name} does not exist; it is made again when the claim is looked at next, "
                "e.g. after a restart of the platform",
            )
        elif (expires := _expiry(secret)) is not None and expires - now < _EXPIRY_WARNING:
            ends = "expired" if expires < now else "expires"
            yield Finding(
                "FAIL",
                subject,
                f"the certificate in Secret {namespace}/{name} {ends} {expires:%Y-%m-%d}; delete the Secret, and it "
                "is made anew",
            )


def _of_parameters(claim: Object, subject: str) -> Iterator[Finding]:
    for field in catalogue.FIELDS:
        version = str(objects.at(claim, "spec", "parameters", field) or "")
        if version and (problem := versions.problem(version)):
            yield Finding("FAIL", subject, f"{field}: {problem}; change it in the claim")
    infrastructure = objects.at(claim, "spec", "parameters", "infrastructure")
    known = offered.infrastructure_names()
    if infrastructure and infrastructure not in known:
        offers = ", ".join(known)
        yield Finding(
            "FAIL", subject, f"infrastructure {infrastructure} is not offered by this version, which offers: {offers}"
        )


def _of_state(examined: Condition, subject: str, now: datetime.datetime, hints: Hints) -> Iterator[Finding]:
    claim = examined.claim
    here = state.of(claim)
    help_ = f"see: {hints.steelyard(f'describe {objects.name(claim)} -n {objects.namespace(claim)}')}"
    lost = [trouble for each in examined.machines if (trouble := troubles.of(each)) is not None]
    for trouble in lost:
        yield Finding("FAIL", subject, f"{trouble}; {help_}")
    age = _seconds_since(here.since, now)
    if here.word in (state.REFUSED, state.FAILING, state.DRIFTED) or (here.word == state.DEGRADED and not lost):
        yield Finding("FAIL", subject, f"{here.word}: {here.text}; {help_}")
    elif here.word == state.PAUSED:
        yield Finding("note", subject, f"paused for {ages.since(here.since, now)}; {help_}")
    elif here.word == state.PENDING and age > _PENDING_SECONDS:
        yield Finding("FAIL", subject, f"{here.text}, {ages.since(here.since, now)} after it was made; {help_}")
    elif here.word == state.DELETING and age > _DELETING_SECONDS:
        yield Finding("FAIL", subject, f"being deleted for {ages.since(here.since, now)}: {here.text}; {help_}")


def _seconds_since(time: str, now: datetime.datetime) -> float:
    try:
        return (now - datetime.datetime.fromisoformat(time)).total_seconds()
    except ValueError:
        return 0.0


def _expiry(secret: Object) -> datetime.datetime | None:
    """When the client certificate of a kubeconfig ends; None where there is none to be read."""
    try:
        text = base64.b64decode(str(objects.at(secret, "data", "value") or ""))
        config = objects.mapping(yaml.load(text, Loader=yaml.CSafeLoader))
        encoded = objects.at(config, "users", 0, "user", "client-certificate-data")
        return pki.expiry_of(base64.b64decode(str(encoded))) if encoded else None
    except (binascii.Error, ValueError, yaml.YAMLError):
        return None
