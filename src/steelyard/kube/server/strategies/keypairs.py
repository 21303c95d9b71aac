"""What is wrong with a TLS certificate and its key, in the words of Go's TLS library."""

from __future__ import annotations

import re
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

_BEGIN: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,100})-----")


def problem(certificate: bytes, key: bytes) -> str:
    """Nothing if the two go together."""
    blocks = [found.decode() for found in _blocks(certificate)]
    if "CERTIFICATE" not in blocks:
        return _no_block(blocks, '"CERTIFICATE" PEM block', "certificate")
    blocks = [found.decode() for found in _blocks(key)]
    if not any(block == "PRIVATE KEY" or block.endswith(" PRIVATE KEY") for block in blocks):
        return _no_block(blocks, 'PEM block with type ending in "PRIVATE KEY"', "key")
    try:
        public = x509.load_pem_x509_certificate(certificate).public_key()
    except (ValueError, UnsupportedAlgorithm):
        return "x509: malformed certificate"
    try:
        private = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "tls: failed to parse private key"
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    if private.public_key().public_bytes(*form) != public.public_bytes(*form):
        return "tls: private key does not match public key"
    return ""


def _blocks(data: bytes) -> list[bytes]:
    """The types of the PEM blocks that have an end, each looked for once."""
    found: list[bytes] = []
    endless: set[bytes] = set()
    position = 0
    while (begin := _BEGIN.search(data, position)) is not None:
        position = begin.end()
        end = data.find(b"-----END %b-----" % begin[1], position + 1) if begin[1] not in endless else -1
        if end < 0:
            endless.add(begin[1])
        else:
            found.append(begin[1])
            position = end
    return found


def _no_block(blocks: list[str], wanted: str, source: str) -> str:
    if not blocks:
        return f"tls: failed to find any PEM data in {source} input"
    skipped = f"after skipping PEM blocks of the following types: [{' '.join(blocks)}]"
    return f"tls: failed to find {wanted} in {source} input {skipped}"
