"""TLS for serving: a certificate to show, and an authority whose client certificates are believed.

A client certificate is asked for but not required, since most callers bring a token. One that the authority did not
sign, or that has expired, ends the handshake: Python's ssl offers no way to accept it for the moment and answer 401
later, as kube-apiserver does. The client is told the reason in the TLS alert.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from dataclasses import dataclass

from steelyard.kube.pki import KeyPair


@dataclass(frozen=True, slots=True)
class ServingTls:
    """`certificate` is shown to clients; client certificates are checked against `client_authority` (PEM)."""

    certificate: KeyPair
    client_authority: bytes = b""

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Go clients offer HTTP/2 first and speak it unless told otherwise.
        context.set_alpn_protocols(["http/1.1"])
        if self.client_authority:
            context.load_verify_locations(cadata=self.client_authority.decode())
            context.verify_mode = ssl.CERT_OPTIONAL
        _load(context, self.certificate)
        return context


def _load(context: ssl.SSLContext, pair: KeyPair) -> None:
    """ssl reads keys from files only; where the system has files in memory, the key never reaches a disk."""
    pem = pair.certificate.rstrip() + b"\n" + pair.key
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("tls", os.MFD_CLOEXEC)
        try:
            os.write(fd, pem)
            context.load_cert_chain(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
