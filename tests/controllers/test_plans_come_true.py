"""What a plan says is what then happens: machines counted by their UIDs, on simulated machines with all controllers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from steelyard.api import resources
from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.cli import live
from steelyard.cli.claimfiles import Claim
from steelyard.cli.comparing import Known
from steelyard.compose import offering
from steelyard.compose.effects import Disruption
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.plan.planning import Plan
from steelyard.settings import parse
from tests.controllers import whole as stages
from tests.controllers.whole import NAMESPACE, Whole
from tests.soak import properties

NOW = Known(parse("environments: {dev: {workerReplicas: 1}}\n"))
WORKLOAD = resources.workload_clusters("steelyard.dev")
KUBERNETES = resources.kubernetes_clusters("steelyard.dev")
NUMBERS = itertools.count()
"""Of the claims: each example has one of its own."""
MOST_EXAMPLES = 200
"""Each is a cluster that comes up and is changed, and takes a second or two."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, Whole]]:
    """One platform for all examples, which stands still between them."""
    opened = stages.opened(tmp_path_factory.mktemp("whole"))
    with asyncio.Runner() as runner:
        yield runner, runner.run(opened.__aenter__())
        runner.run(opened.__aexit__(None, None, None))


class Stage:
    """One claim, and everything that is made of it."""

    def __init__(self, whole: Whole, kind: Resource, name: str) -> None:
        self._whole = whole
        self._kind = kind
        self._name = name

    async def create(self, parameters: Object) -> None:
        metadata = {"name": self._name, "namespace": NAMESPACE}
        claim: Object = {"apiVersion": self._kind.api_version, "kind": self._kind.kind, "metadata": metadata}
        await self._whole.client.create(self._kind, {**claim, "spec": {"parameters": parameters}})
        await self.settled()

    async def change(self, parameters: Object) -> None:
        old = await self._whole.one(self._kind, self._name)
        patch = {"spec": {"parameters": {**dict.fromkeys(old["spec"]["parameters"]), **parameters}}}
        await self._whole.client.patch(self._kind, self._name, patch, NAMESPACE)
        await self.settled()

    async def planned(self, parameters: Object | None = None) -> Plan:
        """Of the claim with other parameters, or as it is."""
        old = await self._whole.one(self._kind, self._name)
        new = objects.copy(old)
        if parameters is not None:
            new["spec"]["parameters"] = parameters
        kind = offering.STANDARD.kind_of(new)
        assert kind is not None
        [plan] = await live.plans(self._whole.client, [(Claim(kind, new), old)], NOW)
        return plan

    async def machines(self) -> dict[str, set[str]]:
        """UIDs by pool."""
        found: dict[str, set[str]] = {}
        for each in await self._whole.all(capi.MACHINES):
            if objects.labels(each)[wellknown.CLUSTER_NAME_LABEL] != self._name:
                continue
            pool = objects.labels(each).get(wellknown.MACHINE_DEPLOYMENT_LABEL, "control plane")
            found.setdefault(pool, set()).add(objects.uid(each))
        return found

    async def settled(self) -> None:
        async def is_so() -> bool:
            claim = await self._whole.one(self._kind, self._name)
            status = objects.mapping(claim.get("status"))
            told = {each["type"]: each["status"] for each in objects.sequence(status.get("conditions"))}
            is_current = status.get("observedGeneration") == objects.generation(claim)
            return is_current and told.get("UpToDate") == told.get("Ready") == "True"

        await self._whole.until(is_so, "up to date")
        await self._whole.manager.idle(within=0.5, settle=0.1)


def replaced(before: dict[str, set[str]], after: dict[str, set[str]]) -> int:
    """Of each pool as many as both went and came."""
    return sum(
        min(len(uids - after.get(pool, set())), len(after.get(pool, set()) - uids)) for pool, uids in before.items()
    )


