"""The Secret `<cluster>-kubeconfig`: how an administrator, and the platform itself, reach a cluster's API.

Its client certificate names `kubernetes-admin` in group `system:masters` and lasts a year; it is made anew once less
than half of that is left, whenever the control plane is reconciled.
"""

from __future__ import annotations

import base64
import datetime
from typing import Any

import yaml

from steelyard.controllers.lifecycle import certificates, names
from steelyard.kube import errors, objects, pki, resources
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair

PURPOSE = "kubeconfig"
DATA_KEY = "value"
_USER = "kubernetes-admin"
_GROUP = "system:masters"
_RENEW_BELOW = pki.LEAF_LIFETIME / 2


async def ensure(client: Client, cluster: Object, *, owner: Object, endpoint: str, now: datetime.datetime) -> None:
    """Makes the Secret, or renews a certificate in it that nears its end if the Secret is the owner's."""
    namespace, cluster_name = objects.namespace(cluster), objects.name(cluster)
    name = names.secret_name(cluster_name, PURPOSE)
    try:
        existing = await client.get(resources.SECRETS, name, namespace)
    except errors.NotFound:
        authority = await certificates.read(client, cluster, certificates.CLUSTER_CA)
        text = generate(cluster_name, f"https://{endpoint}", authority, now=now)
        try:
            await client.create(resources.SECRETS, _secret(namespace, cluster_name, text, owner))
        except errors.AlreadyExists:
            return
        return
    if objects.is_owned_by(existing, owner) and needs_renewal(existing, now):
        authority = await certificates.read(client, cluster, certificates.CLUSTER_CA)
        text = generate(cluster_name, f"https://{endpoint}", authority, now=now)
        await client.patch(resources.SECRETS, name, {"data": {DATA_KEY: _encoded(text)}}, namespace)


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
    return base64.b64decode(str(objects.at(secret, "data", DATA_KEY) or "")).decode()


def needs_renewal(secret: Object, now: datetime.datetime) -> bool:
    config: Any = yaml.load(text_of(secret), Loader=yaml.CSafeLoader)
    certificate = objects.at(config, "users", 0, "user", "client-certificate-data")
    if not certificate:
        return False
    return pki.expiry_of(base64.b64decode(str(certificate))) - now < _RENEW_BELOW


def _secret(namespace: str, cluster_name: str, text: str, owner: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "namespace": namespace,
            "name": names.secret_name(cluster_name, PURPOSE),
            "labels": {names.CLUSTER_NAME_LABEL: cluster_name},
            "ownerReferences": [objects.owner_reference(owner, controller=True, block_owner_deletion=True)],
        },
        "type": names.CLUSTER_SECRET_TYPE,
        "data": {DATA_KEY: _encoded(text)},
    }


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
