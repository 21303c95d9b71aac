"""Drafts of objects whose status has several writers: none loses what another wrote in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.api.clusterapi import definitions
from steelyard.api.clusterapi.resources import MACHINES
from steelyard.kube import errors, objects
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.runtime import conditions
from steelyard.kube.runtime.drafts import Draft
from steelyard.kube.server.api import Api
from steelyard.kube.store.store import Store

SPEC: Object = {
    "clusterName": "c",
    "bootstrap": {"dataSecretName": "s"},
    "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "SimulatedMachine", "name": "m"},
}


def told(type_: str) -> Object:
    return {"type": type_, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2025-01-01T00:00:00Z"}


@pytest.mark.parametrize("changes_the_object", [False, True])
async def test_what_another_wrote_since_is_not_overwritten(tmp_path: Path, changes_the_object: bool) -> None:
    store = await Store.open(tmp_path / "store.db", fsync=False)
    api = await Api.start(store)
    try:
        client = LocalClient(api)
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definitions.crd(MACHINES))
        made: Object = {
            "apiVersion": MACHINES.api_version,
            "kind": MACHINES.kind,
            "metadata": {"name": "m", "namespace": "default"},
            "spec": SPEC,
        }
        draft = Draft(client, MACHINES, await client.create(MACHINES, made), shares_status=True)
        other = {"status": {"conditions": [told("HealthCheckSucceeded")]}}
        await client.patch(MACHINES, "m", other, "default", subresource="status")
        if changes_the_object:
            draft.set_label("a", "b")
        draft.status["conditions"] = [told("Ready")]
        with pytest.raises(errors.Conflict):
            await draft.save()
        found = await client.get(MACHINES, "m", "default")
        assert conditions.is_true(found, "HealthCheckSucceeded")
        assert objects.labels(found) == {}

        again = Draft(client, MACHINES, found, shares_status=True)
        again.set_label("a", "b")
        again.status["conditions"] = [*conditions.of(found), told("Ready")]
        await again.save()
        found = await client.get(MACHINES, "m", "default")
        assert conditions.is_true(found, "HealthCheckSucceeded")
        assert conditions.is_true(found, "Ready")
    finally:
        await api.close()
        await store.close()
