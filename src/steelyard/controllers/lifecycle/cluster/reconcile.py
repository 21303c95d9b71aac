"""Brings a cluster's parts together, reports on them, and takes them away in order.

Deletion: workers first (they leave through the control plane's API), then the control plane, then the
infrastructure, then the Cluster itself. Secrets and templates are owned and go with what owns them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import contract, pausing
from steelyard.controllers.lifecycle.cluster import status
from steelyard.controllers.lifecycle.cluster.status import Observed
from steelyard.controllers.lifecycle.contract import Externals, Reference
from steelyard.controllers.lifecycle.view import View, is_control_plane_machine
from steelyard.controllers.lifecycle.workload import Connection, Workloads
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import drafts
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.drafts import Draft
from steelyard.kube.runtime.keys import Key

_REFERENCE_RETRY = 30.0


class ClusterReconciler:
    def __init__(self, client: Client, view: View, externals: Externals, workloads: Workloads, clock: Clock) -> None:
        self._client = client
        self._view = view
        self._externals = externals
        self._workloads = workloads
        self._clock = clock
        self.tell: contract.Tell = lambda key, changed, after: None
        """Where changes of infrastructure and control-plane objects go; set by the wiring."""

    async def reconcile(self, key: Key) -> Result:
        cluster = self._view.clusters.get(*key)
        if cluster is None:
            await self._workloads.drop(key)
            return Result()
        draft = Draft(self._client, capi.CLUSTERS, cluster)
        if await pausing.hold(draft, cluster, self._clock):
            return Result()
        is_going = objects.is_being_deleted(cluster)
        if not is_going and wellknown.CLUSTER_FINALIZER not in objects.finalizers(cluster):
            draft.add_finalizer(wellknown.CLUSTER_FINALIZER)
            await draft.save_object()
        connection = await self._current_connection(key)
        observed = Observed(
            machine_deployments=self._view.machine_deployments_of_cluster(cluster),
            machine_sets=self._view.machine_sets_of_cluster(cluster),
            machines=self._view.machines_of_cluster(cluster),
            is_connected=connection is not None and connection.is_synced,
            connection_problem=self._workloads.problem(key),
        )
        observed.infrastructure = await self._part(draft, observed, "infrastructureRef")
        observed.control_plane = await self._part(draft, observed, "controlPlaneRef")
        if is_going:
            await self._workloads.drop(key)
            if await self._delete(draft, observed):
                await draft.finish(wellknown.CLUSTER_FINALIZER)
                return Result()
        else:
            self._take_over_infrastructure(draft, observed.infrastructure)
            self._take_over_control_plane(draft, observed)
        await draft.save_object()
        status.update(draft.object, observed, self._clock.now())
        await draft.save_status()
        return Result(_REFERENCE_RETRY if observed.problems else None)

    async def _current_connection(self, key: Key) -> Connection | None:
        """The connection if there is one, opened anew where the kubeconfig has changed since or could not be used."""
        if self._workloads.current(key) is None and not self._workloads.problem(key):
            return None
        return await self._workloads.connection(key)

    async def _part(self, draft: Draft, observed: Observed, field: str) -> Object | None:
        """What the Cluster refers to, watched from now on and owned by the Cluster."""
        reference = Reference.of(objects.at(draft.object, "spec", field))
        if reference is None:
            return None
        try:
            if reference.kind != capi.KUBEADM_CONTROL_PLANES.kind:
                await self._externals.watch(reference, "cluster", self._view.to_clusters_referring, self._tell)
            found = await self._externals.find(reference, objects.namespace(draft.object))
            resource = await self._externals.resource(reference.group, reference.kind)
        except contract.UnknownKind as error:
            observed.problems.append(str(error))
            return None
        if found is None or objects.is_being_deleted(found) or objects.is_being_deleted(draft.object):
            return found
        labels = {wellknown.CLUSTER_NAME_LABEL: objects.name(draft.object)}
        return await drafts.ensure_owner(self._client, resource, found, draft.object, controller=True, labels=labels)

    def _tell(self, key: Key, changed: Object | None, after: float) -> None:
        self.tell(key, changed, after)

    @staticmethod
    def _take_over_infrastructure(draft: Draft, infrastructure: Object | None) -> None:
        if not objects.at(draft.object, "spec", "infrastructureRef"):
            draft.set_initialized("infrastructureProvisioned")
            return
        if infrastructure is None or objects.is_being_deleted(infrastructure):
            return
        if not contract.is_provisioned(infrastructure) and not draft.is_initialized("infrastructureProvisioned"):
            return
        if contract.endpoint(draft.object) is None:
            endpoint = contract.endpoint(infrastructure)
            if endpoint is not None:
                draft.spec["controlPlaneEndpoint"] = endpoint
        domains = objects.at(infrastructure, "status", "failureDomains")
        if domains:
            draft.status["failureDomains"] = domains
        draft.set_initialized("infrastructureProvisioned")

    @staticmethod
    def _take_over_control_plane(draft: Draft, observed: Observed) -> None:
        if not objects.at(draft.object, "spec", "controlPlaneRef"):
            has_node = any(
                is_control_plane_machine(each) and objects.at(each, "status", "nodeRef", "name")
                for each in observed.machines
            )
            if has_node:
                draft.set_initialized("controlPlaneInitialized")
            return
        control_plane = observed.control_plane
        if control_plane is None or objects.is_being_deleted(control_plane):
            return
        if not objects.at(control_plane, "status", "initialization", "controlPlaneInitialized"):
            return
        if contract.endpoint(draft.object) is None:
            endpoint = contract.endpoint(control_plane)
            if endpoint is not None:
                draft.spec["controlPlaneEndpoint"] = endpoint
        draft.set_initialized("controlPlaneInitialized")

    async def _delete(self, draft: Draft, observed: Observed) -> bool:
        """True once nothing of the cluster is left."""
        cluster = draft.object
        standalone = observed.workers if objects.at(cluster, "spec", "controlPlaneRef") else observed.machines
        groups: Sequence[tuple[str, Resource, Sequence[Object]]] = (
            ("MachineDeployments", capi.MACHINE_DEPLOYMENTS, observed.machine_deployments),
            ("MachineSets", capi.MACHINE_SETS, observed.machine_sets),
            ("Machines", capi.MACHINES, standalone),
        )
        left: list[str] = []
        for title, resource, members in groups:
            for member in members:
                if objects.is_owned_by(member, cluster) and not objects.is_being_deleted(member):
                    await self._delete_object(resource, member)
            if members:
                listed = ", ".join(objects.name(member) for member in members[:3])
                more = f", ... ({len(members) - 3} more)" if len(members) > 3 else ""
                left.append(f"* {title}: {listed}{more}")
        if left:
            observed.deleting_reason, observed.deleting_message = "WaitingForWorkersDeletion", "\n".join(left)
            return False
        for field, reason in (
            ("controlPlaneRef", "WaitingForControlPlaneDeletion"),
            ("infrastructureRef", "WaitingForInfrastructureDeletion"),
        ):
            reference = Reference.of(objects.at(cluster, "spec", field))
            if reference is not None and not await self._is_gone(reference, cluster, observed):
                observed.deleting_reason = reason
                observed.deleting_message = f"Waiting for {reference.kind} to be deleted"
                return False
        return True

    async def _is_gone(self, reference: Reference, cluster: Object, observed: Observed) -> bool:
        namespace = objects.namespace(cluster)
        try:
            resource = await self._externals.resource(reference.group, reference.kind)
        except contract.UnknownKind:
            return True
        found = await self._externals.find(reference, namespace)
        if found is None:
            return True
        if not objects.is_being_deleted(found):
            await self._delete_object(resource, found)
        return await self._externals.find(reference, namespace) is None

    async def _delete_object(self, resource: Resource, obj: Object) -> None:
        with contextlib.suppress(errors.NotFound):
            await self._client.delete(resource, objects.name(obj), objects.namespace(obj), uid=objects.uid(obj))
