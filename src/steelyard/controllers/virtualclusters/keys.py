"""What the servers of a cluster find on the disk that is made of its Secret, file by file; and the way back.

    ca.crt ca.key        authority of the cluster     etcd.crt etcd.key     of etcd
    proxy.crt proxy.key  of the front proxy           sa.key                signs service-account tokens
    token                what servers join with       address, service      where the API is, outside and inside

All but the last two are copies of Secrets that are called as Cluster API calls them. So each of the keys is there
twice, and what one of the two lost is taken from the other.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final

from steelyard.controllers.lifecycle import certificates
from steelyard.kube import objects, pki
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair

TOKEN: Final = "token"  # noqa: S105 (what it is called)


def files(pairs: Mapping[str, KeyPair], token: str, *, address: str, service: str) -> dict[str, str]:
    """`pairs` by purpose. In base64, as a Secret holds them."""
    found: dict[str, bytes] = {}
    for purpose, pair in pairs.items():
        if purpose != certificates.SERVICE_ACCOUNT:
            found[f"{purpose}.crt"] = pair.certificate
        found[f"{purpose}.key"] = pair.key
    found |= {TOKEN: token.encode(), "address": address.encode(), "service": service.encode()}
    return {name: base64.b64encode(content).decode() for name, content in found.items()}


def pair_of(secret: Object | None, purpose: str) -> KeyPair | None:
    """From the servers' Secret; None where it does not have it."""
    key = content_of(secret, f"{purpose}.key")
    if not key:
        return None
    if purpose == certificates.SERVICE_ACCOUNT:
        return KeyPair(pki.public_key_of(key), key)
    certificate = content_of(secret, f"{purpose}.crt")
    return KeyPair(certificate, key) if certificate else None


def content_of(secret: Object | None, name: str) -> bytes:
    try:
        return base64.b64decode(str(objects.at(secret, "data", name) or ""), validate=True)
    except binascii.Error:
        return b""
