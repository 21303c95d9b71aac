"""When a KubeadmControlPlane is looked at: with its machines, Secrets, cluster, and workers that are in its way."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from steelyard.api.clusterapi import resources as capi
from steelyard.controllers.lifecycle import certificates, kubeconfig, progress
from steelyard.controllers.lifecycle.members.service import Members
from steelyard.controllers.lifecycle.view import View
from steelyard.kube import objects, resources
from steelyard.kube.objects import Object
from steelyard.kube.runtime import mapping, triggers
from steelyard.kube.runtime.controller import Controller, Reconciler, Watch
from steelyard.kube.runtime.deferred import Deferred
from steelyard.kube.runtime.keys import Key


class ControlPlaneController(Controller):
    members: Members

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            await self.members.close()


def controller(make: Callable[[], Reconciler], view: View, members: Members, *, workers: int) -> Controller:
    def of_cluster(cluster: Object) -> Iterable[Key]:
        reference = objects.mapping(objects.at(cluster, "spec", "controlPlaneRef"))
        if reference.get("kind") != capi.KUBEADM_CONTROL_PLANES.kind:
            return []
        return [Key(objects.namespace(cluster), str(reference.get("name") or ""))]

    def held_up_by(machine: Object) -> Iterable[Key]:
        cluster = view.cluster_of(machine)
        return of_cluster(cluster) if cluster is not None else []

    def of_secret(secret: Object) -> Iterable[Key]:
        """By the Secret's name alone: one that a user has brought along has no owner."""
        for purpose in (*certificates.PURPOSES, kubeconfig.PURPOSE):
            cluster = view.cluster(objects.namespace(secret), objects.name(secret).removesuffix(f"-{purpose}"))
            if cluster is not None and objects.name(secret).endswith(f"-{purpose}"):
                yield from of_cluster(cluster)

    made = ControlPlaneController(
        "lifecycle-kubeadmcontrolplane",
        capi.KUBEADM_CONTROL_PLANES,
        Deferred(make),
        [
            Watch(
                capi.MACHINES,
                mapping.to_owner(capi.KUBEADM_CONTROL_PLANES),
                triggers.changed(
                    ("status", "nodeRef"),
                    triggers.ANNOTATIONS,
                    triggers.DELETION,
                    triggers.OWNERS,
                ),
            ),
            Watch(
                capi.MACHINES,
                mapping.to_owner(capi.KUBEADM_CONTROL_PLANES),
                triggers.changed(("status", "phase"), triggers.CONDITIONS),
                after=triggers.REPORT_AFTER,
            ),
            Watch(capi.MACHINES, held_up_by, lambda _, new: new is None),
            Watch(resources.SECRETS, of_secret, triggers.changed(("data",), triggers.OWNERS)),
            Watch(capi.CLUSTERS, of_cluster, progress.CLUSTER_PROGRESS),
        ],
        workers=workers,
    )

    def on_members_seen(key: Key) -> None:
        cluster = view.cluster(key.namespace, key.name)
        if cluster is not None:
            made.enqueue(of_cluster(cluster))

    made.members = members
    members.on_seen(on_members_seen)
    return made
