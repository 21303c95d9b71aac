"""What is wrong with a certificate request or with the certificate made for one, in the words of Go's libraries."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from steelyard.kube import fields

_REQUEST: Final = "CERTIFICATE REQUEST"
_CERTIFICATE: Final = "CERTIFICATE"
_BLOCK: Final = re.compile(
    rb"^-----BEGIN ([^\n]*?)-----[ \t\r]*\n(.*?)^-----END \1-----[ \t\r]*$", re.DOTALL | re.MULTILINE
)
_HEADER: Final = re.compile(rb"^[^\n:]+:", re.MULTILINE)
_UNVERIFIED: Final = {
    rsa.RSAPublicKey: "crypto/rsa: verification error",
    ec.EllipticCurvePublicKey: "x509: ECDSA verification failure",
    ed25519.Ed25519PublicKey: "x509: Ed25519 verification failure",
}


def decoded(value: Any) -> bytes:
    """Bytes as JSON has them; none for what is no such thing."""
    try:
        return base64.b64decode(str(value or ""), validate=True)
    except binascii.Error:
        return b""


def problem(pem: bytes) -> str:
    """Nothing if it is a request that its own key has signed."""
    block = _BLOCK.search(pem)
    if block is None or block[1].decode("latin-1") != _REQUEST:
        return "PEM block type must be CERTIFICATE REQUEST"
    parsed = _parsed(pem)
    if parsed is None:
        return "asn1: structure error: not a certificate request"
    try:
        if parsed.is_signature_valid:
            return ""
        key = parsed.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return "x509: cannot verify signature: algorithm unimplemented"
    return next((text for kind, text in _UNVERIFIED.items() if isinstance(key, kind)), "x509: verification failure")


def organisations(pem: bytes) -> list[str]:
    """The groups that a client with such a certificate would be in."""
    parsed = _parsed(pem)
    if parsed is None:
        return []
    return [str(each.value) for each in parsed.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def certificate_problem(pem: bytes) -> str:
    if not pem:
        return ""
    blocks = list(_BLOCK.finditer(pem))
    for block in blocks:
        title = block[1].decode("latin-1")
        if title != _CERTIFICATE:
            return f"only CERTIFICATE PEM blocks are allowed, found {fields.quote(title)}"
        if _HEADER.search(block[2]):
            return "no PEM block headers are permitted"
        try:
            x509.load_pem_x509_certificate(block[0] + b"\n")
        except (ValueError, UnsupportedAlgorithm):
            return "x509: malformed certificate"
    return "" if blocks else "must contain at least one CERTIFICATE PEM block"


def _parsed(pem: bytes) -> x509.CertificateSigningRequest | None:
    block = _BLOCK.search(pem)
    if block is None:
        return None
    try:
        return x509.load_pem_x509_csr(block[0] + b"\n")
    except (ValueError, UnsupportedAlgorithm):
        return None
