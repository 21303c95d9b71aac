"""Documents that describe the server (discovery, OpenAPI, keys): what they are, and how they are answered and cached.

A document with an ETag is not sent to a client that has it already. One that is asked for by the hash of its content
may be kept for ever; by the hash of an older content, the client is sent to the current one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import orjson

from steelyard.kube import errors
from steelyard.kube.server.bodies import answers, forms, negotiation
from steelyard.kube.server.bodies.answers import Answer, Headers

JSON: Final = "application/json"
_FOR_EVER: Final = timedelta(days=365)


class Document:
    """Made once and shared by all who ask."""

    __slots__ = ("body", "code", "content_type", "etag", "hashed", "is_public", "negotiated", "only_get")

    def __init__(
        self,
        body: bytes,
        content_type: str = JSON,
        etag: str = "",
        *,
        code: int = 200,
        only_get: bool = False,
        is_public: bool = False,
        hashed: bool = False,
        negotiated: bool = False,
    ) -> None:
        self.body = body
        self.content_type = content_type
        self.etag = etag
        """Without quotes."""
        self.code = code
        self.only_get = only_get
        """Other methods are refused; most documents are given whatever the method."""
        self.is_public = is_public
        """A cache may share it between users."""
        self.hashed = hashed
        """It can be asked for with `?hash=` and its ETag."""
        self.negotiated = negotiated
        """It is served in the forms in which objects are, and not cached."""


def digest(body: bytes) -> str:
    return hashlib.sha512(body).hexdigest().upper()


def answer(
    document: Document, method: str, path: str, options: Mapping[str, str], accept: str, if_none_match: str
) -> Answer:
    """Raises MethodNotAllowed and NotAcceptable."""
    if document.only_get and method != "GET":
        raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    if document.negotiated:
        return _in_form(document, accept)
    content_type = document.content_type.encode()
    headers: Headers = ((b"vary", b"Accept"),) if document.etag or document.code == 406 else ()
    if document.etag:
        headers = (*headers, (b"etag", b'"%b"' % document.etag.encode()))
    cache = b"public" if document.is_public else b""
    if document.hashed and (asked := options.get("hash")):
        if asked != document.etag:
            moved = (b"location", f"{path}?hash={document.etag}".encode())
            return Answer(301, b"", content_type, (*headers, moved))
        cache = b"public, immutable"
        expires = (datetime.now(UTC) + _FOR_EVER).strftime("%a, %d %b %Y %H:%M:%S UTC")
        headers = (*headers, (b"expires", expires.encode()))
    if document.etag and method in {"GET", "HEAD"} and _has_already(if_none_match, document.etag):
        return Answer(304, b"", b"", headers, cache=cache)
    return Answer(document.code, document.body, content_type, headers, cache=cache)


def _in_form(document: Document, accept: str) -> Answer:
    if document.only_get:
        negotiation.check_route(accept)
    format_ = negotiation.accepted(accept, whole=True).format
    if format_ == "json":
        return Answer(200, document.body)
    return Answer(200, forms.encode(orjson.loads(document.body), format_), answers.CONTENT_TYPES[format_])


def _has_already(if_none_match: str, etag: str) -> bool:
    known = [each.strip().removeprefix("W/").strip('"') for each in if_none_match.split(",")]
    return etag in known or "*" in known
