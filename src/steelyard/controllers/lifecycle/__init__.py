"""The life of Kubernetes clusters to the Cluster API v1beta2 contract: upstream's kinds, run by controllers of our own.

Same kinds, fields, Secrets, labels, owner references and conditions as upstream's, so that upstream's controllers
can take a cluster over without replacing a machine. One folder per kind, each with the same files: `controller.py`
says when an object is looked at, `reconcile.py` what is done, `plan.py` and `blueprint.py` decide (pure),
`status.py` reports (pure).
"""

from __future__ import annotations

from steelyard.controllers.lifecycle.cluster import controller as cluster
from steelyard.controllers.lifecycle.clusterresourceset import controller as clusterresourceset
from steelyard.controllers.lifecycle.clusterresourceset.selection import Selection
from steelyard.controllers.lifecycle.clusterresourcesetbinding import controller as clusterresourcesetbinding
from steelyard.controllers.lifecycle.contract import Externals
from steelyard.controllers.lifecycle.kubeadmconfig import controller as kubeadmconfig
from steelyard.controllers.lifecycle.kubeadmcontrolplane import controller as kubeadmcontrolplane
from steelyard.controllers.lifecycle.machine import controller as machine
from steelyard.controllers.lifecycle.machinedeployment import controller as machinedeployment
from steelyard.controllers.lifecycle.machinehealthcheck import controller as machinehealthcheck
from steelyard.controllers.lifecycle.machinehealthcheck import selection as health
from steelyard.controllers.lifecycle.machineset import controller as machineset
from steelyard.controllers.lifecycle.members.service import Members
from steelyard.controllers.lifecycle.reconcilers import Reconcilers
from steelyard.controllers.lifecycle.view import View
from steelyard.controllers.lifecycle.workload import Connect, Workloads
from steelyard.kube.client.interface import Client
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.runtime.controller import Controller
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.runtime.manager import Manager

COMPONENT = "steelyard-lifecycle"
_WORKERS = 8
_LARGEST_ANSWER = 64 << 20
"""Bytes that a workload cluster's API may answer: its pods and Nodes, of which thousands fit."""


async def over_https(connection: Connection) -> Client:
    """The usual way into a workload cluster."""
    from steelyard.kube.client.http import HttpClient  # when the first cluster needs it: a third of the time to start

    return HttpClient(connection, max_answer_bytes=_LARGEST_ANSWER)


def ways_in(manager: Manager, connect: Connect = over_https) -> Workloads:
    """Into all clusters; for `controllers`, and whoever else writes there."""
    return Workloads(manager.client, connect, clock=manager.clock)


def controllers(
    manager: Manager,
    *,
    connect: Connect = over_https,
    members: Members | None = None,
    workers: int = _WORKERS,
    workloads: Workloads | None = None,
) -> list[Controller]:
    """All controllers of the lifecycle, to be added to the manager that they are made with.

    `connect` makes a client of a workload cluster. `members` are the etcd members of clusters, if others than those on
    their machines. `workers` is how many objects of each kind are reconciled at a time. `workloads` are the ways into
    clusters, where others go through them as well; they end with these controllers.
    """
    client, clock = manager.client, manager.clock
    view = View(manager.informers)
    selection = Selection(manager.informers)
    checked = health.Selection(manager.informers, view)
    externals = Externals(client, manager.informers)
    if workloads is None:
        workloads = ways_in(manager, connect)
    if members is None:
        members = Members(client, workloads, clock)
    recorder = Recorder(client, COMPONENT, clock=clock)
    make = Reconcilers(client, clock, recorder, view, externals, workloads, members, selection, checked)
    return [
        cluster.controller(make.cluster, view, workloads, workers=workers),
        kubeadmcontrolplane.controller(make.control_plane, view, members, workers=workers),
        machinedeployment.controller(make.machine_deployment, view, workers=workers),
        machineset.controller(make.machine_set, view, workers=workers),
        machine.controller(make.machine, view, workloads, members, workers=workers),
        kubeadmconfig.controller(make.kubeadm_config, view, workers=workers),
        machinehealthcheck.controller(make.machine_health_check, checked, workloads, workers=workers),
        clusterresourceset.controller(make.cluster_resource_set, selection, workloads, workers=workers),
        clusterresourcesetbinding.controller(make.cluster_resource_set_binding, workers=workers),
    ]
