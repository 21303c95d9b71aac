"""A Vault that does what a real one does only when it is broken: answers late, with rubbish, halfway, or elsewhere.

It keeps a key-value engine in a dictionary; `faults` are taken one by one, each for the next request that it fits.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    delay: float = 0.0
    is_cut: bool = False
    """Whether the connection ends in the middle."""


@dataclass
class Fault:
    fits: Callable[[str, str], bool]
    """Method and path."""
    answer: Answer
    times: int = 1


@dataclass
class FaultyVault:
    address: str = ""
    data: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    versions: dict[str, int] = field(default_factory=dict[str, int])
    marks: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    faults: list[Fault] = field(default_factory=list[Fault])
    requests: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    tokens: list[str] = field(default_factory=list[str])

    def answer(self, method: str, path: str, body: Any) -> Answer:
        self.requests.append((method, path))
        for fault in self.faults:
            if fault.times and fault.fits(method, path):
                fault.times -= 1
                return fault.answer
        if path == "auth/token/lookup-self":
            return Answer(body={"data": {"ttl": 0, "renewable": False}})
        kind, _, name = path.removeprefix("secret/").partition("/")
        if kind == "metadata":
            return self._metadata(method, name, body)
        return self._data(method, name, body)

    def _metadata(self, method: str, name: str, body: Any) -> Answer:
        if method == "POST":
            self.marks[name] = dict(body["custom_metadata"])
            return Answer(204)
        if method == "DELETE":
            for kept in (self.data, self.versions, self.marks):
                kept.pop(name, None)
            return Answer(204)
        if name not in self.marks and name not in self.versions:
            return Answer(404, {"errors": []})
        return Answer(body={"data": {"current_version": self.versions.get(name, 0)}})

    def _data(self, method: str, name: str, body: Any) -> Answer:
        if method == "GET":
            if name not in self.data:
                return Answer(404, {"errors": []})
            metadata = {"version": self.versions[name], "custom_metadata": self.marks.get(name)}
            return Answer(body={"data": {"data": self.data[name], "metadata": metadata}})
        wanted = body.get("options", {}).get("cas")
        if wanted is not None and wanted != self.versions.get(name, 0):
            return Answer(400, {"errors": ["check-and-set parameter did not match the current version"]})
        self.data[name] = dict(body["data"])
        self.versions[name] = self.versions.get(name, 0) + 1
        return Answer(body={"data": {"version": self.versions[name]}})


@contextlib.contextmanager
def serving() -> Generator[FaultyVault]:
    vault, turns = FaultyVault(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"null")
            vault.tokens.append(self.headers.get("X-Vault-Token") or "")
            with turns:
                given = vault.answer(self.command, self.path.removeprefix("/v1/"), body)
            time.sleep(given.delay)
            text = given.body if isinstance(given.body, bytes) else json.dumps(given.body).encode()
            self.send_response(given.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text) + (10 if given.is_cut else 0)))
            for name, value in given.headers.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(text)

        do_GET = do_POST = do_DELETE = do_LIST = _serve  # noqa: N815 (as the library calls them)

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    vault.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield vault
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
