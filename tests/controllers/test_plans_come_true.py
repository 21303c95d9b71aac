"""What a plan says is what then happens: machines counted by their UIDs, on simulated machines with all controllers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from steelyard import settings
from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.cli import live
from steelyard.cli.claimfiles import Claim
from steelyard.cli.comparing import Known
from steelyard.compose import offering
from steelyard.compose.effects import Disruption
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.plan.planning import Plan
from tests.controllers import whole as stages
from tests.controllers.whole import CLAIMS, NAMESPACE, Whole

NOW = Known(settings.parse("environments: {dev: {workerReplicas: 1}}\n"))


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncGenerator[Whole]:
    async with stages.opened(tmp_path) as opened:
        yield opened


async def planned(whole: Whole, change: Object) -> tuple[Plan, Object]:
    """The plan of a claim with other parameters, and the claim as it would be."""
    old = await whole.one(CLAIMS, "c")
    new = objects.copy(old)
    new["spec"]["parameters"].update(change)
    kind = offering.STANDARD.kind_of(new)
    assert kind is not None
    [plan] = await live.plans(whole.client, [(Claim(kind, new), old)], NOW)
    return plan, new


async def machines(whole: Whole) -> dict[str, set[str]]:
    """UIDs by pool."""
    found: dict[str, set[str]] = {}
    for each in await whole.all(capi.MACHINES):
        labels = objects.labels(each)
        pool = labels.get(wellknown.MACHINE_DEPLOYMENT_LABEL, "control plane")
        found.setdefault(pool, set()).add(objects.uid(each))
    return found


def replaced(before: dict[str, set[str]], after: dict[str, set[str]]) -> int:
    """Of each pool as many as both went and came."""
    return sum(
        min(len(uids - after.get(pool, set())), len(after.get(pool, set()) - uids)) for pool, uids in before.items()
    )


async def settled(whole: Whole) -> None:
    async def is_so() -> bool:
        claim = await whole.one(CLAIMS, "c")
        conditions = {each["type"]: each for each in claim["status"]["conditions"]}
        is_current = claim["status"]["observedGeneration"] == objects.generation(claim)
        return is_current and conditions["UpToDate"]["status"] == conditions["Ready"]["status"] == "True"

    await whole.until(is_so, "up to date")
    await whole.manager.idle(within=0.5, settle=0.1)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param({"workerReplicas": 2}, {"workerReplicas": 2, "memoryGi": 64}, id="larger machines"),
        pytest.param({"workerReplicas": 1}, {"workerReplicas": 3}, id="more workers"),
        pytest.param({"workerReplicas": 3}, {"workerReplicas": 1}, id="fewer workers"),
        pytest.param({"workerReplicas": 3}, {"workerReplicas": 2, "cpuCores": 4}, id="fewer and other workers"),
        pytest.param({"workerReplicas": 1}, {"workerReplicas": 2, "diskGb": 200}, id="more and other workers"),
        pytest.param({"controlPlaneReplicas": 3}, {"kubernetesVersion": "1.33.0"}, id="another version, three planes"),
        pytest.param({"workerReplicas": 0}, {"workerReplicas": 0, "memoryGi": 16}, id="no workers"),
    ],
)
async def test_as_many_machines_are_replaced_as_the_plan_says(
    whole: Whole, first: dict[str, Any], then: dict[str, Any]
) -> None:
    await whole.claim(**first)
    await whole.until_ready()
    await settled(whole)
    unchanged, _ = await planned(whole, {})
    assert (list(unchanged.steps), unchanged.disruption) == ([], Disruption.NONE)

    plan, new = await planned(whole, then)
    assert plan.has_changes
    before = await machines(whole)
    await whole.client.patch(CLAIMS, "c", {"spec": new["spec"]}, NAMESPACE)
    await settled(whole)

    count = replaced(before, await machines(whole))
    assert plan.machines == count
    assert (plan.disruption is Disruption.ROLLING) == (count > 0)
    again, _ = await planned(whole, {})
    assert (list(again.steps), list(again.effects)) == ([], [])
