"""Deletes what is recorded of a cluster that goes or has gone: a later one of its name has nothing in it yet."""

from __future__ import annotations

import contextlib

from steelyard.api.clusterapi import wellknown
from steelyard.api.clusterapi.resources import CLUSTER_RESOURCE_SET_BINDINGS
from steelyard.controllers.lifecycle.clusterresourceset.selection import Selection
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key


class ClusterResourceSetBindingReconciler:
    def __init__(self, client: Client, selection: Selection) -> None:
        self._client = client
        self._selection = selection

    async def reconcile(self, key: Key) -> Result:
        binding = self._selection.bindings.get(*key)
        if binding is None or wellknown.PAUSED_ANNOTATION in objects.annotations(binding):
            return Result()
        cluster = self._selection.clusters.get(key.namespace, str(objects.at(binding, "spec", "clusterName") or ""))
        if (cluster is None or objects.is_being_deleted(cluster)) and not objects.is_being_deleted(binding):
            with contextlib.suppress(errors.NotFound):
                await self._client.delete(
                    CLUSTER_RESOURCE_SET_BINDINGS, key.name, key.namespace, uid=objects.uid(binding)
                )
        return Result()
