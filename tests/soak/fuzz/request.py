"""One request as the bytes that are sent: whatever a mutation makes of it, nothing corrects it on the way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import quote

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: Pairs = ()
    headers: Pairs = ()
    body: bytes | None = None
    raw: bytes | None = None
    """Sent as it is, in place of everything else."""

    def encoded(self, token: str) -> bytes:
        """Authorization is added unless the headers say something else about it."""
        if self.raw is not None:
            return self.raw.replace(b"$TOKEN", token.encode())
        target = self.path
        if self.query:
            target += "?" + "&".join(f"{_escaped(name)}={_escaped(value)}" for name, value in self.query)
        lines = [f"{self.method} {target} HTTP/1.1", "Host: localhost"]
        names = {name.lower() for name, _ in self.headers}
        if "authorization" not in names:
            lines.append(f"Authorization: Bearer {token}")
        if self.body is not None and not names & {"content-length", "transfer-encoding"}:
            lines.append(f"Content-Length: {len(self.body)}")
        lines += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + (self.body or b"")

    def with_header(self, name: str, value: str) -> Request:
        kept = tuple(pair for pair in self.headers if pair[0].lower() != name.lower())
        return replace(self, headers=(*kept, (name, value)))


def _escaped(text: str) -> str:
    """What is escaped already stays as it is, well or badly."""
    return quote(text, safe="%/=,!()'*:;@$~+")
