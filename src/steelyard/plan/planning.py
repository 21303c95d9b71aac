"""The plan of one claim: each object that is created, changed, replaced or deleted, field by field, and what that does.

    claim, what is composed, what is there   ->   ~ MachineDeployment shop-md-0   spec.replicas 2 -> 3

What is to be done is decided by `changes.py`, as it is for the claims controller; here it is only told. Whether what is
there was read from an API, from manifests or composed from an older claim makes no difference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, Literal, TypeAlias

from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.composed import Composed, Observed
from steelyard.compose.effects import Disruption, Effect, worst
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.plan import changes, disruption, drift, fielddiff, inventory, marks, ownership
from steelyard.plan.changes import Change
from steelyard.plan.fielddiff import FieldChange
from steelyard.plan.inventory import Entry
from steelyard.plan.settling import Found

Verb: TypeAlias = Literal["create", "change", "replace", "delete", "hold", "refuse"]
_NOTHING_REQUIRED: Final[Mapping[str, Sequence[Object]]] = {}
_BOOKKEEPING: Final = ("resourceVersion", "managedFields", "generation")
_NOT_SAID: Final = ("kubectl.kubernetes.io/last-applied-configuration", "steelyard.dev/author")
"""Beginnings of annotations of claims that nobody writes who plans."""


@frozen
class Step:
    """One object."""

    verb: Verb
    entry: Entry
    fields: Sequence[FieldChange] = ()
    replaced: Entry | None = None
    """What goes, where another takes its place."""
    note: str = ""
    disruption: Disruption = Disruption.NONE

    def to_json(self) -> Object:
        return {
            "action": self.verb,
            "apiVersion": self.entry.api_version,
            "kind": self.entry.kind,
            **({"namespace": self.entry.namespace} if self.entry.namespace else {}),
            "name": self.entry.name,
            **({"replaces": self.replaced.name} if self.replaced is not None else {}),
            "disruption": self.disruption.word,
            **({"note": self.note} if self.note else {}),
            "fields": [each.to_json() for each in self.fields],
        }


@frozen
class Plan:
    claim: Object
    steps: Sequence[Step] = ()
    """The claim itself first, where it changes."""
    effects: Sequence[Effect] = ()
    """The worst first."""
    refusal: str = ""
    """Why the claim cannot be composed; what exists then stays as it is."""
    notes: Sequence[str] = ()

    @property
    def disruption(self) -> Disruption:
        return worst(self.effects)

    @property
    def has_changes(self) -> bool:
        return any(step.verb not in ("hold", "refuse") for step in self.steps)

    @property
    def is_blocked(self) -> bool:
        """Whether an object of somebody else stands where one is to be made."""
        return any(step.verb == "refuse" for step in self.steps)

    @property
    def machines(self) -> int:
        """How many are replaced."""
        return sum(each.count for each in self.effects if each.disruption is Disruption.ROLLING)

    def count(self, verb: Verb) -> int:
        return sum(step.verb == verb for step in self.steps)


@frozen
class There:
    """What there is before the change."""

    claim: Object | None = None
    recorded: Sequence[Entry] = ()
    old: Mapping[Entry, Object] = field(default_factory=dict[Entry, Object])
    """Objects of recorded entries, those that are there."""
    notes: Sequence[str] = ()


def of(kind: ClaimKind, claim: Object, found: Found, there: There) -> Plan:
    """`found` is what is composed from the claim as it is to be, with what was observed."""
    composed = found.composed
    if composed.refusal is not None:
        return Plan(claim, refusal=composed.refusal.message, notes=there.notes)
    decided = changes.decide(
        composed, found.observed, there.recorded, found.foreign, effects=kind.effects, agreed=drift.agreed(claim)
    )
    pairs = _replaced(decided, composed, there)
    before, after = _before(decided, pairs, composed, there), _after(decided)
    required = found.observed.required
    told = kind.effects(before, after, required)
    steps = list(_steps(decided, pairs, composed, there))
    general = [effect for step in steps if (effect := _general(step, composed)) is not None]
    effects = disruption.all_of(told, general)
    return Plan(
        claim,
        [*_of_itself(there.claim, claim, _in_claim), *(_with_disruption(step, effects) for step in steps)],
        effects,
        notes=there.notes,
    )


def between(
    kind: ClaimKind,
    claim: Object,
    before: Mapping[str, Object],
    composed: Composed,
    old: Object | None,
    required: Mapping[str, Sequence[Object]] = _NOTHING_REQUIRED,
    notes: Sequence[str] = (),
) -> Plan:
    """Without looking: `before` are the objects as manifests have them or an older claim composes them, `old` is that
    claim."""
    entries = {name: _entry(name, obj) for name, obj in before.items()}
    found = Found(composed, Observed(as_observed(before, composed), required), {})
    there = There(old, list(entries.values()), {entries[name]: before[name] for name in before}, notes)
    return of(kind, claim, found, there)


def as_observed(before: Mapping[str, Object], composed: Composed) -> dict[str, Object]:
    """Those that are composed under the same name, as if they had been applied."""
    wanted = {entry.resource_name: entry for entry in inventory.entries(composed)}
    return {name: marks.signed(obj) for name, obj in before.items() if wanted.get(name) == _entry(name, obj)}


def of_deletion(kind: ClaimKind, claim: Object, before: Mapping[str, Object]) -> Plan:
    """Of a claim that goes, with everything that was made for it."""
    plan = between(kind, claim, before, Composed(), claim)
    return dataclasses.replace(plan, steps=[Step("delete", _entry("", claim)), *plan.steps])


def _entry(resource_name: str, obj: Object) -> Entry:
    return Entry(
        resource_name,
        str(obj.get("apiVersion") or ""),
        str(obj.get("kind") or ""),
        objects.namespace(obj),
        objects.name(obj),
    )


def _is_going(change: Change, composed: Composed, there: There) -> bool:
    """Also what is still needed until the machines are replaced: in the end it goes."""
    is_kept = change.action == "retain" and change.entry.resource_name in composed.retained
    return change.action in ("delete", "retain") and not is_kept and change.entry in there.old


def _replaced(decided: Sequence[Change], composed: Composed, there: There) -> dict[str, Entry]:
    """By resource name: what goes where another object takes its part. Of several the one that was made last."""
    going = {change.entry.resource_name: change.entry for change in decided if _is_going(change, composed, there)}
    made = {change.entry.resource_name for change in decided if change.action in ("create", "refuse")}
    return {name: entry for name, entry in going.items() if name in made}


def _before(
    decided: Sequence[Change], pairs: Mapping[str, Entry], composed: Composed, there: There
) -> dict[str, Object]:
    found: dict[str, Object] = {}
    for change in decided:
        name = change.entry.resource_name
        if change.part is not None and change.observed is not None and change.action != "await":
            found[name] = ownership.covered(change.observed, change.part.object)
        elif name in pairs and change.part is not None:
            found[name] = ownership.covered(there.old[pairs[name]], change.part.object)
        elif change.part is None and _is_going(change, composed, there):
            found.setdefault(name, there.old[change.entry])
    return found


def _after(decided: Sequence[Change]) -> dict[str, Object]:
    """What is held stays as it is, so it is not before and after."""
    return {
        change.entry.resource_name: ownership.covered(change.observed, change.part.object)
        if change.action == "hold" and change.observed is not None
        else change.part.object
        for change in decided
        if change.part is not None
    }


def _steps(decided: Sequence[Change], pairs: Mapping[str, Entry], composed: Composed, there: There) -> Iterator[Step]:
    for change in decided:
        entry, part = change.entry, change.part
        if part is None:
            if _is_going(change, composed, there) and pairs.get(entry.resource_name) != entry:
                yield Step("delete", entry)
            continue
        match change.action:
            case "create" if (old := pairs.get(entry.resource_name)) is not None:
                fields = fielddiff.of(ownership.covered(there.old[old], part.object), part.object)
                yield Step("replace", entry, fields, old)
            case "create":
                yield Step("create", entry, fielddiff.of({}, part.object))
            case "await":
                note = "once the one that is being deleted is gone"
                yield Step("create", entry, fielddiff.of({}, part.object), note=note)
            case "refuse":
                yield Step("refuse", entry, note="it exists and was not made for this claim; nothing is done to it")
            case "update" | "hold" if change.observed is not None:
                fields = fielddiff.of(ownership.covered(change.observed, part.object), part.object)
                if not fields:
                    continue
                if change.action == "hold":
                    note = f"changed by hand, and stays so: {'; '.join(map(str, change.effects))}"
                    yield Step("hold", entry, fields, note=note)
                else:
                    yield Step("change", entry, fields)
            case _:
                continue


def _general(step: Step, composed: Composed) -> Effect | None:
    part = composed.desired.get(step.entry.resource_name)
    match step.verb:
        case "delete":
            return disruption.of_deletion(step.entry)
        case "replace" if step.replaced is not None and part is not None and not part.in_use_while_rolling:
            return disruption.of_replacement(step.replaced, step.entry)
        case "change":
            return disruption.of_change(step.entry, step.fields)
        case _:
            return None


def _with_disruption(step: Step, effects: Sequence[Effect]) -> Step:
    found = worst([each for each in effects if each.part == step.entry.resource_name])
    return dataclasses.replace(step, disruption=found) if found and step.verb != "hold" else step


def of_object(old: Object | None, new: Object) -> Plan:
    """Of one that is no claim."""
    return Plan(new, list(_of_itself(old, new, said)))


def said(obj: Object) -> Object:
    """An object without what every write changes, and without its status."""
    metadata = {key: value for key, value in objects.metadata(obj).items() if key not in _BOOKKEEPING}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}


def _of_itself(old: Object | None, new: Object, of: Callable[[Object], Object]) -> Iterator[Step]:
    fields = fielddiff.of(of(old) if old is not None else {}, of(new))
    if old is None:
        yield Step("create", _entry("", new), fields)
    elif fields:
        yield Step("change", _entry("", new), fields)


def _in_claim(claim: Object) -> Object:
    """What people say in a claim."""
    annotations = {key: value for key, value in objects.annotations(claim).items() if not key.startswith(_NOT_SAID)}
    labels = objects.labels(claim)
    return {
        "apiVersion": claim.get("apiVersion"),
        "kind": claim.get("kind"),
        "metadata": {
            **({"labels": labels} if labels else {}),
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": claim.get("spec"),
    }
