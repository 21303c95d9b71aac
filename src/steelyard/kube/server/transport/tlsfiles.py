"""Gives a TLS context its certificate and key without leaving the key on a disk, where the system allows that."""

from __future__ import annotations

import os
import ssl
import tempfile

from steelyard.kube.pki import KeyPair


def load(context: ssl.SSLContext, pair: KeyPair) -> None:
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
