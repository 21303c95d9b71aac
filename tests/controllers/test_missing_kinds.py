"""A CustomResourceDefinition that is not there: everything else goes on, it is told, and it mends itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from steelyard.api import resources
from steelyard.api.clusterapi import definitions
from steelyard.api.clusterapi import resources as capi
from steelyard.compose import offering
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from tests.controllers import whole as stages
from tests.controllers.whole import Whole


@pytest.fixture
async def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Whole]:
    monkeypatch.setattr("steelyard.kube.runtime.informer._MISSING_DELAY", 0.3)
    async with stages.opened(tmp_path) as opened:
        yield opened


def definition_of(resource: Resource) -> Object:
    everything = [*offering.STANDARD.definitions("steelyard.dev"), *definitions.crds()]
    return next(crd for crd in everything if objects.name(crd) == resource.group_resource)


async def remove_kind(whole: Whole, resource: Resource) -> None:
    await whole.client.delete(CUSTOM_RESOURCE_DEFINITIONS, resource.group_resource)

    async def told() -> bool:
        return f"no CustomResourceDefinition serves {resource.group_resource}" in (whole.manager.problem() or "")

    await whole.until(told, "the missing kind told", describe=whole.left)


async def bring_back(whole: Whole, resource: Resource) -> None:
    await whole.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition_of(resource))

    async def well() -> bool:
        return whole.manager.problem() is None

    await whole.until(well, "no kind missing any more")


KINDS = [
    capi.MACHINE_DEPLOYMENTS,
    capi.KUBEADM_CONTROL_PLANES,
    capi.CLUSTERS,
    resources.SIMULATED_MACHINES,
    resources.SIMULATED_CLUSTERS,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
async def test_a_missing_kind_does_not_keep_the_controllers_from_starting(whole: Whole, kind: Resource) -> None:
    await whole.crash()
    await whole.client.delete(CUSTOM_RESOURCE_DEFINITIONS, kind.group_resource)
    await whole.start()
    assert whole.manager.problem() == f"no CustomResourceDefinition serves {kind.group_resource}"
    await whole.claim()
    await asyncio.sleep(0.2)
    assert not await whole.is_ready()
    await bring_back(whole, kind)
    await whole.until_ready()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
async def test_a_kind_that_vanishes_and_comes_back_is_made_use_of_again(whole: Whole, kind: Resource) -> None:
    await remove_kind(whole, kind)
    await whole.claim()
    await asyncio.sleep(0.2)
    assert not await whole.is_ready()
    await bring_back(whole, kind)
    await whole.until_ready()
