"""Where a webhook listens, as a configuration or a definition says it: a URL, or a service of this server.

The rules for what may be written there are upstream's, with its words.
"""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from steelyard.frozen import frozen
from steelyard.kube import fields, namerules, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object

_FORM: Final = "; desired format: https://host[/path]"


@frozen
class ServiceReference:
    namespace: str
    name: str
    port: int
    path: str

    @property
    def host(self) -> str:
        """The name that the webhook's certificate must be for."""
        return f"{self.name}.{self.namespace}.svc"


@frozen
class ClientConfig:
    url: str
    service: ServiceReference | None
    authority: bytes
    """PEM of those who may have signed the webhook's certificate; empty for those the system trusts."""


def parse(client_config: Object) -> ClientConfig:
    bundle = client_config.get("caBundle")
    try:
        authority = base64.b64decode(str(bundle)) if bundle else b""
    except binascii.Error:
        authority = b"-"
    reference = objects.mapping(client_config.get("service"))
    if not reference:
        return ClientConfig(str(client_config.get("url") or ""), None, authority)
    path = str(reference.get("path") or "/")
    service = ServiceReference(
        str(reference.get("namespace") or ""),
        str(reference.get("name") or ""),
        int(reference.get("port") or 443),
        path if path.startswith("/") else f"/{path}",
    )
    return ClientConfig(f"https://{service.host}:{service.port}{service.path}", service, authority)


def validate(client_config: Object, place: str) -> Iterable[Cause]:
    url, service = client_config.get("url"), client_config.get("service")
    if (url is None) == (service is None):
        yield fields.required(place, "exactly one of url or service is required")
    elif url is not None:
        yield from _validate_url(str(url), f"{place}.url")
    else:
        yield from _validate_service(objects.mapping(service), f"{place}.service")


def _validate_url(url: str, place: str) -> Iterable[Cause]:
    if wrong := _unreadable(url):
        text = f"url must be a valid URL: parse {fields.quote(url)}: {wrong}{_FORM}"
        yield fields.required(place, text)
        return
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    if parts.scheme != "https":
        yield fields.invalid(place, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not host:
        yield fields.invalid(place, host, f"host must be specified{_FORM}")
    if user:
        yield fields.invalid(place, user, "user information is not permitted in the URL")
    if parts.fragment:
        yield fields.invalid(place, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield fields.invalid(place, parts.query, "query parameters are not permitted in the URL")


def _unreadable(url: str) -> str:
    """Why Go cannot read the URL; nothing if it can."""
    if any(ord(each) < 0x20 or ord(each) == 0x7F for each in url):
        return "net/url: invalid control character in URL"
    if url.startswith(":"):
        return "missing protocol scheme"
    scheme, _, rest = url.partition("://")
    authority = re.split("[/?#]", rest, maxsplit=1)[0].rpartition("@")[2] if scheme != url else ""
    if escape := re.search(r"%(?![0-9A-Fa-f]{2}).{0,2}", url):
        return f"invalid URL escape {fields.quote(escape[0])}"
    if wrong := re.search(r"[ \"<>^`{|}\\]", authority):
        return f"invalid character {fields.quote(wrong[0])} in host name"
    if authority.startswith("[") and "]" not in authority:
        return "missing ']' in host"
    port = authority.rpartition("]")[2] if "]" in authority else authority
    _, colon, number = port.partition(":")
    if colon and not re.fullmatch("[0-9]*", number):
        return f"invalid port {fields.quote(':' + number)} after host"
    return ""


def validate_authority(client_config: Object, place: str) -> Iterable[Cause]:
    """Whether the `caBundle` holds certificates: asked of definitions, not of webhook configurations."""
    bundle = client_config.get("caBundle")
    if not bundle:
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=base64.b64decode(str(bundle)).decode("ascii"))
    except (ssl.SSLError, ValueError):
        text = "unable to load root certificates: unable to parse bytes as PEM block"
        yield fields.invalid(f"{place}.caBundle", bundle, text)


def _validate_service(service: Object, place: str) -> Iterable[Cause]:
    # Upstream confuses the two names when it complains, and tools have read its complaints ever since.
    if not service.get("namespace"):
        yield fields.required(f"{place}.name")
    if not service.get("name"):
        yield fields.required(f"{place}.namespace")
    port = int(service.get("port") or 0)
    if wrong := namerules.port_number(port):
        yield fields.invalid(f"{place}.port", port, f"port is not valid: {', '.join(wrong)}")
    path = str(service.get("path") or "")
    if path in ("", "/"):
        return
    place = f"{place}.path"
    if path == "//":
        yield fields.invalid(place, path, "segment[0] may not be empty")
        return
    if not path.startswith("/"):
        yield fields.invalid(place, path, "must start with a '/'")
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            yield fields.invalid(place, path, f"segment[{index}] may not be empty")
        else:
            for text in namerules.dns_subdomain(step):
                yield fields.invalid(place, path, f"segment[{index}]: {text}")
