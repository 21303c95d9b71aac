"""Who is who in a run, and where: alike for our platform and kube-apiserver, and handed to other processes as JSON."""

from __future__ import annotations

import dataclasses
import functools
import json
import ssl
from dataclasses import dataclass
from typing import Any, Final

JSON: Final = "application/json"
THEIRS: Final = "theirs"
"""The namespace in which the hostile user may edit."""
PEACEFUL: Final = "peaceful"
"""The innocent's namespace."""
KNOWN: Final = "known"
"""The ConfigMap that the innocent gets."""
CROWD: Final = 5000
"""ConfigMaps that are in the hostile namespace from the start, for whatever costs per object."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A server, and how somebody shows there who they are; with neither token nor certificate they are a stranger."""

    host: str
    port: int
    token: str = ""
    certificate: str = ""
    """The path of a file with certificate and key."""

    def tls(self) -> ssl.SSLContext:
        return _context(self.certificate)

    def head(self, method: str, path: str, *headers: str) -> bytes:
        """Everything up to the empty line, which it does not include."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}:{self.port}", *headers]
        if not any(each.startswith("Accept:") for each in headers):
            lines.append(f"Accept: {JSON}")
        if self.token:
            lines.append(f"Authorization: Bearer {self.token}")
        return "\r\n".join(lines).encode() + b"\r\n"

    def request(self, method: str, path: str, body: bytes = b"", content_type: str = JSON, *headers: str) -> bytes:
        sized = (f"Content-Type: {content_type}", f"Content-Length: {len(body)}") if body else ()
        return self.head(method, path, *sized, *headers) + b"\r\n" + body


@functools.cache
def _context(certificate: str) -> ssl.SSLContext:
    """Who the server is, is not asked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate:
        context.load_cert_chain(certificate)
    return context


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    stranger: Identity
    user: Identity
    """May edit in the hostile namespace, and nothing else."""
    tenant: Identity
    """Administrator of a cluster of their own. Upstream has no such thing: there it is one of the server itself."""
    admin: Identity
    innocent: Identity
    """May edit in a namespace of its own."""
    neighbour: Identity
    """Administrator of yet another cluster."""
    processes: tuple[int, ...]
    """Of the server; what they start counts as well."""

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Field:
        fields: dict[str, Any] = json.loads(text)
        name, processes = fields.pop("name"), tuple(fields.pop("processes"))
        return Field(name=name, processes=processes, **{key: Identity(**value) for key, value in fields.items()})


def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def config_map(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **more}
