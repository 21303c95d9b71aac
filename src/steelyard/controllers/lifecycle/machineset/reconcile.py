"""Keeps as many machines as the MachineSet says: replaces unhealthy ones, completes half-made ones, creates missing and
deletes surplus ones."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import contract, machines, marks, pausing, spelling
from steelyard.controllers.lifecycle.contract import Externals, Reference
from steelyard.controllers.lifecycle.machineset import blueprint, plan, preflight, remediation, status
from steelyard.controllers.lifecycle.view import View
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import drafts, logs, verdicts
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.drafts import Draft
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.runtime.keys import Key

_TEMPLATE_RETRY = 15.0

_log = logs.get(__name__)


class TemplateMissing(Exception):
    """A template that machines are to be made from does not exist."""


class TooEarly(Exception):
    """No machine can be made before the control plane has come further; the message says for what it waits."""


class MachineSetReconciler:
    def __init__(
        self, client: Client, view: View, externals: Externals, clock: Clock, recorder: Recorder | None
    ) -> None:
        self._client = client
        self._view = view
        self._externals = externals
        self._clock = clock
        self._recorder = recorder

    async def reconcile(self, key: Key) -> Result:
        machine_set = self._view.machine_sets.get(*key)
        if machine_set is None:
            return Result()
        cluster = self._view.cluster_of(machine_set)
        is_going = objects.is_being_deleted(machine_set)
        if cluster is None and not is_going:
            return Result()
        draft = Draft(self._client, capi.MACHINE_SETS, machine_set)
        if await pausing.hold(draft, cluster, self._clock):
            return Result()
        if cluster is None or is_going:
            return await self._delete(draft)
        draft.add_finalizer(wellknown.MACHINE_SET_FINALIZER)
        draft.set_label(wellknown.CLUSTER_NAME_LABEL, objects.name(cluster))
        if objects.controller_of(machine_set) is None:
            draft.add_owner(cluster, controller=False)
        await draft.save_object()
        blocked: list[str] = []
        try:
            await self._remediate(draft.object, cluster)
            await self._scale(draft.object, cluster)
        except TooEarly as error:
            # The control plane's change tells when to look again.
            blocked = [str(error)]
        except (TemplateMissing, contract.UnknownKind) as error:
            blocked = [str(error)]
            if self._recorder is not None:
                self._recorder.warning(machine_set, "FailedCreate", f"Machines cannot be made: {error}")
        current = self._view.machines_of(draft.object)
        status.update(draft.object, current, blocked_by=blocked, now=self._clock.now())
        await draft.save_status()
        return Result(_TEMPLATE_RETRY if blocked else None)

    async def _delete(self, draft: Draft) -> Result:
        current = self._view.machines_of(draft.object)
        if not current:
            await draft.finish(wellknown.MACHINE_SET_FINALIZER)
            return Result()
        await self._delete_machines([each for each in current if not objects.is_being_deleted(each)])
        left = self._view.machines_of(draft.object)
        status.update(draft.object, left, blocked_by=(), now=self._clock.now())
        await draft.save_status()
        return Result()

    async def _remediate(self, machine_set: Object, cluster: Object) -> None:
        """What is to become of each machine is written on it before it is deleted: so it counts as under way, even
        where the process ends in between."""
        current = self._view.machines_of(machine_set)
        if not any(verdicts.find(each, marks.OWNER_REMEDIATED) for each in current):
            return
        deployment = self._view.owner_of(machine_set, capi.MACHINE_DEPLOYMENTS)
        early = preflight.problems(machine_set, self._view.control_plane_of(cluster))
        decided = remediation.decide(current, machine_set, deployment, early)
        by_name = {objects.name(each): each for each in current}
        now = self._clock.now()
        for name in decided.recovered:
            await marks.put(self._client, by_name[name], (), now, without=(marks.OWNER_REMEDIATED,))
        for name, verdict in decided.told.items():
            await marks.put(self._client, by_name[name], (verdict,), now)
        await self._delete_machines([by_name[name] for name in decided.delete])

    async def _scale(self, machine_set: Object, cluster: Object) -> None:
        current = self._view.machines_of(machine_set)
        for machine in current:
            if machines.needs_completion(machine):
                await self._complete(machine, machine_set)
            await self._update_in_place(machine, machine_set)
        step = plan.next_step(
            int(objects.at(machine_set, "spec", "replicas") or 0),
            current,
            str(objects.at(machine_set, "spec", "deletion", "order") or plan.RANDOM),
            self._clock.now(),
        )
        if step.delete:
            await self._delete_machines([each for each in current if objects.name(each) in step.delete])
        if step.create and wellknown.DISABLE_MACHINE_CREATE_ANNOTATION not in objects.annotations(machine_set):
            early = preflight.problems(machine_set, self._view.control_plane_of(cluster))
            if early:
                raise TooEarly("; ".join(early))
            for reference in blueprint.templates(machine_set):
                if reference is not None:
                    await self._own_template(reference, machine_set, cluster)
            for _ in range(step.create):
                await self._create(machine_set)

    async def _create(self, machine_set: Object) -> None:
        wanted = blueprint.machine(machine_set, spelling.random_suffix())
        created = await self._client.create(capi.MACHINES, wanted)
        _log.info("machine made", machine=objects.name(created))
        await self._complete(created, machine_set)

    async def _complete(self, machine: Object, machine_set: Object) -> None:
        infrastructure, bootstrap = blueprint.templates(machine_set)
        if objects.at(machine, *machines.INFRASTRUCTURE) is None or infrastructure is None:
            return

        async def make_infrastructure(machine: Object) -> Object:
            return await self._clone(infrastructure, machine)

        async def make_bootstrap(machine: Object) -> Object:
            assert bootstrap is not None
            return await self._clone(bootstrap, machine)

        await machines.complete(
            self._client, self._externals, machine, infrastructure=make_infrastructure, bootstrap=make_bootstrap
        )

    async def _clone(self, reference: Reference, machine: Object) -> Object:
        template = await self._template(reference, objects.namespace(machine))
        return contract.clone(
            template,
            reference,
            objects.name(machine),
            labels=objects.labels(machine),
            annotations=objects.annotations(machine),
        )

    async def _template(self, reference: Reference, namespace: str) -> Object:
        template = await self._externals.find(reference, namespace)
        if template is None:
            raise TemplateMissing(f"{reference.kind} {reference.name} does not exist")
        return template

    async def _own_template(self, reference: Reference, machine_set: Object, cluster: Object) -> None:
        """Templates go with their cluster."""
        template = await self._template(reference, objects.namespace(machine_set))
        if not objects.is_owned_by(template, cluster):
            resource = await self._externals.resource(reference.group, reference.kind)
            await drafts.ensure_owner(self._client, resource, template, cluster, controller=False, labels={})

    async def _update_in_place(self, machine: Object, machine_set: Object) -> None:
        draft = Draft(self._client, capi.MACHINES, machine)
        blueprint.apply_in_place(draft, machine_set)
        await draft.save_object()

    async def _delete_machines(self, chosen: Sequence[Object]) -> None:
        for machine in chosen:
            _log.info("machine is to go", machine=objects.name(machine))
            with contextlib.suppress(errors.NotFound):
                await self._client.delete(
                    capi.MACHINES, objects.name(machine), objects.namespace(machine), uid=objects.uid(machine)
                )
