"""What each exception of the HTTP library means: the one place that turns them into the errors of the API.

Everything that kept the answer from arriving is ServiceUnavailable, since it may work later; the message says what
happened and with which server. A test proves that no exception class of the library is missing here.
"""

from __future__ import annotations

import aiohttp

from steelyard.kube import errors

_UNREACHABLE = "cannot connect to {server}: {cause}"
_UNTRUSTED = "the TLS connection to {server} failed: {cause}"
_TIMED_OUT = "{server} did not answer in time"
_CLOSED = "{server} closed the connection before the answer was complete: {cause}"
_NO_ANSWER = "{server} sent something that is no answer of a Kubernetes API: {cause}"
_BAD_ADDRESS = "{server} is no usable address: {cause}"

FAILURES: dict[type[BaseException], tuple[type[errors.ApiError], str]] = {
    aiohttp.ClientError: (errors.ServiceUnavailable, "the request to {server} failed: {cause}"),
    aiohttp.ClientConnectionError: (errors.ServiceUnavailable, _CLOSED),
    aiohttp.ClientConnectionResetError: (errors.ServiceUnavailable, _CLOSED),
    aiohttp.ClientOSError: (errors.ServiceUnavailable, _CLOSED),
    aiohttp.ClientConnectorError: (errors.ServiceUnavailable, _UNREACHABLE),
    aiohttp.ClientConnectorDNSError: (errors.ServiceUnavailable, _UNREACHABLE),
    aiohttp.ClientProxyConnectionError: (errors.ServiceUnavailable, _UNREACHABLE),
    aiohttp.ClientHttpProxyError: (errors.ServiceUnavailable, _UNREACHABLE),
    aiohttp.ClientSSLError: (errors.ServiceUnavailable, _UNTRUSTED),
    aiohttp.ClientConnectorSSLError: (errors.ServiceUnavailable, _UNTRUSTED),
    aiohttp.ClientConnectorCertificateError: (errors.ServiceUnavailable, _UNTRUSTED),
    aiohttp.ServerFingerprintMismatch: (errors.ServiceUnavailable, _UNTRUSTED),
    aiohttp.ServerConnectionError: (errors.ServiceUnavailable, _CLOSED),
    aiohttp.ServerDisconnectedError: (errors.ServiceUnavailable, _CLOSED),
    aiohttp.ServerTimeoutError: (errors.ServiceUnavailable, _TIMED_OUT),
    aiohttp.ConnectionTimeoutError: (errors.ServiceUnavailable, _TIMED_OUT),
    aiohttp.SocketTimeoutError: (errors.ServiceUnavailable, _TIMED_OUT),
    aiohttp.ClientPayloadError: (errors.ServiceUnavailable, _CLOSED),
    aiohttp.UploadAbortedError: (errors.ServiceUnavailable, _CLOSED),
    aiohttp.ClientResponseError: (errors.ServiceUnavailable, _NO_ANSWER),
    aiohttp.ContentTypeError: (errors.ServiceUnavailable, _NO_ANSWER),
    aiohttp.TooManyRedirects: (errors.ServiceUnavailable, _NO_ANSWER),
    aiohttp.RedirectClientError: (errors.ServiceUnavailable, _NO_ANSWER),
    aiohttp.InvalidUrlRedirectClientError: (errors.ServiceUnavailable, _NO_ANSWER),
    aiohttp.NonHttpUrlRedirectClientError: (errors.ServiceUnavailable, _NO_ANSWER),
    aiohttp.InvalidURL: (errors.BadRequest, _BAD_ADDRESS),
    aiohttp.InvalidUrlClientError: (errors.BadRequest, _BAD_ADDRESS),
    aiohttp.NonHttpUrlClientError: (errors.BadRequest, _BAD_ADDRESS),
    TimeoutError: (errors.ServiceUnavailable, _TIMED_OUT),
    OSError: (errors.ServiceUnavailable, _UNREACHABLE),
}

EXPECTED = (aiohttp.ClientError, OSError)
"""What to catch around a request: TimeoutError is an OSError."""


def of(failure: BaseException, server: str) -> errors.ApiError:
    for cls in type(failure).__mro__:
        if cls in FAILURES:
            error, message = FAILURES[cls]
            return error(message.format(server=server, cause=str(failure) or type(failure).__name__))
    raise failure


def no_answer(server: str, code: int, body: bytes) -> errors.ApiError:
    """An answer without a Status: from a proxy, or from something that is no Kubernetes API."""
    text = body[:200].decode(errors="replace").strip()
    return errors.from_status({"message": f"{server} answered {code}: {text or 'nothing else'}"}, code)
