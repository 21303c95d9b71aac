"""How far a cluster of k3s servers has come, read from its Service and its virtual machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from steelyard.api import k3s, troubles
from steelyard.api.k3s import API_PORT, VIRTUAL_MACHINES
from steelyard.compose import comparing
from steelyard.compose.cluster.progress import Counts, Progress
from steelyard.compose.clusterapi import NAMESPACE
from steelyard.compose.composed import Desired, Observed
from steelyard.compose.virtualcluster.servers import API
from steelyard.kube import objects
from steelyard.kube.objects import Object

_NO_WORKERS: Final = Counts(desired=0, ready=0, complete=True, is_counted=True, is_up_to_date=True)
_ON_ITS_WAY: Final = frozenset(
    {"", "Stopped", "Provisioning", "WaitingForVolumeBinding", "Starting", "Running", "Migrating", "Stopping"}
)
"""What KubeVirt says of a machine that comes, goes or runs; any other word is a trouble."""


def of(desired: Mapping[str, Desired], observed: Observed) -> Progress:
    machines = {
        name: observed.resources.get(name) for name, part in desired.items() if part.resource == VIRTUAL_MACHINES
    }
    endpoint = _endpoint(observed.resources.get(API))
    here = Progress(
        control_plane=_counts(desired, machines),
        workers=_NO_WORKERS,
        infrastructure_provisioned=bool(endpoint),
        control_plane_initialized=any(map(_is_ready, machines.values())),
        endpoint=endpoint,
        trouble=_problem(observed) or _trouble(machines),
        waiting_for="",
        has_pools=False,
    )
    return dataclasses.replace(here, waiting_for=_waiting_for(here, desired, machines, observed))


def _counts(desired: Mapping[str, Desired], machines: Mapping[str, Object | None]) -> Counts:
    ready = sum(map(_is_ready, machines.values()))
    is_counted = all(_is_current(desired[name].object, machine) for name, machine in machines.items())
    is_up_to_date = not any(machine is not None and k3s.needs_restart(machine) for machine in machines.values())
    return Counts(
        desired=len(machines),
        ready=ready,
        complete=is_counted and is_up_to_date and ready == len(machines),
        is_counted=is_counted,
        is_up_to_date=is_up_to_date,
    )


def _is_current(desired: Object, observed: Object | None) -> bool:
    """Whether what is reported is about what is desired now."""
    if observed is None or objects.is_being_deleted(observed):
        return False
    seen = objects.at(observed, "status", "observedGeneration")
    is_about_now = seen is None or int(seen) >= objects.generation(observed)
    return is_about_now and comparing.covers(observed.get("spec"), desired["spec"])


def _is_ready(machine: Object | None) -> bool:
    return machine is not None and objects.at(machine, "status", "ready") is True


def _endpoint(service: Object | None) -> str:
    host = k3s.address(service)
    if not host:
        return ""
    return f"https://[{host}]:{API_PORT}" if ":" in host else f"https://{host}:{API_PORT}"


def _problem(observed: Observed) -> str:
    """What the controller that keeps the keys has to say."""
    namespace = observed.resources.get(NAMESPACE)
    return objects.annotations(namespace).get(k3s.PROBLEM, "") if namespace is not None else ""


def _trouble(machines: Mapping[str, Object | None]) -> str:
    for machine in machines.values():
        if machine is not None and _word(machine) not in _ON_ITS_WAY:
            return f"server {objects.name(machine)}: {_told(machine)}"
    return ""


def _waiting_for(
    here: Progress, desired: Mapping[str, Desired], machines: Mapping[str, Object | None], observed: Observed
) -> str:
    if API not in observed.resources or any(machine is None for machine in machines.values()):
        return "the cluster's objects are being created"
    if problem := _problem(observed):
        return problem
    if not here.endpoint:
        service = objects.qualified_name(desired[API].object)
        return f"waiting for the management cluster's load balancer to give Service {service} an address"
    for machine in filter(None, machines.values()):
        if not _is_ready(machine):
            return f"waiting for server {objects.name(machine)}: {_told(machine)}"
        if k3s.needs_restart(machine):
            return f"waiting for server {objects.name(machine)} to be restarted with what it is to have"
    return "" if here.control_plane.complete else "waiting for KubeVirt to look at the servers"


def _word(machine: Object) -> str:
    return str(objects.at(machine, "status", "printableStatus") or "")


def _told(machine: Object) -> str:
    """KubeVirt's word, and its reason where it has one."""
    word = _word(machine) or "KubeVirt has not looked at it yet"
    if word == "Running":
        return "it runs, and its API does not answer yet"
    for type_ in ("Failure", "Ready"):
        condition = troubles.condition(machine, type_)
        is_bad = condition.get("status") == ("True" if type_ == "Failure" else "False")
        if is_bad and (because := troubles.words(condition)):
            return f"{word}: {because}"
    return word
