"""Attacks by the administrator of a simulated cluster: kinds, rules, webhooks and masses of objects of their own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import orjson

from tests.soak.hostile.attack import Assault, Attack, Knob, Who, numbers
from tests.soak.hostile.field import THEIRS, config_map, config_maps
from tests.soak.hostile.wire import Line

_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
_FILLERS: Final = 8
_SERVED_SECONDS: Final = 10.0
_TOO_MANY: Final = 429
_ATTEMPTS: Final = 30

Schema = dict[str, Any]
Make = Callable[[Assault, int], bytes]


async def _send_all(assault: Assault, requests: Iterable[bytes], at_once: int = _FILLERS) -> None:
    """All of them, some at a time."""
    left = iter(requests)

    async def one() -> None:
        line = await assault.open()
        for request in left:
            if line is None or line.is_closed:
                line = await assault.open()
            if line is None:
                return
            await assault.ask(line, request)
        if line is not None:
            line.close()

    await asyncio.gather(*(one() for _ in range(at_once)))


def _group(assault: Assault) -> str:
    return f"{assault.tag}.example.com"


def _stones(assault: Assault) -> str:
    return f"/apis/{_group(assault)}/v1/namespaces/{THEIRS}/stones"


def _definition(assault: Assault, spec: Schema, group: str = "") -> Schema:
    group = group or _group(assault)
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Stone", "listKind": "StoneList", "plural": "stones", "singular": "stone"}
    spec_ = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**kind, "metadata": {"name": f"stones.{group}"}, "spec": spec_}


def _stone(assault: Assault, number: int, spec: Any) -> bytes:
    metadata = {"name": f"{assault.tag}-{number}"}
    body = {"apiVersion": f"{_group(assault)}/v1", "kind": "Stone", "metadata": metadata, "spec": spec}
    return assault.identity.request("POST", _stones(assault), orjson.dumps(body))


async def _define(assault: Assault, spec: Schema) -> None:
    """Until objects of the kind are taken, or not if the definition was refused."""
    line = await Line.open(assault.identity)
    assault.kept.append(line)
    request = assault.identity.request("POST", _DEFINITIONS, orjson.dumps(_definition(assault, spec)))
    answer = await line.ask(request)
    if answer.code != 201:
        assault.answers[f"definition refused with {answer.code}"] += 1
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_SERVED_SECONDS):
            while (await line.ask(assault.identity.request("GET", _stones(assault)))).code != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            # kube-apiserver holds the first creation of a new kind for two seconds.
            await line.ask(assault.identity.request("POST", f"{_stones(assault)}?dryRun=All", b"{}"))


def with_kind(name: str, schema: Callable[[Assault], Schema], spec: Callable[[Assault], Any], **knobs: Knob) -> Attack:
    """Objects of a kind that the tenant has defined, each with the same contents."""

    async def prepare(assault: Assault) -> None:
        await _define(assault, schema(assault))

    async def work(assault: Assault) -> None:
        contents = spec(assault)
        await assault.keep_sending(lambda number: _stone(assault, number, contents))

    return Attack(name, Who.TENANT, work, {**knobs, **numbers()}, prepare)


def _pattern(assault: Assault) -> Schema:
    return {"type": "object", "properties": {"text": {"type": "string", "pattern": assault.word("expression")}}}


def _matches(assault: Assault) -> Schema:
    rule = f"self.text.matches('{assault.word('expression')}')"
    text = {"type": "string", "maxLength": 20_000}
    return {"type": "object", "properties": {"text": text}, "x-kubernetes-validations": [{"rule": rule}]}


def _near_miss(assault: Assault) -> Any:
    return {"text": "a" * assault.number("letters") + "!"}


def _costly_rule(assault: Assault) -> Schema:
    most = assault.number("allowed")
    items = {"type": "array", "maxItems": most, "items": {"type": "integer"}}
    rule = {"rule": assault.word("rule")}
    return {"type": "object", "properties": {"items": items}, "x-kubernetes-validations": [rule]}


def _many_items(assault: Assault) -> Any:
    return {"items": list(range(assault.number("items")))}


def _wide(assault: Assault) -> Schema:
    properties = {f"p{number}": {"type": "string", "default": "d"} for number in range(assault.number("properties"))}
    return {"type": "object", "properties": properties}


def _defaulted_items(assault: Assault) -> Schema:
    one = {
        "type": "object",
        "default": {},
        "properties": {f"p{n}": {"type": "string", "default": "d"} for n in range(assault.number("properties"))},
    }
    return {"type": "object", "properties": {"items": {"type": "array", "items": one}}}


def _empty_items(assault: Assault) -> Any:
    empty: dict[str, str] = {}
    return {"items": [empty] * assault.number("items")}


def _sets(assault: Assault) -> Schema:
    items = {
        "type": "array",
        "items": {"type": "object", "x-kubernetes-map-type": "atomic", "x-kubernetes-preserve-unknown-fields": True},
    }
    return {"type": "object", "properties": {"items": {**items, "x-kubernetes-list-type": "set"}}}


def _distinct_items(assault: Assault) -> Any:
    return {"items": [{"a": number} for number in range(assault.number("items"))]}


async def _definitions(assault: Assault) -> None:
    """Kinds come and go, and with them discovery and OpenAPI."""

    def request(number: int) -> bytes:
        group = f"{assault.tag}-{number // 2}.example.com"
        if number % 2:
            return assault.identity.request("DELETE", f"{_DEFINITIONS}/stones.{group}")
        spec = _wide(assault)
        return assault.identity.request("POST", _DEFINITIONS, orjson.dumps(_definition(assault, spec, group)))

    await assault.keep_sending(request)


class _Silent(asyncio.Protocol):
    def __init__(self, held: list[asyncio.BaseTransport]) -> None:
        self._held = held

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._held.append(transport)


async def _hold(assault: Assault) -> None:
    """A webhook that takes calls and never answers, for one namespace of the tenant's."""
    held: list[asyncio.BaseTransport] = []
    server = await asyncio.get_running_loop().create_server(lambda: _Silent(held), "127.0.0.1", 0)
    assault.state["server"], assault.state["held"] = server, held
    port = server.sockets[0].getsockname()[1]
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}
    hook: dict[str, Any] = {
        "name": "held.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/{'x' * assault.number('path')}"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": assault.number("timeout"),
        "failurePolicy": "Ignore",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": THEIRS}},
    }
    hooks = [{**hook, "name": f"held-{number}.example.com"} for number in range(assault.number("hooks"))]
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    body = orjson.dumps({**kind, "metadata": {"name": assault.tag}, "webhooks": hooks})
    await _send_all(assault, [assault.identity.request("POST", _WEBHOOKS, body)], 1)
    await asyncio.sleep(1)


