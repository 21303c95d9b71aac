"""`steelyard describe`: one screen that says how a claim is, what it is made of, and what to do next.

`gather` asks the API, `render` is pure. The on-call engineer's order: state and cause, machines or other parts, events,
next step.
What a state means is decided in `api/state.py` and `api/troubles.py`, from which the claim's own status comes, too.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from steelyard.api import catalogue, state, troubles
from steelyard.api.clusterapi import resources as clusterapi
from steelyard.api.clusterapi import wellknown
from steelyard.cli import advice, databasefacts, output
from steelyard.cli.advice import Part, Picture
from steelyard.cli.hints import PLAIN, Hints
from steelyard.kube import ages, errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS, Resource

_EVENTS_SHOWN = 10
_WIDTH = 100
_MACHINE_HEADINGS = ("NAME", "ROLE", "STATE", "NODE", "VERSION", "AGE")
_MACHINE_DROPPABLE = ("NODE", "VERSION")


async def gather(client: Client, claim: Object, hints: Hints = PLAIN) -> Picture:
    namespace, cluster_name = objects.namespace(claim), _cluster_name(claim)
    cluster = await _get_or_none(client, clusterapi.CLUSTERS, cluster_name, namespace) if cluster_name else None
    machines: Sequence[Object] = ()
    if cluster is not None:
        selector = f"{wellknown.CLUSTER_NAME_LABEL}={cluster_name}"
        machines = await _list_or_none(client, clusterapi.MACHINES, namespace, selector)
    parts = [] if cluster_name else await _parts(client, claim)
    present = [each.obj for each in parts if each.obj is not None]
    held = await _held(client, claim, [*machines, *present, *([cluster] if cluster else [])])
    # By UID: an older object of the same name may have left events behind.
    uids = {objects.uid(each) for each in (claim, *([cluster] if cluster else []), *machines, *present)}
    events = [
        event
        for event in await _list_or_none(client, EVENTS, namespace)
        if objects.at(event, "involvedObject", "uid") in uids
    ]
    events.sort(key=_event_order)
    return Picture(claim, cluster, objects.by_name(machines), events, held, parts, hints)


def _cluster_name(claim: Object) -> str:
    """Of the Cluster API Cluster behind the claim; empty for a claim without machines."""
    reference = objects.mapping(objects.at(claim, "status", "clusterRef"))
    if reference:
        return str(reference.get("name") or "")
    for entry in _inventory(claim):
        if entry.get("kind") == clusterapi.CLUSTERS.kind and str(entry.get("apiVersion")).startswith(
            f"{clusterapi.CLUSTERS.group}/"
        ):
            return str(entry.get("name") or "")
    return ""


def _inventory(claim: Object) -> list[Object]:
    return [objects.mapping(entry) for entry in objects.sequence(objects.at(claim, "status", "inventory"))]


async def _parts(client: Client, claim: Object) -> list[Part]:
    inventory = _inventory(claim)
    served = {(each.api_version, each.kind): each for each in await client.discover()} if inventory else {}
    found: list[Part] = []
    for entry in inventory:
        kind, name, namespace = (str(entry.get(key) or "") for key in ("kind", "name", "namespace"))
        resource = served.get((str(entry.get("apiVersion")), kind))
        obj = await _get_or_none(client, resource, name, namespace) if resource is not None else None
        is_elsewhere = namespace and namespace != objects.namespace(claim)
        found.append(Part(kind, f"{namespace}/{name}" if is_elsewhere else name, obj))
    return found


async def _held(client: Client, claim: Object, known: Sequence[Object]) -> list[Object]:
    """Of a claim that is being deleted: what is left of its objects, and waits for somebody else's finalizer."""
    if not objects.is_being_deleted(claim):
        return []
    served = {(each.api_version, each.kind): each for each in await client.discover()}
    found = list(known)
    for entry in _inventory(claim):
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
        table = [_MACHINE_HEADINGS, *(_machine(item, now) for item in picture.machines)]
        yield from output.aligned(table, indent="  ", width=width, droppable=_MACHINE_DROPPABLE)
        yield ""
    deliveries = [objects.mapping(each) for each in objects.sequence(objects.at(claim, "status", "deliveries"))]
    if deliveries:
        yield "Deliveries"
        table = [("CLUSTER", "SECRET", "READY", "MESSAGE"), *(_delivery(claim, each) for each in deliveries)]
        yield from output.aligned(table, indent="  ", width=width)
        yield ""
    if picture.parts:
        yield "Parts"
        table = [("KIND", "NAME", "READY", "MESSAGE"), *map(_part, picture.parts)]
        yield from output.aligned(table, indent="  ", width=width)
        yield ""
    yield from _events(picture.events, now, width)
    yield "Next"
    for step in advice.steps(picture):
        yield from output.wrapped(step, sentences, indent="  ")


