"""What a start with these settings would change for the claims that are there, told before anything is changed.

The settings of the last start and those of this one are compared by what they make of each claim in the database.
Settings that change no claim's outcome need nobody's consent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.compose.composed import Requirement
from steelyard.compose.offering import Offering
from steelyard.frozen import frozen
from steelyard.installation.datadir import DataDir
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.server.space import keys
from steelyard.kube.store.store import Store
from steelyard.plan import foresight
from steelyard.plan.foresight import Foreseen, LookUp
from steelyard.settings import Chosen, Platform, Remembered

FLAG: Final = "--accept-platform-change"
_SPACE: Final = "main"
_CLAIMS_SHOWN: Final = 20


@frozen
class Outcome:
    lines: Sequence[str]
    """What would change, for a person to read."""
    needs_consent: bool


def foreseen(store: Store, remembered: Remembered | None, chosen: Chosen, offering: Offering) -> Outcome:
    """What the start would change for the claims of a database, compared with the last one."""

    def look_up(requirement: Requirement) -> list[Object]:
        resource = requirement.resource
        prefix = keys.collection(_SPACE, resource.group, resource.plural, requirement.namespace)
        found = (record.object for record in store.scan(prefix))
        label, value = requirement.label
        if requirement.name:
            return [each for each in found if objects.name(each) == requirement.name]
        return [each for each in found if objects.labels(each).get(label) == value]

    return compared(list(_claims(store, offering)), look_up, remembered, chosen.platform, offering)


def compared(
    found: Sequence[Object],
    look_up: LookUp,
    remembered: Remembered | None,
    platform: Platform,
    offering: Offering,
) -> Outcome:
    """What these settings would change for claims, compared with those that are remembered."""
    claims = [claim for claim in found if not objects.is_being_deleted(claim)]
    served = {kind.resource(platform.domain).api_version for kind in offering.kinds}
    left_alone = [claim for claim in claims if claim.get("apiVersion") not in served]
    before = remembered.platform if remembered is not None else None
    is_new_domain = before is None or before.domain != platform.domain
    lines: list[str] = []
    if left_alone and is_new_domain:
        lines += _of_domain(left_alone, platform)
    if remembered is not None and before is None and claims:
        lines.append(f"what the last start used cannot be read, so nobody can say what changes: {remembered.problem}")
    if before is not None and before != platform:
        looked_after = [claim for claim in claims if claim not in left_alone]
        seen = [_of(look_up, claim, before, platform, offering) for claim in looked_after]
        changed = [each for each in seen if each is not None]
        for each in changed[:_CLAIMS_SHOWN]:
            lines += _of_claim(each)
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


def _claims(store: Store, offering: Offering) -> Iterator[Object]:
    """Of every domain: the group of a kind without its domain is what all of them begin with."""
    for group in dict.fromkeys(kind.resource("").group for kind in offering.kinds):
        for record in store.scan(f"{_SPACE}/{group}"):
            if offering.kind_of(record.object) is not None:
                yield record.object


def _of(look_up: LookUp, claim: Object, old: Platform, new: Platform, offering: Offering) -> Foreseen | None:
    kind = offering.kind_of(claim)
    return foresight.of(kind, claim, old, new, look_up) if kind is not None else None


def _of_domain(claims: Sequence[Object], platform: Platform) -> Iterator[str]:
    yield f"claims of another domain would be left alone, as only those of {platform.domain} are looked after:"
    groups = ((str(claim.get("apiVersion")).partition("/")[0], objects.qualified_name(claim)) for claim in claims)
    yield f"  {_listed([f'{name} ({each})' for each, name in groups], _CLAIMS_SHOWN)}"


def _of_claim(foreseen: Foreseen) -> Iterator[str]:
    name = objects.qualified_name(foreseen.claim)
    if foreseen.refusal:
        yield f"{name}: could not be brought about any more: {foreseen.refusal}"
        return
    yield f"{name}: {', '.join(foreseen.parameters) or 'other objects'}"
    yield f"  changes {', '.join(foreseen.parts)}"
    yield from (f"  {effect}" for effect in foreseen.effects)


def _listed(found: Sequence[str], limit: int) -> str:
    more = f" and {len(found) - limit} more" if len(found) > limit else ""
    return ", ".join(found[:limit]) + more
