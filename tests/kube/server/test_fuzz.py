"""Whatever comes in: an answer, or one of the API's own errors below 500, and a store that can still be read.

A few mistakes are `Unclassified`: upstream answers them with 500 too, and with the same words.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Awaitable
from typing import Any, cast

import orjson
import pytest

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, NODES, SECRETS, Resource
from steelyard.kube.server.call import PatchType
from steelyard.kube.server.catalogue import registry
from tests.kube.server.bench import PARTS, WIDGETS, Bench, make, widget, widget_definition

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
SERVICES = Resource("", "v1", "services", "Service")
ODD: list[Any] = [
    None, True, False, 0, -1, 2**63, 1.5, "", "x", "a/b", "..", "\x00", "é" * 300, [], {}, [None], [{}], {"": None},
    [[]], {"a": {"b": []}}, "2026-01-01T00:00:00Z", ["x", "x"], {"name": 5}, -(2**70),
]  # fmt: skip
ROUNDS = 150


def samples() -> dict[Resource, Object]:
    pod: Object = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": "one"}]}}
    finalizers, owners = ["example.com/a"], [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}]
    return {
        WIDGETS: widget("a", {"size": 1, "ports": [{"name": "x"}]}, labels={"a": "b"}, finalizers=finalizers),
        PARTS: make(PARTS, "a", {"x": [1]}, annotations={"a": "b"}, ownerReferences=owners),
        CONFIG_MAPS: {**make(CONFIG_MAPS, "a"), "data": {"a": "b"}},
        SECRETS: {**make(SECRETS, "a"), "stringData": {"a": "b"}, "type": "Opaque"},
        NODES: make(NODES, "a", {"taints": [{"key": "a", "effect": "NoSchedule"}]}),
        NAMESPACES: make(NAMESPACES, "a", {"finalizers": ["example.com/x"]}),
        SERVICES: make(SERVICES, "a", {"ports": [{"port": 80}], "selector": {"a": "b"}, "type": "NodePort"}),
        DEPLOYMENTS: make(DEPLOYMENTS, "a", {"selector": {"matchLabels": {"a": "b"}}, "template": pod}),
        CUSTOM_RESOURCE_DEFINITIONS: widget_definition(),
    }


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container with a key in it."""
    found: list[tuple[Any, Any]] = []
    keys: list[Any] = list(objects.mapping(value)) or list(range(len(objects.sequence(value))))
    for key in keys:
        found.append((value, key))
        found.extend(places(value[key]))
    return found


def spoiled(rng: random.Random, body: Object) -> Any:
    """The body with one to three places changed to something odd."""
    changed = objects.copy(body)
    for _ in range(rng.randint(1, 3)):
        container, key = rng.choice(places(changed))
        odd = copy.deepcopy(rng.choice(ODD))
        if rng.random() < 0.15 and isinstance(container, dict):
            cast(Object, container)[rng.choice(["x", "status", "spec", "metadata", "", "finalizers"])] = odd
        else:
            container[key] = odd
    return changed