async def compared(stage: Stage, first: Object, then: Object) -> None:
    await stage.create({"environment": "dev", **first})
    unchanged = await stage.planned()
    assert (list(unchanged.steps), unchanged.disruption) == ([], Disruption.NONE)

    plan = await stage.planned({"environment": "dev", **then})
    before = await stage.machines()
    await stage.change({"environment": "dev", **then})

    count = replaced(before, await stage.machines())
    assert plan.machines == count
    assert (plan.disruption is Disruption.ROLLING) == (count > 0)
    again = await stage.planned()
    assert (list(again.steps), list(again.effects)) == ([], [])


def optional(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    """Any of them, or none."""
    return st.fixed_dictionaries({}, optional=strategies)


def pools(name: str) -> st.SearchStrategy[list[Object]]:
    """None of that name, or one."""
    labels = st.sampled_from([{"tier": "one"}, {"tier": "two"}])
    sizes = optional(replicas=st.integers(0, 2), memoryGi=st.sampled_from([4, 8]), labels=labels)
    return st.lists(sizes.map(lambda pool: {"name": name, **pool}), max_size=1)


POOLS = st.tuples(pools("a"), pools("b")).map(lambda both: both[0] + both[1])
OF_WORKLOAD = optional(
    nodePools=POOLS,
    workerReplicas=st.integers(0, 3),
    controlPlaneReplicas=st.sampled_from([1, 3]),
    cpuCores=st.sampled_from([2, 4]),
    memoryGi=st.sampled_from([4, 8]),
)
OF_KUBERNETES = optional(
    nodePools=POOLS,
    workerNodes=st.integers(1, 3),
    controlPlaneNodes=st.sampled_from([1, 3]),
    controlPlaneCPU=st.sampled_from(["2", "4"]),
    workerCPU=st.sampled_from(["2", "4"]),
    workerMemory=st.sampled_from(["4Gi", "8Gi"]),
)
GROWN: dict[Resource, tuple[Object, Object]] = {
    WORKLOAD: ({"diskGb": 50}, {"diskGb": 80}),
    KUBERNETES: ({"workerStorage": "50Gi"}, {"workerStorage": "80Gi"}),
}
VERSIONS: tuple[Object, Object] = ({"kubernetesVersion": "v1.32.1"}, {"kubernetesVersion": "v1.33.0"})


@st.composite
def changes(draw: Any) -> tuple[Resource, Object, Object]:
    """A kind, and the parameters of a claim of it before and after. Disks only grow, and versions only rise."""
    kind: Resource = draw(st.sampled_from([WORKLOAD, KUBERNETES]))
    parameters = OF_WORKLOAD if kind == WORKLOAD else OF_KUBERNETES
    first, then = draw(parameters), draw(parameters)
    for old, new in (GROWN[kind], VERSIONS):
        first |= old
        then |= draw(st.sampled_from([old, new]))
    return kind, first, then


GPU: Object = {"name": "gpu", "replicas": 1}


# Without shrinking: a run takes too long to be tried again and again, and what is drawn is small.
@settings(
    max_examples=min(properties.examples(3), MOST_EXAMPLES),
    phases=[Phase.explicit, Phase.generate],
)
@given(changes())
@example((WORKLOAD, {"controlPlaneReplicas": 3}, {"controlPlaneReplicas": 3, "kubernetesVersion": "1.33.0"}))
@example(
    (
        KUBERNETES,
        {"workerNodes": 3, "nodePools": [GPU, {"name": "goes"}]},
        {"workerNodes": 2, "workerCPU": "4", "nodePools": [{**GPU, "replicas": 2}, {"name": "comes"}]},
    )
)
def test_as_many_machines_are_replaced_as_the_plan_says(
    running: tuple[asyncio.Runner, Whole], change: tuple[Resource, Object, Object]
) -> None:
    kind, first, then = change
    runner, whole = running
    runner.run(compared(Stage(whole, kind, f"c{next(NUMBERS)}"), first, then))
