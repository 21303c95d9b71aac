"""`steelyard describe`: one screen that says how a cluster is, what it is made of, and what to do next.

`gather` asks the API, `render` is pure. The on-call engineer's order: state and cause, machines, events, next step.
What a state means is decided in `api/state.py` and `api/troubles.py`, from which the claim's own status comes, too.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from steelyard.api import state, troubles
from steelyard.api.clusterapi import resources as clusterapi
from steelyard.cli import advice, output
from steelyard.cli.advice import Picture
from steelyard.kube import ages, errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS, Resource

_CLUSTER_LABEL = "cluster.x-k8s.io/cluster-name"
_EVENTS_SHOWN = 10
_WIDTH = 100


async def gather(client: Client, claim: Object) -> Picture:
    namespace, name = objects.namespace(claim), objects.name(claim)
    reference = objects.mapping(objects.at(claim, "status", "clusterRef"))
    cluster_name = str(reference.get("name") or name)
    cluster = await _get_or_none(client, clusterapi.CLUSTERS, cluster_name, namespace)
    machines: Sequence[Object] = ()
    if cluster is not None:
        selector = f"{_CLUSTER_LABEL}={cluster_name}"
        machines = (await client.list(clusterapi.MACHINES, namespace, label_selector=selector)).items
    held = await _held(client, claim, [*machines, *([cluster] if cluster else [])])
    # By UID: an older object of the same name may have left events behind.
    uids = {objects.uid(each) for each in (claim, *([cluster] if cluster else []), *machines)}
    events = [
        event
        for event in (await client.list(EVENTS, namespace)).items
        if objects.at(event, "involvedObject", "uid") in uids
    ]
    events.sort(key=_event_time)
    return Picture(claim, cluster, objects.by_name(machines), events, held)


async def _held(client: Client, claim: Object, known: Sequence[Object]) -> list[Object]:
    """Of a claim that is being deleted: what is left of its objects, and waits for somebody else's finalizer."""
    if not objects.is_being_deleted(claim):
        return []
    served = {(each.api_version, each.kind): each for each in await client.discover()}
    found = list(known)
    for entry in map(objects.mapping, objects.sequence(objects.at(claim, "status", "inventory"))):
        resource = served.get((str(entry.get("apiVersion")), str(entry.get("kind"))))
        if resource is not None:
            obj = await _get_or_none(client, resource, str(entry.get("name")), str(entry.get("namespace")))
            found += [obj] if obj is not None else []
    unique = {objects.uid(each): each for each in (claim, *found)}
    return [each for each in unique.values() if objects.is_being_deleted(each) and advice.foreign_finalizers(each)]


def render(picture: Picture, now: datetime.datetime, *, width: int = 0) -> str:
    """`width` is the terminal's; 0 where there is none."""
    return "\n".join(_lines(picture, now, width))


def render_generic(obj: Object, events: Sequence[Object], now: datetime.datetime, *, width: int = 0) -> str:
    """Any other kind: its conditions, fields and events."""
    lines = [f"{obj.get('kind')} {objects.qualified_name(obj)}", ""]
    lines += _conditions(obj, now, width)
    for part in ("spec", "status"):
        body = objects.mapping(obj.get(part))
        body = {key: value for key, value in body.items() if key != "conditions"}
        if body:
            lines += [part.capitalize(), *(f"  {line}" for line in output.as_yaml(body).splitlines()), ""]
    lines += _events(events, now, width)
    return "\n".join(lines)


