"""Plans of live claims with the rights of whoever asks: what may not be read is told, and nothing is made up."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest

from steelyard.api import resources
from steelyard.api.clusterapi import resources as capi
from steelyard.cli import live, planned
from steelyard.cli.claimfiles import Claim
from steelyard.cli.comparing import Known
from steelyard.cli.exits import PlanExit
from steelyard.compose import offering
from steelyard.compose.effects import Disruption
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from steelyard.plan.planning import Plan
from tests.controllers.claims import stage as stages
from tests.controllers.claims.stage import NAMESPACE, Stage

HIDDEN = (resources.SIMULATED_MACHINE_TEMPLATES, capi.KUBEADM_CONTROL_PLANES, capi.MACHINES, SECRETS)


class Asking:
    """A client that counts what it is asked, and may not read everything."""

    def __init__(self, client: Client, hidden: tuple[Resource, ...] = ()) -> None:
        self._client = client
        self._hidden = hidden
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._client, name)

        async def call(resource: Resource, *arguments: Any, **named: Any) -> Any:
            self.asked.append(f"{name} {resource.kind}")
            if resource in self._hidden:
                raise errors.Forbidden(f"{resource.plural} is forbidden")
            return await inner(resource, *arguments, **named)

        return call


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage]:
    async with stages.opened(tmp_path) as opened:
        yield opened


async def plans(stage: Stage, asking: Asking, change: Object, *, is_certain: bool = True) -> list[Plan]:
    """Of all claims with other parameters."""
    changes: list[tuple[Claim, Object | None]] = []
    for old in (await stage.client.list(stages.CLAIMS)).items:
        new = objects.copy(old)
        new["spec"]["parameters"].update(change)
        kind = offering.STANDARD.kind_of(new)
        assert kind is not None
        changes.append((Claim(kind, new), old))
    return await live.plans(cast(Client, asking), changes, Known(stage.platform, is_certain=is_certain))


async def test_nothing_is_written_and_what_is_there_is_compared(stage: Stage) -> None:
    await stage.claim()
    asking = Asking(stage.client)
    [plan] = await plans(stage, asking, {"memoryGi": 64})
    assert [step.verb for step in plan.steps] == ["change", "replace", "change", "replace", "change"]
    # There are no machines here yet, so none is replaced.
    assert plan.disruption is Disruption.NONE
    assert {each.split()[0] for each in asking.asked} == {"get", "list"}
    assert plan.notes == []


async def test_what_may_not_be_read_is_told_and_compared_with_what_the_claim_asks_for_now(stage: Stage) -> None:
    await stage.claim()
    (unchanged,) = await plans(stage, Asking(stage.client, HIDDEN), {})
    assert list(unchanged.steps) == []
    [told] = unchanged.notes
    assert told.startswith("you may not read ")
    assert "KubeadmControlPlane team-a/dev-control-plane" in told

    [changed] = await plans(stage, Asking(stage.client, HIDDEN), {"memoryGi": 64})
    assert (changed.disruption, changed.machines) == (Disruption.ROLLING, 3)
    assert [step.verb for step in changed.steps] == ["change", "replace", "change", "replace", "change"]


async def test_without_the_platforms_settings_only_what_the_claim_changes_is_planned(stage: Stage) -> None:
    await stage.claim()
    own = stage.platform
    dev = own.environments["dev"].model_copy(update={"memory_gi": 7})
    stage.platform = own.model_copy(update={"environments": {**own.environments, "dev": dev}})
    [plan] = await plans(stage, Asking(stage.client), {"workerReplicas": 4}, is_certain=False)
    assert plan.disruption is Disruption.NONE
    assert [step.entry.kind for step in plan.steps] == ["WorkloadCluster", "MachineDeployment"]
    assert "settings are not known here" in plan.notes[0]


async def test_many_claims_are_read_by_lists(stage: Stage) -> None:
    for number in range(12):
        await stage.claim(f"c{number}")
    asking = Asking(stage.client)
    found = await plans(stage, asking, {})
    assert [list(plan.steps) for plan in found] == [[]] * 12
    single = [each for each in asking.asked if each.startswith("get ")]
    # A kubeconfig is nobody's part, and asked for by its name.
    assert set(single) == {"get Secret"}
    assert len(single) == 12


async def test_who_may_not_list_is_answered_one_by_one(stage: Stage) -> None:
    for number in range(12):
        await stage.claim(f"c{number}")

    class NoLists(Asking):
        def __getattr__(self, name: str) -> Any:
            if name != "list":
                return super().__getattr__(name)

            async def refused(resource: Resource, *_: Any, **__: Any) -> Any:
                raise errors.Forbidden(f"{resource.plural} is forbidden at the cluster scope")

            return refused

    found = await plans(stage, NoLists(stage.client), {"workerReplicas": 5})
    assert {plan.disruption for plan in found} == {Disruption.NONE}
    assert all(plan.has_changes for plan in found)


async def test_an_object_of_somebody_else_is_not_planned_over(stage: Stage) -> None:
    taken: Object = {
        "apiVersion": capi.MACHINE_DEPLOYMENTS.api_version,
        "kind": "MachineDeployment",
        "metadata": {"name": "dev-md-0", "namespace": NAMESPACE},
        "spec": {
            "clusterName": "other",
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "clusterName": "other",
                    "bootstrap": {"dataSecretName": "x"},
                    "infrastructureRef": {"apiGroup": "g.example.org", "kind": "K", "name": "n"},
                },
            },
        },
    }
    await stage.client.create(capi.MACHINE_DEPLOYMENTS, taken)
    await stage.claim()
    [plan] = await plans(stage, Asking(stage.client), {})
    assert [(step.verb, step.entry.name) for step in plan.steps] == [("refuse", "dev-md-0")]
    assert planned.exit_code([plan]) is PlanExit.FAILED
    assert planned.summary([plan]) == "Plan: nothing to change; 1 cannot be made: somebody else's object has the name"


async def test_what_was_changed_by_hand_and_is_held_is_shown_and_is_no_change(stage: Stage) -> None:
    await stage.claim()
    edit = {"spec": {"template": {"spec": {"infrastructureRef": {"name": "made-by-hand"}}}}}
    await stage.client.patch(capi.MACHINE_DEPLOYMENTS, "dev-md-0", edit, NAMESPACE)
    await stage.settle()
    [plan] = await plans(stage, Asking(stage.client), {})
    [step] = plan.steps
    assert (step.verb, plan.has_changes, plan.disruption) == ("hold", False, Disruption.NONE)
    assert "changed by hand, and stays so: pool md-0: replaces 2 machines" in step.note
