"""What is no request at all, or a broken one: at the level of HTTP, where the connection is all that may suffer."""

from __future__ import annotations

import random
from typing import Final

from tests.soak.fuzz.request import Request

_AUTH: Final = b"Authorization: Bearer $TOKEN\r\n"
_CREATE: Final = (
    b"POST /api/v1/namespaces/fuzz/configmaps HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" + _AUTH
)
_GET: Final = b"GET /api/v1/namespaces HTTP/1.1\r\nHost: a\r\n" + _AUTH
_BODY: Final = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"raw"}}'

SHAPES: Final = (
    b"\r\n\r\n", b"\0\0\0\0\r\n\r\n", b"GET\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"GET  /api HTTP/1.1\r\n\r\n",
    b"GET /api HTTP/1.1\nHost: a\n\n", b"GET http://a/api HTTP/1.1\r\nHost: a\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /api HTTP/1.1\r\n\r\n", b"GET api HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /api HTTP/1.1\r\n: a\r\n\r\n",
    b"GET /api HTTP/1.1\r\nA B: c\r\n\r\n", b"GET /api HTTP/1.1\r\nA: \0\r\n\r\n",
    b"GET /api HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /api?" + b"a=b&" * 10_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /api HTTP/1.1\r\n" + b"A: b\r\n" * 3000 + b"\r\n",
    b"GET /api HTTP/1.1\r\nA: " + b"x" * 200_000 + b"\r\n\r\n", _GET + b"Content-Length: 5\r\n\r\nabcde",
    _GET + b"Content-Length: -5\r\n\r\n", _GET + b"Content-Length: 1, 2\r\n\r\n",
    _GET + b"Content-Length: 99999999999999999999999\r\n\r\n", _GET + b"Transfer-Encoding: gzip\r\n\r\n",
    _GET + b"Connection: close\r\n\r\n" + _GET + b"\r\n", _GET + b"\r\n" + _GET + b"\r\n" + _GET + b"\r\n",
    _CREATE + b"Content-Length: 10\r\n\r\n" + _BODY, _CREATE + b"Content-Length: 0\r\n\r\n", _CREATE + b"\r\n",
    _CREATE + b"Content-Length: %d\r\nContent-Length: %d\r\n\r\n" % (len(_BODY), len(_BODY)) + _BODY,
    _CREATE + b"Content-Length: 5000000\r\n\r\n" + _BODY, _CREATE + b"Content-Length: 100\r\n\r\n" + _BODY,
    _CREATE + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(_BODY), _BODY),
    _CREATE + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(_BODY), _BODY),
    _CREATE + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + _BODY,
    _CREATE + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    _CREATE + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + _BODY,
    _CREATE + b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nTrailer: x\r\n\r\n",
    _CREATE + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    _CREATE + b"Transfer-Encoding: chunked, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    _CREATE + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(_BODY) + _BODY,
    _CREATE + b"Content-Length: %d\r\n\r\n" % (len(_BODY) + 2) + _BODY + b"\r\n" + _GET + b"\r\n",
)  # fmt: skip


def request(random_: random.Random) -> Request:
    """One of the shapes, half of the time with a few bytes changed."""
    raw = bytearray(random_.choice(SHAPES))
    if random_.random() < 0.5:
        for _ in range(random_.randrange(1, 4)):
            position = random_.randrange(min(len(raw), 400))
            match random_.randrange(3):
                case 0:
                    raw[position] = random_.randrange(256)
                case 1:
                    raw.insert(position, random_.choice(b"\r\n\0 :;\t%"))
                case _:
                    del raw[position]
    return Request("", "", raw=bytes(raw))
