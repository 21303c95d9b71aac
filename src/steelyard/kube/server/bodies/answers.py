"""Answers: from a Reply, a document or an error to status, headers and bytes.

The stored JSON goes out as it is. Another form of a long answer takes long to make, and a worker makes it. Of a long
list only the beginning is made here; the rest is made as the client reads, a slice at a time, in whatever form
(protobuf alone begins with its length: all slices are made before the first goes out).
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.server.bodies import forms, negotiation, workers
from steelyard.kube.server.bodies.negotiation import Format
from steelyard.kube.server.call import Reply
from steelyard.kube.server.fairness import budgets
from steelyard.kube.server.fairness.shares import Flow
from steelyard.kube.server.listing import CLOSING, SLICE_BYTES, Listing, Piece

if TYPE_CHECKING:
    from zlib import _Compress  # pyright: ignore[reportPrivateUsage] - the type has no other name

Headers = tuple[tuple[bytes, bytes], ...]
Rest = AsyncGenerator[Sequence[Piece]]

COMPRESS_FROM: Final = 128 * 1024
"""Smaller answers are not worth the time, as upstream found."""
CONTENT_TYPES: Final[dict[Format, bytes]] = {
    "json": b"application/json",
    "yaml": b"application/yaml",
    "protobuf": negotiation.PROTOBUF.encode(),
}
_NO_CACHE: Final = b"no-cache, private"
_MAX_WARNING: Final = 2048
_COMPRESSED: Final = ((b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))
_FORMED_BYTES: Final = 256 * 1024
"""What a worker gets at once of a list that it writes in another form."""
_COMPRESSOR_BYTES: Final = 256 * 1024


class Answer(NamedTuple):
    code: int
    body: bytes
    content_type: bytes = b"application/json"
    """None is sent if empty."""
    headers: Headers = ()
    cache: bytes = b""
    """Who may keep it; nobody by default."""
    rest: Rest | None = None
    """What is made while it goes out, instead of `body`. How long it will be is not known."""
    held: int = 0
    """What it takes in memory for as long as the client has not read it."""

    def head(self) -> list[tuple[bytes, bytes]]:
        head = [(b"cache-control", self.cache or _NO_CACHE), *self.headers]
        if self.rest is None:
            head.insert(0, (b"content-length", b"%d" % len(self.body)))
        if self.content_type:
            head.insert(0, (b"content-type", self.content_type))
        return head


def of_reply(reply: Reply) -> Answer:
    """As JSON, the way it is stored."""
    return Answer(reply.code, reply.text(), headers=_warnings(reply.warnings) if reply.warnings else ())


async def in_form(reply: Reply, format_: Format, flow: Flow | None, *, pretty: bool) -> Answer:
    """In another form, or indented. Raises NotAcceptable for what has no such form."""
    body = await _formed(reply.text(), format_, flow, pretty=pretty)
    return Answer(reply.code, body, CONTENT_TYPES[format_], _warnings(reply.warnings) if reply.warnings else ())


async def of_listing(
    reply: Reply, listing: Listing, format_: Format, flow: Flow | None, *, pretty: bool = False
) -> Answer:
    """Whole if it is short. The first slice is made here, so that what fails then is still answered as an error."""
    is_plain = format_ == "json" and not pretty
    if listing.is_short:
        return of_reply(reply) if is_plain else await in_form(reply, format_, flow, pretty=pretty)
    headers = _warnings(reply.warnings) if reply.warnings else ()
    if format_ == "protobuf":
        parts = await _protobuf(listing, flow)
        size = sum(map(len, parts))
        return Answer(reply.code, b"", CONTENT_TYPES[format_], headers, rest=_one_by_one(parts), held=size)
    rest = _plain(listing, flow) if is_plain else _in_slices(listing, format_, flow)
    first = await anext(rest)
    held = listing.own_bytes() + (SLICE_BYTES if is_plain else max(_FORMED_BYTES, listing.largest()))
    return Answer(reply.code, b"", CONTENT_TYPES[format_], headers, rest=_resumed(first, rest), held=held)


async def _resumed(first: Sequence[Piece], rest: Rest) -> Rest:
    try:
        yield first
        del first
        async for pieces in rest:
            yield pieces
    finally:
        await rest.aclose()


async def _formed(
    text: bytes, format_: Format, flow: Flow | None, *, pretty: bool = True, patient: bool = False
) -> bytes:
    if len(text) <= budgets.LIGHT_BYTES:
        return forms.encode(orjson.loads(text), format_, pretty=pretty)
    return await workers.SHARED.write(format_, text, flow, patient=patient)


async def _plain(listing: Listing, flow: Flow | None) -> Rest:
    before = listing.opening()
    async for pieces in listing.slices(flow):
        yield before, *pieces
        before = b","
    yield (CLOSING,)


async def _in_slices(listing: Listing, format_: Format, flow: Flow | None) -> Rest:
    """Each slice is written as a list of its own, and taken out of what stands around its items."""
    field = listing.field.encode()
    if format_ == "yaml":
        fields: list[str] = sorted(listing.head)
        opening = await _yaml_fields(listing, [name for name in fields if name < listing.field], flow)
        closing = await _yaml_fields(listing, [name for name in fields if name > listing.field], flow)
        around, separator = (b"%b:\n" % field, b""), b""
        opening += around[0]
    else:
        around, separator = (b'{\n  "%b": [\n' % field, b"\n  ]\n}\n"), b",\n"
        empty = b"]\n}\n"
        opening = (await _formed(listing.opening() + CLOSING, format_, flow)).removesuffix(empty) + b"\n"
        closing = around[1]
    before = opening
    is_first = True
    async for pieces in listing.slices(flow, _FORMED_BYTES):
        text = b'{"%b":[%b]}' % (field, b"".join(pieces))
        # Whoever has begun to get the list is not told to come again.
        written = await _formed(text, format_, flow, patient=not is_first)
        yield before, memoryview(written)[len(around[0]) : len(written) - len(around[1])]
        before, is_first = separator, False
    yield (closing,)


async def _protobuf(listing: Listing, flow: Flow | None) -> list[Piece]:
    """Its length stands at the beginning, so nothing goes out before all of it is there; but the bytes alone."""
    # Few ask for it.
    from steelyard.kube.builtin import messages

    opening = orjson.dumps({**_kind(listing), listing.field: []})[: -len(CLOSING)]
    parts: list[bytes] = []
    async for pieces in listing.slices(flow, _FORMED_BYTES):
        text = b"".join((opening, *pieces, CLOSING))
        parts.append(await _formed(text, "protobuf", flow, patient=bool(parts)))
    return messages.one_list(listing.head, parts)


def _kind(listing: Listing) -> Object:
    return {name: listing.head[name] for name in ("apiVersion", "kind")}


async def _one_by_one(pieces: list[Piece]) -> Rest:
    """Each is let go of when it has been read."""
    pieces.reverse()
    while pieces:
        yield (pieces.pop(),)


async def _yaml_fields(listing: Listing, fields: list[str], flow: Flow | None) -> bytes:
    if not fields:
        return b""
    return await _formed(orjson.dumps({name: listing.head[name] for name in fields}), "yaml", flow)


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
    if "gzip" not in accept_encoding:
        return answer
    if answer.rest is not None:
        return await _compressed_in_slices(answer, answer.rest)
    if len(answer.body) <= COMPRESS_FROM:
        return answer
    body = await asyncio.to_thread(_gzip, answer.body)
    return answer._replace(body=body, headers=(*answer.headers, *_COMPRESSED))


async def _compressed_in_slices(answer: Answer, rest: Rest) -> Answer:
    """Whether it is large is known when enough of it is there."""
    parts: list[Piece] = []
    while sum(map(len, parts)) <= COMPRESS_FROM:
        pieces = await anext(rest, None)
        if pieces is None:
            return answer._replace(body=b"".join(parts), rest=None)
        parts += pieces
    return answer._replace(
        headers=(*answer.headers, *_COMPRESSED),
        rest=_gzipped(_resumed(parts, rest)),
        held=answer.held + _COMPRESSOR_BYTES,
    )


async def _gzipped(rest: Rest) -> Rest:
    compressor = _compressor()
    try:
        async for pieces in rest:
            for piece in pieces:
                for start in range(0, len(piece), COMPRESS_FROM):
                    some = memoryview(piece)[start : start + COMPRESS_FROM]
                    yield (await asyncio.to_thread(compressor.compress, some),)
        yield (await asyncio.to_thread(compressor.flush),)
    finally:
        await rest.aclose()


def _gzip(body: bytes) -> bytes:
    compressor = _compressor()
    return compressor.compress(body) + compressor.flush()


def _compressor() -> _Compress:
    return zlib.compressobj(level=1, wbits=31)


def _warnings(warnings: tuple[str, ...]) -> Headers:
    return tuple((b"warning", b'299 - "%b"' % _quoted(each)) for each in dict.fromkeys(warnings))


def _quoted(warning: str) -> bytes:
    """As a quoted string in a header: one line, quotes and backslashes escaped."""
    line = "".join(each if each.isprintable() else " " for each in warning[:_MAX_WARNING])
    return line.replace("\\", "\\\\").replace('"', '\\"').encode("utf-8", "replace")