@pytest.mark.parametrize("seed", range(4))
async def test_spoiled_objects_are_answered_with_four_hundreds(bench: Bench, seed: int) -> None:
    rng = random.Random(seed)
    everything = samples()
    for resource, body in everything.items():
        name = objects.name(body)
        for _ in range(ROUNDS // 4):
            bad = spoiled(rng, body)
            await answered(bench, "create", resource, body=bad, dryRun="All")
            await answered(bench, "update", resource, name, body=bad)
            await answered(bench, "patch", resource, name, body=bad, patch="merge", dryRun="All")
            await answered(bench, "patch", resource, name, body=bad, patch="strategic")
            await answered(bench, "patch", resource, name, body=bad, patch="apply", fieldManager="x")
            status = {"body": bad, "subresource": "status"}
            await answered(bench, "update", resource, name, **status)
            await answered(bench, "patch", resource, name, patch="merge", **status)
            await answered(bench, "update", resource, name, body=bad, subresource="scale")
            await answered(bench, "delete", resource, "absent", body=objects.mapping(bad).get("metadata"))
    await everything_can_be_read(bench)


@pytest.mark.parametrize("seed", range(2))
async def test_odd_patches_and_options(bench: Bench, seed: int) -> None:
    rng = random.Random(seed)
    await bench.create(WIDGETS, widget("a", {"replicas": 1}))
    names = [
        "limit", "continue", "labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch", "dryRun",
        "fieldManager", "fieldValidation", "force", "propagationPolicy", "includeObject", "orphanDependents",
        "userAgent",
    ]  # fmt: skip
    texts = [str(odd) for odd in ODD] + ["=", "a in (", "9" * 40, "All", "true", "metadata.name=a", "a,,b", "\\", "-1"]
    for _ in range(ROUNDS):
        patch = cast(PatchType, rng.choice(["json", "merge", "strategic", "apply", "", "nonsense"]))
        operation = {
            "op": rng.choice(["add", "remove", "replace", "move", "copy", "test", "x", 5]),
            "path": rng.choice(["/spec", "", "/", "/metadata/name", "/spec/ports/-", "x", "/kind", "/metadata", 7]),
            "from": rng.choice(["/spec", "/absent", "", None]),
            "value": rng.choice(ODD),
        }
        body: Any = rng.choice([[operation], operation, *ODD])
        options = {rng.choice(names): rng.choice(texts) for _ in range(rng.randint(0, 3))}
        subresource = rng.choice(["", "", "status", "scale", "x"])
        options.pop("dryRun", None)
        dry = {**options, "dryRun": "All"}
        await answered(bench, "patch", WIDGETS, "a", body=body, patch=patch, subresource=subresource, **dry)
        await answered(bench, "list", WIDGETS, representation=rng.choice(["object", "table", "metadata"]), **options)
        await answered(bench, "get", WIDGETS, rng.choice(["a", "", "..", "a/b", "é"]), **options)
        await answered(bench, "deletecollection", WIDGETS, **dry)
        await answered(bench, "delete", WIDGETS, "absent", body=body, **dry)
        await refused_or(opened(bench, options))
    assert await bench.exists(WIDGETS, "a")
    await everything_can_be_read(bench)


async def opened(bench: Bench, options: dict[str, str]) -> None:
    (await bench.watch(WIDGETS, **options)).close()


async def answered(bench: Bench, verb: Any, resource: Resource, name: str = "", **more: Any) -> None:
    await refused_or(bench.call(verb, resource, name, **more))


async def refused_or(request: Awaitable[Any]) -> None:
    """The request succeeds, or is refused in a way that a client can read and blame itself for."""
    refusal: errors.ApiError | None = None
    try:
        await request
    except errors.ApiError as error:
        refusal = error
    if refusal is not None:
        # Upstream answers 500 to what server-side apply cannot read by the kind's schema.
        assert refusal.code < 500 or isinstance(refusal, errors.Timeout | errors.Unclassified), refusal
        orjson.dumps(refusal.status())


async def everything_can_be_read(bench: Bench) -> None:
    for served in registry.builtin().values():
        if "list" in served.verbs:
            for representation in ("object", "table", "metadata"):
                await bench.list(served.resource, namespace="", representation=representation)


async def test_bodies_nested_too_deeply_are_refused(bench: Bench) -> None:
    await bench.create(PARTS, make(PARTS, "b"))
    deep: Any = "x"
    for _ in range(950):
        deep = {"a": deep}
    body = make(PARTS, "a", deep)
    await answered(bench, "create", PARTS, body=body)
    await answered(bench, "patch", PARTS, "b", body={"spec": deep}, patch="merge")
    await answered(bench, "patch", PARTS, "b", body=make(PARTS, "b", deep), patch="apply", fieldManager="x")
    await everything_can_be_read(bench)
