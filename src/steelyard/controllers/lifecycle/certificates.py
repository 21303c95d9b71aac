"""A cluster's authorities and keys, kept in Secrets that Cluster API's own controllers know by name.

    <cluster>-ca     the cluster's certificate authority        /etc/kubernetes/pki/ca.{crt,key}
    <cluster>-etcd   etcd's                                     /etc/kubernetes/pki/etcd/ca.{crt,key}
    <cluster>-proxy  the front proxy's                          /etc/kubernetes/pki/front-proxy-ca.{crt,key}
    <cluster>-sa     the key that signs service-account tokens  /etc/kubernetes/pki/sa.{pub,key}

A Secret that exists is never made anew: each is created on its own, so a crash between two of them leaves those that
exist in use. Secrets a user has brought along are used as they are and stay the user's (no owner reference). Nor is one
made in place of a Secret that was taken away while machines run with what was in it: that would cut them off.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
from collections.abc import Sequence

from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import spelling
from steelyard.frozen import frozen
from steelyard.kube import errors, objects, pki, resources
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair

CLUSTER_CA = "ca"
ETCD_CA = "etcd"
FRONT_PROXY_CA = "proxy"
SERVICE_ACCOUNT = "sa"
PURPOSES = (CLUSTER_CA, ETCD_CA, FRONT_PROXY_CA, SERVICE_ACCOUNT)

DEFAULT_DIRECTORY = "/etc/kubernetes/pki"
_FILES = {
    CLUSTER_CA: ("ca.crt", "ca.key"),
    ETCD_CA: ("etcd/ca.crt", "etcd/ca.key"),
    FRONT_PROXY_CA: ("front-proxy-ca.crt", "front-proxy-ca.key"),
    SERVICE_ACCOUNT: ("sa.pub", "sa.key"),
}
_CERTIFICATE_KEY = "tls.crt"
_PRIVATE_KEY_KEY = "tls.key"


@frozen
class File:
    """One entry of cloud-init's `write_files`."""

    path: str
    content: str
    permissions: str = "0640"
    owner: str = "root:root"
    encoding: str = ""
    append: bool = False
    defer: bool = False
    """Whether it is written only once users have been made, of which its owner is one."""


class Missing(Exception):
    """A Secret with certificates is not there (yet), or cannot be used; the message says which and why."""


class Lost(Missing):
    """Secrets were taken away that machines run with; the message says what to do."""


async def ensure(
    client: Client,
    cluster: Object,
    *,
    owner: Object,
    cluster_configuration: Object,
    data_secrets: Sequence[str],
    now: datetime.datetime,
) -> None:
    """Makes the Secrets that do not exist, owned by the given object (the control plane).

    `data_secrets` name the bootstrap data of its machines. Where there is any, what is missing has been there before:
    raises `Lost`.
    """
    namespace, name = objects.namespace(cluster), objects.name(cluster)
    days = int(cluster_configuration.get("caCertificateValidityPeriodDays") or 0)
    lifetime = datetime.timedelta(days=days) if days else pki.CA_LIFETIME
    has_external_etcd = bool(objects.at(cluster_configuration, "etcd", "external"))
    missing: list[str] = []
    for purpose in PURPOSES:
        if purpose == ETCD_CA and has_external_etcd:
            continue
        if not await _exists(client, namespace, spelling.secret_name(name, purpose)):
            missing.append(purpose)
    if missing and data_secrets:
        copies = [each for each in data_secrets if await _exists(client, namespace, each)]
        raise Lost(_what_to_do(namespace, name, missing, copies, cluster_configuration))
    for purpose in missing:
        pair = _service_account_keys() if purpose == SERVICE_ACCOUNT else _authority(now, lifetime)
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(resources.SECRETS, as_secret(namespace, name, purpose, pair, owner))


async def read(client: Client, cluster: Object, purpose: str) -> KeyPair:
    namespace, name = objects.namespace(cluster), spelling.secret_name(objects.name(cluster), purpose)
    try:
        secret = await client.get(resources.SECRETS, name, namespace)
    except errors.NotFound as error:
        raise Missing(f"Secret {namespace}/{name} does not exist") from error
    data = objects.mapping(secret.get("data"))
    if not data.get(_CERTIFICATE_KEY):
        raise Missing(f"Secret {namespace}/{name} has no {_CERTIFICATE_KEY}")
    try:
        return KeyPair(
            base64.b64decode(str(data[_CERTIFICATE_KEY])), base64.b64decode(str(data.get(_PRIVATE_KEY_KEY) or ""))
        )
    except ValueError as error:
        raise Missing(f"Secret {namespace}/{name} cannot be read: {error}") from error


