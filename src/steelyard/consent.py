"""What a start with these settings would change for the claims that are there, told before anything is changed.

The settings of the last start and those of this one are compared by what they make of each claim in the database.
Settings that change no claim's outcome need nobody's consent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.api import resources
from steelyard.api.clusterapi.resources import MACHINES
from steelyard.compose import changes, names
from steelyard.compose.changes import Change
from steelyard.datadir import DataDir
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.server import keys
from steelyard.kube.store.store import Store
from steelyard.settings import Chosen, Platform, Remembered

FLAG: Final = "--accept-platform-change"
_SPACE: Final = "main"
_KIND: Final = "WorkloadCluster"
_CONTROL_PLANE: Final = "cluster.x-k8s.io/control-plane"
_CLAIMS_SHOWN: Final = 20
_NAMES_SHOWN: Final = 8


@frozen
class Outcome:
    lines: Sequence[str]
    """What would change, for a person to read."""
    needs_consent: bool


def foreseen(store: Store, remembered: Remembered | None, chosen: Chosen) -> Outcome:
    """What the start would change, compared with the last one."""
    platform = chosen.platform
    claims = [claim for claim in _claims(store) if not objects.is_being_deleted(claim)]
    api_version = resources.workload_clusters(platform.domain).api_version
    left_alone = [claim for claim in claims if claim.get("apiVersion") != api_version]
    before = remembered.platform if remembered is not None else None
    is_new_domain = before is None or before.domain != platform.domain
    lines: list[str] = []
    if left_alone and is_new_domain:
        lines += _of_domain(left_alone, platform)
    if remembered is not None and before is None and claims:
        lines.append(f"what the last start used cannot be read, so nobody can say what changes: {remembered.problem}")
    if before is not None and before != platform:
        found = [changes.of(claim, before, platform) for claim in claims if claim not in left_alone]
        changed = [change for change in found if change is not None]
        for change in changed[:_CLAIMS_SHOWN]:
            lines += _of_claim(store, change)
        if len(changed) > _CLAIMS_SHOWN:
            lines.append(f"and {len(changed) - _CLAIMS_SHOWN} more claims")
    if lines:
        return Outcome(lines, needs_consent=True)
    if before is not None and before != platform:
        return Outcome(["the platform's settings have changed since the last start; no claim is affected"], False)
    return Outcome((), False)


def refusal(outcome: Outcome, remembered: Remembered | None, chosen: Chosen, data_dir: DataDir) -> str:
    """Why the platform does not start, and the ways on."""
    indented = "\n".join(f"  {line}" for line in outcome.lines)
    before = _origin(remembered.path if remembered is not None else None)
    go_back = ""
    if remembered is not None:
        is_at_hand = remembered.path is not None and remembered.path != chosen.path and remembered.path.is_file()
        copied = f"with a copy of {data_dir.remembered} as --platform FILE"
        go_back = f"To go on as before, start {f'with --platform {remembered.path}' if is_at_hand else copied}.\n"
    return (
        f"with {_origin(chosen.path)} this start would change claims; the last one was with {before}.\n"
        f"{indented}\nNothing was changed. {go_back}To have it changed: steelyard up {FLAG}"
    )


def _origin(path: object) -> str:
    return f"the platform file {path}" if path else "the built-in defaults"


def _claims(store: Store) -> Iterator[Object]:
    for record in store.scan(f"{_SPACE}/{resources.compute_group('')}"):
        if record.object.get("kind") == _KIND:
            yield record.object


def _of_domain(claims: Sequence[Object], platform: Platform) -> Iterator[str]:
    group = resources.compute_group(platform.domain)
    yield f"claims of another domain would be left alone, as only those of {group} are looked after:"
    groups = ((str(claim.get("apiVersion")).partition("/")[0], objects.qualified_name(claim)) for claim in claims)
    yield f"  {_listed([f'{name} ({each})' for each, name in groups], _CLAIMS_SHOWN)}"


def _of_claim(store: Store, change: Change) -> Iterator[str]:
    name = objects.qualified_name(change.claim)
    if change.refusal:
        yield f"{name}: could not be brought about any more: {change.refusal}"
        return
    yield f"{name}: {', '.join(change.parameters) or 'other objects'}"
    yield f"  changes {', '.join(change.parts)}"
    replaced = [
        objects.name(machine)
        for machine in _machines(store, change.claim)
        if (change.replaces_control_plane if _is_control_plane(machine) else change.replaces_workers)
    ]
    if replaced:
        yield f"  replaces {len(replaced)} machines: {_listed(replaced, _NAMES_SHOWN)}"
    removed = change.removed_control_plane + change.removed_workers
    if removed:
        yield f"  removes {removed} machines"


def _machines(store: Store, claim: Object) -> list[Object]:
    prefix = keys.collection(_SPACE, MACHINES.group, MACHINES.plural, objects.namespace(claim))
    found = (record.object for record in store.scan(prefix))
    return [machine for machine in found if objects.labels(machine).get(names.CLUSTER_NAME) == names.cluster(claim)]


def _is_control_plane(machine: Object) -> bool:
    return _CONTROL_PLANE in objects.labels(machine)


def _listed(found: Sequence[str], limit: int) -> str:
    more = f" and {len(found) - limit} more" if len(found) > limit else ""
    return ", ".join(found[:limit]) + more
