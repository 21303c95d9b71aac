"""TLS contexts of clients, made of PEM in memory and shared between clients of the same credentials.

The ssl module reads a client certificate from a file only; the file here never touches a disk.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import tempfile
import weakref

from steelyard.kube.client.kubeconfig import Connection, InvalidKubeconfig

_contexts: weakref.WeakValueDictionary[bytes, ssl.SSLContext] = weakref.WeakValueDictionary()


def context_of(connection: Connection) -> ssl.SSLContext:
    """Raises InvalidKubeconfig when a certificate or key cannot be used."""
    parts = (
        connection.certificate_authority,
        connection.client_certificate,
        connection.client_key,
        b"insecure" if connection.insecure_skip_tls_verify else b"",
    )
    digest = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()
    context = _contexts.get(digest)
    if context is None:
        context = _make(connection)
        _contexts[digest] = context
    return context


def _make(connection: Connection) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if connection.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif connection.certificate_authority:
        try:
            context.load_verify_locations(cadata=connection.certificate_authority.decode())
        except (ssl.SSLError, ValueError) as error:
            raise InvalidKubeconfig(f"the certificate authority cannot be used: {error}") from error
    else:
        context.load_default_certs()
    if connection.client_certificate:
        if not connection.client_key:
            raise InvalidKubeconfig("there is a client certificate but no client key")
        try:
            _load_client_certificate(context, connection.client_certificate + b"\n" + connection.client_key)
        except ssl.SSLError as error:
            raise InvalidKubeconfig(f"the client certificate or key cannot be used: {error}") from error
    return context


def _load_client_certificate(context: ssl.SSLContext, pem: bytes) -> None:
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("client-certificate", os.MFD_CLOEXEC), "wb") as file:
            file.write(pem)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=_no_password)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name, password=_no_password)


def _no_password() -> str:
    """Instead of a question on the terminal."""
    raise InvalidKubeconfig("the client key is encrypted, which is not supported")
