"""Keys that sign tokens of service accounts: the platform's own, and RSA keys as Cluster API makes them."""

from __future__ import annotations

import base64
import datetime

import orjson
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import PrivateFormat

from steelyard.kube import pki
from steelyard.kube.server.rights import accounttokens, signing

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ACCOUNT = {"metadata": {"name": "default", "namespace": "team", "uid": "u"}}
RSA_KEY = rsa.generate_private_key(65537, 2048)


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, form: PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


@pytest.mark.parametrize(
    ("key", "algorithm", "kind"),
    [
        pytest.param(pki.new_private_key(), "ES256", "EC", id="P-256"),
        pytest.param(pem(RSA_KEY, PrivateFormat.TraditionalOpenSSL), "RS256", "RSA", id="RSA in PKCS#1"),
        pytest.param(pem(RSA_KEY, PrivateFormat.PKCS8), "RS256", "RSA", id="RSA in PKCS#8"),
    ],
)
def test_a_token_is_signed_verified_and_its_key_published(key: bytes, algorithm: str, kind: str) -> None:
    signer = accounttokens.Signer(lambda: key)
    token = signer.sign(ACCOUNT, ["api"], 3600, NOW, ())
    head = orjson.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))
    assert head["alg"] == algorithm
    assert signer.verify(token, NOW).account == "default"
    [published] = orjson.loads(signer.key_set())["keys"]
    assert (published["kty"], published["alg"], published["kid"]) == (kind, algorithm, head["kid"])
    assert orjson.loads(signer.configuration(""))["id_token_signing_alg_values_supported"] == [algorithm]
    signed, _, signature = token.rpartition(".")
    forged = signature[:-4] + ("AAAA" if signature[-4:] != "AAAA" else "BBBB")
    with pytest.raises(accounttokens.InvalidToken):
        signer.verify(f"{signed}.{forged}", NOW)


def test_a_token_of_another_kind_of_key_is_refused() -> None:
    ours = accounttokens.Signer(lambda: pem(RSA_KEY, PrivateFormat.PKCS8))
    theirs = accounttokens.Signer(pki.new_private_key)
    with pytest.raises(accounttokens.InvalidToken):
        ours.verify(theirs.sign(ACCOUNT, ["api"], 3600, NOW, ()), NOW)


def test_a_key_that_can_sign_no_token_is_told() -> None:
    with pytest.raises(ValueError, match="neither an RSA key nor one on the curve P-256"):
        signing.load(pem(ec.generate_private_key(ec.SECP384R1()), PrivateFormat.PKCS8))
