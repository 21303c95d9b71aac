"""One API server: from a request to a `Call`, and from the `Reply` back to bytes.

Every request passes the same stations: who calls (authn), what is asked (routing), may they (authz), the body, a seat
(shares), the API, the answer in a form the client accepts. Whatever goes wrong on the way is answered with a Status
object; an error that is no ApiError is logged with its traceback and answered as a 500 that does not show it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

import orjson

from steelyard.kube import errors, turns
from steelyard.kube.builtin import tables
from steelyard.kube.server import routing
from steelyard.kube.server.access import impersonation
from steelyard.kube.server.bodies import answers, bodies, documents, negotiation
from steelyard.kube.server.bodies.answers import Answer
from steelyard.kube.server.bodies.documents import Document
from steelyard.kube.server.call import Call, Payload, Reply, User
from steelyard.kube.server.fairness import budgets
from steelyard.kube.server.fairness.shares import Flow, Seats, Share
from steelyard.kube.server.rights import authn, authz
from steelyard.kube.server.rights.authn import Authenticator
from steelyard.kube.server.rights.authz import Authorizer
from steelyard.kube.server.routing import Route
from steelyard.kube.server.transport import audit, operations, portforward
from steelyard.kube.server.transport.audit import AuditLog
from steelyard.kube.server.transport.exchange import Disconnected, Exchange
from steelyard.kube.server.transport.health import HealthPaths
from steelyard.kube.server.transport.metrics import Labels, RequestMetrics
from steelyard.kube.server.transport.operations import Operations
from steelyard.kube.server.transport.portforward import Forwards

logger = logging.getLogger(__name__)

_BODY_VERBS: Final = frozenset(("create", "update", "patch", "delete", "deletecollection"))
_MAY_BE_EMPTY: Final = frozenset(("delete", "deletecollection"))
_READING_VERBS: Final = frozenset(("get", "list"))
_MANAGED_VERBS: Final = frozenset(("create", "update", "patch"))
_BYTES_AT_ONCE: Final = 64 * 1024
_OPENAPI: Final = "/openapi/"
_INDEX: Final = ("/", "/index.html")
_STREAM_HEADERS: Final = ((b"content-type", b"application/json"), (b"cache-control", b"no-cache, private"))
_FORWARDING: Final = ("", "pods", portforward.SUBRESOURCE)
_FORWARDING_VERBS: Final = ("create", "get")
_READERS: Final = ("curl", "Wget", "Mozilla/5.0")
_TRUE: Final = frozenset(("1", "t", "T", "true", "True", "TRUE"))


class WatchItem(Protocol):
    def pieces(self) -> Sequence[bytes]: ...


class WatchStream(Protocol):
    async def batch(self) -> Sequence[WatchItem]: ...
    def close(self) -> None: ...


class Backend(Protocol):
    """What is served: `kube.server.api.Api`."""

    async def call(self, call: Call) -> Reply: ...
    async def watch(self, call: Call) -> WatchStream: ...
    def authorize(self, call: Call) -> None: ...
    def check(self, call: Call) -> None: ...
    def size(self, call: Call) -> int: ...
    def document(self, path: str, accept: str) -> Document | None: ...
    def paths(self) -> list[str]: ...


class Application:
    def __init__(
        self,
        backend: Backend,
        authenticator: Authenticator,
        authorizer: Authorizer,
        health: HealthPaths,
        metrics: RequestMetrics,
        offered: Operations,
        share: Share,
        audit: AuditLog | None,
        forwards: Forwards | None = None,
    ) -> None:
        self._backend = backend
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._health = health
        self._metrics = metrics
        self._operations = offered
        self._share = share
        self._reading, self._writing = share.shares.reading, share.shares.writing
        self._watching = share.shares.watching
        self._audit = audit
        self._forwards = forwards

    async def __call__(self, exchange: Exchange) -> None:
        request = Request(exchange)
        started = time.perf_counter()
        labels: Labels = (request.method, "", "", "")
        flow: Flow | None = None
        seats: Seats | None = None
        failure = ""
        try:
            user = self._authenticate(request)
            request.acting = user
            exchange.flow = flow = self._share.flow(request.authenticated or user)
            options = routing.query(request.query_string) if request.query_string else {}
            route = routing.route(request.method, request.path, options)
            request.route = route
            operation = self._operations.get(request.path) if route is None else None
            if operation is not None:
                operations.authorize(operation, user, request.method, request.path, options, self._authorizer)
                request.decision = "allow"
                if operation.about is not None:
                    if not flow.enters(self._reading):
                        await flow.wait(self._reading)
                    seats = self._reading
                answer = await operations.perform(operation, options, exchange)
                if answer is None:
                    self._log(request, 200)
                    return
            elif route is None:
                if not flow.enters(self._reading):
                    await flow.wait(self._reading)
                seats = self._reading
                answer = await self._path(request, user, options)
            else:
                call = Call(
                    route.verb,
                    route.group,
                    route.version,
                    route.plural,
                    user,
                    route.namespace,
                    route.name,
                    route.subresource,
                    options,
                    regular=route.regular,
                    flow=flow,
                )
                request.call = call
                self._backend.authorize(call)
                request.decision = "allow"
                if self._forwards is not None and _asks_for_port(route):
                    await self._forward(request, call, flow, self._forwards)
                    return
                self._backend.check(call)
                labels = (route.verb.upper(), *_resource(call))
                is_custom = route.group not in tables.groups()
                accepted = negotiation.of_resource(request.header(b"accept"), custom=is_custom, verb=route.verb)
                call.representation, call.meta_version = accepted.representation, accepted.meta_version
                if route.verb == "watch":
                    await self._watch(request, call, flow, labels)
                    return
                if route.verb in _BODY_VERBS:
                    await _read_body(request, call, options)
                wanted = self._reading if route.verb in _READING_VERBS else self._writing
                if not flow.enters(wanted):
                    await flow.wait(wanted)
                seats = wanted
                if wanted is self._writing and self._is_large(call):
                    async with flow.large():
                        reply = await self._perform(call)
                else:
                    reply = await self._perform(call)
                pretty = accepted.pretty or request.is_pretty(options)
                if reply.listing is not None:
                    answer = await answers.of_listing(reply, reply.listing, accepted.format, flow, pretty=pretty)
                elif accepted.format == "json" and not pretty:
                    answer = answers.of_reply(reply)
                else:
                    answer = await answers.in_form(reply, accepted.format, flow, pretty=pretty)
        except Disconnected:
            return
        except Exception as error:
            if not isinstance(error, errors.ApiError):
                logger.exception("request failed", extra={"method": request.method, "path": request.path})
            if isinstance(error, errors.Forbidden) and not request.decision:
                request.decision = "forbid"
                labels = self._labels(request)
            failure = error.reason if isinstance(error, errors.ApiError) else "InternalError"
            answer = answers.of_error(error, request.header(b"accept"))
            errors.forget_frames(error)
        finally:
            if seats is not None and flow is not None:
                flow.leave(seats)
        await request.answer(answer)
        self._log(request, answer.code, failure)
        self._metrics.record(labels, answer.code, time.perf_counter() - started)

    def _is_large(self, call: Call) -> bool:
        """Whether it brings or changes much."""
        if call.payload is not None and len(call.payload.data) > budgets.LARGE_BYTES:
            return True
        return bool(call.name) and self._backend.size(call) > budgets.LARGE_BYTES

    async def _perform(self, call: Call) -> Reply:
        payload = call.payload
        if payload is not None and not bodies.is_short_yaml(payload.data):
            await bodies.prepare(call, payload)
        return await self._backend.call(call)

    async def _watch(self, request: Request, call: Call, flow: Flow, labels: Labels) -> None:
        if not flow.enters(self._watching):
            await flow.wait(self._watching)
        try:
            stream = await self._backend.watch(call)
        finally:
            flow.leave(self._watching)
        await _stream(request, stream)
        self._metrics.count(labels, 200)
        self._log(request, 200)

    async def _forward(self, request: Request, call: Call, flow: Flow, forwards: Forwards) -> None:
        """Of a pod that is there. It starts when it is its turn, and is in the log when it ends, as a watch is."""
        if not flow.enters(self._watching):
            await flow.wait(self._watching)
        flow.leave(self._watching)
        pod = Call("get", call.group, call.version, call.plural, call.user, call.namespace, call.name, flow=call.flow)
        pod.is_authorized = True
        await self._backend.call(pod)
        await forwards.serve(request.exchange, call.namespace, call.name, request.named)
        self._log(request, 101)

    def _labels(self, request: Request) -> Labels:
        """Of a request that was refused before anybody asked whether there is what it names."""
        call = request.call
        if call is not None:
            with contextlib.suppress(errors.ApiError):
                self._backend.check(call)
                return (call.verb.upper(), *_resource(call))
        return request.method, "", "", ""

    def _log(self, request: Request, code: int, failure: str = "") -> None:
        if self._audit is not None:
            self._audit.record(request.entry(code, failure))

    def _authenticate(self, request: Request) -> User:
        user = request.exchange.connection.certificate_user()
        if user is None:
            token = authn.bearer_token(request.header(b"authorization"))
            if token == "":
                request.warnings = (authn.EXTRA_SPACE,)
            if token:
                user = self._authenticator.token(token)
            elif request.exchange.connection.is_refused:
                raise authn.unauthorized()
            else:
                user = authn.ANONYMOUS
        request.authenticated = user
        if request.impersonates:
            user = impersonation.acting_user(self._authorizer, user, request.headers, request.uri)
        return user

    async def _path(self, request: Request, user: User, options: dict[str, str]) -> Answer:
        """A path that names no resource: health and such, discovery, OpenAPI."""
        method, path, accept = request.method, request.path, request.header(b"accept")
        authz.authorize_path(self._authorizer, user, method, path)
        request.decision = "allow"
        answer = self._health.answer(method, path, request.query_string, accept)
        if answer is not None:
            return answer
        if path in _INDEX:
            return self._index()
        document = await self._document(path, accept)
        if document is None:
            raise routing.not_found(path)
        return documents.answer(document, method, path, options, accept, request.header(b"if-none-match"))

    def _index(self) -> Answer:
        """Every path that is no resource, whatever the method and the form that is asked for; it is read by people."""
        paths = sorted({*self._health.paths, *self._backend.paths()})
        return Answer(200, orjson.dumps({"paths": paths}, option=orjson.OPT_INDENT_2))

    async def _document(self, path: str, accept: str) -> Document | None:
        """OpenAPI of hundreds of definitions takes seconds to encode, once; others are served meanwhile."""
        if not path.startswith(_OPENAPI):
            return self._backend.document(path, accept)
        return await asyncio.get_running_loop().run_in_executor(_encoder(), self._backend.document, path, accept)


@functools.cache
def _encoder() -> ThreadPoolExecutor:
    """One thread for all servers of the process, so that nothing is encoded twice at the same time."""
    return ThreadPoolExecutor(1, "openapi")


class Request:
    """An exchange and what is found out about it on the way."""

    __slots__ = (
        "_headers", "acting", "authenticated", "call", "decision", "exchange", "headers", "method", "path",
        "query_string", "received", "route", "user_agent", "warnings",
    )  # fmt: skip

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.method = exchange.method
        self.path = exchange.path
        self.query_string = exchange.query
        self.received = time.time()
        self.authenticated: User | None = None
        """Whom the credentials name."""
        self.acting: User | None = None
        """Whose rights count: the same, unless somebody else is impersonated."""
        self.route: Route | None = None
        self.call: Call | None = None
        self.decision = ""
        self.warnings: tuple[str, ...] = ()
        """About the request itself, whatever comes of it."""
        self.headers = exchange.headers
        self._headers = dict(exchange.headers)
        if len(self._headers) < len(exchange.headers):
            self._headers = _joined(exchange.headers)
        self.user_agent = self.header(b"user-agent")

    @property
    def uri(self) -> str:
        return f"{self.path}?{self.query_string.decode('latin-1')}" if self.query_string else self.path

    @property
    def named(self) -> Mapping[bytes, bytes]:
        """The headers by name, in lower case."""
        return self._headers

    @property
    def impersonates(self) -> bool:
        for name in self._headers:  # noqa: SIM110 (every request is asked this; a generator takes longer)
            if name.startswith(impersonation.PREFIX):
                return True
        return False

    def is_pretty(self, options: dict[str, str]) -> bool:
        """Said, or meant: who calls with curl reads the answer."""
        said = options.get("pretty", "") if options else ""
        if said:
            return said in _TRUE
        return self.user_agent.startswith(_READERS)

    def header(self, name: bytes) -> str:
        return self._headers.get(name, b"")[: budgets.MAX_FIELD_BYTES].decode("latin-1")

    async def body(self) -> bytes:
        """Raises TooLarge as soon as that is known; what the client still sends is then read and dropped."""
        length = self.header(b"content-length")
        if length.isdigit() and int(length) > budgets.MAX_BODY_BYTES:
            raise budgets.too_large()
        return await self.exchange.body()

    def entry(self, code: int, failure: str) -> audit.Entry:
        return audit.Entry(
            self.method,
            self.path,
            self.query_string,
            self.authenticated,
            self.acting if self.acting is not self.authenticated else None,
            self.exchange.connection.source,
            self.user_agent,
            self.route,
            self.decision,
            code,
            failure,
            self.received,
            time.time(),
            self.call.annotations if self.call is not None else None,
        )

    async def answer(self, answer: Answer) -> None:
        if self.warnings:
            answer = answers.with_warnings(answer, self.warnings)
        if answer.rest is not None or len(answer.body) > answers.COMPRESS_FROM:
            answer = await answers.compressed(answer, self.header(b"accept-encoding"))
        if answer.rest is None:
            await self.exchange.respond(answer.code, answer.head(), answer.body)
        else:
            await self.exchange.stream(answer.code, answer.head(), answer.rest, answer.held)


def _joined(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """A header given several times means the same as one that lists all values."""
    given: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        given.setdefault(name, []).append(value)
    return {name: b", ".join(values) for name, values in given.items()}


async def _read_body(request: Request, call: Call, options: dict[str, str]) -> None:
    body = await request.body()
    if body or call.verb not in _MAY_BE_EMPTY:
        call.payload = Payload(request.header(b"content-type"), body)
    if call.verb in _MANAGED_VERBS and "fieldManager" not in options:
        # Who names no field manager is known by the name of its program.
        options["userAgent"] = request.user_agent


async def _stream(request: Request, stream: WatchStream) -> None:
    """One line per event until the stream ends or the client leaves; an error on the way is the last event."""
    exchange = request.exchange
    exchange.connection.on_end = stream.close
    try:
        await exchange.begin(200, _STREAM_HEADERS)
        try:
            while items := await stream.batch():
                await _send_lines(exchange, items)
        except Exception as error:
            if not isinstance(error, errors.ApiError):
                logger.exception("watch failed", extra={"path": request.path})
            await exchange.send(orjson.dumps({"type": "ERROR", "object": errors.of(error)}) + b"\n")
        await exchange.end()
    finally:
        exchange.connection.on_end = None
        stream.close()


async def _send_lines(exchange: Exchange, items: Sequence[WatchItem]) -> None:
    """Small lines go out together; a large one consists of pieces that all watchers share."""
    waiting: list[bytes] = []
    size = 0
    for item in items:
        pieces = item.pieces()
        waiting += pieces
        size += sum(map(len, pieces))
        if size >= _BYTES_AT_ONCE:
            await exchange.send_pieces(waiting, size)
            if exchange.is_gone:
                return
            await turns.take(turns.TELLING, exchange.flow)
            waiting, size = [], 0
    await exchange.send_pieces(waiting, size)


def _asks_for_port(route: Route) -> bool:
    return (route.group, route.plural, route.subresource) == _FORWARDING and route.verb in _FORWARDING_VERBS


def _resource(call: Call) -> tuple[str, str, str]:
    return call.group, call.version, f"{call.plural}/{call.subresource}" if call.subresource else call.plural