async def read_authority(client: Client, cluster: Object, purpose: str = CLUSTER_CA) -> KeyPair:
    """The cluster's authority, or its etcd's, good for signing."""
    authority = await read(client, cluster, purpose)
    name = f"Secret {objects.namespace(cluster)}/{spelling.secret_name(objects.name(cluster), purpose)}"
    if not authority.key:
        raise Missing(f"{name} has no {_PRIVATE_KEY_KEY}, so nothing can be signed with it")
    try:
        pki.check(authority)
    except pki.Unusable as error:
        key = _CERTIFICATE_KEY if error.part == "certificate" else _PRIVATE_KEY_KEY
        raise Missing(f"{name} is not an authority: its {key} {error}") from error
    return authority


async def control_plane_files(client: Client, cluster: Object, cluster_configuration: Object) -> Sequence[File]:
    """What a control-plane machine needs on disk before kubeadm runs, in upstream's order."""
    directory = str(cluster_configuration.get("certificatesDir") or DEFAULT_DIRECTORY)
    external = objects.mapping(objects.at(cluster_configuration, "etcd", "external"))
    files: list[File] = []
    for purpose in PURPOSES:
        if purpose == ETCD_CA and external:
            pair = await read(client, cluster, purpose)
            files.append(File(str(external.get("caFile") or ""), pair.certificate.decode()))
            client_pair = await read(client, cluster, "apiserver-etcd-client")
            files.append(File(str(external.get("certFile") or ""), client_pair.certificate.decode()))
            files.append(File(str(external.get("keyFile") or ""), client_pair.key.decode(), permissions="0600"))
            continue
        pair = await read(client, cluster, purpose)
        certificate_file, key_file = _FILES[purpose]
        files.append(File(f"{directory}/{certificate_file}", pair.certificate.decode()))
        files.append(File(f"{directory}/{key_file}", pair.key.decode(), permissions="0600"))
    return files


def as_secret(namespace: str, cluster_name: str, purpose: str, pair: KeyPair, owner: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "namespace": namespace,
            "name": spelling.secret_name(cluster_name, purpose),
            "labels": {wellknown.CLUSTER_NAME_LABEL: cluster_name},
            "ownerReferences": [objects.owner_reference(owner, controller=True, block_owner_deletion=True)],
        },
        "type": wellknown.CLUSTER_SECRET_TYPE,
        "data": {
            _CERTIFICATE_KEY: base64.b64encode(pair.certificate).decode(),
            _PRIVATE_KEY_KEY: base64.b64encode(pair.key).decode(),
        },
    }


async def _exists(client: Client, namespace: str, name: str) -> bool:
    try:
        await client.get(resources.SECRETS, name, namespace)
    except errors.NotFound:
        return False
    return True


def _what_to_do(
    namespace: str, cluster_name: str, missing: Sequence[str], copies: Sequence[str], cluster_configuration: Object
) -> str:
    secrets = ", ".join(f"{namespace}/{spelling.secret_name(cluster_name, purpose)}" for purpose in missing)
    text = (
        f"Secret {secrets} was deleted while machines run with what was in it; a new one would cut them off, so none "
        f"is made. Create it again with {_CERTIFICATE_KEY} and {_PRIVATE_KEY_KEY} as they were: from a backup"
    )
    if not copies:
        return f"{text}, or from the disk of a control-plane machine"
    directory = cluster_configuration.get("certificatesDir") or DEFAULT_DIRECTORY
    files = ", ".join(f"{directory}/{file}" for purpose in missing for file in _FILES[purpose])
    return f"{text}, or from the files {files} in the bootstrap data of a machine (Secret {namespace}/{copies[0]})"


def _authority(now: datetime.datetime, lifetime: datetime.timedelta) -> KeyPair:
    return pki.new_authority("kubernetes", now=now, lifetime=lifetime)


def _service_account_keys() -> KeyPair:
    key = pki.new_private_key()
    return KeyPair(pki.public_key_of(key), key)