def _lines(picture: Picture, now: datetime.datetime, width: int) -> Iterator[str]:
    claim = picture.claim
    sentences = width or _WIDTH
    here = state.of(claim)
    since = f" for {ages.since(here.since, now)}" if here.since else ""
    yield f"{claim.get('kind')} {objects.qualified_name(claim)}: {here.word}{since}"
    if here.word != state.READY and here.text:
        yield from output.wrapped(here.text, sentences, indent="  ")
    if objects.generation(claim) > int(objects.at(claim, "status", "observedGeneration") or 0) and here.since:
        yield "  this is how it was before the latest change, which nobody has looked at yet"
    yield ""
    yield from _facts(claim, now)
    yield from _conditions(claim, now, width, said=here.text if here.word != state.READY else "")
    if picture.machines:
        yield "Machines"
        headings = ("NAME", "ROLE", "STATE", "NODE", "VERSION", "AGE")
        yield from output.aligned([headings, *(_machine(item, now) for item in picture.machines)], indent="  ")
        yield ""
    yield from _events(picture.events, now, width)
    yield "Next"
    for step in advice.steps(picture):
        yield from output.wrapped(step, sentences, indent="  ")


def _facts(claim: Object, now: datetime.datetime) -> Iterator[str]:
    used = objects.mapping(objects.at(claim, "status", "parameters"))
    if used:
        yield f"  {used.get('environment')} on {used.get('infrastructure')} machines, {_version(used)}"
        cores, memory, disk = (used.get(each) for each in ("cpuCores", "memoryGi", "diskGb"))
        yield f"  each node: {cores} cores, {memory} GiB memory, {disk} GiB disk"
    for label, path in (("control plane", "controlPlane"), ("workers", "workers")):
        counts = objects.mapping(objects.at(claim, "status", path))
        if counts:
            yield f"  {label}: {counts.get('ready')} of {counts.get('desired')} ready"
    endpoint = objects.at(claim, "status", "endpoint")
    if endpoint:
        yield f"  endpoint: {endpoint}"
    yield f"  age: {ages.since(objects.metadata(claim).get('creationTimestamp'), now)}"
    yield ""


def _version(used: Object) -> str:
    return f"Kubernetes {used.get('kubernetesVersion')}"


def _machine(machine: Object, now: datetime.datetime) -> tuple[str, ...]:
    return (
        objects.name(machine),
        "control plane" if advice.is_control_plane(machine) else "worker",
        _machine_state(machine),
        str(objects.at(machine, "status", "nodeRef", "name") or "-"),
        str(objects.at(machine, "spec", "version") or ""),
        ages.since(objects.metadata(machine).get("creationTimestamp"), now),
    )


def _machine_state(machine: Object) -> str:
    """One word; the phase alone would call a machine Running whose Node is gone."""
    if objects.is_being_deleted(machine):
        return "Deleting"
    if troubles.of(machine) is not None:
        return "Failed" if objects.at(machine, "status", "phase") == "Failed" else "Lost"
    return "Ready" if troubles.is_ready(machine) else str(objects.at(machine, "status", "phase") or "Pending")


def _conditions(obj: Object, now: datetime.datetime, width: int, *, said: str = "") -> list[str]:
    """`said` is what stands above already."""
    conditions = [objects.mapping(item) for item in objects.sequence(objects.at(obj, "status", "conditions"))]
    if not conditions:
        return []
    headings = ("TYPE", "STATUS", "REASON", "SINCE", "MESSAGE")
    table = [headings, *(_condition_row(condition, now, said) for condition in conditions)]
    return ["Conditions", *output.aligned(table, indent="  ", width=width), ""]


def _condition_row(condition: Object, now: datetime.datetime, said: str) -> tuple[str, ...]:
    message = str(condition.get("message") or "").replace("\n", " ")
    return (
        str(condition.get("type") or ""),
        str(condition.get("status") or ""),
        str(condition.get("reason") or ""),
        ages.since(condition.get("lastTransitionTime"), now),
        "see above" if said and message == said else message,
    )


def _events(events: Sequence[Object], now: datetime.datetime, width: int) -> list[str]:
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
    return ["Events", *output.aligned(table, indent="  ", width=width), ""]


def _event_time(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or objects.metadata(event).get("creationTimestamp"))


async def _get_or_none(client: Client, resource: Resource, name: str, namespace: str) -> Object | None:
    try:
        return await client.get(resource, name, namespace)
    except errors.NotFound:
        return None
