"""The Secret `<cluster>-kubeconfig`: how an administrator, and the platform itself, reach a cluster's API.

Its client certificate names `kubernetes-admin` in group `system:masters` and lasts a year; it is made anew once half of
that is left, for which the control plane's reconciler sets a timer.

Whoever may write Secrets in the cluster's namespace can write anything into it, so the platform takes from it no more
than who it is (`connection`): where it connects to is the Cluster's endpoint, and whom it believes there is the
cluster's own authority, where the cluster has one in a Secret.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import datetime
import hashlib
import ipaddress
import urllib.parse
from dataclasses import replace

import yaml

from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import certificates, contract, spelling
from steelyard.kube import errors, objects, pki, resources
from steelyard.kube.client import kubeconfig as kubeconfigs
from steelyard.kube.client.interface import Client
from steelyard.kube.client.kubeconfig import Connection, InvalidKubeconfig
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair
from steelyard.kube.remembering import Kept

PURPOSE = "kubeconfig"
DATA_KEY = "value"
_USER = "kubernetes-admin"
_GROUP = "system:masters"
_RENEW_BELOW = pki.LEAF_LIFETIME / 2
_SHOWN = 100
_read: Kept[bytes, Connection] = Kept(8 * 1024 * 1024)


async def ensure(
    client: Client, cluster: Object, *, owner: Object, endpoint: str, now: datetime.datetime
) -> datetime.datetime | None:
    """Makes the Secret, or makes it anew where it is the owner's and no longer right; returns when it must be renewed.

    Right is one with the cluster's address and authority, and with a certificate that is good for long enough. A Secret
    that a user has brought along is left as it is (None).
    """
    namespace, cluster_name = objects.namespace(cluster), objects.name(cluster)
    name, server = spelling.secret_name(cluster_name, PURPOSE), f"https://{endpoint}"
    try:
        existing = await client.get(resources.SECRETS, name, namespace)
    except errors.NotFound:
        authority = await certificates.read_authority(client, cluster)
        text = generate(cluster_name, server, authority, now=now)
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(resources.SECRETS, _secret(namespace, cluster_name, text, owner))
        return now + _RENEW_BELOW
    if not objects.is_owned_by(existing, owner):
        return None
    due = renewal_of(existing, server)
    if due is not None and now < due:
        return due
    authority = await certificates.read_authority(client, cluster)
    text = generate(cluster_name, server, authority, now=now)
    await client.patch(resources.SECRETS, name, {"data": {DATA_KEY: _encoded(text)}}, namespace)
    return now + _RENEW_BELOW


def generate(cluster_name: str, server: str, authority: KeyPair, *, now: datetime.datetime) -> str:
    admin = pki.issue_client(authority, _USER, [_GROUP], now=now)
    user = f"{cluster_name}-admin"
    context = f"{user}@{cluster_name}"
    config: Object = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": cluster_name,
                "cluster": {"server": server, "certificate-authority-data": _encoded(authority.certificate.decode())},
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": cluster_name, "user": user}}],
        "current-context": context,
        "preferences": {},
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _encoded(admin.certificate.decode()),
                    "client-key-data": _encoded(admin.key.decode()),
                },
            }
        ],
    }
    return yaml.dump(config, Dumper=yaml.CSafeDumper, sort_keys=True)


def text_of(secret: Object) -> str:
    """Raises InvalidKubeconfig."""
    try:
        return base64.b64decode(str(objects.at(secret, "data", DATA_KEY) or "")).decode()
    except (binascii.Error, ValueError) as error:
        raise InvalidKubeconfig(f"data.{DATA_KEY} is not text") from error


def connection(secret: Object, cluster: Object, authority: bytes) -> Connection:
    """How the platform reaches the cluster. Raises InvalidKubeconfig, with what to change.

    `authority` is what the cluster's own Secret says; empty for a control plane that others manage, of which the
    kubeconfig must hold the authority.
    """
    told = _told(secret)
    endpoint = contract.endpoint(cluster)
    if endpoint is None:
        raise InvalidKubeconfig("the Cluster has no spec.controlPlaneEndpoint yet, which its server must be")
    if _address(told.server) != (_host(str(endpoint["host"])), int(endpoint["port"])):
        raise InvalidKubeconfig(
            f"its server is {_short(told.server)}, but the cluster is at https://{contract.endpoint_text(cluster)} "
            "(spec.controlPlaneEndpoint of the Cluster)"
        )
    if not (authority or told.certificate_authority):
        raise InvalidKubeconfig("it has no certificate-authority-data to know the server by")
    return replace(told, certificate_authority=authority or told.certificate_authority)


def renewal_of(secret: Object, server: str) -> datetime.datetime | None:
    """When its certificate must be renewed; None for a kubeconfig that leads elsewhere or cannot be read."""
    try:
        told = _told(secret)
        expiry = pki.expiry_of(told.client_certificate)
    except ValueError:
        return None
    return expiry - _RENEW_BELOW if _address(told.server) == _address(server) else None


def _told(secret: Object) -> Connection:
    """What the kubeconfig says. A control plane and its machines ask with every look at them, so it is read once."""
    text = text_of(secret)
    digest = hashlib.sha256(text.encode()).digest()
    return _read.get(digest) or _read.put(digest, kubeconfigs.parse(text).resolve(), len(text))


def _address(server: str) -> tuple[str, int] | None:
    """Host and port of `https://host:port`; None for any other URL."""
    try:
        parts = urllib.parse.urlsplit(server)
        port = parts.port or 443
    except ValueError:
        return None
    has_more = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    return None if parts.scheme != "https" or has_more else (_host(parts.hostname or ""), port)


def _host(host: str) -> str:
    """In one spelling."""
    bare = host.removeprefix("[").removesuffix("]").lower()
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return bare.removesuffix(".")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _secret(namespace: str, cluster_name: str, text: str, owner: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "namespace": namespace,
            "name": spelling.secret_name(cluster_name, PURPOSE),
            "labels": {wellknown.CLUSTER_NAME_LABEL: cluster_name},
            "ownerReferences": [objects.owner_reference(owner, controller=True, block_owner_deletion=True)],
        },
        "type": wellknown.CLUSTER_SECRET_TYPE,
        "data": {DATA_KEY: _encoded(text)},
    }


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