async def _through_webhook(assault: Assault) -> None:
    text = "x" * assault.number("size")
    try:
        await assault.keep_sending(lambda number: _create(assault, f"{assault.tag}-{number}", text))
    finally:
        assault.state["server"].close()
        for transport in assault.state["held"]:
            transport.close()
        await _withdraw(assault)


async def _withdraw(assault: Assault) -> None:
    """The tenant may have to wait for their own turn."""
    line = await Line.open(assault.identity)
    assault.kept.append(line)
    for _ in range(_ATTEMPTS):
        answer = await line.ask(assault.identity.request("DELETE", f"{_WEBHOOKS}/{assault.tag}"))
        if answer.code != _TOO_MANY:
            return
        await asyncio.sleep(1)


def _create(assault: Assault, name: str, text: str, namespace: str = THEIRS, **metadata: Any) -> bytes:
    body = config_map(name, data={"text": text})
    body["metadata"] |= metadata
    return assault.identity.request("POST", config_maps(namespace), orjson.dumps(body))


async def _fill(assault: Assault) -> None:
    text = "x" * assault.number("size")
    await assault.keep_sending(lambda number: _create(assault, f"{assault.tag}-{number}", text))


async def _namespaces(assault: Assault) -> None:
    def request(number: int) -> bytes:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{assault.tag}-{number}"}}
        return assault.identity.request("POST", "/api/v1/namespaces", orjson.dumps(body))

    await assault.keep_sending(request)


async def _full_namespace(assault: Assault) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": assault.tag}}
    await _send_all(assault, [assault.identity.request("POST", "/api/v1/namespaces", orjson.dumps(body))], 1)
    text = "x" * assault.number("size")
    await _send_all(
        assault, (_create(assault, f"c-{number}", text, assault.tag) for number in range(assault.number("objects")))
    )


async def _delete_collection(assault: Assault) -> None:
    await _send_all(assault, [assault.identity.request("DELETE", config_maps(assault.tag))], 1)


async def _delete_namespace(assault: Assault) -> None:
    await _send_all(assault, [assault.identity.request("DELETE", f"/api/v1/namespaces/{assault.tag}")], 1)
    await assault.until_over()


