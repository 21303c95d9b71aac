"""Webhooks for both servers to call: what one answers is in its path, so that a sequence chooses it in a configuration.

    /allow  /deny/403/not-here  /warn  /patch/label/a/b  /slow  /garbage  /convert  …

One instance serves both sides, so that addresses in messages are the same. It listens on loopback with a certificate of
its own authority; `$HOOK` and `$HOOKCA` are its address and the authority for a `caBundle`, `$OTHERCA` is one that did
not sign it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import json
import ssl
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from aiohttp import web

from steelyard.kube import pki
from steelyard.kube.server.transport import tlsfiles

Review = dict[str, Any]
_SLOW_SECONDS: Final = 3.0


@contextlib.asynccontextmanager
async def serving() -> AsyncGenerator[Mapping[str, str]]:
    """The variables that sequences may use while it runs."""
    now = datetime.datetime.now(datetime.UTC)
    authority, other = pki.new_authority("hooks", now=now), pki.new_authority("other", now=now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tlsfiles.load(context, pki.issue_serving(authority, "hook", ["127.0.0.1"], now=now))
    app = web.Application(client_max_size=16 << 20)
    app.router.add_post("/convert{rest:.*}", _convert)
    app.router.add_post("/{behaviour:.*}", _admit)
    runner = web.AppRunner(app, handle_signals=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context, shutdown_timeout=1)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield {
            "HOOK": f"https://127.0.0.1:{port}",
            "HOOKPORT": str(port),
            "HOOKCA": base64.b64encode(authority.certificate).decode(),
            "OTHERCA": base64.b64encode(other.certificate).decode(),
        }
    finally:
        await runner.cleanup()


async def _admit(request: web.Request) -> web.StreamResponse:
    behaviour, *given = request.match_info["behaviour"].split("/")
    review: Review = await request.json()
    asked: Review = review["request"]
    answer: Review = {"apiVersion": review["apiVersion"], "kind": "AdmissionReview"}
    response: Review = {"uid": asked["uid"], "allowed": True}
    answer["response"] = response
    match behaviour:
        case "deny":
            response |= {"allowed": False, **_denial(given, asked)}
        case "warn":
            response["warnings"] = ["be careful", 'with "quotes" and \\', "x" * 300, "be careful"]
        case "warn-and-deny":
            response |= {"allowed": False, "warnings": ["be careful"]}
        case "warn-as":
            response["warnings"] = [given[0]]
        case "annotate":
            response["auditAnnotations"] = {"seen": "yes"}
        case "patch":
            response |= _patched(given, asked)
        case "slow":
            await asyncio.sleep(_SLOW_SECONDS)
        case "wrong-uid":
            response["uid"] = "another"
        case "no-uid":
            del response["uid"]
        case "no-response":
            del answer["response"]
        case "wrong-version":
            answer["apiVersion"] = "admission.k8s.io/v2"
        case "beta-version":
            answer["apiVersion"] = "admission.k8s.io/v1beta1"
        case "wrong-kind":
            answer["kind"] = "AdmissionAnswer"
        case "no-kind":
            del answer["apiVersion"], answer["kind"]
        case _:
            other = await _no_review(behaviour, given, request)
            if other is not None:
                return other
    return web.json_response(answer)


async def _no_review(behaviour: str, given: list[str], request: web.Request) -> web.StreamResponse | None:
    """Answers that are none; None for a webhook that simply allows."""
    match behaviour:
        case "garbage":
            return web.Response(text="this is not JSON", content_type="application/json")
        case "array":
            return web.json_response([])
        case "empty":
            return web.Response(content_type="application/json")
        case "status":
            text = " ".join(given[1:]).replace("-", " ")
            return web.Response(status=int(given[0]), text=text)
        case "redirect":
            raise web.HTTPTemporaryRedirect("/allow")
        case "hang-up":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        case _:
            return None


def _denial(given: list[str], asked: Review) -> Review:
    """`/deny`, `/deny/403`, `/deny/403/a-message`; `reason`, `details` and `echo`, which tells what was asked."""
    match given:
        case []:
            return {}
        case ["empty"]:
            return {"status": {}}
        case ["success"]:
            return {"status": {"status": "Success", "code": 200, "message": "all is well"}}
        case ["reason"]:
            return {"status": {"reason": "NotAcceptable"}}
        case ["details"]:
            causes = [{"reason": "FieldValueInvalid", "message": "no", "field": "data"}]
            details = {"name": "n", "kind": "k", "causes": causes, "retryAfterSeconds": 3}
            return {"status": {"code": 422, "reason": "Invalid", "message": "look", "details": details}}
        case ["echo"]:
            return {"status": {"details": {"causes": [{"message": json.dumps({"echo": asked})}]}}}
        case _:
            code, *message = given
            return {"status": {"code": int(code), "message": " ".join(message).replace("-", " ")}}


def _patched(given: list[str], asked: Review) -> Review:
    obj: Review = asked.get("object") or {}
    add: Review | None = None
    match given:
        case ["label", key, value]:
            labels: Review = obj.get("metadata", {}).get("labels") or {}
            add = {"op": "add", "path": "/metadata/labels", "value": {**labels, key: value}}
        case ["data", key, value]:
            add = {"op": "add", "path": "/data", "value": {**(obj.get("data") or {}), key: value}}
        case ["count", key]:
            data: Review = obj.get("data") or {}
            add = {"op": "add", "path": "/data", "value": {**data, key: str(int(data.get(key, 0)) + 1)}}
        case ["set", *path, value]:
            add = {"op": "add", "path": "/" + "/".join(path), "value": json.loads(value)}
        case ["missing"]:
            add = {"op": "remove", "path": "/data/nothing"}
        case ["nothing"]:
            return {"patchType": "JSONPatch", "patch": _encoded([])}
        case ["broken"]:
            return {"patchType": "JSONPatch", "patch": base64.b64encode(b"{").decode()}
        case ["object"]:
            return {"patchType": "JSONPatch", "patch": base64.b64encode(b"{}").decode()}
        case ["untyped"]:
            return {"patch": _encoded([])}
        case ["typed"]:
            return {"patchType": "JSONPatch"}
        case ["merge"]:
            return {"patchType": "MergePatch", "patch": _encoded([])}
        case _:
            raise web.HTTPNotFound
    return {"patchType": "JSONPatch", "patch": _encoded([add])}


def _encoded(patch: list[Review]) -> str:
    return base64.b64encode(json.dumps(patch).encode()).decode()


async def _convert(request: web.Request) -> web.StreamResponse:
    """Between v1 and v2 of a kind whose `spec.color` is called `spec.colour` in v2."""
    behaviour = request.match_info["rest"].strip("/")
    review: Review = await request.json()
    asked: Review = review["request"]
    wanted: str = asked["desiredAPIVersion"]
    converted = [_converted(each, wanted) for each in asked["objects"]]
    response: Review = {"uid": asked["uid"], "result": {"status": "Success"}, "convertedObjects": converted}
    answer: Review = {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}
    match behaviour:
        case "fail":
            response |= {"result": {"status": "Failure", "message": "cannot do that"}, "convertedObjects": []}
        case "fail-silently":
            response |= {"result": {"status": "Failure"}, "convertedObjects": []}
        case "no-result":
            del response["result"]
        case "few":
            converted.pop()
        case "many":
            converted.append(converted[0])
        case "wrong-uid":
            response["uid"] = "another"
        case "no-response":
            del answer["response"]
        case "wrong-version":
            answer["apiVersion"] = "apiextensions.k8s.io/v2"
        case "garbage" | "status/500" | "status/404":
            behaviour, _, status = behaviour.partition("/")
            given = [status] if status else []
            return await _no_review(behaviour, given, request) or web.json_response(answer)
        case _:
            for each in converted:
                _spoil(behaviour, each)
    return web.json_response(answer)


def _converted(obj: Review, wanted: str) -> Review:
    spec: Review = dict(obj.get("spec") or {})
    old, new = ("color", "colour") if wanted.endswith("v2") else ("colour", "color")
    if old in spec:
        spec[new] = spec.pop(old)
    return {**obj, "apiVersion": wanted, "spec": spec}


def _spoil(behaviour: str, obj: Review) -> None:
    metadata: Review = obj["metadata"]
    match behaviour:
        case "same-version":
            obj["apiVersion"] = obj["apiVersion"][:-1] + ("1" if obj["apiVersion"].endswith("2") else "2")
        case "other-kind":
            obj["kind"] = "Gearbox"
        case "no-metadata":
            del obj["metadata"]
        case "rename":
            metadata["name"] = "renamed"
        case "move":
            metadata["namespace"] = "elsewhere"
        case "uid":
            metadata["uid"] = "another"
        case "label":
            metadata["labels"] = {**metadata.get("labels", {}), "converted": "yes"}
        case "annotate":
            metadata["annotations"] = {"converted": "yes"}
        case "bad-label":
            metadata["labels"] = {"converted": 5}
        case "finalizer":
            metadata["finalizers"] = ["example.com/converted"]
        case _:
            return
