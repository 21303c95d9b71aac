"""Changes to a valid request, one or a few at a time: in its method, path, query, headers, and deep inside its body."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, cast

import orjson

from tests.conformance import replay
from tests.soak.fuzz.request import Request

Mutation = Callable[[random.Random, Request], Request]

_METHODS: Final = (
    "GET",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "get",
    "BREW",
    "LIST",
)
_SEGMENTS: Final = (
    "", "a", "A", "..", ".", "%2e%2e", "%00", "%ff", "%2F", "a%20b", "%E2%82%AC", "status", "scale", "proxy", "log",
    "namespaces", "configmaps", "secrets", "v1", "v2", "apis", "api", "widgets", "finalize", "token", "x" * 300, "~",
    "*", "a;b", "@", "%zz", "a:b", "watch", "default", "fuzz", "kube-system",
)  # fmt: skip
_NAMES: Final = (
    "watch", "limit", "continue", "resourceVersion", "resourceVersionMatch", "timeoutSeconds", "labelSelector",
    "fieldSelector", "sendInitialEvents", "allowWatchBookmarks", "dryRun", "fieldManager", "fieldValidation", "force",
    "propagationPolicy", "gracePeriodSeconds", "orphanDependents", "pretty", "timeout", "includeObject", "verbose",
    "exclude", "export", "exact", "as", "kind", "ignoreStoreReadErrorWithClusterBreakingPotential",
)  # fmt: skip
_VALUES: Final = (
    "", "0", "1", "-1", "true", "false", "True", "yes", "null", "abc", "99999999999999999999", "9223372036854775807",
    "9223372036854775808", "-9223372036854775809", "1.5", "1e3", "0x10", "%00", "%ff%fe", "%zz", "a=b", "a==b",
    "a!=b", "a in (b,c)", "a notin ()", "!a", "!", "a in (", ")", "a,b,,c", "a=b,a=c", "metadata.name=a",
    "metadata.name!=a", "metadata.name=a,metadata.namespace=fuzz", "spec.size=small", "status.phase=Running", "x=y=z",
    "a>1", "a<b", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiIn0", "bm90IGpzb24", "e30", "bnVsbA", "Exact",
    "NotOlderThan", "All", "None", "Strict", "Warn", "Ignore", "Foreground", "Background", "Orphan", "Object",
    "Metadata", "1s", "1ns", "1h", "-1s", "kubectl", "x" * 200, "a\tb", "ä€😀", "%0a%0d", "%F0%9F%98%80", "..", "[]",
    "{}", '"', "'", "\\",
)  # fmt: skip
_ACCEPTS: Final = (
    "", "*/*", "application/*", "application/json", "application/yaml", "application/cbor", "text/plain", "text/html",
    "application/vnd.kubernetes.protobuf", "application/json;stream=watch", "application/json;pretty=1",
    "application/json;as=Table", "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io", "application/json;as=Table;v=v9;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/json;as=Nothing;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/yaml;as=Table;v=v1;g=meta.k8s.io", "application/json;q=0.1, application/yaml;q=0.9",
    "application/json;q=x", ";", ",", "application", "a/b/c",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
)  # fmt: skip
_CONTENT_TYPES: Final = (
    *replay.MEDIA.values(), "application/vnd.kubernetes.protobuf", "application/cbor", "application/apply-patch+cbor",
    "text/plain", "", "application/json; charset=utf-8", "application/json; charset=latin-1", "APPLICATION/JSON",
    "json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json;", ";;",
    "application/octet-stream",
)  # fmt: skip
_HEADERS: Final = (
    ("Impersonate-User", "jane"), ("Impersonate-User", ""), ("Impersonate-Group", "system:masters"),
    ("Impersonate-Uid", "1"), ("Impersonate-Extra-Scopes", "a"), ("Impersonate-Extra-%zz", "a"),
    ("Impersonate-User", "system:serviceaccount:fuzz:a"), ("Authorization", "Bearer nonsense"), ("Authorization", ""),
    ("Authorization", "Basic YTpi"), ("Authorization", "Bearer a.b.c"),
    ("Authorization", "Bearer eyJhbGciOiJub25lIn0.e30."), ("Authorization", "Bearer"), ("Accept-Encoding", "gzip"),
    ("Accept-Encoding", "identity;q=0"), ("If-None-Match", "*"), ("If-None-Match", '"x"'), ("If-Match", "1"),
    ("Content-Encoding", "gzip"), ("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Upgrade", "SPDY/3.1"),
    ("Upgrade", "h2c"), ("Expect", "100-continue"), ("Expect", "x"), ("X-HTTP-Method-Override", "DELETE"),
    ("User-Agent", "x" * 5000), ("User-Agent", "ä"), ("User-Agent", ""), ("Range", "bytes=0-1"),
    ("Origin", "https://example.com"), ("Cookie", "a=b"), ("X-Forwarded-For", "1.2.3.4"), ("Te", "trailers"),
    ("Audit-ID", "x" * 100), ("Kubectl-Command", "x"), ("Accept-Charset", "latin-1"),
)  # fmt: skip
_SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1.5, -0.0, 1e308, 5e-324, 2**31, 2**53 + 1, 2**63 - 1, 2**64 - 1, -(2**63), "", "a",
    "A", "0", "1", "true", "null", " ", "\n", "\0", "é", "😀", "\u202e", "a/b", "..", "x" * 64, "x" * 254,
    "x" * 70_000, "500m", "1Gi", "-1Ki", "1e100", "25%", "2024-02-30T00:00:00Z", "0001-01-01T00:00:00Z", "not a time",
    "1.2.3.4", "::1", "::", "300.1.1.1", "10.0.0.0/33", "YQ==", "YQ=", "!!", "v1", "v1/v2/v3", "$patch", "delete",
    "replace", "/a/b", "-", "self.a == 1", "self.a +", "[", "(a+)+$", "^[a", "a: b", "{}", [], {}, [None], [[]], [{}],
    {"": ""}, {"a": None}, [1, "a", None], {"$patch": "delete"}, {"$patch": "x"}, {"$retainKeys": ["a"]},
    {"$deleteFromPrimitiveList/a": [1]}, {"$setElementOrder/ports": [{"name": "a"}]}, ["a", "a"],
    [{"name": "a"}, {"name": "a"}], {"f:a": {}}, {".": {}, "k:{": {}},
)  # fmt: skip
_KEYS: Final = (
    "", "a", "metadata", "spec", "status", "name", "kind", "apiVersion", "$patch", "finalizers", "ownerReferences",
    "managedFields", "labels", "annotations", "uid", "resourceVersion", "generateName", "namespace",
    "deletionTimestamp", "items", "\0", "a.b/c", "x" * 300, "data", "binaryData", "stringData", "$ref",
    "x-kubernetes-validations", "pattern", "properties", "items", "additionalProperties", "default",
    "creationTimestamp", "generation", "selector", "value", "path", "op", "from", "preconditions",
    "propagationPolicy", "kind",
)  # fmt: skip


def mutated(random_: random.Random, seed: Request) -> Request:
    """One change mostly, sometimes several on top of one another; a third stays valid, for the rest to build on."""
    if random_.random() < 0.33:
        return seed
    request = seed
    while True:
        request = random_.choices(_MUTATIONS, _WEIGHTS)[0](random_, request)
        if random_.random() < 0.7:
            return request


def _method(random_: random.Random, request: Request) -> Request:
    return replace(request, method=random_.choice(_METHODS))


def _path(random_: random.Random, request: Request) -> Request:
    segments = request.path.split("/")
    position = random_.randrange(len(segments))
    segment = random_.choice(_SEGMENTS)
    match random_.randrange(5):
        case 0:
            segments[position] = segment
        case 1:
            segments.insert(position + 1, segment)
        case 2:
            segments.append(segment)
        case 3:
            segments[position] = _changed_text(random_, segments[position])
        case _:
            del segments[position]
    path = "/".join(segments)
    return replace(request, path=path if path.startswith("/") else f"/{path}")


def _query(random_: random.Random, request: Request) -> Request:
    query = list(request.query)
    pair = (random_.choice(_NAMES), random_.choice(_VALUES))
    if query and random_.random() < 0.4:
        position = random_.randrange(len(query))
        query[position] = (query[position][0], random_.choice(_VALUES))
    else:
        query.append(pair)
    return replace(request, query=tuple(query))


def _header(random_: random.Random, request: Request) -> Request:
    match random_.randrange(4):
        case 0:
            return request.with_header("Accept", random_.choice(_ACCEPTS))
        case 1:
            return request.with_header("Content-Type", random_.choice(_CONTENT_TYPES))
        case 2:
            return replace(request, headers=(*request.headers, random_.choice(_HEADERS)))
        case _:
            return request.with_header(*random_.choice(_HEADERS))


def _value(random_: random.Random, request: Request) -> Request:
    """Something inside the body becomes something else."""
    try:
        value = orjson.loads(request.body or b"")
    except orjson.JSONDecodeError:
        return _bytes(random_, request)
    holder: dict[str, Any] = {"": value}
    _change_inside(random_, holder)
    try:
        return replace(request, body=orjson.dumps(holder[""]))
    except orjson.JSONEncodeError:
        return request


def _change_inside(random_: random.Random, holder: dict[str, Any]) -> None:
    """Goes down a random way and changes what it finds there."""
    value: Any = holder
    while True:
        key: Any = random_.choice(_places(value))
        below: Any = value[key]
        if not _places(below) or (value is not holder and random_.random() < 0.3):
            break
        value = below
    is_object = isinstance(value, dict)
    match random_.randrange(7):
        case 0 if value is not holder:
            del value[key]
        case 1 if is_object and value is not holder:
            value[random_.choice(_KEYS)] = cast("dict[str, Any]", value).pop(key)
        case 2 if is_object:
            value[random_.choice(_KEYS)] = random_.choice(_SCALARS)
        case 3 if not is_object:
            value.append(below)
        case 4:
            value[key] = [below]
        case 5:
            value[key] = {random_.choice(_KEYS): below}
        case _:
            value[key] = random_.choice(_SCALARS)


def _places(value: Any) -> list[Any]:
    """Keys of an object, positions of a list; none in anything else."""
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value))
    return list(range(len(cast("list[Any]", value)))) if isinstance(value, list) else []


def _bytes(random_: random.Random, request: Request) -> Request:
    """The body's text: broken anywhere."""
    body = bytearray(request.body or b"")
    position = random_.randrange(len(body) + 1)
    match random_.randrange(7):
        case 0:
            del body[position:]
        case 1 if body:
            body[min(position, len(body) - 1)] = random_.randrange(256)
        case 2:
            body[position:position] = random_.choice(_JUNK)
        case 3:
            body[position : position + random_.randrange(20)] = b""
        case 4:
            body = bytearray(random_.randbytes(random_.randrange(200)))
        case 5:
            body = bytearray(random_.choice(_BODIES))
        case _:
            body = body[position:] + body[:position]
    return replace(request, body=bytes(body))


