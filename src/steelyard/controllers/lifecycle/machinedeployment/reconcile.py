"""Keeps one MachineSet per revision of the template and moves the machines from the old ones to the new one."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import contract, pausing
from steelyard.controllers.lifecycle.contract import Externals, Reference
from steelyard.controllers.lifecycle.machinedeployment import blueprint, plan, status
from steelyard.controllers.lifecycle.machinedeployment.plan import Group
from steelyard.controllers.lifecycle.view import View
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import drafts, logs
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.drafts import Draft
from steelyard.kube.runtime.keys import Key

_TEMPLATE_RETRY = 15.0

_log = logs.get(__name__)


class MachineDeploymentReconciler:
    def __init__(self, client: Client, view: View, externals: Externals, clock: Clock) -> None:
        self._client = client
        self._view = view
        self._externals = externals
        self._clock = clock

    async def reconcile(self, key: Key) -> Result:
        deployment = self._view.machine_deployments.get(*key)
        if deployment is None:
            return Result()
        cluster = self._view.cluster_of(deployment)
        is_going = objects.is_being_deleted(deployment)
        if cluster is None and not is_going:
            return Result()
        draft = Draft(self._client, capi.MACHINE_DEPLOYMENTS, deployment)
        if await pausing.hold(draft, cluster, self._clock):
            return Result()
        if cluster is None or is_going:
            return await self._delete(draft)
        draft.add_finalizer(wellknown.MACHINE_DEPLOYMENT_FINALIZER)
        draft.set_label(wellknown.CLUSTER_NAME_LABEL, objects.name(cluster))
        draft.add_owner(cluster, controller=False)
        blocked = await self._own_templates(deployment, cluster)
        if not blocked and not objects.at(deployment, "spec", "paused"):
            await draft.save_object()
            await self._roll_out(draft)
        self._report(draft, blocked)
        await draft.save()
        return Result(_TEMPLATE_RETRY if blocked else None)

    async def _delete(self, draft: Draft) -> Result:
        machine_sets = self._view.machine_sets_of(draft.object)
        if not machine_sets:
            await draft.finish(wellknown.MACHINE_DEPLOYMENT_FINALIZER)
            return Result()
        for machine_set in machine_sets:
            if not objects.is_being_deleted(machine_set):
                await self._delete_machine_set(machine_set)
        self._report(draft, [])
        await draft.save_status()
        return Result()

    async def _roll_out(self, draft: Draft) -> None:
        deployment = draft.object
        replicas, strategy = plan.replicas_of(deployment), plan.strategy_of(deployment)
        machine_sets = self._view.machine_sets_of(deployment)
        new, old = plan.split(deployment, machine_sets)
        old_groups = [self._group(each) for each in old]
        if new is None:
            first = plan.initial_replicas(replicas, old_groups, strategy)
            new = await self._client.create(capi.MACHINE_SETS, blueprint.machine_set(deployment, old, first))
            _log.info("rollout begun" if old else "machine set made", machine_set=objects.name(new))
        targets = plan.scale(replicas, self._group(new), old_groups, strategy)
        for machine_set in old:
            target = targets.get(objects.name(machine_set))
            if target is not None and not objects.is_being_deleted(machine_set):
                change = Draft(self._client, capi.MACHINE_SETS, machine_set)
                change.spec["replicas"] = target
                await change.save_object()
        change = Draft(self._client, capi.MACHINE_SETS, new)
        blueprint.apply_in_place(change, deployment, old)
        change.spec["replicas"] = targets.get(objects.name(new), plan.replicas_of(new))
        await change.save_object()
        draft.set_annotation(wellknown.REVISION_ANNOTATION, str(plan.revision(change.object)))
        if plan.is_complete(replicas, self._group(new), old_groups):
            for machine_set in old:
                is_settled = objects.at(machine_set, "status", "observedGeneration") == objects.generation(machine_set)
                if is_settled and not objects.is_being_deleted(machine_set):
                    await self._delete_machine_set(machine_set)

    def _group(self, machine_set: Object) -> Group:
        machines = self._view.machines_of(machine_set)
        return Group(
            name=objects.name(machine_set),
            wanted=plan.replicas_of(machine_set),
            existing=len(machines),
            available=int(objects.at(machine_set, "status", "availableReplicas") or 0),
            going=sum(objects.is_being_deleted(each) for each in machines),
            created=str(objects.metadata(machine_set).get("creationTimestamp") or ""),
        )

    def _report(self, draft: Draft, blocked: Sequence[str]) -> None:
        machine_sets = self._view.machine_sets_of(draft.object)
        machines = [machine for each in machine_sets for machine in self._view.machines_of(each)]
        status.update(draft.object, machine_sets, machines, blocked_by=blocked, now=self._clock.now())

    async def _own_templates(self, deployment: Object, cluster: Object) -> list[str]:
        """Templates go with their cluster. Returns what is missing."""
        missing: list[str] = []
        spec = objects.mapping(objects.at(deployment, "spec", "template", "spec"))
        for value in (spec.get("infrastructureRef"), objects.at(spec, "bootstrap", "configRef")):
            reference = Reference.of(value)
            if reference is None:
                continue
            try:
                template = await self._externals.find(reference, objects.namespace(deployment))
            except contract.UnknownKind as error:
                missing.append(str(error))
                continue
            if template is None:
                missing.append(f"{reference.kind} {reference.name} does not exist")
            elif not objects.is_owned_by(template, cluster):
                resource = await self._externals.resource(reference.group, reference.kind)
                await drafts.ensure_owner(self._client, resource, template, cluster, controller=False, labels={})
        return missing

    async def _delete_machine_set(self, machine_set: Object) -> None:
        with contextlib.suppress(errors.NotFound):
            await self._client.delete(
                capi.MACHINE_SETS,
                objects.name(machine_set),
                objects.namespace(machine_set),
                uid=objects.uid(machine_set),
            )
