"""Answers: from a Reply, a document or an error to status, headers and bytes."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any, Final, NamedTuple

import orjson
import yaml

from steelyard.kube import errors
from steelyard.kube.server.call import Reply
from steelyard.kube.server.negotiation import Format

Headers = tuple[tuple[bytes, bytes], ...]

_COMPRESS_FROM: Final = 128 * 1024
"""Smaller answers are not worth the time, as upstream found."""
_CONTENT_TYPES: Final[dict[Format, bytes]] = {"json": b"application/json", "yaml": b"application/yaml"}
_NO_CACHE: Final = (b"cache-control", b"no-cache, private")
_MAX_WARNING: Final = 2048


class Answer(NamedTuple):
    code: int
    body: bytes
    content_type: bytes = b"application/json"
    headers: Headers = ()

    def head(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"content-type", self.content_type),
            (b"content-length", b"%d" % len(self.body)),
            _NO_CACHE,
            *self.headers,
        ]


def of_reply(reply: Reply, format_: Format, *, pretty: bool = False) -> Answer:
    if format_ == "json" and not pretty:
        body = reply.raw if reply.raw is not None else orjson.dumps(reply.body)
    else:
        value = orjson.loads(reply.raw) if reply.raw is not None else reply.body
        body = _encode(value, format_, pretty=pretty)
    return Answer(reply.code, body, _CONTENT_TYPES[format_], _warnings(reply.warnings) if reply.warnings else ())


def of_error(error: Exception) -> Answer:
    """One that is no ApiError is answered as an internal error; logging it is the caller's business."""
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
    return Answer(int(status["code"]), orjson.dumps(status), headers=tuple(headers))


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
    return Answer(answer.code, body, answer.content_type, headers)


def _gzip(body: bytes) -> bytes:
    compressor = zlib.compressobj(level=1, wbits=31)
    return compressor.compress(body) + compressor.flush()


def _encode(value: Any, format_: Format, *, pretty: bool) -> bytes:
    if format_ == "yaml":
        return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).encode()
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE if pretty else 0)


def _warnings(warnings: tuple[str, ...]) -> Headers:
    return tuple((b"warning", b'299 - "%b"' % _quoted(each)) for each in dict.fromkeys(warnings))


def _quoted(warning: str) -> bytes:
    """As a quoted string in a header: one line, quotes and backslashes escaped."""
    line = "".join(each if each.isprintable() else " " for each in warning[:_MAX_WARNING])
    return line.replace("\\", "\\\\").replace('"', '\\"').encode("utf-8", "replace")
