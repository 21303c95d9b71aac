"""Calling a webhook: one HTTPS request with a JSON document, one JSON document back, within a time.

Nothing of what can go wrong escapes as anything but `CallFailed`, whose text is what kube-apiserver's client says of
the same. Connections are kept and used again.

Where the reach is limited (`reach`), redirects are not followed, and everything that can happen before a webhook has
answered is told in the same words, so that nobody learns from them which ports of others are open; the cause goes to
the platform's log.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import os
import ssl
import time
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from steelyard.kube import fields, objects, pki, plainyaml
from steelyard.kube.runtime import logs
from steelyard.kube.server.space import keys
from steelyard.kube.server.webhooks import gowords
from steelyard.kube.server.webhooks import reach as reaches
from steelyard.kube.server.webhooks.clientconfig import ClientConfig, ServiceReference
from steelyard.kube.server.webhooks.reach import Reach
from steelyard.kube.store.store import Store

if TYPE_CHECKING:
    import aiohttp

_LARGEST_ANSWER: Final = 16 << 20
_LARGEST_YAML: Final = 256 << 10
"""What is no JSON is most likely nothing: reading this much as YAML takes milliseconds, more would be felt."""
_KEPT_SECONDS: Final = 30.0
_AT_ONCE: Final = 16
"""Calls of one server with limited reach, and so answers of it in memory; more wait for their turn."""
_LOG_SECONDS: Final = 60.0
_LONGEST_LOGGED: Final = 200
_UNANSWERED: Final = (
    "no answer: the address is not reachable, or what listens there is no webhook with a trusted certificate that "
    "answers in time"
)
_SLICE_LABEL: Final = "kubernetes.io/service-name"
_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21})
_STATUS_TEXTS: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    405: "the server does not allow this method on the requested resource",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


_log = logs.get(__name__)


class CallFailed(Exception):
    """The webhook could not be asked, or gave no answer that can be read."""


class Caller:
    """Calls the webhooks of one server, and follows where they redirect, as upstream's client does.

    Costs nothing until the first call; end it with `close`.
    """

    __slots__ = ("_log_after", "_reach", "_session", "_space", "_store", "_turn")

    def __init__(self, store: Store, space: str, reach: Reach = reaches.ANYWHERE) -> None:
        self._store = store
        self._space = space
        self._reach = reach
        self._session: aiohttp.ClientSession | None = None
        self._turn: AbstractAsyncContextManager[object] = contextlib.nullcontext()
        self._log_after = 0.0

    async def post(self, client_config: ClientConfig, document: Any, timeout: float) -> Any:
        """The answer, decoded, which is of the kind that was sent or names none. Raises CallFailed."""
        url = f"{client_config.url}?timeout={round(timeout)}s"
        self._open()
        try:
            async with asyncio.timeout(timeout), self._turn:
                answer = await self._post(client_config, url, orjson.dumps(document))
                if problem := gowords.kind_problem(document, answer):
                    raise CallFailed(problem)
                return answer
        except TimeoutError:
            raise self._unanswered(url, "context deadline exceeded") from None

    def _unanswered(self, url: str, cause: str) -> CallFailed:
        if not self._reach.is_limited:
            return CallFailed(f'Post "{url}": {cause}')
        now = time.monotonic()
        if now >= self._log_after:
            self._log_after = now + _LOG_SECONDS
            _log.warning("webhook not answered", cluster=self._space, url=url[:_LONGEST_LOGGED], cause=cause)
        return CallFailed(f'Post "{url}": {_UNANSWERED}')

    async def _post(self, client_config: ClientConfig, url: str, body: bytes) -> Any:
        import aiohttp

        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        target, server_name = url, None
        service = client_config.service
        if service is not None:
            server_name = service.host
            headers["Host"] = f"{server_name}:{service.port}"
            target = url.replace(f"{server_name}:{service.port}", self._address(service, url), 1)
        try:
            context = _context(client_config.authority)
        except (ssl.SSLError, ValueError):
            raise CallFailed(
                f'Post "{url}": unable to load root certificates: unable to parse bytes as PEM block'
            ) from None
        try:
            async with self._open().post(
                target,
                data=body,
                headers=headers,
                ssl=context,
                server_hostname=server_name,
                allow_redirects=not self._reach.is_limited,
            ) as response:
                return await _read(response, url)
        except aiohttp.ClientConnectorCertificateError as error:
            cause = str(error) if self._reach.is_limited else await _untrusted(error)
        except aiohttp.ClientConnectorError as error:
            reason = os.strerror(error.os_error.errno).lower() if error.os_error.errno else str(error.os_error)
            cause = f"dial tcp {error.host}:{error.port}: connect: {reason}"
        except aiohttp.ServerDisconnectedError:
            cause = "EOF"
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            cause = str(error)
        raise self._unanswered(url, cause)

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is not None:
            return self._session
        is_limited = self._reach.is_limited
        if is_limited:
            self._turn = asyncio.Semaphore(_AT_ONCE)
            connector = aiohttp.TCPConnector(
                limit=0, force_close=True, resolver=cast(Any, reaches.Resolver()), socket_factory=self._reach.socket_to
            )
        else:
            connector = aiohttp.TCPConnector(keepalive_timeout=_KEPT_SECONDS, limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(),
            cookie_jar=aiohttp.DummyCookieJar(),
            # What unpacks to more than was sent is not asked for, nor taken.
            headers={"Accept-Encoding": "identity"} if is_limited else None,
            auto_decompress=not is_limited,
        )
        return self._session

    def _address(self, reference: ServiceReference, url: str) -> str:
        """Where the service can be reached: its external name, an address in its endpoint slices, its cluster IP."""
        key = keys.collection(self._space, "", "services", reference.namespace) + reference.name
        record = self._store.get(key)
        if record is None:
            raise CallFailed(f'Post "{url}": service "{reference.name}" not found')
        spec = objects.mapping(record.object.get("spec"))
        if spec.get("type") == "ExternalName":
            return f"{spec.get('externalName')}:{reference.port}"
        ports = [objects.mapping(port) for port in objects.sequence(spec.get("ports"))]
        port = next((port for port in ports if port.get("port") == reference.port), None)
        if port is None:
            text = f'no service port {reference.port} found for service "{reference.name}"'
            raise CallFailed(f'Post "{url}": {text}')
        return self._backing(reference, str(port.get("name") or "")) or self._cluster_ip(reference, spec, url)

    def _backing(self, reference: ServiceReference, port_name: str) -> str:
        prefix = keys.collection(self._space, "discovery.k8s.io", "endpointslices", reference.namespace)
        for record in self._store.scan(prefix):
            if objects.labels(record.object).get(_SLICE_LABEL) != reference.name:
                continue
            for port in map(objects.mapping, objects.sequence(record.object.get("ports"))):
                if str(port.get("name") or "") != port_name:
                    continue
                for each in map(objects.mapping, objects.sequence(record.object.get("endpoints"))):
                    addresses = objects.sequence(each.get("addresses"))
                    if addresses and objects.at(each, "conditions", "ready") is not False:
                        return _host_port(str(addresses[0]), port.get("port"))
        return ""

    def _cluster_ip(self, reference: ServiceReference, spec: objects.Object, url: str) -> str:
        address = str(spec.get("clusterIP") or "")
        if address in ("", "None"):
            text = f'no endpoints available for service "{reference.name}"'
            raise CallFailed(f'Post "{url}": {text}')
        return _host_port(address, reference.port)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _host_port(address: str, port: Any) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


async def _read(response: aiohttp.ClientResponse, url: str) -> Any:
    body = await response.content.read(_LARGEST_ANSWER + 1)
    while len(body) <= _LARGEST_ANSWER and not response.content.at_eof():
        body += await response.content.read(_LARGEST_ANSWER + 1 - len(body))
    if len(body) > _LARGEST_ANSWER:
        raise CallFailed(f'Post "{url}": the answer is larger than {_LARGEST_ANSWER} bytes')
    if not 200 <= response.status < 300:
        raise CallFailed(_failure(response, body))
    if not body:
        given = response.headers.get("Content-Type", "")
        raise CallFailed(f"0-length response with status code: {response.status} and content type: {given}")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return _as_yaml(body, error)


def _failure(response: aiohttp.ClientResponse, body: bytes) -> str:
    """What upstream's client makes of an answer that is neither a success nor a Status."""
    is_text = response.headers.get("Content-Type", "").partition("/")[0] in ("", "text")
    said = body.decode("utf-8", "replace").strip() if is_text else "unknown"
    if response.status in (403, 406, 415):
        return said
    if response.status in _STATUS_TEXTS:
        return _STATUS_TEXTS[response.status]
    if response.status >= 500:
        return f"an error on the server ({fields.quote(said)}) has prevented the request from succeeding"
    return f"the server responded with the status code {response.status} but did not return more information"


