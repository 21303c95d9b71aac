"""Authorities and keys that a user brings along for a cluster, with RSA keys as Cluster API and kubeadm make them."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from pathlib import Path

import orjson
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import PrivateFormat

from steelyard.api import resources
from steelyard.api.clusterapi import resources as capi
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.kube.runtime import conditions
from tests.controllers import whole as stages
from tests.controllers.whole import NAMESPACE, Whole
from tests.kube.test_pki import brought_along


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncGenerator[Whole]:
    async with stages.opened(tmp_path) as opened:
        yield opened


def secret(purpose: str, certificate: bytes, key: bytes) -> Object:
    data = {"tls.crt": base64.b64encode(certificate).decode(), "tls.key": base64.b64encode(key).decode()}
    metadata = {"name": f"c-{purpose}", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "cluster.x-k8s.io/secret", "data": data}


@pytest.mark.parametrize(
    "form", [PrivateFormat.TraditionalOpenSSL, PrivateFormat.PKCS8], ids=["RSA in PKCS#1", "RSA in PKCS#8"]
)
async def test_a_cluster_comes_up_with_rsa_keys_that_were_brought_along(whole: Whole, form: PrivateFormat) -> None:
    key = rsa.generate_private_key(65537, 2048)
    authority = brought_along(key, form)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    given = [secret(purpose, authority.certificate, authority.key) for purpose in ("ca", "etcd", "proxy")]
    for each in (*given, secret("sa", public, authority.key)):
        await whole.client.create(SECRETS, each)
    await whole.claim()
    await whole.until_ready()
    for purpose in ("ca", "etcd", "proxy", "sa"):
        kept = await whole.one(SECRETS, f"c-{purpose}")
        assert objects.owner_references(kept) == [], "it stays the user's"
        assert base64.b64decode(kept["data"]["tls.key"]) == authority.key
    infrastructure = await whole.one(resources.SIMULATED_CLUSTERS, "c")
    api = whole.hosting.running(objects.uid(infrastructure))
    assert api is not None
    assert api.access.signer is not None
    account: Object = {"metadata": {"name": "default", "namespace": "default", "uid": "u"}}
    token = api.access.signer.sign(account, ["api"], 3600, whole.clock.now(), ())
    assert orjson.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))["alg"] == "RS256"


async def test_an_authority_without_its_key_is_told_with_the_secret(whole: Whole) -> None:
    authority = brought_along(rsa.generate_private_key(65537, 2048), PrivateFormat.PKCS8)
    await whole.client.create(SECRETS, secret("ca", authority.certificate, b""))
    await whole.claim()

    async def told() -> bool:
        planes = await whole.all(capi.KUBEADM_CONTROL_PLANES)
        return any("c-ca has no tls.key" in conditions.message_of(each, "CertificatesAvailable") for each in planes)

    await whole.until(told, "the missing key told")
