"""What was changed by hand: put back where that disrupts nothing, reported where it would replace machines."""

from __future__ import annotations

from steelyard.api.clusterapi import resources as clusterapi_resources
from steelyard.kube.objects import Object
from steelyard.kube.runtime.keys import Key
from tests.controllers.claims.stage import NAMESPACE, Stage

WORKERS = (clusterapi_resources.MACHINE_DEPLOYMENTS, "dev-md-0")
PLANE = (clusterapi_resources.KUBEADM_CONTROL_PLANES, "dev-control-plane")
OTHER_TEMPLATE = {"spec": {"template": {"spec": {"infrastructureRef": {"name": "made-by-hand"}}}}}


async def edit(stage: Stage, what: tuple[clusterapi_resources.Resource, str], patch: Object) -> None:
    """As somebody does with kubectl edit."""
    resource, name = what
    await stage.client.patch(resource, name, patch, NAMESPACE)
    await stage.settle()


async def template_of_workers(stage: Stage) -> str:
    workers = await stage.client.get(*WORKERS, NAMESPACE)
    return str(workers["spec"]["template"]["spec"]["infrastructureRef"]["name"])


async def test_what_disrupts_nothing_is_put_back(stage: Stage) -> None:
    await stage.claim()
    await stage.becomes_ready()

    await edit(stage, WORKERS, {"spec": {"replicas": 5}})

    assert (await stage.client.get(*WORKERS, NAMESPACE))["spec"]["replicas"] == 2
    assert (await stage.condition("Synced"))[:2] == ("True", "ReconcileSuccess")


async def test_what_would_replace_machines_stays_and_is_told_once(stage: Stage) -> None:
    await stage.claim()
    await stage.becomes_ready()
    composed = await template_of_workers(stage)

    await edit(stage, WORKERS, OTHER_TEMPLATE)

    assert await template_of_workers(stage) == "made-by-hand"
    status, reason, message = await stage.condition("Synced")
    assert (status, reason) == ("False", "Drifted")
    assert "MachineDeployment team-a/dev-md-0 was changed by hand" in message
    assert "pool md-0: replaces 2 machines, surge 1" in message
    assert (await stage.get())["status"]["state"] == "Drifted"
    version = (await stage.get())["metadata"]["resourceVersion"]
    await stage.look_again()
    assert (await stage.get())["metadata"]["resourceVersion"] == version
    assert len([event for event in await stage.events() if event.startswith("Drifted")]) == 1
    assert composed != "made-by-hand"


async def test_a_control_plane_is_held_as_well(stage: Stage) -> None:
    await stage.claim()
    await stage.becomes_ready()

    await edit(stage, PLANE, {"spec": {"version": "v1.33.0"}})

    assert (await stage.client.get(*PLANE, NAMESPACE))["spec"]["version"] == "v1.33.0"
    assert "control plane: replaces 1 machine" in (await stage.condition("Synced"))[2]


async def test_who_agrees_gets_it_put_back_and_is_asked_again_for_the_next_change(stage: Stage) -> None:
    await stage.claim()
    await stage.becomes_ready()
    composed = await template_of_workers(stage)
    await edit(stage, WORKERS, OTHER_TEMPLATE)
    message = (await stage.condition("Synced"))[2]
    agreed = message.rpartition("steelyard.dev/correct-drift=")[2]
    assert message.endswith(
        "kubectl annotate --overwrite workloadclusters.compute.steelyard.dev -n team-a dev "
        f"steelyard.dev/correct-drift={agreed}"
    )

    await stage.change({"metadata": {"annotations": {"steelyard.dev/correct-drift": agreed}}})
    assert await template_of_workers(stage) == composed
    assert (await stage.condition("Synced"))[0] == "True"

    await edit(stage, WORKERS, OTHER_TEMPLATE)
    assert await template_of_workers(stage) == "made-by-hand"
    assert (await stage.condition("Synced"))[1] == "Drifted"


async def test_an_agreement_to_something_else_counts_for_nothing(stage: Stage) -> None:
    await stage.claim()
    await stage.becomes_ready()
    await stage.change({"metadata": {"annotations": {"steelyard.dev/correct-drift": "workers.1,control-plane.2"}}})

    await edit(stage, WORKERS, OTHER_TEMPLATE)

    assert await template_of_workers(stage) == "made-by-hand"


async def test_a_change_of_the_claim_is_never_taken_for_drift(stage: Stage) -> None:
    await stage.claim()
    await stage.becomes_ready()
    before = await template_of_workers(stage)

    await stage.change({"spec": {"parameters": {"memoryGi": 64}}})

    assert await template_of_workers(stage) not in (before, "made-by-hand")
    assert (await stage.condition("Synced"))[0] == "True"


async def test_a_change_of_the_claim_that_asks_for_other_machines_takes_drift_along(stage: Stage) -> None:
    await stage.claim()
    await stage.becomes_ready()
    before = await template_of_workers(stage)
    await edit(stage, WORKERS, OTHER_TEMPLATE)

    await stage.change({"spec": {"parameters": {"memoryGi": 64}}})

    assert await template_of_workers(stage) not in (before, "made-by-hand")
    assert (await stage.condition("Synced"))[0] == "True"


async def test_a_change_of_the_claim_that_asks_for_no_other_machines_does_not_replace_them(stage: Stage) -> None:
    await stage.claim()
    await stage.becomes_ready()
    await edit(stage, WORKERS, OTHER_TEMPLATE)

    await stage.change({"spec": {"parameters": {"workerReplicas": 4}}})

    assert await template_of_workers(stage) == "made-by-hand"
    assert (await stage.condition("Synced"))[1] == "Drifted"


async def test_drift_is_held_after_a_restart_as_before(stage: Stage) -> None:
    await stage.claim()
    await stage.becomes_ready()
    await stage.crash()
    await stage.client.patch(*WORKERS, OTHER_TEMPLATE, NAMESPACE)

    await stage.start()
    stage.manager.controllers[0].enqueue([Key(NAMESPACE, "dev")])
    await stage.settle()

    assert await template_of_workers(stage) == "made-by-hand"


async def test_what_was_put_back_by_hand_is_no_drift_any_more(stage: Stage) -> None:
    await stage.claim()
    await stage.becomes_ready()
    composed = await template_of_workers(stage)
    await edit(stage, WORKERS, OTHER_TEMPLATE)

    await edit(stage, WORKERS, {"spec": {"template": {"spec": {"infrastructureRef": {"name": composed}}}}})

    assert (await stage.condition("Synced"))[0] == "True"
