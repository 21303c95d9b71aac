"""What to do next about a claim, by the state it is in: for each state the command that helps, ready to be copied.

Pure. A command never makes things worse: what could lose data is said so instead of being offered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steelyard.api import state, troubles
from steelyard.api.clusterapi import wellknown
from steelyard.api.sizes import WORKERS_MAX
from steelyard.api.troubles import Trouble
from steelyard.cli import output
from steelyard.cli.hints import PLAIN, Hints
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object

_OUR_FINALIZERS = ("cluster.x-k8s.io", "steelyard.dev/claim", "foregroundDeletion", "orphan")
_SHOWN = 3
_CONNECTED_TO = ("PostgreSQLInstance", "PostgreSQLAccess")
"""Kinds whose connection Secret has a uri for psql."""
_CACHE = "RedisInstance"


@frozen
class Picture:
    """Everything `describe` tells of one claim."""

    claim: Object
    cluster: Object | None
    machines: Sequence[Object]
    events: Sequence[Object]
    held: Sequence[Object] = ()
    """What is being deleted and cannot go, because of a finalizer that is none of ours."""
    parts: Sequence[Part] = ()
    """What a claim without machines is made of."""
    hints: Hints = PLAIN
    """How commands are spelled that reach the same server."""


@frozen
class Part:
    kind: str
    name: str
    """With its namespace, if it has one."""
    obj: Object | None
    """None where it is not there, or not for everybody to see."""


def steps(picture: Picture) -> Iterator[str]:
    claim, hints = picture.claim, picture.hints
    where = f"{objects.name(claim)} -n {objects.namespace(claim)}"
    match state.of(claim).word:
        case state.DELETING:
            yield from _of_deletion(picture, where)
        case state.PENDING:
            yield f"see whether the platform works: {hints.steelyard('doctor')}"
        case state.PAUSED:
            yield from (f"go on: {hints.kubectl(f'annotate {_named(claim)} {each}-')}" for each in _pauses(claim))
        case state.REFUSED:
            yield f"mend the claim as the message says: {hints.kubectl(f'edit {_named(claim)}')}"
        case state.DRIFTED:
            yield f"see what differs: {hints.steelyard(f'plan {where}')}"
            yield "put it back by hand, or agree to its being put back as the message says"
        case state.FAILING:
            yield "mend what the message names; it is tried again by itself, with growing pauses"
            yield f"change the claim: {hints.kubectl(f'edit {_named(claim)}')}"
        case state.DEGRADED:
            yield from _of_loss(picture, where)
        case state.SCALING | state.UPDATING:
            yield f"wait for it: {hints.steelyard(f'wait {where} --for UpToDate')}"
            yield from _of_use(picture)
        case state.READY:
            yield from _of_use(picture)
            yield from _of_scaling(picture)
        case _:
            yield f"wait for it: {hints.steelyard(f'wait {where}')}"
            yield from _of_slow_machines(picture)


def is_control_plane(machine: Object) -> bool:
    return wellknown.CONTROL_PLANE_LABEL in objects.labels(machine)


def foreign_finalizers(obj: Object) -> list[str]:
    """Those that no controller of the platform takes off."""
    return [each for each in objects.finalizers(obj) if not each.endswith(_OUR_FINALIZERS)]


def _of_use(picture: Picture) -> Iterator[str]:
    claim = picture.claim
    name, namespace = objects.name(claim), objects.namespace(claim)
    if objects.at(claim, "status", "endpoint"):
        file = f"{name}.kubeconfig"
        printed = picture.hints.steelyard(f"kubeconfig {name} -n {namespace}")
        yield f"use it: {printed} > {file}; kubectl --kubeconfig {file} get nodes"
        return
    secret = objects.mapping(objects.at(claim, "spec", "writeConnectionSecretToRef"))
    if secret and claim.get("kind") in _CONNECTED_TO:
        yield f'use it: psql "$({picture.hints.steelyard(f"db uri {name} -n {namespace}")})"'
        return
    place = f"{secret.get('name')} -n {secret.get('namespace') or namespace}"
    if secret and claim.get("kind") == _CACHE:
        uri = picture.hints.kubectl(f"get secret {place} -o jsonpath='{{.data.uri}}'")
        yield f'use it: redis-cli -u "$({uri} | base64 -d)"'
        return
    if secret:
        yield f"use it: {picture.hints.kubectl(f'get secret {place} -o yaml')}"
        return
    if objects.at(claim, "status", "host"):
        wanted = f'{{"spec":{{"writeConnectionSecretToRef":{{"name":"{name}-connection"}}}}}}'
        command = picture.hints.kubectl(f"patch {_named(claim)} --type merge -p '{wanted}'")
        yield f"have what is needed to connect written into a Secret: {command}"
    yield f"see all of it: {picture.hints.steelyard(f'get {_named(claim)} -o yaml')}"


def _of_scaling(picture: Picture) -> Iterator[str]:
    claim = picture.claim
    workers = objects.at(claim, "status", "workers", "desired")
    if workers is not None and int(workers) < WORKERS_MAX:
        where = f"{objects.name(claim)} -n {objects.namespace(claim)}"
        yield f"add a worker: {picture.hints.steelyard(f'scale {where} --workers {int(workers) + 1}')}"


def _of_loss(picture: Picture, where: str) -> Iterator[str]:
    if objects.at(picture.claim, "status", "storage", "level") == "closed":
        yield f"grant a session to make room: {picture.hints.steelyard(f'db open {where} --for 30m')}"
        edit = picture.hints.kubectl(f"edit {_named(picture.claim)}")
        yield f"or let it hold more, with spec.parameters.storageGB: {edit}"
        return
    lost = [(machine, trouble) for machine in picture.machines if (trouble := troubles.of(machine)) is not None]
    for machine, trouble in lost[:_SHOWN]:
        yield from _of_machine(picture, machine, trouble)
    if len(lost) > _SHOWN:
        yield f"and likewise for {len(lost) - _SHOWN} more machines"
    if not lost and picture.cluster is not None:
        cluster = f"{objects.name(picture.cluster)} -n {objects.namespace(picture.claim)}"
        command = picture.hints.steelyard(f"describe clusters.cluster.x-k8s.io {cluster}")
        yield f"see what Cluster API reports: {command}"
    for part in picture.parts:
        if part.obj is not None and troubles.condition(part.obj, "Ready").get("status") == "False":
            command = picture.hints.steelyard(f"describe {_named(part.obj)}")
            yield f"look at {part.kind} {part.name}: {command}"
    yield f"then wait for it: {picture.hints.steelyard(f'wait {where}')}"


def _of_machine(picture: Picture, machine: Object, trouble: Trouble) -> Iterator[str]:
    claim, name = picture.claim, objects.name(machine)
    if trouble.node:
        file = f"{objects.name(claim)}.kubeconfig"
        printed = picture.hints.steelyard(f"kubeconfig {objects.name(claim)} -n {objects.namespace(claim)}")
        yield f"look at the node: {printed} > {file}; kubectl --kubeconfig {file} describe node {trouble.node}"
    if is_control_plane(machine) and not _has_quorum_without(picture.machines, machine):
        yield (
            f"bring machine {name} back: too few other control-plane machines are ready, so deleting it would lose "
            "what the cluster's API holds"
        )
        return
    command = picture.hints.steelyard(f"delete machine {name} -n {objects.namespace(machine)} --yes")
    yield f"replace machine {name}: {command}"


def _has_quorum_without(machines: Sequence[Object], lost: Object) -> bool:
    """Whether the other control-plane machines are a majority of all of them, so that etcd goes on without this one."""
    members = [each for each in machines if is_control_plane(each)]
    ready = [each for each in members if each is not lost and troubles.is_ready(each)]
    return len(ready) > len(members) // 2


def _of_slow_machines(picture: Picture) -> Iterator[str]:
    for machine in picture.machines:
        problem = str(troubles.of(machine) or "") or troubles.problem_of(machine)
        if problem:
            named = "" if problem.startswith("machine ") else f"machine {objects.name(machine)}: "
            yield f"{named}{problem}"


def _of_deletion(picture: Picture, where: str) -> Iterator[str]:
    claim = picture.claim
    for each in _pauses(claim):
        command = picture.hints.kubectl(f"annotate {_named(claim)} {each}-")
        yield f"it is paused, so nothing is deleted; go on: {command}"
    for obj in picture.held:
        finalizers = ", ".join(foreign_finalizers(obj))
        yield (
            f"{obj.get('kind')} {objects.qualified_name(obj)} is held by the finalizer {finalizers}; let its owner "
            f"finish, or, if there is none any more, take it off: {picture.hints.kubectl(f'edit {_named(obj)}')}"
        )
    for machine in picture.machines:
        deleting = troubles.condition(machine, "Deleting")
        if deleting.get("status") == "True" and deleting.get("message"):
            yield f"machine {objects.name(machine)}: {troubles.words(deleting)}"
    yield f"wait for it: {picture.hints.steelyard(f'wait {where} --for deleted')}"


def _pauses(claim: Object) -> list[str]:
    annotations = objects.annotations(claim)
    crossplane = ["crossplane.io/paused"] if annotations.get("crossplane.io/paused") == "true" else []
    return [*crossplane, *([wellknown.PAUSED_ANNOTATION] if wellknown.PAUSED_ANNOTATION in annotations else [])]


def _named(obj: Object) -> str:
    namespace = objects.namespace(obj)
    return output.object_name(obj) + (f" -n {namespace}" if namespace else "")
