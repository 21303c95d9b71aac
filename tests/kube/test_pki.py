"""Authorities that somebody brings along: RSA keys in both of their forms issue certificates that OpenSSL accepts."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import PrivateFormat
from cryptography.x509.oid import NameOID

from steelyard.kube import pki
from steelyard.kube.pki import KeyPair

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def brought_along(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, form: PrivateFormat) -> KeyPair:
    """As Go makes an authority, with an identifier of its key that is not the usual digest."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - DAY)
        .not_valid_after(NOW + DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier(b"its own identifier!!"), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), pem)


AUTHORITIES = [
    pytest.param(rsa.generate_private_key(65537, 2048), PrivateFormat.TraditionalOpenSSL, id="RSA in PKCS#1"),
    pytest.param(rsa.generate_private_key(65537, 2048), PrivateFormat.PKCS8, id="RSA in PKCS#8"),
    pytest.param(ec.generate_private_key(ec.SECP384R1()), PrivateFormat.PKCS8, id="another curve"),
]


@pytest.mark.parametrize(("key", "form"), AUTHORITIES)
def test_an_authority_that_was_brought_along_issues_certificates_that_are_accepted(
    key: rsa.RSAPrivateKey, form: PrivateFormat, tmp_path: Path
) -> None:
    authority = brought_along(key, form)
    pki.check(authority)
    server = pki.issue_serving(authority, "kube-apiserver", ["localhost"], now=NOW)
    client = pki.issue_client(authority, "kubernetes-admin", ["system:masters"], now=NOW)
    assert _handshake(authority, server, client, tmp_path) == "kubernetes-admin"


@pytest.mark.parametrize(
    ("pair", "complaint"),
    [
        pytest.param(KeyPair(b"no PEM", b"no PEM"), "is no certificate", id="no PEM at all"),
        pytest.param(
            KeyPair(pki.new_authority("a", now=NOW).certificate, pki.new_private_key()),
            "is not the key of the certificate beside it",
            id="the key of another",
        ),
    ],
)
def test_what_is_no_authority_is_told(pair: KeyPair, complaint: str) -> None:
    with pytest.raises(pki.Unusable, match=complaint):
        pki.check(pair)


def _handshake(authority: KeyPair, server: KeyPair, client: KeyPair, folder: Path) -> str:
    """Whom the server sees."""
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.verify_mode = ssl.CERT_REQUIRED
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context, pair in ((ours, server), (theirs, client)):
        (folder / "crt").write_bytes(pair.certificate)
        (folder / "key").write_bytes(pair.key)
        context.load_cert_chain(folder / "crt", folder / "key")
        context.load_verify_locations(cadata=authority.certificate.decode())
    near, far = socket.socketpair()
    seen: list[str] = []

    def serve() -> None:
        with ours.wrap_socket(near, server_side=True) as accepted:
            der = accepted.getpeercert(binary_form=True)
            assert der is not None
            seen.append(pki.subject_of(der).common_name)
            accepted.send(b"!")

    thread = threading.Thread(target=serve)
    thread.start()
    with theirs.wrap_socket(far, server_hostname="localhost") as connected:
        connected.recv(1)
    thread.join()
    return seen[0]
