"""`steelyard describe`: one screen that says how a cluster is, what it is made of, and what to do next.

`gather` asks the API, `render` is pure. The on-call engineer's order: state, reason, machines, events, next step.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from steelyard.api.clusterapi import resources as clusterapi
from steelyard.cli import output
from steelyard.frozen import frozen
from steelyard.kube import ages, errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS, Resource

_CLUSTER_LABEL = "cluster.x-k8s.io/cluster-name"
_CONTROL_PLANE_LABEL = "cluster.x-k8s.io/control-plane"
_EVENTS_SHOWN = 10


@frozen
class Picture:
    """Everything `describe` tells of one claim."""

    claim: Object
    cluster: Object | None
    machines: Sequence[Object]
    events: Sequence[Object]


async def gather(client: Client, claim: Object) -> Picture:
    namespace, name = objects.namespace(claim), objects.name(claim)
    reference = objects.mapping(objects.at(claim, "status", "clusterRef"))
    cluster_name = str(reference.get("name") or name)
    cluster = await _get_or_none(client, clusterapi.CLUSTERS, cluster_name, namespace)
    machines: Sequence[Object] = ()
    if cluster is not None:
        selector = f"{_CLUSTER_LABEL}={cluster_name}"
        machines = (await client.list(clusterapi.MACHINES, namespace, label_selector=selector)).items
    names = {name, cluster_name, *(objects.name(machine) for machine in machines)}
    events = [
        event
        for event in (await client.list(EVENTS, namespace)).items
        if objects.at(event, "involvedObject", "name") in names
    ]
    events.sort(key=_event_time)
    return Picture(claim, cluster, objects.by_name(machines), events)


def render(picture: Picture, now: datetime.datetime) -> str:
    return "\n".join(_lines(picture, now))


def render_generic(obj: Object, events: Sequence[Object], now: datetime.datetime) -> str:
    """Any other kind: its conditions, fields and events."""
    lines = [f"{obj.get('kind')} {objects.qualified_name(obj)}", ""]
    lines += _conditions(obj, now)
    for part in ("spec", "status"):
        body = objects.mapping(obj.get(part))
        body = {key: value for key, value in body.items() if key != "conditions"}
        if body:
            lines += [part.capitalize(), *(f"  {line}" for line in output.as_yaml(body).splitlines()), ""]
    lines += _events(events, now)
    return "\n".join(lines)


def _lines(picture: Picture, now: datetime.datetime) -> Iterator[str]:
    claim = picture.claim
    used = objects.mapping(objects.at(claim, "status", "parameters"))
    yield f"{claim.get('kind')} {objects.qualified_name(claim)}: {_state(claim)}"
    if used:
        yield (
            f"  {used.get('environment')} on {used.get('infrastructure')} machines, "
            f"Kubernetes {used.get('kubernetesVersion')}, "
            f"each node {used.get('cpuCores')} cores, {used.get('memoryGi')} GiB memory, {used.get('diskGb')} GiB disk"
        )
    for label, path in (("control plane", "controlPlane"), ("workers", "workers")):
        counts = objects.mapping(objects.at(claim, "status", path))
        if counts:
            yield f"  {label}: {counts.get('ready')} of {counts.get('desired')} ready"
    endpoint = objects.at(claim, "status", "endpoint")
    if endpoint:
        yield f"  endpoint: {endpoint}"
    yield f"  age: {ages.since(objects.metadata(claim).get('creationTimestamp'), now)}"
    yield ""
    yield from _conditions(claim, now)
    if picture.machines:
        yield "Machines"
        headings = ("NAME", "ROLE", "PHASE", "NODE", "VERSION", "AGE")
        yield from output.aligned([headings, *(_machine(item, now) for item in picture.machines)], indent="  ")
        yield ""
    yield from _events(picture.events, now)
    yield "Next"
    yield from (f"  {step}" for step in _next_steps(picture))


def _state(claim: Object) -> str:
    if objects.is_being_deleted(claim):
        return "being deleted"
    ready = _condition(claim, "Ready")
    if ready.get("status") == "True":
        return "Ready"
    synced = _condition(claim, "Synced")
    if synced.get("status") == "False":
        return f"not applied: {synced.get('message')}"
    return f"not ready: {ready.get('message') or 'nothing has been reported yet'}"


def _next_steps(picture: Picture) -> Iterator[str]:
    claim = picture.claim
    name, namespace = objects.name(claim), objects.namespace(claim)
    if objects.is_being_deleted(claim):
        yield f"steelyard wait {name} -n {namespace} --for deleted"
        return
    if _condition(claim, "Synced").get("status") == "False":
        yield f"mend the claim as the message says: kubectl edit {output.object_name(claim)} -n {namespace}"
        return
    if _condition(claim, "Ready").get("status") == "True":
        file = f"{name}.kubeconfig"
        patch = '{"spec":{"parameters":{"workerReplicas":4}}}'
        yield f"use it:    steelyard kubeconfig {name} -n {namespace} > {file}; kubectl --kubeconfig {file} get nodes"
        yield f"scale it:  kubectl patch {output.object_name(claim)} -n {namespace} --type merge -p '{patch}'"
        return
    yield f"wait for it: steelyard wait {name} -n {namespace}"
    for machine in picture.machines:
        message = _machine_problem(machine)
        if message:
            yield f"machine {objects.name(machine)}: {message}"


def _machine_problem(machine: Object) -> str:
    ready = _condition(machine, "Ready")
    return str(ready.get("message") or "").replace("\n", " ") if ready.get("status") == "False" else ""


def _machine(machine: Object, now: datetime.datetime) -> tuple[str, ...]:
    return (
        objects.name(machine),
        "control plane" if _CONTROL_PLANE_LABEL in objects.labels(machine) else "worker",
        str(objects.at(machine, "status", "phase") or "Pending"),
        str(objects.at(machine, "status", "nodeRef", "name") or "-"),
        str(objects.at(machine, "spec", "version") or ""),
        ages.since(objects.metadata(machine).get("creationTimestamp"), now),
    )


def _conditions(obj: Object, now: datetime.datetime) -> list[str]:
    conditions = [objects.mapping(item) for item in objects.sequence(objects.at(obj, "status", "conditions"))]
    if not conditions:
        return []
    headings = ("TYPE", "STATUS", "REASON", "SINCE", "MESSAGE")
    table = [headings, *(_condition_row(condition, now) for condition in conditions)]
    return ["Conditions", *output.aligned(table, indent="  "), ""]


def _condition_row(condition: Object, now: datetime.datetime) -> tuple[str, ...]:
    return (
        str(condition.get("type") or ""),
        str(condition.get("status") or ""),
        str(condition.get("reason") or ""),
        ages.since(condition.get("lastTransitionTime"), now),
        str(condition.get("message") or "").replace("\n", " "),
    )


def _events(events: Sequence[Object], now: datetime.datetime) -> list[str]:
    if not events:
        return []
    table = [("AGE", "TYPE", "REASON", "OBJECT", "MESSAGE")]
    for event in events[-_EVENTS_SHOWN:]:
        involved = objects.mapping(event.get("involvedObject"))
        count = int(event.get("count") or 1)
        times = f" ({count} times)" if count > 1 else ""
        table.append(
            (
                ages.since(_event_time(event), now),
                str(event.get("type") or ""),
                str(event.get("reason") or ""),
                f"{str(involved.get('kind') or '').lower()}/{involved.get('name')}",
                str(event.get("message") or "").replace("\n", " ") + times,
            )
        )
    return ["Events", *output.aligned(table, indent="  "), ""]


def _event_time(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or objects.metadata(event).get("creationTimestamp"))


def _condition(obj: Object, type_: str) -> Object:
    conditions = map(objects.mapping, objects.sequence(objects.at(obj, "status", "conditions")))
    return next((condition for condition in conditions if condition.get("type") == type_), Object())


async def _get_or_none(client: Client, resource: Resource, name: str, namespace: str) -> Object | None:
    try:
        return await client.get(resource, name, namespace)
    except errors.NotFound:
        return None
