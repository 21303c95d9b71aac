from __future__ import annotations

import asyncio
from typing import Any

import pytest

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from tests.kube.server.admission.hooks import VALIDATING, configuration, deny, hook, listening
from tests.kube.server.bench import Bench, decoded

PODS = Resource("", "v1", "pods", "Pod")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")


async def create(bench: Bench, name: str, **metadata: Any) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}
    await bench.create(PODS, pod)


async def run(bench: Bench, name: str, *, ready: bool = True) -> None:
    await create(bench, name, labels={"app": "shop"})
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"status": {"phase": "Running", "conditions": conditions}}
    await bench.patch(PODS, name, status, subresource="status")


async def guard(bench: Bench, name: str = "guard", **status: int) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "shop"}}}
    budget = {"apiVersion": "policy/v1", "kind": BUDGETS.kind, "metadata": {"name": name}, "spec": spec}
    await bench.create(BUDGETS, budget)
    if status:
        await bench.patch(BUDGETS, name, {"status": {"observedGeneration": 1, **status}}, subresource="status")


async def evict(bench: Bench, name: str, *, options: Object | None = None, **query: Any) -> Object:
    body: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    if options is not None:
        body["deleteOptions"] = options
    return decoded(await bench.call("create", PODS, name, subresource="eviction", body=body, **query))


async def test_pod_that_nothing_guards_goes(bench: Bench) -> None:
    await run(bench, "a")
    assert (await evict(bench, "a"))["status"] == "Success"
    assert await bench.names(PODS) == []
    with pytest.raises(errors.NotFound):
        await evict(bench, "a")


async def test_watchers_see_why_a_pod_goes(bench: Bench) -> None:
    await create(bench, "a", finalizers=["example.com/hold"])
    await evict(bench, "a")
    left = await bench.get(PODS, "a")
    assert objects.is_being_deleted(left)
    [condition] = left["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "EvictionByEvictionAPI")
    assert (await evict(bench, "a"))["status"] == "Success"


async def test_dry_run_evicts_nothing(bench: Bench) -> None:
    await run(bench, "a")
    await guard(bench, disruptionsAllowed=1)
    await evict(bench, "a", dryRun="All")
    await evict(bench, "a", options={"dryRun": ["All"]})
    assert await bench.names(PODS) == ["a"]
    assert (await bench.get(BUDGETS, "guard"))["status"]["disruptionsAllowed"] == 1


async def test_budget_that_allows_nothing_holds_the_pod_and_says_so(bench: Bench) -> None:
    await run(bench, "a")
    await guard(bench, disruptionsAllowed=0, desiredHealthy=2, currentHealthy=1)
    with pytest.raises(errors.TooManyRequests, match="would violate the pod's disruption budget") as caught:
        await evict(bench, "a")
    [cause] = caught.value.causes
    assert cause.reason == "DisruptionBudget"
    assert cause.message == "The disruption budget guard needs 2 healthy pods and has 1 currently"
    assert await bench.names(PODS) == ["a"]


async def test_budget_that_nobody_has_counted_yet_holds_the_pod(bench: Bench) -> None:
    await run(bench, "a")
    await guard(bench)
    with pytest.raises(errors.TooManyRequests) as caught:
        await evict(bench, "a")
    assert caught.value.retry_after == 10
    assert "is still being processed by the server" in caught.value.causes[0].message


async def test_of_many_evictions_at_once_a_budget_lets_no_more_through_than_it_allows(bench: Bench) -> None:
    for number in range(10):
        await run(bench, f"p{number}")
    await guard(bench, disruptionsAllowed=3)
    results = await asyncio.gather(*(evict(bench, f"p{n}") for n in range(10)), return_exceptions=True)
    refused = [each for each in results if isinstance(each, errors.TooManyRequests)]
    assert len(refused) == 7
    assert len(await bench.names(PODS)) == 7
    status = (await bench.get(BUDGETS, "guard"))["status"]
    assert status["disruptionsAllowed"] == 0
    assert len(status["disruptedPods"]) == 3
    assert status["conditions"][0]["reason"] == "InsufficientPods"


async def test_pod_that_is_not_ready_needs_no_leave_of_a_budget_that_is_met(bench: Bench) -> None:
    await run(bench, "a", ready=False)
    await guard(bench, disruptionsAllowed=0, desiredHealthy=1, currentHealthy=1)
    await evict(bench, "a")
    assert await bench.names(PODS) == []


async def test_preconditions_count_before_anything_is_written(bench: Bench) -> None:
    await run(bench, "a")
    await guard(bench, disruptionsAllowed=1)
    with pytest.raises(errors.Conflict, match="UID in the precondition"):
        await evict(bench, "a", options={"preconditions": {"uid": "other"}})
    assert (await bench.get(BUDGETS, "guard"))["status"]["disruptionsAllowed"] == 1
    uid = objects.uid(await bench.get(PODS, "a"))
    await evict(bench, "a", options={"preconditions": {"uid": uid}})
    assert await bench.names(PODS) == []


async def test_webhooks_are_asked_about_evictions(bench: Bench) -> None:
    async with listening() as webhook:
        await run(bench, "a")
        webhook.answers["/"] = deny(code=403, message="not today")
        rules = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/eviction"], "operations": ["CREATE"]}
        check = hook("check", webhook.client_config(), rules)
        await bench.create(VALIDATING, configuration(VALIDATING, "check", check))
        with pytest.raises(errors.ApiError, match="denied the request: not today"):
            await evict(bench, "a")
        assert webhook.last()["kind"] == {"group": "policy", "version": "v1", "kind": "Eviction"}
