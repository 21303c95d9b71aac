"""Client certificates that are asked for, verified, and answered 401 if they are not to be trusted, as upstream does.

Python's ssl ends the handshake instead: OpenSSL's verify callback, with which a server accepts the connection and
looks at the outcome later, is the one thing of it that ssl does not offer. So two functions of the libssl that ssl
itself uses are called directly. This stands on the layout of two of its objects, and on that library being the one
that is found; both are proved by a handshake in memory before anything relies on them. Where the proof fails, or
cannot be made, untrusted certificates end the handshake as before: nothing is ever believed that OpenSSL did not
verify. `docs/decisions/0008-client-certificates.md` says what else was tried.
"""

from __future__ import annotations

import _ssl
import ctypes
import datetime
import functools
import logging
import ssl
import sys
from typing import Any, Final

from steelyard.kube import pki
from steelyard.kube.server.transport import tlsfiles

logger = logging.getLogger(__name__)

_VERIFY_PEER: Final = 1
_VERIFIED: Final = 0
_WORD: Final = ctypes.sizeof(ctypes.c_void_p)
_NEWEST_KNOWN: Final = (3, 14)
"""The newest Python whose ssl objects are known to begin as described below."""
_CONTEXT_POINTER: Final = 0
"""An SSLContext begins with its SSL_CTX."""
_CONNECTION_POINTER: Final = 1
"""The object inside an SSLObject begins with a reference to its socket, then comes its SSL."""
_ROUNDS: Final = 10

_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


def _agree(_verified: int, _store: int) -> int:
    return 1


_accept: Final = _Callback(_agree)


class _Library:
    def __init__(self) -> None:
        # Where ssl is built into the program itself, so must be its library: no file is the program.
        library = ctypes.CDLL(getattr(_ssl, "__file__", None))
        library.OpenSSL_version.restype = ctypes.c_char_p
        version: bytes = library.OpenSSL_version(0)
        if version.decode() != ssl.OPENSSL_VERSION:
            raise OSError(f"another OpenSSL was found: {version.decode()}")
        self._set_verify = library.SSL_CTX_set_verify
        self._set_verify.argtypes = (ctypes.c_void_p, ctypes.c_int, _Callback)
        self._set_verify.restype = None
        self._verify_result = library.SSL_get_verify_result
        self._verify_result.argtypes = (ctypes.c_void_p,)
        self._verify_result.restype = ctypes.c_long

    def accept_all(self, context: ssl.SSLContext) -> None:
        """From now on the context verifies certificates without insisting on the outcome."""
        self._set_verify(_pointer(context, _CONTEXT_POINTER), _VERIFY_PEER, _accept)

    def is_verified(self, connection: Any) -> bool:
        return self._verify_result(_pointer(connection, _CONNECTION_POINTER)) == _VERIFIED


def _pointer(obj: Any, place: int) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(id(obj) + object.__basicsize__ + place * _WORD)


def accept_untrusted(context: ssl.SSLContext) -> None:
    """Lets clients with any certificate connect to a server; whoever serves them asks `is_trusted`."""
    library = _library()
    if library is not None:
        library.accept_all(context)


def is_trusted(connection: ssl.SSLObject) -> bool:
    """Whether the certificate that the client has shown was verified."""
    library = _library()
    # Without the library no connection with another certificate is ever made.
    return library is None or library.is_verified(vars(connection)["_sslobj"])


@functools.cache
def _library() -> _Library | None:
    if sys.implementation.name != "cpython" or sys.version_info[:2] > _NEWEST_KNOWN:
        return None
    try:
        library = _Library()
        if _is_proved(library):
            return library
        reason = "a handshake with a certificate of another authority did not come out as it should"
    except (OSError, AttributeError, KeyError, ssl.SSLError) as error:
        reason = str(error)
    told = "untrusted client certificates end the handshake instead of being answered 401"
    logger.warning(told, extra={"reason": reason})
    return None


def _is_proved(library: _Library) -> bool:
    """Whether a trusted certificate counts as verified and a strange one, from a live connection, does not."""
    now = datetime.datetime.now(datetime.UTC)
    ours, strange = (pki.new_authority("authority", now=now) for _ in range(2))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_verify_locations(cadata=ours.certificate.decode())
    server.verify_mode = ssl.CERT_OPTIONAL
    tlsfiles.load(server, pki.issue_serving(ours, "server", ["server"], now=now))
    library.accept_all(server)
    outcomes: list[bool] = []
    for authority in (ours, strange):
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.load_verify_locations(cadata=ours.certificate.decode())
        tlsfiles.load(client, pki.issue_client(authority, "client", now=now))
        connection = _connected(server, client)
        has_certificate = bool(connection.getpeercert(binary_form=True))
        outcomes.append(has_certificate and library.is_verified(vars(connection)["_sslobj"]))
        if not has_certificate:
            return False
    return outcomes == [True, False]


def _connected(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """The server's end of a connection that goes through memory only."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    pending = [client.wrap_bio(to_client, to_server, server_hostname="server"), serving]
    for _ in range(_ROUNDS):
        for each in list(pending):
            try:
                each.do_handshake()
                pending.remove(each)
            except ssl.SSLWantReadError:
                continue
    if pending:
        raise ssl.SSLError("the handshake in memory did not end")
    return serving
