"""A webhook on loopback with a certificate of its own; it does what a test says and remembers what it was sent."""

from __future__ import annotations

import base64
import contextlib
import datetime
import ssl
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from steelyard.kube import pki
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair
from steelyard.kube.resources import Resource

NOW = datetime.datetime.now(datetime.UTC)
AUTHORITY = pki.new_authority("webhook-ca", now=NOW)
OTHER_AUTHORITY = pki.new_authority("another-ca", now=NOW)
SERVING = pki.issue_serving(AUTHORITY, "hook", ["127.0.0.1", "localhost", "hook.default.svc"], now=NOW)
MUTATING = Resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations",
                    "MutatingWebhookConfiguration", namespaced=False)  # fmt: skip
VALIDATING = Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations",
                      "ValidatingWebhookConfiguration", namespaced=False)  # fmt: skip

Answer = Callable[[Object], Object | Awaitable[Object]]
"""From the `request` of a review to its `response`, without the uid."""


@dataclass
class Hooks:
    """Answers by path; a path without an answer allows everything."""

    port: int = 0
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    raw: dict[str, web.Response] = field(default_factory=dict[str, web.Response])
    requests: list[tuple[str, Object]] = field(default_factory=list[tuple[str, Object]])
    connections: set[Any] = field(default_factory=set[Any])

    def url(self, path: str = "/") -> str:
        return f"https://127.0.0.1:{self.port}{path}"

    def client_config(self, path: str = "/", authority: KeyPair = AUTHORITY) -> Object:
        return {"url": self.url(path), "caBundle": base64.b64encode(authority.certificate).decode()}

    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def last(self) -> Object:
        return self.requests[-1][1]

    async def handle(self, request: web.Request) -> web.Response:
        self.connections.add(request.transport)
        review: Object = await request.json(loads=orjson.loads)
        self.requests.append((request.path, review["request"]))
        if request.path in self.raw:
            return self.raw[request.path]
        answer = self.answers.get(request.path, allow)(review["request"])
        response = await answer if isinstance(answer, Awaitable) else answer
        body = {
            "apiVersion": review["apiVersion"],
            "kind": review["kind"],
            "response": {"uid": review["request"]["uid"], **response},
        }
        return web.Response(body=orjson.dumps(body), content_type="application/json")


@contextlib.asynccontextmanager
async def listening() -> AsyncGenerator[Hooks]:
    hooks = Hooks()
    application = web.Application()
    application.router.add_post("/{path:.*}", hooks.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=_serving_context())
    await site.start()
    [address] = runner.addresses
    hooks.port = address[1]
    try:
        yield hooks
    finally:
        await runner.cleanup()


def _serving_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(SERVING.certificate + SERVING.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def allow(request: Object) -> Object:
    del request
    return {"allowed": True}


def deny(**status: Any) -> Answer:
    return lambda request: {"allowed": False, "status": status} if status else {"allowed": False}


def patch(*operations: Object) -> Answer:
    encoded = base64.b64encode(orjson.dumps(operations)).decode()
    return lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def put(path: str, value: Any) -> Answer:
    return patch({"op": "add", "path": path, "value": value})


def rule(resource: Resource, *operations: str, subresource: str = "", version: str = "") -> Object:
    return {
        "apiGroups": [resource.group],
        "apiVersions": [version or resource.version],
        "resources": [f"{resource.plural}/{subresource}" if subresource else resource.plural],
        "operations": list(operations) or ["CREATE", "UPDATE"],
    }


def hook(name: str, client_config: Object, *rules: Object, **more: Any) -> Object:
    return {
        "name": f"{name}.example.com",
        "clientConfig": client_config,
        "rules": list(rules),
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


def configuration(resource: Resource, name: str, *hooks: Object) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "webhooks": list(hooks),
    }
