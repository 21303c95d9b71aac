"""X.509 for API servers and clusters: authorities, serving and client certificates, all with ECDSA P-256 keys.

ECDSA because an RSA-2048 key takes 50 ms to make on a small machine and a cluster needs six. An authority that somebody
brings along may have an RSA key, as Cluster API and kubeadm make them. Times are arguments, so that tests can make a
certificate that has expired.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from steelyard.frozen import frozen

CA_LIFETIME = datetime.timedelta(days=3650)
LEAF_LIFETIME = datetime.timedelta(days=365)
_CLOCK_SKEW = datetime.timedelta(minutes=5)
_UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
"""Where Kubernetes looks for the UID of a user in the subject of a certificate."""


_PublicKey: TypeAlias = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
_PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@frozen
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


def new_private_key() -> bytes:
    return _pem(ec.generate_private_key(ec.SECP256R1()))


def public_key_of(private_key: bytes) -> bytes:
    return (
        _load_key(private_key)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def new_authority(common_name: str, *, now: datetime.datetime, lifetime: datetime.timedelta = CA_LIFETIME) -> KeyPair:
    """A self-signed certificate authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(common_name)
    certificate = (
        _builder(subject, subject, key.public_key(), now=now, lifetime=lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(common_name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def issue_serving(
    authority: KeyPair,
    common_name: str,
    hosts: Iterable[str],
    *,
    now: datetime.datetime,
    lifetime: datetime.timedelta = LEAF_LIFETIME,
) -> KeyPair:
    """A server certificate valid for the given names and addresses."""
    names = [_general_name(host) for host in dict.fromkeys(hosts)]
    usage = [ExtendedKeyUsageOID.SERVER_AUTH]
    return _issue(authority, _name(common_name), usage, names, now=now, lifetime=lifetime)


def issue_client(
    authority: KeyPair,
    user: str,
    groups: Sequence[str] = (),
    *,
    now: datetime.datetime,
    lifetime: datetime.timedelta = LEAF_LIFETIME,
) -> KeyPair:
    """A client certificate; Kubernetes reads the user from its common name and the groups from its organisations."""
    return _issue(authority, _name(user, groups), [ExtendedKeyUsageOID.CLIENT_AUTH], [], now=now, lifetime=lifetime)


@frozen
class Subject:
    common_name: str
    organisations: tuple[str, ...]
    uids: tuple[str, ...]
    expires: float
    """Unix time."""


def subject_of(certificate: bytes) -> Subject:
    """Whom a DER certificate names, as Go reads it: of several common names the last one counts."""
    loaded = x509.load_der_x509_certificate(certificate)

    def all_of(oid: x509.ObjectIdentifier) -> tuple[str, ...]:
        return tuple(str(value.value) for value in loaded.subject.get_attributes_for_oid(oid))

    return Subject(
        (all_of(NameOID.COMMON_NAME) or ("",))[-1],
        all_of(NameOID.ORGANIZATION_NAME),
        all_of(_UID),
        loaded.not_valid_after_utc.timestamp(),
    )


class Unusable(Exception):
    """A certificate or a key cannot be used; `part` says which of the two."""

    def __init__(self, part: Literal["certificate", "key"], problem: str) -> None:
        super().__init__(problem)
        self.part: Literal["certificate", "key"] = part


def check(pair: KeyPair) -> None:
    """Raises Unusable: not readable, or not made for each other."""
    try:
        public = x509.load_pem_x509_certificate(pair.certificate).public_key()
    except ValueError:
        raise Unusable("certificate", "is empty" if not pair.certificate else "is no certificate") from None
    check_key(pair.key)
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    if public.public_bytes(*form) != public_key_of(pair.key):
        raise Unusable("key", "is not the key of the certificate beside it")


def check_key(key: bytes) -> None:
    """Raises Unusable."""
    try:
        _load_key(key)
    except (ValueError, TypeError):
        raise Unusable("key", "is empty" if not key else "is no private key") from None


def is_issued_by(certificate: bytes, authority: bytes) -> bool:
    try:
        x509.load_pem_x509_certificate(certificate).verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def is_of_client(pair: KeyPair, authority: bytes, *, now: datetime.datetime) -> bool:
    """Whether this certificate, whose key is beside it, is one of the authority's for clients, and valid."""
    try:
        check(pair)
        [certificate] = x509.load_pem_x509_certificates(pair.certificate)
        issuer = x509.load_pem_x509_certificate(authority)
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (ValueError, Unusable, x509.ExtensionNotFound):
        return False
    is_in_time = all(each.not_valid_before_utc <= now <= each.not_valid_after_utc for each in (certificate, issuer))
    return is_in_time and ExtendedKeyUsageOID.CLIENT_AUTH in usages and is_issued_by(pair.certificate, authority)


def der_of(certificate: bytes) -> bytes:
    """Of one in PEM."""
    return x509.load_pem_x509_certificate(certificate).public_bytes(serialization.Encoding.DER)


def expiry_of(certificate: bytes) -> datetime.datetime:
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def hosts_of(certificate: bytes) -> list[str]:
    """The names and addresses that a serving certificate is valid for."""
    try:
        extension = x509.load_pem_x509_certificate(certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return []
    addresses = [str(address) for address in extension.value.get_values_for_type(x509.IPAddress)]
    return [*extension.value.get_values_for_type(x509.DNSName), *addresses]


def key_hash(certificate: bytes) -> str:
    """What kubeadm pins an authority by: `sha256:` and the digest of the certificate's public key info."""
    public = x509.load_pem_x509_certificate(certificate).public_key()
    digest = hashes.Hash(hashes.SHA256())
    digest.update(public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))
    return f"sha256:{digest.finalize().hex()}"


def _issue(
    authority: KeyPair,
    subject: x509.Name,
    usages: Sequence[x509.ObjectIdentifier],
    names: Sequence[x509.GeneralName],
    *,
    now: datetime.datetime,
    lifetime: datetime.timedelta,
) -> KeyPair:
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = _load_key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(subject, issuer.subject, key.public_key(), now=now, lifetime=lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(_identifier_of(issuer), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(issuer_key, hashes.SHA256())
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    *,
    now: datetime.datetime,
    lifetime: datetime.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
    )


def _name(common_name: str, organisations: Sequence[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation) for organisation in organisations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _identifier_of(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """As the issuer calls its own key, however it arrived at that: who verifies a chain compares the two."""
    try:
        own = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(cast("_PublicKey", issuer.public_key()))
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own.value)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs_certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _load_key(key: bytes) -> _PrivateKey:
    """PKCS#1, SEC 1 or PKCS#8. Raises ValueError, also for a key that is locked with a password."""
    try:
        loaded = serialization.load_pem_private_key(key, password=None)
    except TypeError as error:
        raise ValueError("the private key is locked with a password") from error
    except UnsupportedAlgorithm as error:
        raise ValueError(f"the private key is of a kind that is not supported: {error}") from error
    if not isinstance(loaded, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError("the private key is neither an elliptic-curve nor an RSA key")
    return loaded


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