_JUNK: Final = (
    b"\xff", b"\xc3\x28", b"\xef\xbb\xbf", b"\0", b'"\\ud800"', b'"\\u0000"', b"1e999", b"-", b"NaN", b"Infinity",
    b"//", b'{"a":1,"a":2}', b",", b"]", b"}", b"0123", b"1" * 400, b"'", b"&a [*a]", b"!!python/none x", b"\t",
    b"\r\n", b"- ",
)  # fmt: skip
_BODIES: Final = (
    b"", b"null", b"[]", b"{}", b"0", b'""', b"true", b" ", b"[" * 100_000, b'{"a":' * 5000 + b"1" + b"}" * 5000,
    b"[" * 120 + b"]" * 120, b"a: " * 300 + b"1", b"&a [&b [*a, *b]]", b"k8s\0", b"k8s\0\x0a\xff\xff\xff\xff\x0f",
    b"---\n---\n",
    b"a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d]\n",
    b'[{"op":"add","path":"","value":null}]', b'[{"op":"test","path":"/x"}]',
    b'[{"op":"move","from":"/a","path":"/a/b"}]', b'[{"op":"copy","from":"/metadata","path":"/metadata/labels"}]',
    b'[{"op":"remove","path":"/metadata"}]', b'[{"op":"replace","path":"/metadata/name","value":1}]',
    b'[{"op":"add","path":"/-","value":1}]', b'[{"op":"x"}]', b"[1]",
    b'{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":1}}', b'{"metadata":null}', b'{"metadata":[]}',
    b'{"metadata":{"name":1}}', b"\xff\xfe{\0}\0", b'{"a":"' + b"x" * 3_200_000 + b'"}',
    b'{"' + b"k" * 100_000 + b'":1}',
)  # fmt: skip


def _changed_text(random_: random.Random, text: str) -> str:
    position = random_.randrange(len(text) + 1)
    return text[:position] + random_.choice(("", "-", ".", "%41", "A", "x" * 70, "_")) + text[position + 1 :]


_MUTATIONS: Final[tuple[Mutation, ...]] = (_method, _path, _query, _header, _value, _bytes)
_WEIGHTS: Final = (6, 12, 22, 12, 36, 12)