def _facts(claim: Object, now: datetime.datetime) -> Iterator[str]:
    used = objects.mapping(objects.at(claim, "status", "parameters"))
    is_cluster = objects.at(claim, "status", "controlPlane") is not None
    if databasefacts.is_about(claim):
        yield from databasefacts.lines(claim, now)
    elif used and not is_cluster:
        yield from (f"  {key}: {value}" for key, value in used.items())
    elif used:
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


def _delivery(claim: Object, report: Object) -> tuple[str, ...]:
    """The message says again where it is about, which the row does already."""
    namespace, cluster = str(report.get("clusterNamespace") or ""), str(report.get("cluster") or "")
    place = f"{report.get('namespace')}/{report.get('name')}"
    message = str(report.get("message") or "").removeprefix(f"{place} in cluster {cluster}: ")
    where = cluster if namespace in ("", objects.namespace(claim)) else f"{namespace}/{cluster}"
    return where, place, "yes" if report.get("ready") else "no", message


def _version(used: Object) -> str:
    return f"Kubernetes {next((used[field] for field in catalogue.FIELDS if field in used), '')}"


def _machine(machine: Object, now: datetime.datetime) -> tuple[str, ...]:
    return (
        objects.name(machine),
        "control plane" if advice.is_control_plane(machine) else "worker",
        _machine_state(machine),
        str(objects.at(machine, "status", "nodeRef", "name") or "-"),
        str(objects.at(machine, "spec", "version") or ""),
        ages.since(objects.metadata(machine).get("creationTimestamp"), now),
    )


def _part(part: Part) -> tuple[str, ...]:
    if part.obj is None:
        return part.kind, part.name, "-", "not to be seen: not there yet, or not for you"
    ready = troubles.condition(part.obj, "Ready")
    return part.kind, part.name, str(ready.get("status") or "-"), str(ready.get("message") or "").replace("\n", " ")


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
    return ["Conditions", *output.aligned(table, indent="  ", width=width, droppable=("SINCE",)), ""]


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
    return ["Events", *output.aligned(table, indent="  ", width=width, droppable=("TYPE",)), ""]


def _event_time(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or objects.metadata(event).get("creationTimestamp"))


def _event_order(event: Object) -> tuple[str, int]:
    """Times are whole seconds, in which a lot happens; within one, the API has counted."""
    version = objects.resource_version(event)
    return _event_time(event), int(version) if version.isdigit() else 0


async def _get_or_none(client: Client, resource: Resource, name: str, namespace: str) -> Object | None:
    """None also for what the caller may not see: a tenant is told of the claim all the same."""
    try:
        return await client.get(resource, name, namespace)
    except (errors.NotFound, errors.Forbidden):
        return None


async def _list_or_none(client: Client, resource: Resource, namespace: str, selector: str = "") -> Sequence[Object]:
    try:
        return (await client.list(resource, namespace, label_selector=selector)).items
    except (errors.NotFound, errors.Forbidden):
        return ()
