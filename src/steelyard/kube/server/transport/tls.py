"""TLS for serving: a certificate to show, and an authority whose client certificates are believed.

A client certificate is asked for but not required, since most callers bring a token. One that the authority did not
sign, or that has expired, does not end the connection (`clientcerts.py`): its requests are answered 401.
"""

from __future__ import annotations

import ssl

from steelyard.frozen import frozen
from steelyard.kube.pki import KeyPair
from steelyard.kube.server.transport import clientcerts, tlsfiles


@frozen
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
            clientcerts.accept_untrusted(context)
        tlsfiles.load(context, self.certificate)
        return context
