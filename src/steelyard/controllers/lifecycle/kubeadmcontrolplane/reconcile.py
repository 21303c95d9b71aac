"""Keeps a control plane: its certificates and kubeconfig, and its machines, which change one at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import certificates, contract, kubeconfig, machines, pausing, spelling
from steelyard.controllers.lifecycle.contract import Externals, Reference
from steelyard.controllers.lifecycle.kubeadmcontrolplane import blueprint, comparison, plan, status, upgrading
from steelyard.controllers.lifecycle.kubeadmcontrolplane.departure import Departure
from steelyard.controllers.lifecycle.kubeadmcontrolplane.mending import Mending
from steelyard.controllers.lifecycle.kubeadmcontrolplane.plan import Member
from steelyard.controllers.lifecycle.kubeadmcontrolplane.status import Progress
from steelyard.controllers.lifecycle.members.leaving import CannotLeave
from steelyard.controllers.lifecycle.members.service import Members
from steelyard.controllers.lifecycle.view import View, is_control_plane_machine
from steelyard.controllers.lifecycle.workload import Workloads
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import drafts, logs
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.drafts import Draft
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.runtime.keys import Key

_RETRY = 15.0

_log = logs.get(__name__)


class TemplateMissing(Exception):
    """The template that machines are to be made from does not exist."""


class ControlPlaneReconciler:
    def __init__(
        self,
        client: Client,
        view: View,
        externals: Externals,
        workloads: Workloads,
        members: Members,
        clock: Clock,
        recorder: Recorder | None,
    ) -> None:
        self._client = client
        self._view = view
        self._externals = externals
        self._workloads = workloads
        self._clock = clock
        self._recorder = recorder
        self._departure = Departure(client, members)
        self._mending = Mending(client, members, clock)

    async def reconcile(self, key: Key) -> Result:
        control_plane = self._view.control_planes.get(*key)
        if control_plane is None:
            return Result()
        cluster = self._view.cluster_owning(control_plane)
        if cluster is None and not objects.is_being_deleted(control_plane):
            return Result()
        draft = Draft(self._client, capi.KUBEADM_CONTROL_PLANES, control_plane)
        if await pausing.hold(draft, cluster, self._clock):
            return Result()
        progress = Progress()
        retry_after: float | None = None
        if cluster is None or objects.is_being_deleted(control_plane):
            if await self._delete(draft, cluster, progress):
                return Result()
        else:
            draft.add_finalizer(wellknown.CONTROL_PLANE_FINALIZER)
            draft.set_label(wellknown.CLUSTER_NAME_LABEL, objects.name(cluster))
            await draft.save_object()
            retry_after = await self._advance(draft.object, cluster, progress)
        status.update(draft.object, self._view.machines_of(draft.object), progress, self._clock.now())
        await draft.save_status()
        return Result(retry_after)

    async def _advance(self, control_plane: Object, cluster: Object, progress: Progress) -> float | None:
        """As far as it goes now; returns when to try again where no event will tell."""
        if not objects.at(cluster, "status", "initialization", "infrastructureProvisioned"):
            progress.waiting_for = "Waiting for Cluster status.initialization.infrastructureProvisioned to be true"
            return None
        now = self._clock.now()
        try:
            await self._ensure_certificates(control_plane, cluster)
        except certificates.Lost as error:
            progress.lost_certificates = str(error)
            self._warn(control_plane, "CertificatesLost", str(error))
            with contextlib.suppress(CannotLeave):
                await self._departure.advance(control_plane, cluster, self._view.machines_of(control_plane))
            return _RETRY
        progress.has_certificates = True
        endpoint = contract.endpoint_text(cluster)
        if not endpoint:
            progress.waiting_for = "Waiting for Cluster spec.controlPlaneEndpoint to be set"
            return None
        try:
            renewal = await kubeconfig.ensure(self._client, cluster, owner=control_plane, endpoint=endpoint, now=now)
        except certificates.Missing as error:
            progress.certificates_problem = str(error)
            return _RETRY
        try:
            retry_after = await self._change_machines(control_plane, cluster, progress)
        except (TemplateMissing, contract.UnknownKind, CannotLeave, upgrading.NotTold) as error:
            progress.blocked_by = (str(error),)
            progress.holds_member = str(error) if isinstance(error, CannotLeave) else ""
            self._warn(control_plane, "ControlPlaneBlocked", str(error))
            return _RETRY
        waits = [retry_after, (renewal - now).total_seconds() if renewal is not None else None]
        return min((each for each in waits if each is not None), default=None)

    async def _ensure_certificates(self, control_plane: Object, cluster: Object) -> None:
        configuration = objects.mapping(objects.at(control_plane, "spec", "kubeadmConfigSpec", "clusterConfiguration"))
        data_secrets = [
            str(objects.at(machine, "spec", "bootstrap", "dataSecretName") or "")
            for machine in self._view.machines_of(control_plane)
        ]
        await certificates.ensure(
            self._client,
            cluster,
            owner=control_plane,
            cluster_configuration=configuration,
            data_secrets=[name for name in data_secrets if name],
            now=self._clock.now(),
        )

    def _warn(self, control_plane: Object, reason: str, message: str) -> None:
        if self._recorder is not None:
            self._recorder.warning(control_plane, reason, message)

    async def _change_machines(self, control_plane: Object, cluster: Object, progress: Progress) -> float | None:
        """One step; returns when to look again where no event will tell."""
        current = self._view.machines_of(control_plane)
        for machine in current:
            if machines.needs_completion(machine):
                await self._complete(machine, control_plane, cluster, is_first=len(current) == 1)
            if not objects.is_being_deleted(machine):
                change = Draft(self._client, capi.MACHINES, machine)
                blueprint.apply_in_place(change, control_plane, cluster)
                await change.save_object()
        progress.etcd_problems = await self._departure.clean_up(control_plane, cluster, current)
        await self._departure.advance(control_plane, cluster, current)
        mended = await self._mending.advance(control_plane, cluster, current)
        if not mended.has_begun:
            await self._step(control_plane, cluster, current, progress)
        return mended.retry_after

    async def _step(
        self, control_plane: Object, cluster: Object, current: Sequence[Object], progress: Progress
    ) -> None:
        surge = objects.at(control_plane, "spec", "rollout", "strategy", "rollingUpdate", "maxSurge")
        step = plan.next_step(
            [await self._member(control_plane, each) for each in current],
            status.replicas_of(control_plane),
            max_surge=1 if surge is None else int(surge),
            failure_domains=_failure_domains(cluster),
        )
        progress.step = step
        if step.action == "nothing":
            await self._follow(control_plane, cluster, current)
        if step.blocked_by or step.action == "nothing":
            return
        if step.action == "remove":
            chosen = next(each for each in current if objects.name(each) == step.machine)
            _log.info("machine is to go", machine=step.machine)
            await self._delete_machine(chosen)
            return
        await self._own_template(control_plane, cluster)
        if step.action == "add":
            await self._announce(control_plane, cluster)
        wanted = blueprint.machine(control_plane, cluster, spelling.random_suffix(), step.failure_domain)
        created = await self._client.create(capi.MACHINES, wanted)
        _log.info("machine made", machine=objects.name(created))
        await self._mending.finish(control_plane)
        await self._complete(created, control_plane, cluster, is_first=not current)

    async def _announce(self, control_plane: Object, cluster: Object) -> None:
        connection = await self._workloads.connection(Key.of(cluster))
        if connection is None:
            raise upgrading.NotTold(self._workloads.problem(Key.of(cluster)) or "Waiting for the cluster's kubeconfig")
        await upgrading.announce(connection.client, control_plane, cluster)

    async def _follow(self, control_plane: Object, cluster: Object, current: Sequence[Object]) -> None:
        """Once, when the last machine of the former version is gone; the status says so only after it."""
        before = objects.at(control_plane, "status", "version")
        if not before or before == objects.at(control_plane, "spec", "version"):
            return
        connection = await self._workloads.connection(Key.of(cluster))
        if connection is None:
            return
        nodes = [connection.node(str(objects.at(each, "spec", "providerID") or "")) for each in current]
        await upgrading.follow(connection.client, control_plane, [each for each in nodes if each is not None])

    async def _member(self, control_plane: Object, machine: Object) -> Member:
        namespace = objects.namespace(machine)
        parts: list[Object | None] = []
        for path in (machines.BOOTSTRAP, machines.INFRASTRUCTURE):
            reference = Reference.of(objects.at(machine, *path))
            parts.append(await self._externals.find(reference, namespace) if reference is not None else None)
        config, infrastructure = parts
        outdated = comparison.differences(control_plane, machine, config, infrastructure, self._clock.now())
        return Member(
            name=objects.name(machine),
            created=str(objects.metadata(machine).get("creationTimestamp") or ""),
            is_going=objects.is_being_deleted(machine),
            has_node=bool(objects.at(machine, "status", "nodeRef", "name")),
            problems=status.problems_of(machine) if not objects.is_being_deleted(machine) else (),
            is_outdated=bool(outdated),
            is_marked=wellknown.DELETE_MACHINE_ANNOTATION in objects.annotations(machine),
            failure_domain=str(objects.at(machine, "spec", "failureDomain") or ""),
        )

    async def _complete(self, machine: Object, control_plane: Object, cluster: Object, *, is_first: bool) -> None:
        # The status alone would not do: it is written after the second machine may have been made.
        initializes = is_first and not objects.at(control_plane, "status", "initialization", "controlPlaneInitialized")

        async def make_infrastructure(machine: Object) -> Object:
            reference = blueprint.template_of(control_plane)
            if reference is None:
                raise TemplateMissing("spec.machineTemplate.spec.infrastructureRef is not set")
            return contract.clone(
                await self._template(reference, objects.namespace(machine)),
                reference,
                objects.name(machine),
                labels=blueprint.labels_of(control_plane, cluster),
                annotations=blueprint.annotations_of(control_plane),
            )

        async def make_config(machine: Object) -> Object:
            return blueprint.config(control_plane, cluster, objects.name(machine), initializes=initializes)

        await machines.complete(
            self._client, self._externals, machine, infrastructure=make_infrastructure, bootstrap=make_config
        )

    async def _template(self, reference: Reference, namespace: str) -> Object:
        template = await self._externals.find(reference, namespace)
        if template is None:
            raise TemplateMissing(f"{reference.kind} {reference.name} does not exist")
        return template

    async def _own_template(self, control_plane: Object, cluster: Object) -> None:
        """The template goes with its cluster."""
        reference = blueprint.template_of(control_plane)
        if reference is None:
            raise TemplateMissing("spec.machineTemplate.spec.infrastructureRef is not set")
        template = await self._template(reference, objects.namespace(control_plane))
        if not objects.is_owned_by(template, cluster):
            resource = await self._externals.resource(reference.group, reference.kind)
            await drafts.ensure_owner(self._client, resource, template, cluster, controller=False, labels={})

    async def _delete(self, draft: Draft, cluster: Object | None, progress: Progress) -> bool:
        """True once the control plane is gone.

        Workers go first: their machines may need its API to leave. Without its Cluster none needs it any more, and
        those of a later Cluster of the same name are no concern of this control plane.
        """
        own = self._view.machines_of(draft.object)
        if not own:
            await draft.finish(wellknown.CONTROL_PLANE_FINALIZER)
            return True
        machines_around = self._view.machines_of_cluster(cluster) if cluster is not None else []
        workers = [each for each in machines_around if not is_control_plane_machine(each)]
        if workers:
            listed = ", ".join(objects.name(each) for each in workers[:3])
            progress.deleting_reason = "WaitingForWorkersDeletion"
            progress.deleting_message = (
                f"KubeadmControlPlane deletion blocked because following objects still exist:\n* Machines: {listed}"
                + (f", ... ({len(workers) - 3} more)" if len(workers) > 3 else "")
            )
            return False
        for machine in own:
            # In this order: on a full disk nothing but what is being deleted can be changed.
            if not objects.is_being_deleted(machine):
                await self._delete_machine(machine)
            await self._departure.release(machine)
        progress.deleting_reason = "WaitingForMachineDeletion"
        progress.deleting_message = f"Deleting {len(own)} Machine{'' if len(own) == 1 else 's'}"
        return False

    async def _delete_machine(self, machine: Object) -> None:
        with contextlib.suppress(errors.NotFound):
            await self._client.delete(
                capi.MACHINES, objects.name(machine), objects.namespace(machine), uid=objects.uid(machine)
            )


def _failure_domains(cluster: Object) -> list[str]:
    domains = map(objects.mapping, objects.sequence(objects.at(cluster, "status", "failureDomains")))
    return [str(domain.get("name")) for domain in domains if domain.get("controlPlane")]
