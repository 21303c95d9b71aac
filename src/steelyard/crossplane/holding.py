"""What was changed by hand and is not put back at once: where that would replace machines, a person decides.

Crossplane applies whatever it is answered. So a part that is held is answered without the fields that somebody else has
set otherwise: they stay theirs, and stay as they are. What makes it a correction, and how a person agrees to it, is
what `plan/drift.py` says for the claims controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.composed import Desired
from steelyard.compose.effects import Effect
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.plan import changes, drift, marks

_MANAGERS: Final = ("apiextensions.crossplane.io/composed/", "provider-kubernetes/")
"""What the names begin with under which Crossplane, and provider-kubernetes for it, apply parts."""

_ADDED: Final = frozenset(
    {
        "crossplane.io/claim-name",
        "crossplane.io/claim-namespace",
        "crossplane.io/composite",
        "crossplane.io/composition-resource-name",
    }
)
"""Labels and annotations that Crossplane puts onto what it composes."""


def held(
    kind: ClaimKind, claim: Object, desired: Mapping[str, Desired], observed: Mapping[str, Object]
) -> dict[str, tuple[Effect, ...]]:
    """Parts that stay as they are, each with what putting it back would do; `desired` as they are to be applied."""
    there = {
        name: (_as_ours(observed[name]), part.object)
        for name, part in desired.items()
        if name in observed and not part.is_shared and not objects.is_being_deleted(observed[name])
    }
    changed = [name for name, (found, wanted) in there.items() if not changes.is_applied(wanted, found)]
    return drift.to_hold(there, changed, kind.effects, drift.agreed(claim))


def applied(part: Object, found: Object | None, *, is_held: bool) -> Object:
    """A part as Crossplane is to apply it. What is held keeps the mark of what was applied before."""
    if not is_held or found is None:
        return marks.signed(part)
    left = cast(Object, _without_what_differs(part, found))
    mark = objects.annotations(found).get(marks.DIGEST)
    metadata = objects.metadata(part)
    annotations = {**objects.annotations(part), **({marks.DIGEST: mark} if mark else {})}
    return {**left, "metadata": {**metadata, "annotations": annotations}}


def told(
    claim: Object, plural: str, found: Mapping[str, tuple[Effect, ...]], observed: Mapping[str, Object]
) -> tuple[str, str]:
    """The reason and what is said of it, with the command by which a person agrees."""
    parts: list[str] = []
    for name, effects in found.items():
        would = "; ".join(map(str, effects))
        what = f"{observed[name].get('kind')} {objects.name(observed[name])}"
        parts.append(f"{what} was changed by hand, and putting it back would disrupt what runs ({would})")
    tokens = ",".join(drift.token(name, observed[name]) for name in found)
    place = f"-n {objects.namespace(claim)} {objects.name(claim)}"
    command = f"kubectl annotate --overwrite {plural} {place} {drift.AGREED}={tokens}"
    return (
        "Drifted",
        f"{'. '.join(parts)}; until somebody agrees it stays as it is. To have it put back: {command}",
    )


def _as_ours(obj: Object) -> Object:
    """With what was applied for the claim under the name that plans know it by, and without what Crossplane adds."""
    metadata = {key: value for key, value in objects.metadata(obj).items() if key != "ownerReferences"}
    for key in ("labels", "annotations"):
        if key in metadata:
            said = objects.mapping(metadata[key])
            metadata[key] = {name: value for name, value in said.items() if name not in _ADDED}
    fields = [dict(objects.mapping(each)) for each in objects.sequence(metadata.get("managedFields"))]
    for each in fields:
        if str(each.get("manager") or "").startswith(_MANAGERS):
            each["manager"] = marks.FIELD_MANAGER
    return {**obj, "metadata": {**metadata, "managedFields": fields}}


def _without_what_differs(wanted: Any, found: Any) -> Any:
    if not isinstance(wanted, dict) or not isinstance(found, dict):
        return cast(Any, wanted)
    here = cast(Object, found)
    return {
        key: _without_what_differs(value, here.get(key))
        for key, value in cast(Object, wanted).items()
        if isinstance(value, dict) or value == here.get(key)
    }
