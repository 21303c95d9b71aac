"""Follows one machine: takes over what bootstrap config and infrastructure report, finds the Node, says how it is.

Nothing here creates a machine; that is for the MachineSet or the control plane that owns it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import contract, pausing
from steelyard.controllers.lifecycle.contract import Externals, Reference
from steelyard.controllers.lifecycle.kubeadmcontrolplane import comparison
from steelyard.controllers.lifecycle.machine import components, status
from steelyard.controllers.lifecycle.machine import node as nodes
from steelyard.controllers.lifecycle.machine.deletion import Deletion
from steelyard.controllers.lifecycle.machine.drain import PODS
from steelyard.controllers.lifecycle.machine.status import Observed
from steelyard.controllers.lifecycle.machinedeployment import plan as rollout
from steelyard.controllers.lifecycle.members import health, leaving
from steelyard.controllers.lifecycle.members.exchange import Unreachable
from steelyard.controllers.lifecycle.members.service import Members, StillLooking
from steelyard.controllers.lifecycle.view import View, is_control_plane_machine
from steelyard.controllers.lifecycle.workload import Connection, Workloads
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import drafts, logs, mapping, verdicts
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.drafts import Draft
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.verdicts import Verdict

_REFERENCE_RETRY = 30.0
_COMPONENT_RETRY = 10.0
_KUBECONFIG_RETRY = 10.0
_LOOK_AGAIN = 60.0
"""Nobody tells of an etcd that raises an alarm."""
_to_machine = mapping.to_owner(capi.MACHINES)

_log = logs.get(__name__)


class MachineReconciler:
    def __init__(
        self,
        client: Client,
        view: View,
        externals: Externals,
        workloads: Workloads,
        members: Members,
        clock: Clock,
    ) -> None:
        self._client = client
        self._view = view
        self._externals = externals
        self._workloads = workloads
        self._members = members
        self._clock = clock
        self._deletion = Deletion(client, view, externals, workloads, clock)
        self.tell: contract.Tell = lambda key, changed, after: None
        """Where changes of bootstrap and infrastructure objects go; set by the wiring."""

    async def reconcile(self, key: Key) -> Result:
        machine = self._view.machines.get(*key)
        if machine is None:
            return Result()
        cluster = self._view.cluster_of(machine)
        is_going = objects.is_being_deleted(machine)
        if cluster is None and not is_going:
            return Result()
        draft = Draft(self._client, capi.MACHINES, machine, shares_status=True)
        if await pausing.hold(draft, cluster, self._clock):
            return Result()
        observed = Observed(cluster)
        retry_after: float | None = None
        if cluster is not None and not is_going:
            self._adopt(draft, cluster)
        try:
            await self._bootstrap(draft, observed)
            await self._infrastructure(draft, observed)
        except contract.UnknownKind as error:
            retry_after = _REFERENCE_RETRY
            observed.deleting_message = str(error)
        connection = await self._find_node(draft, observed)
        if is_going:
            outcome = await self._deletion.advance(draft, observed, connection)
            if outcome.is_finished:
                await draft.finish(wellknown.MACHINE_FINALIZER)
                _log.info("machine gone")
                return Result()
            retry_after = outcome.retry_after
        elif observed.node is not None and connection is not None:
            await self._sync_node(draft.object, observed, connection)
        observed.up_to_date = self._up_to_date(draft.object, observed)
        observed.components = await self._components(draft.object, observed, connection)
        if any(not verdict.is_true for verdict in observed.components) and observed.node is not None:
            retry_after = min(retry_after or _COMPONENT_RETRY, _COMPONENT_RETRY)
        if observed.connection_problem:
            retry_after = min(retry_after or _KUBECONFIG_RETRY, _KUBECONFIG_RETRY)
        if observed.shows_components:
            retry_after = min(retry_after or _LOOK_AGAIN, _LOOK_AGAIN)
        wait = status.update(draft.object, observed, self._clock.now())
        was, now = (objects.at(each, "status", "phase") for each in (draft.original, draft.object))
        if was != now:
            _log.info("machine", was=was or "New", now=now)
        await draft.save()
        return Result(wait if wait is not None else retry_after)

    @staticmethod
    def _adopt(draft: Draft, cluster: Object) -> None:
        draft.add_finalizer(wellknown.MACHINE_FINALIZER)
        draft.set_label(wellknown.CLUSTER_NAME_LABEL, objects.name(cluster))
        if objects.controller_of(draft.object) is None:
            draft.add_owner(cluster, controller=False)

    async def _bootstrap(self, draft: Draft, observed: Observed) -> None:
        reference = Reference.of(objects.at(draft.object, "spec", "bootstrap", "configRef"))
        if reference is None:
            if objects.at(draft.object, "spec", "bootstrap", "dataSecretName"):
                draft.set_initialized("bootstrapDataSecretCreated")
            return
        config = await self._owned(draft, reference)
        observed.bootstrap = config
        if config is None:
            return
        bootstrap = cast(Object, draft.spec.setdefault("bootstrap", {}))
        if not bootstrap.get("dataSecretName"):
            if not objects.at(config, "status", "initialization", "dataSecretCreated"):
                return
            name = objects.at(config, "status", "dataSecretName")
            if not name:
                return
            bootstrap["dataSecretName"] = name
        draft.set_initialized("bootstrapDataSecretCreated")

    async def _infrastructure(self, draft: Draft, observed: Observed) -> None:
        reference = Reference.of(objects.at(draft.object, "spec", "infrastructureRef"))
        if reference is None:
            return
        found = await self._owned(draft, reference)
        observed.infrastructure = found
        provider_id = objects.at(found, "spec", "providerID")
        if found is None or objects.is_being_deleted(found) or not provider_id:
            return
        if not contract.is_provisioned(found) and not draft.is_initialized("infrastructureProvisioned"):
            return
        draft.spec["providerID"] = provider_id
        domain = objects.at(found, "spec", "failureDomain") or objects.at(found, "status", "failureDomain")
        if domain:
            draft.spec["failureDomain"] = domain
        addresses = objects.at(found, "status", "addresses")
        if addresses is not None:
            draft.status["addresses"] = addresses
        draft.set_initialized("infrastructureProvisioned")

    async def _owned(self, draft: Draft, reference: Reference) -> Object | None:
        """The object referred to, watched from now on and with the Machine as its controller."""
        await self._externals.watch(reference, "machine", _to_machine, self._tell)
        machine = draft.original
        found = await self._externals.find(reference, objects.namespace(machine))
        if found is None or objects.is_being_deleted(found) or objects.is_being_deleted(machine):
            return found
        resource = await self._externals.resource(reference.group, reference.kind)
        labels = {wellknown.CLUSTER_NAME_LABEL: str(objects.at(machine, "spec", "clusterName"))}
        return await drafts.ensure_owner(self._client, resource, found, machine, controller=True, labels=labels)

    def _tell(self, key: Key, changed: Object | None, after: float) -> None:
        self.tell(key, changed, after)

    async def _find_node(self, draft: Draft, observed: Observed) -> Connection | None:
        provider_id = objects.at(draft.object, "spec", "providerID")
        cluster = observed.cluster
        if not provider_id or cluster is None or objects.is_being_deleted(cluster):
            return None
        connection = await self._workloads.connection(Key.of(cluster))
        if connection is None or not connection.is_synced:
            observed.connection_problem = self._workloads.problem(Key.of(cluster))
            observed.is_connecting = connection is not None
            return connection
        observed.is_connected = True
        observed.node = connection.node(str(provider_id))
        if observed.node is not None:
            draft.status["nodeRef"] = {"name": objects.name(observed.node)}
            info = objects.at(observed.node, "status", "nodeInfo")
            if info is not None:
                draft.status["nodeInfo"] = info
        return connection

    async def _sync_node(self, machine: Object, observed: Observed, connection: Connection) -> None:
        assert observed.node is not None
        interruptible = bool(objects.at(observed.infrastructure, "status", "interruptible"))
        patch = nodes.patch_for(
            observed.node, machine, outdated=self._is_outdated(machine), interruptible=interruptible
        )
        if patch:
            await connection.patch_node(observed.node, patch)

    def _is_outdated(self, machine: Object) -> bool:
        """Whether its MachineSet belongs to an older revision than its MachineDeployment is at."""
        owner = self._view.owner_of(machine, capi.MACHINE_SETS)
        deployment = self._view.owner_of(owner, capi.MACHINE_DEPLOYMENTS) if owner is not None else None
        if owner is None or deployment is None:
            return False
        return rollout.revision(owner) < rollout.revision(deployment)

    def _up_to_date(self, machine: Object, observed: Observed) -> Verdict | None:
        """None where nothing says what the machine should be like."""
        owner = self._view.owner_of(machine, capi.MACHINE_SETS)
        deployment = self._view.owner_of(owner, capi.MACHINE_DEPLOYMENTS) if owner is not None else None
        control_plane = self._view.owner_of(machine, capi.KUBEADM_CONTROL_PLANES)
        if owner is not None and deployment is not None:
            messages = rollout.differences(
                objects.mapping(objects.at(owner, "spec", "template")),
                objects.mapping(objects.at(deployment, "spec", "template")),
            )
        elif control_plane is not None:
            messages = comparison.differences(
                control_plane, machine, observed.bootstrap, observed.infrastructure, self._clock.now()
            )
        else:
            return None
        if not messages:
            return verdicts.true(status.UP_TO_DATE, "UpToDate")
        return verdicts.false(status.UP_TO_DATE, "NotUpToDate", "\n".join(f"* {message}" for message in messages))

    async def _components(self, machine: Object, observed: Observed, connection: Connection | None) -> list[Verdict]:
        is_unknown_for_now = not observed.is_connected and bool(objects.at(machine, "status", "nodeRef", "name"))
        if not is_control_plane_machine(machine) or (is_unknown_for_now and not objects.is_being_deleted(machine)):
            return []
        pods: list[Object] = []
        if connection is not None and observed.node is not None and not objects.is_being_deleted(machine):
            try:
                listed = await connection.client.list(PODS, "kube-system", label_selector=components.POD_SELECTOR)
                pods = list(listed.items)
            except errors.ServiceUnavailable:
                return []
            except errors.NotFound:
                pods = []
        observed.shows_components = bool(pods)
        return components.inspect(machine, observed.node, pods, await self._member(machine, observed, pods))

    async def _member(self, machine: Object, observed: Observed, pods: Sequence[Object]) -> Verdict | None:
        """How its etcd member is. Where one machine is all, and shows no etcd of its own, nobody is asked."""
        cluster = observed.cluster
        is_wanted = components.is_asked_for(machine, health.MEMBER) and not objects.is_being_deleted(machine)
        if cluster is None or observed.node is None or not is_wanted:
            return None
        # This one as it is now: the others do not know it with its Node yet.
        around = [machine, *(each for each in self._control_plane(cluster) if Key.of(each) != Key.of(machine))]
        if not pods and len(around) == 1:
            return None
        hosts = [leaving.host_of(each) for each in around]
        try:
            etcd = await self._members.look(cluster, objects.by_name(around))
        except StillLooking:
            return verdicts.find(machine, health.MEMBER) or health.unknown("it has not answered yet")
        except Unreachable as error:
            return health.unknown(str(error))
        return health.of_member(hosts[0], hosts, etcd) if etcd is not None else None

    def _control_plane(self, cluster: Object) -> list[Object]:
        return [each for each in self._view.machines_of_cluster(cluster) if is_control_plane_machine(each)]
