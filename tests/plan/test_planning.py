"""Plans without a server: what is created, changed, replaced and deleted, how bad that is, and why."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard import settings as platforms
from steelyard.compose import offering
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.effects import Disruption
from steelyard.kube.objects import Object
from steelyard.plan import offline, planning
from steelyard.plan.planning import Plan

PLATFORM = platforms.Platform()
CLUSTER, DATABASE, CACHE = "WorkloadCluster", "PostgreSQLInstance", "RedisInstance"
GROUPS = {CLUSTER: "compute", DATABASE: "database", CACHE: "cache"}


def claim(kind: str = CLUSTER, annotations: dict[str, str] | None = None, **parameters: object) -> Object:
    metadata: Object = {"name": "shop", "namespace": "team-a", **({"annotations": annotations} if annotations else {})}
    return {
        "apiVersion": f"{GROUPS[kind]}.steelyard.dev/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": {"parameters": {"environment": "dev", **parameters}},
    }


def kind_of(obj: Object) -> ClaimKind:
    kind = offering.STANDARD.kind_of(obj)
    assert kind is not None
    return kind


def plan(before: Object, after: Object, new: platforms.Platform = PLATFORM) -> Plan:
    kind = kind_of(after)
    old = offline.render(kind, before, PLATFORM)
    assert old.composed.refusal is None
    return planning.between(kind, after, old.parts, offline.render(kind, after, new).composed, before)


def steps(found: Plan) -> list[str]:
    return [f"{step.verb} {step.entry.kind}" for step in found.steps]


def test_a_new_claim_creates_everything_and_disrupts_nothing() -> None:
    obj = claim()
    composed = offline.render(kind_of(obj), obj, PLATFORM).composed
    found = planning.between(kind_of(obj), obj, {}, composed, None)
    assert {step.verb for step in found.steps} == {"create"}
    assert len(found.steps) == len(composed.desired) + 1
    assert found.disruption is Disruption.NONE


def test_other_sizes_replace_templates_and_roll_what_is_made_from_them() -> None:
    found = plan(claim(), claim(memoryGi=64))
    assert steps(found) == [
        "change WorkloadCluster",
        "replace SimulatedMachineTemplate",
        "change KubeadmControlPlane",
        "replace SimulatedMachineTemplate",
        "change MachineDeployment",
    ]
    template = found.steps[1]
    assert [(each.path, each.before, each.after) for each in template.fields] == [
        ("spec.template.spec.memoryGi", 32, 64)
    ]
    assert template.disruption is Disruption.NONE
    assert found.steps[2].disruption is Disruption.ROLLING
    assert (found.disruption, found.machines) == (Disruption.ROLLING, 3)


@pytest.mark.parametrize(
    ("before", "after", "disruption", "machines", "told"),
    [
        pytest.param({}, {"workerReplicas": 4}, Disruption.NONE, 0, [], id="more workers"),
        pytest.param({}, {"workerReplicas": 0}, Disruption.NONE, 0, ["pool md-0: removes 2 machines"], id="fewer"),
        pytest.param(
            {},
            {"kubernetesVersion": "1.33.0"},
            Disruption.ROLLING,
            3,
            [
                "control plane: replaces 1 machine, surge 1: version v1.32.1 -> v1.33.0",
                "pool md-0: replaces 2 machines, surge 1: version v1.32.1 -> v1.33.0",
            ],
            id="another version",
        ),
        pytest.param(
            {"workerReplicas": 3},
            {"workerReplicas": 2, "cpuCores": 2, "diskGb": 200},
            Disruption.ROLLING,
            3,
            [
                "control plane: replaces 1 machine, surge 1: cpuCores 8 -> 2, diskGb 100 -> 200",
                "pool md-0: replaces 2 machines, surge 1: cpuCores 8 -> 2, diskGb 100 -> 200",
                "pool md-0: removes 1 machine",
            ],
            id="other sizes and fewer workers",
        ),
        pytest.param(
            {"workerReplicas": 0},
            {"workerReplicas": 0, "memoryGi": 64},
            Disruption.ROLLING,
            1,
            ["control plane: replaces 1 machine, surge 1: memoryGi 32 -> 64"],
            id="a pool without machines rolls none",
        ),
    ],
)
def test_clusters(
    before: dict[str, Any], after: dict[str, Any], disruption: Disruption, machines: int, told: list[str]
) -> None:
    found = plan(claim(**before), claim(**after))
    assert (found.disruption, found.machines) == (disruption, machines)
    assert list(map(str, found.effects)) == told


@pytest.mark.parametrize(
    ("kind", "before", "after", "disruption", "told"),
    [
        pytest.param(
            DATABASE,
            {"crossplane.io/external-name": "dev_orders"},
            {"crossplane.io/external-name": "dev_sales"},
            Disruption.DATA_LOSS,
            "database dev_orders: data loss: it is dropped, and dev_sales is made, which is empty",
            id="a database is renamed",
        ),
        pytest.param(
            CACHE,
            {"crossplane.io/external-name": "redis-one"},
            {"crossplane.io/external-name": "redis-two"},
            Disruption.DATA_LOSS,
            "cache redis-one: data loss: it is removed, and redis-two is made, which is empty",
            id="a cache is renamed",
        ),
    ],
)
def test_renamed_data_is_lost_data(
    kind: str, before: dict[str, str], after: dict[str, str], disruption: Disruption, told: str
) -> None:
    found = plan(claim(kind, before), claim(kind, after))
    assert found.disruption is disruption
    assert str(found.effects[0]) == told


def test_a_larger_database_or_cache_disrupts_nothing_and_a_larger_release_restarts() -> None:
    database = plan(claim(DATABASE, size="small"), claim(DATABASE, size="large"))
    assert (database.has_changes, database.disruption) == (True, Disruption.NONE)
    cache = plan(claim(CACHE, memoryGB=1), claim(CACHE, memoryGB=2, replicas=3))
    assert (cache.has_changes, cache.disruption) == (True, Disruption.NONE)
    helm = platforms.parse("redis: {mode: helm}")
    before, after = (offline.render(kind_of(each), each, helm) for each in (claim(CACHE), claim(CACHE, memoryGB=2)))
    release = planning.between(kind_of(claim(CACHE)), claim(CACHE), before.parts, after.composed, claim(CACHE))
    assert (release.disruption, release.machines) == (Disruption.ROLLING, 0)


@pytest.mark.parametrize("kind", [CLUSTER, DATABASE, CACHE])
def test_a_claim_that_goes_takes_its_data_along(kind: str) -> None:
    obj = claim(kind)
    found = planning.of_deletion(kind_of(obj), obj, offline.render(kind_of(obj), obj, PLATFORM).parts)
    assert {step.verb for step in found.steps} == {"delete"}
    assert found.disruption is Disruption.DATA_LOSS


def test_a_claim_that_cannot_be_composed_says_why_and_plans_nothing() -> None:
    found = plan(claim(), claim(environment="nowhere"))
    assert "no environment nowhere" in found.refusal
    assert not found.has_changes


PARAMETERS = st.fixed_dictionaries(
    {},
    optional={
        "controlPlaneReplicas": st.sampled_from([1, 3]),
        "workerReplicas": st.integers(0, 5),
        "cpuCores": st.integers(2, 64),
        "memoryGi": st.integers(2, 512),
        "diskGb": st.integers(20, 2000),
        "kubernetesVersion": st.sampled_from(["v1.32.1", "v1.33.0", "1.31.2"]),
        "infrastructure": st.sampled_from(["simulated", "kubevirt"]),
    },
)


@given(before=PARAMETERS, after=PARAMETERS)
@settings(max_examples=60, deadline=None)
def test_a_plan_that_was_carried_out_leaves_an_empty_plan(before: Object, after: Object) -> None:
    new = claim(**after)
    kind = kind_of(new)
    parts = offline.render(kind, claim(**before), PLATFORM).parts
    composed = offline.render(kind, new, PLATFORM).composed
    assert composed.refusal is None
    first = planning.between(kind, new, parts, composed, claim(**before))
    assert first.has_changes == (first.claim["spec"] != claim(**before)["spec"] or parts != offline.parts(composed))

    again = planning.between(kind, new, copy.deepcopy(offline.parts(composed)), composed, new)
    assert (list(again.steps), list(again.effects)) == ([], [])


@given(before=PARAMETERS, after=PARAMETERS)
@settings(max_examples=60, deadline=None)
def test_a_plan_is_the_same_each_time_and_names_every_object_that_differs(before: Object, after: Object) -> None:
    old, new = claim(**before), claim(**after)
    if before.get("infrastructure", "simulated") != after.get("infrastructure", "simulated"):
        return
    found = plan(old, new)
    assert found == plan(old, new)
    kind = kind_of(new)
    one, other = (offline.render(kind, each, PLATFORM).parts for each in (old, new))
    differ = {name for name in {**one, **other} if one.get(name) != other.get(name)}
    named = {step.entry.resource_name for step in found.steps if step.entry.resource_name}
    assert named == differ