async def _owned(assault: Assault) -> None:
    """One owner of many, which goes with all of them."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": assault.tag}}
    await _send_all(assault, [assault.identity.request("POST", "/api/v1/namespaces", orjson.dumps(body))], 1)
    line = await Line.open(assault.identity)
    assault.kept.append(line)
    made = orjson.loads(await assault.ask(line, _create(assault, "owner", "", assault.tag)))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": made["metadata"]["uid"]}
    owner["blockOwnerDeletion"] = True
    count = assault.number("objects")
    await _send_all(
        assault, (_create(assault, f"c-{number}", "", assault.tag, ownerReferences=[owner]) for number in range(count))
    )


async def _delete_owner(assault: Assault) -> None:
    body = orjson.dumps({"propagationPolicy": assault.word("policy")})
    path = f"{config_maps(assault.tag)}/owner"
    await _send_all(assault, [assault.identity.request("DELETE", path, body)], 1)
    await assault.until_over()


async def _role(assault: Assault) -> None:
    """A role of very many rules, and another that is put together of it."""
    rules = [
        {"apiGroups": [f"g{number}"], "resources": ["r"], "verbs": ["get"]} for number in range(assault.number("rules"))
    ]

    def request(number: int) -> bytes:
        metadata: dict[str, Any] = {"name": f"{assault.tag}-{number}", "labels": {assault.tag: "1"}}
        role: dict[str, Any] = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
        role |= {"metadata": metadata, "rules": rules}
        if number == 0:
            metadata["labels"] = {}
            role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {assault.tag: "1"}}]}
        return assault.identity.request("POST", _ROLES, orjson.dumps(role))

    await assault.keep_sending(request)


async def _managers(assault: Assault) -> None:
    """Many managers that apply the same fields, each of which is to be told of all others."""
    path = f"{config_maps(THEIRS)}/{assault.tag}"
    data = {f"k{number}": "v" for number in range(assault.number("keys"))}
    body = orjson.dumps(config_map(assault.tag, data=data))

    def request(number: int) -> bytes:
        query = f"?fieldManager=m{number}&force={'true' if number % 5 else 'false'}"
        return assault.identity.request("PATCH", path + query, body, "application/apply-patch+yaml")

    await assault.keep_sending(request)


def tenant(
    name: str,
    work: Callable[[Assault], Awaitable[None]],
    knobs: Mapping[str, Knob],
    prepare: Callable[[Assault], Awaitable[None]] | None = None,
) -> Attack:
    return Attack(name, Who.TENANT, work, knobs, prepare)


_EXPRESSION: Final = Knob(
    "^(a+)+$",
    words=("^(a+)+$", "^(a|aa)+$", "^(a*)*$", "^(a|a?)+$", "(.*a){12}$", "^(([a-z])+.)+$", "a{1,900}a{1,900}$"),
)
_LETTERS: Final = Knob(28, 1, 10_000)
_RULE: Final = Knob(
    "self.items.all(x, self.items.all(y, x == y || x != y))",
    words=(
        "self.items.all(x, self.items.all(y, x == y || x != y))",
        "self.items.map(x, x * 2).filter(x, x > 3).exists(x, x == -1) || true",
        "self.items.all(x, x in self.items)",
        "self.items.map(x, string(x)).join(',').matches('^[0-9,]*$')",
    ),
)
_SIZE: Final = Knob(200, 0, 900_000)
_OBJECTS: Final = Knob(5000, 1, 8000)
_ITEMS: Final = Knob(900, 1, 100_000)
_POLICY: Final = Knob("Foreground", words=("Foreground", "Background", "Orphan"))
_HOOKED: Final = {
    "timeout": Knob(30, 1, 30),
    "hooks": Knob(5, 1, 50),
    "path": Knob(10, 0, 1000),
    "size": Knob(100_000, 0, 900_000),
    **numbers(32),
}

ATTACKS: Final = (
    with_kind("regular expression in a schema", _pattern, _near_miss, expression=_EXPRESSION, letters=_LETTERS),
    with_kind("regular expression in a rule", _matches, _near_miss, expression=_EXPRESSION, letters=_LETTERS),
    with_kind("costly rule", _costly_rule, _many_items, rule=_RULE, allowed=_ITEMS, items=_ITEMS),
    with_kind("wide schema", _wide, lambda _: {}, properties=Knob(10_000, 1, 30_000)),
    with_kind(
        "defaults of many items",
        _defaulted_items,
        _empty_items,
        properties=Knob(200, 1, 2000),
        items=Knob(5000, 1, 500_000),
    ),
    with_kind("a set of many items", _sets, _distinct_items, items=Knob(20_000, 1, 200_000)),
    tenant("kinds that come and go", _definitions, {"properties": Knob(300, 1, 10_000), **numbers()}),
    tenant("webhook that never answers", _through_webhook, _HOOKED, _hold),
    tenant("fill the space", _fill, {"size": Knob(900_000, 0, 1_000_000), **numbers(4, 60)}),
    tenant("many objects", _fill, {"size": _SIZE, **numbers(8, 5000)}),
    tenant("many namespaces", _namespaces, numbers(8, 500)),
    tenant("delete a collection of 5,000", _delete_collection, {"size": _SIZE, "objects": _OBJECTS}, _full_namespace),
    tenant("delete a namespace of 5,000", _delete_namespace, {"size": _SIZE, "objects": _OBJECTS}, _full_namespace),
    tenant("delete an owner of 5,000", _delete_owner, {"objects": _OBJECTS, "policy": _POLICY}, _owned),
    tenant("roles of many rules", _role, {"rules": Knob(5000, 1, 12_000), **numbers(2, 20)}),
    tenant("many managers", _managers, {"keys": Knob(500, 1, 20_000), **numbers(2, 300)}),
)
