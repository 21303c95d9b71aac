"""What both servers are given alike: who signs client certificates, the certificates themselves, the key of tokens.

The certificates that are to be refused are made here too: of an unknown authority, expired, for servers only.
"""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from steelyard.kube import pki
from steelyard.kube.pki import KeyPair

AUTHORITY: Final = "clients.crt"
ACCOUNTS: Final = "accounts.key"
ISSUER: Final = "https://kubernetes.default.svc"
ADDRESS: Final = "https://conformance.example.com"
"""Where both say that the keys of their tokens are found."""
_CLIENT: Final = (ExtendedKeyUsageOID.CLIENT_AUTH,)
_SERVER: Final = (ExtendedKeyUsageOID.SERVER_AUTH,)
_YEAR: Final = datetime.timedelta(days=365)
_UID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")

Subject = Sequence[tuple[x509.ObjectIdentifier, str]]


def write(folder: Path) -> None:
    """Fills the folder: `clients.crt`, `accounts.key` and `accounts.pub`, and a `<name>.pem` per client."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.UTC)
    authority = pki.new_authority("clients", now=now)
    stranger = pki.new_authority("clients", now=now)
    (folder / AUTHORITY).write_bytes(authority.certificate)
    accounts = pki.new_private_key()
    (folder / ACCOUNTS).write_bytes(accounts)
    (folder / "accounts.pub").write_bytes(pki.public_key_of(accounts))
    carol: Subject = ((NameOID.COMMON_NAME, "carol"), (NameOID.ORGANIZATION_NAME, "builders"))
    root: Subject = ((NameOID.COMMON_NAME, "root"), (NameOID.ORGANIZATION_NAME, "system:masters"))
    between = _issue(authority, ((NameOID.COMMON_NAME, "between"),), (), now, is_authority=True)
    through = _issue(between, carol, _CLIENT, now)
    mallory = _issue(authority, ((NameOID.COMMON_NAME, "mallory"),), _CLIENT, now)
    forged = _issue(mallory, carol, _CLIENT, now)
    made = {
        "trusted": _issue(authority, carol, _CLIENT, now),
        "any usage": _issue(authority, carol, (), now),
        "with uid": _issue(authority, (*carol, (_UID, "1234")), _CLIENT, now),
        "two uids": _issue(authority, (*carol, (_UID, "1234"), (_UID, "5678")), _CLIENT, now),
        "nameless": _issue(authority, ((NameOID.ORGANIZATION_NAME, "builders"),), _CLIENT, now),
        "master": _issue(authority, root, _CLIENT, now),
        "through": KeyPair(through.certificate + between.certificate, through.key),
        "broken chain": through,
        "expired": _issue(authority, carol, _CLIENT, now - 2 * _YEAR),
        "not yet": _issue(authority, carol, _CLIENT, now + _YEAR),
        "serving": _issue(authority, carol, _SERVER, now),
        "stranger": _issue(stranger, carol, _CLIENT, now),
        "by a client": KeyPair(forged.certificate + mallory.certificate, forged.key),
    }  # fmt: skip
    for name, pair in made.items():
        (folder / f"{name}.pem").write_bytes(pair.certificate + pair.key)


def contexts(folder: Path) -> Mapping[str, ssl.SSLContext]:
    """What a client uses to show each certificate; who the server is, it does not ask."""
    return {path.stem: _context(path) for path in sorted(folder.glob("*.pem"))}


def _context(path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(path)
    return context


def _issue(
    issuer: KeyPair,
    subject: Subject,
    usages: Sequence[x509.ObjectIdentifier],
    start: datetime.datetime,
    *,
    is_authority: bool = False,
) -> KeyPair:
    signed_by = x509.load_pem_x509_certificate(issuer.certificate)
    signing_key = serialization.load_pem_private_key(issuer.key, password=None)
    assert isinstance(signing_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(oid, value) for oid, value in subject]))
        .issuer_name(signed_by.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - datetime.timedelta(minutes=5))
        .not_valid_after(start + _YEAR)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False)
    )
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    certificate = builder.sign(signing_key, hashes.SHA256())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), pem)
