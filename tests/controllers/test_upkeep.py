"""What looks after a cluster when nothing happens: Secrets that vanish, certificates and tokens that run out."""

from __future__ import annotations

import base64
import datetime
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.api import resources
from steelyard.api.clusterapi import resources as capi
from steelyard.kube import errors, objects, pki
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS, SECRETS
from steelyard.kube.runtime import conditions
from tests.controllers import whole as stages
from tests.controllers.whole import CLAIMS, NAMESPACE, Whole

CONTROL_PLANE = "c-control-plane"


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncGenerator[Whole]:
    async with stages.opened(tmp_path) as opened:
        await opened.claim()
        await opened.until_ready()
        yield opened


async def exists(whole: Whole, name: str) -> bool:
    try:
        await whole.one(SECRETS, name)
    except errors.NotFound:
        return False
    return True


async def certificates_condition(whole: Whole) -> Object:
    control_plane = await whole.one(capi.KUBEADM_CONTROL_PLANES, CONTROL_PLANE)
    return conditions.find(control_plane, "CertificatesAvailable") or {}


async def scale(whole: Whole, workers: int) -> None:
    """Also shows that the way into the cluster is open: machines join, and their Nodes are found."""
    await whole.client.patch(CLAIMS, "c", {"spec": {"parameters": {"workerReplicas": workers}}}, NAMESPACE)

    async def scaled() -> bool:
        machines = await whole.all(capi.MACHINES)
        is_running = all(objects.at(each, "status", "phase") == "Running" for each in machines)
        return len(machines) == workers + 1 and is_running and await whole.is_ready()

    await whole.until(scaled, f"{workers} workers", describe=whole.left)


def certificate_in(kubeconfig: Object) -> bytes:
    config: Any = yaml.safe_load(base64.b64decode(str(objects.at(kubeconfig, "data", "value"))))
    return base64.b64decode(str(objects.at(config, "users", 0, "user", "client-certificate-data")))


async def test_a_kubeconfig_that_was_deleted_is_made_again(whole: Whole) -> None:
    await whole.client.delete(SECRETS, "c-kubeconfig", NAMESPACE)
    await whole.until(lambda: exists(whole, "c-kubeconfig"), "the kubeconfig")
    await scale(whole, 2)


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(b"users: []", id="without a certificate"),
        pytest.param(b"\xff\xfe: [", id="not even text"),
    ],
)
async def test_a_kubeconfig_that_was_damaged_is_made_again(whole: Whole, damaged: bytes) -> None:
    patch = {"data": {"value": base64.b64encode(damaged).decode()}}
    await whole.client.patch(SECRETS, "c-kubeconfig", patch, NAMESPACE)

    async def mended() -> bool:
        value = objects.at(await whole.one(SECRETS, "c-kubeconfig"), "data", "value")
        return value != patch["data"]["value"]

    await whole.until(mended, "the kubeconfig mended")
    await scale(whole, 2)


@pytest.mark.parametrize("purpose", ["ca", "etcd", "proxy", "sa"])
async def test_an_authority_that_machines_run_with_is_reported_as_lost_and_not_replaced(
    whole: Whole, purpose: str
) -> None:
    before = await whole.one(SECRETS, f"c-{purpose}")
    await whole.client.delete(SECRETS, f"c-{purpose}", NAMESPACE)

    async def reported() -> bool:
        return (await certificates_condition(whole)).get("status") == "False"

    await whole.until(reported, "the loss reported")
    message = str((await certificates_condition(whole))["message"])
    machine = next(each for each in await whole.all(capi.MACHINES) if CONTROL_PLANE in objects.name(each))
    assert f"Secret {NAMESPACE}/c-{purpose} was deleted" in message
    assert f"bootstrap data of a machine (Secret {NAMESPACE}/{objects.name(machine)})" in message
    assert not await exists(whole, f"c-{purpose}")
    assert "CertificatesLost" in {str(event["reason"]) for event in (await whole.client.list(EVENTS)).items}
    metadata = {"name": f"c-{purpose}", "namespace": NAMESPACE}
    await whole.client.create(SECRETS, {**before, "metadata": metadata})

    async def is_well_again() -> bool:
        return (await certificates_condition(whole)).get("status") == "True"

    await whole.until(is_well_again, "the Secret brought back is accepted")
    await scale(whole, 2)


async def test_a_cluster_works_for_longer_than_its_first_certificates(whole: Whole) -> None:
    first = certificate_in(await whole.one(SECRETS, "c-kubeconfig"))
    for round_ in range(2):
        whole.clock.move(datetime.timedelta(days=400))

        async def renewed() -> bool:
            found = certificate_in(await whole.one(SECRETS, "c-kubeconfig"))
            return pki.expiry_of(found) > whole.clock.now() + datetime.timedelta(days=300)

        await whole.until(renewed, "a new certificate")
        await scale(whole, 2 + round_)
    assert certificate_in(await whole.one(SECRETS, "c-kubeconfig")) != first


async def test_a_certificate_is_renewed_when_half_of_its_time_is_left_and_not_before(whole: Whole) -> None:
    first = certificate_in(await whole.one(SECRETS, "c-kubeconfig"))
    whole.never_resync()
    whole.clock.move(datetime.timedelta(days=180))
    await whole.manager.idle(within=1.0, settle=0.2)
    assert certificate_in(await whole.one(SECRETS, "c-kubeconfig")) == first
    whole.clock.move(datetime.timedelta(days=4))

    async def renewed() -> bool:
        return certificate_in(await whole.one(SECRETS, "c-kubeconfig")) != first

    await whole.until(renewed, "a new certificate")
    new = certificate_in(await whole.one(SECRETS, "c-kubeconfig"))

    async def in_use() -> bool:
        return whole.connected[-1] == new

    await whole.until(in_use, "a connection with the new certificate")


async def test_everything_is_looked_at_again_after_hours_and_nothing_is_written(whole: Whole) -> None:
    await whole.manager.idle(within=1.0, settle=0.3)
    # Of other kinds there is nothing to look at.
    busy = [controller for controller in whole.manager.controllers if len(controller.informers[0])]
    assert len(busy) > 8
    queues = {controller.name: controller.queue for controller in busy}
    before = {name: queue.adds for name, queue in queues.items()}
    revisions = (whole.store.revision, whole.inner.revision)
    whole.clock.move(datetime.timedelta(hours=10))
    await whole.manager.idle(within=1.0, settle=0.5)
    assert {name for name, queue in queues.items() if queue.adds == before[name]} == set()
    assert (whole.store.revision, whole.inner.revision) == revisions


async def test_bootstrap_data_that_was_deleted_before_the_machine_had_joined_is_made_again(whole: Whole) -> None:
    """The new worker's first data is deleted as soon as it is seen; the machine waits for it and then joins."""
    known = {objects.name(each) for each in await whole.all(capi.MACHINES)}
    await whole.client.patch(CLAIMS, "c", {"spec": {"parameters": {"workerReplicas": 2}}}, NAMESPACE)
    deleted: list[str] = []

    async def deleted_once() -> bool:
        for config in await whole.all(capi.KUBEADM_CONFIGS):
            name = objects.name(config)
            if name not in known and await exists(whole, name):
                await whole.client.delete(SECRETS, name, NAMESPACE)
                deleted.append(name)
        return bool(deleted)

    await whole.until(deleted_once, "bootstrap data of the new machine")
    await scale(whole, 2)
    infrastructure = await whole.one(resources.SIMULATED_MACHINES, deleted[0])
    assert conditions.is_true(infrastructure, "Ready")
