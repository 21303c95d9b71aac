"""Answers: from a Reply, a document or an error to status, headers and bytes.

The stored JSON goes out as it is. Another form of a long answer takes long to make, and a worker makes it.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Final, NamedTuple

import orjson

from steelyard.kube import errors
from steelyard.kube.server import budgets, forms, negotiation, workers
from steelyard.kube.server.call import Reply
from steelyard.kube.server.negotiation import Format
from steelyard.kube.server.shares import Flow

Headers = tuple[tuple[bytes, bytes], ...]

_COMPRESS_FROM: Final = 128 * 1024
"""Smaller answers are not worth the time, as upstream found."""
CONTENT_TYPES: Final[dict[Format, bytes]] = {
    "json": b"application/json",
    "yaml": b"application/yaml",
    "protobuf": negotiation.PROTOBUF.encode(),
}
_NO_CACHE: Final = b"no-cache, private"
_MAX_WARNING: Final = 2048


class Answer(NamedTuple):
    code: int
    body: bytes
    content_type: bytes = b"application/json"
    """None is sent if empty."""
    headers: Headers = ()
    cache: bytes = b""
    """Who may keep it; nobody by default."""

    def head(self) -> list[tuple[bytes, bytes]]:
        head = [
            (b"content-type", self.content_type),
            (b"content-length", b"%d" % len(self.body)),
            (b"cache-control", self.cache or _NO_CACHE),
            *self.headers,
        ]
        return head if self.content_type else head[1:]


def of_reply(reply: Reply) -> Answer:
    """As JSON, the way it is stored."""
    body = reply.raw if reply.raw is not None else orjson.dumps(reply.body)
    return Answer(reply.code, body, headers=_warnings(reply.warnings) if reply.warnings else ())


async def in_form(reply: Reply, format_: Format, flow: Flow | None, *, pretty: bool) -> Answer:
    """In another form, or indented. Raises NotAcceptable for what has no such form."""
    raw = reply.raw if reply.raw is not None else orjson.dumps(reply.body)
    if len(raw) <= budgets.LIGHT_BYTES:
        body = forms.encode(orjson.loads(raw), format_, pretty=pretty)
    else:
        body = await workers.SHARED.write(format_, raw, flow)
    return Answer(reply.code, body, CONTENT_TYPES[format_], _warnings(reply.warnings) if reply.warnings else ())


def of_error(error: Exception, accept: str = "") -> Answer:
    """In a form that the client accepts, if there is one. An error that is no ApiError is answered as an internal one;
    logging it is the caller's business.
    """
    if isinstance(error, errors.NoSuchPath):
        return text(404, "404 page not found\n")
    if isinstance(error, errors.PlainInternalError):
        return text(500, error.message)
    if isinstance(error, errors.Overloaded):
        answer = text(429, f"{error.message}\n")
        return answer._replace(headers=(*answer.headers, (b"retry-after", b"%d" % error.retry_after)))
    status = errors.of(error)
    headers: list[tuple[bytes, bytes]] = []
    if isinstance(error, errors.ApiError) and error.retry_after:
        headers.append((b"retry-after", b"%d" % error.retry_after))
    if isinstance(error, errors.Unauthorized):
        headers.append((b"www-authenticate", b'Bearer realm="kubernetes-master"'))
    if isinstance(error, errors.ApiError) and error.warnings:
        headers += _warnings(error.warnings)
    format_ = negotiation.of_errors(accept)
    if format_ != "json" and len(orjson.dumps(status)) > budgets.LIGHT_BYTES:
        # Whoever made a mistake a thousand times is told so at once, not in every form.
        format_ = "json"
    return Answer(int(status["code"]), forms.encode(status, format_), CONTENT_TYPES[format_], tuple(headers))


def with_warnings(answer: Answer, warnings: tuple[str, ...]) -> Answer:
    return answer._replace(headers=(*_warnings(warnings), *answer.headers))


def text(code: int, content: str) -> Answer:
    return Answer(code, content.encode(), b"text/plain; charset=utf-8", ((b"x-content-type-options", b"nosniff"),))


async def compressed(answer: Answer, accept_encoding: str) -> Answer:
    """The answer, compressed in a thread if it is large and the client can read it."""
    if len(answer.body) <= _COMPRESS_FROM or "gzip" not in accept_encoding:
        return answer
    body = await asyncio.to_thread(_gzip, answer.body)
    headers = (*answer.headers, (b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))
    return Answer(answer.code, body, answer.content_type, headers, answer.cache)


def _gzip(body: bytes) -> bytes:
    compressor = zlib.compressobj(level=1, wbits=31)
    return compressor.compress(body) + compressor.flush()


def _warnings(warnings: tuple[str, ...]) -> Headers:
    return tuple((b"warning", b'299 - "%b"' % _quoted(each)) for each in dict.fromkeys(warnings))


def _quoted(warning: str) -> bytes:
    """As a quoted string in a header: one line, quotes and backslashes escaped."""
    line = "".join(each if each.isprintable() else " " for each in warning[:_MAX_WARNING])
    return line.replace("\\", "\\\\").replace('"', '\\"').encode("utf-8", "replace")