def _as_yaml(body: bytes, error: ValueError) -> Any:
    """Upstream reads what is no JSON as YAML, of which nearly every text is some."""
    try:
        return plainyaml.load(body, max_bytes=_LARGEST_YAML)
    except plainyaml.Unreadable:
        raise CallFailed(f"couldn't get version/kind; json parse error: {gowords.json_error(error)}") from None


async def _untrusted(failure: aiohttp.ClientConnectorCertificateError) -> str:
    error = failure.certificate_error
    if isinstance(error, ssl.SSLCertVerificationError):
        match error.verify_code:
            case code if code in _UNKNOWN_AUTHORITY:
                detail = "x509: certificate signed by unknown authority"
            case 9 | 10:
                detail = "x509: certificate has expired or is not yet valid"
            case 62 | 64:
                detail = f"x509: {await _wrong_host(failure.host, failure.port)}"
            case _:
                detail = f"x509: {error.verify_message}"
        return f"tls: failed to verify certificate: {detail}"
    return f"tls: {error}"


async def _wrong_host(host: str, port: int | None) -> str:
    """The names that the certificate is for instead, which ssl does not tell; so the server is asked once more."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    names: list[str] = []
    try:
        _, writer = await asyncio.open_connection(host, port, ssl=context)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        names = pki.hosts_of(ssl.DER_cert_to_PEM_cert(shown).encode())
    except (OSError, ValueError):
        pass
    if names_address := _is_address(host):
        names = [name for name in names if _is_address(name)]
        if not names:
            return f"cannot validate certificate for {host} because it doesn't contain any IP SANs"
    names = names if names_address else [name for name in names if not _is_address(name)]
    if not names:
        return f"certificate is not valid for any names, but wanted to match {host}"
    return f"certificate is valid for {', '.join(names)}, not {host}"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@functools.lru_cache(maxsize=256)
def _context(authority: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if authority:
        context.load_verify_locations(cadata=authority.decode())
    else:
        context.load_default_certs()
    return context
