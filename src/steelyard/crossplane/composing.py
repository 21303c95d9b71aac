"""One question of Crossplane, answered: what a composite is to be made of now. Pure.

The kind's composition is the one that the claims controller calls; what differs is who does what it decides:

    what is there             Crossplane has observed its own resources; the rest it looks up when asked, and asks again
    somebody else's object    is asked for by name before anything of that name is made: Crossplane would take it over
    the connection Secret     of a legacy claim is Crossplane's to write; of a composite in a namespace it is a part
    rights of an author       nobody can be asked for them here: only grants of the platform file count
    what was changed by hand  is put back by Crossplane, unless that would replace machines (`holding.py`)
    deletion                  is Crossplane's; `usages.py` says in which order
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping, Sequence
from dataclasses import field
from typing import Final, Literal, TypeAlias

from steelyard.api import authors, state, xrd
from steelyard.compose import identity, names
from steelyard.compose.composed import Composed, Condition, Desired, Observed
from steelyard.compose.connection import CONNECTION
from steelyard.compose.offering import Offering
from steelyard.compose.refusing import Refused
from steelyard.crossplane import composites, forms, holding, usages, wrapping
from steelyard.crossplane.composites import Subject
from steelyard.crossplane.forms import Form
from steelyard.crossplane.selecting import Selector
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.plan import inventory
from steelyard.settings import Platform

Severity: TypeAlias = Literal["fatal", "warning"]

CLAIM: Final = "claim"
NAMESAKE: Final = "namesake-of-"
"""Names of what is required besides what compositions require: the claim of a legacy composite, and objects that have
the names of parts which are not there yet."""
COPY: Final = "connection-copy"
_PLACED_BY_AUTHOR: Final = (CONNECTION, COPY)
SETTLED_SECONDS: Final = 60.0
WAITING_SECONDS: Final = 15.0
"""When to be called again: nothing tells Crossplane of a change in what it only looked up."""
_OF_CROSSPLANE: Final = frozenset({"Ready", "Synced"})
_TURNS: Final = 4


@frozen
class Asked:
    composite: Object
    observed: Mapping[str, Object] = field(default_factory=dict[str, Object])
    """Composed resources, under Crossplane's names."""
    details: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the composite's connection Secret has, in base64."""
    required: Mapping[str, Sequence[Object]] = field(default_factory=dict[str, Sequence[Object]])
    """What was looked up, under the names of the selectors; a name that is not there was not looked up."""
    now: str = ""


@frozen
class Given:
    object: Object
    ready: bool


@frozen
class Result:
    severity: Severity
    reason: str
    message: str


@frozen
class Answer:
    resources: Mapping[str, Given] = field(default_factory=dict[str, Given])
    selectors: Mapping[str, Selector] = field(default_factory=dict[str, Selector])
    status: Object = field(default_factory=dict[str, object])
    ready: bool = False
    details: Mapping[str, str] = field(default_factory=dict[str, str])
    """In base64."""
    conditions: Sequence[Condition] = ()
    results: Sequence[Result] = ()
    look_again: float = 0.0
    """In how many seconds to ask anew, though nothing has changed."""
    subject: str = ""
    """The claim, in words."""
    takes_turns: bool = False
    """It takes something of which others might take the same: one claim at a time."""

    @property
    def is_fatal(self) -> bool:
        return any(each.severity == "fatal" for each in self.results)


def answer(asked: Asked, offering: Offering, platform: Platform) -> Answer:
    """A refusal is fatal: Crossplane leaves everything as it is then, and tells the message in Synced."""
    try:
        return _answered(asked, offering, platform)
    except Refused as refused:
        # Asked for even so: it may be what was looked up that makes the difference.
        selectors = _of_claim(asked.composite)
        return Answer(selectors=selectors, results=[Result("fatal", refused.reason, refused.message)])


def _answered(asked: Asked, offering: Offering, platform: Platform) -> Answer:
    found = asked.required.get(CLAIM) or ()
    subject = composites.of(asked.composite, found[0] if found else None, offering, platform)
    form = forms.of(subject.form, subject.claim, platform)
    composed, here = _composed(asked, subject, form, platform)
    selectors = {**_of_claim(asked.composite), **_selectors(composed, form)}
    if composed.refusal is not None:
        refusal = Result("fatal", composed.refusal.reason, composed.refusal.message)
        return Answer(selectors=selectors, results=[refusal])
    composed, withheld = _within_rights(composed, subject, platform)
    details = _details(asked, composed, subject)
    composed, not_in_force = _with_copy(composed, subject, platform)
    held = holding.held(subject.kind, subject.claim, identity.of_file(subject.claim, composed).desired, here)
    if held:
        plural = subject.kind.resource(platform.domain).group_resource
        reason, message = holding.told(subject.claim, plural, held, here)
        withheld.append(Result("warning", reason, message))
    parts = _parts(asked, composed, subject, form)
    given = _given(asked, composed, parts, subject, form, here, held)
    places = _places(parts, form, asked.observed)
    selectors |= {f"{NAMESAKE}{name}": place for name, place in places.items()}
    _refuse_anothers(asked, subject, places)
    not_in_force += _ttl(subject, platform)
    conditions = _conditions(asked.composite, composed, subject, not_in_force)
    ready = next((each for each in composed.conditions if each.type == "Ready"), None)
    return Answer(
        resources=given,
        selectors=selectors,
        status={**composed.status, **_words(subject.claim, composed.conditions, withheld)},
        ready=ready is not None and ready.status == "True",
        details=details,
        conditions=conditions,
        results=withheld,
        look_again=_look_again(composed),
        subject=f"{subject.claim['kind']} {objects.qualified_name(subject.claim)}",
        takes_turns=composed.takes_turns and not _is_placed(asked),
    )


def _composed(asked: Asked, subject: Subject, form: Form, platform: Platform) -> tuple[Composed, Mapping[str, Object]]:
    """And the parts that are there. Which of several templates is the part follows from composing: the one that has
    the name composed now. So it does of Secrets, one of which is still to go."""
    candidates: dict[str, dict[str, Object]] = {}
    for obj in form.inward(asked.observed).values():
        part = objects.annotations(obj).get(names.RESOURCE_NAME, "")
        candidates.setdefault(part, {})[objects.qualified_name(obj)] = obj
    required = {name: form.required(found) for name, found in asked.required.items()}
    resources = {part: next(iter(found.values())) for part, found in candidates.items() if len(found) == 1}
    connected = _connected(asked, subject)
    required |= _answered_here(connected, required)
    for _ in range(_TURNS):
        observed = Observed({**resources, **connected}, required, asked.now)
        composed = subject.kind.compose(subject.claim, observed, platform)
        chosen = _chosen(composed, candidates)
        if chosen == resources:
            return composed, resources
        resources = chosen
    raise Refused(
        "CompositionUnsettled",
        f"after {_TURNS} looks at what there is, the composition still makes something else, so nothing was changed; "
        "this is a fault of the composition",
    )


def _chosen(composed: Composed, candidates: Mapping[str, Mapping[str, Object]]) -> dict[str, Object]:
    chosen: dict[str, Object] = {}
    for part, found in candidates.items():
        desired = composed.desired.get(part)
        current = found.get(objects.qualified_name(desired.object)) if desired is not None else None
        if current is not None:
            chosen[part] = current
        elif len(found) == 1 and (desired is None or not desired.in_use_while_rolling):
            chosen[part] = next(iter(found.values()))
    return chosen


def _connected(asked: Asked, subject: Subject) -> dict[str, Object]:
    """A legacy claim's connection Secret as the part that it would be; Crossplane writes it."""
    reference = objects.mapping(objects.at(subject.claim, "spec", "writeConnectionSecretToRef"))
    if subject.form != xrd.LEGACY or not asked.details or not reference:
        return {}
    metadata: Object = {
        "name": str(reference["name"]),
        "namespace": objects.namespace(subject.claim),
        "labels": names.claim_labels(subject.claim),
    }
    secret: Object = {"apiVersion": SECRETS.api_version, "kind": SECRETS.kind, "metadata": metadata}
    return {CONNECTION: {**secret, "data": dict(asked.details)}}


def _answered_here(
    connected: Mapping[str, Object], required: Mapping[str, Sequence[Object]]
) -> dict[str, Sequence[Object]]:
    """Compositions that look for a claim's connection Secret find what Crossplane keeps of it."""
    secret = connected.get(CONNECTION)
    if secret is None:
        return {}
    place = objects.qualified_name(secret)
    return {
        name: [secret]
        for name, found in required.items()
        if len(found) == 1 and found[0].get("kind") == SECRETS.kind and objects.qualified_name(found[0]) == place
    }


def _of_claim(composite: Object) -> dict[str, Selector]:
    reference = composites.claim_reference(composite)
    if objects.namespace(composite) or not reference:
        return {}
    return {
        CLAIM: Selector(
            str(reference.get("apiVersion") or ""),
            str(reference.get("kind") or ""),
            str(reference.get("namespace") or ""),
            str(reference.get("name") or ""),
        )
    }


def _selectors(composed: Composed, form: Form) -> dict[str, Selector]:
    written = forms.written(composed.desired)
    return {name: form.selector(each, written) for name, each in composed.requirements.items()}


def _within_rights(composed: Composed, subject: Subject, platform: Platform) -> tuple[Composed, list[Result]]:
    """Without what only its author's rights would allow; what is there already stays as it is."""
    claim, withheld, told = subject.claim, frozenset[str](), list[Result]()
    home, target = objects.namespace(claim), authors.destination(claim)
    if target and CONNECTION in composed.desired and not platform.connection_secrets.allows(home, target):
        withheld |= {CONNECTION}
        told.append(
            Result(
                "warning",
                "ConnectionSecretForbidden",
                f"the connection Secret cannot go to namespace {target}: on Crossplane nobody's rights are asked for. "
                f"Grant it to claims in {home} (connectionSecrets.grants in the platform file), or leave out "
                "writeConnectionSecretToRef.namespace",
            )
        )
    reading = composed.reading
    if reading is not None:
        withheld |= reading.parts
        told.append(
            Result(
                "warning",
                "CloneForbidden",
                f"data of namespace {reading.namespace} cannot be copied: on Crossplane nobody's rights are asked for. "
                f"Grant masked copies of databases in {reading.namespace} to claims in {home} (postgresql.clones in "
                "the platform file)",
            )
        )
    if not withheld:
        return composed, told
    desired = {name: part for name, part in composed.desired.items() if name not in withheld}
    return dataclasses.replace(composed, desired=desired, retained=composed.retained | withheld), told


def _details(asked: Asked, composed: Composed, subject: Subject) -> Mapping[str, str]:
    """For a legacy claim: what its Secret is to have. What cannot be said at the moment stays as it was."""
    if subject.form != xrd.LEGACY:
        return {}
    part = composed.desired.get(CONNECTION)
    if part is not None:
        return objects.mapping(part.object.get("data"))
    return asked.details if CONNECTION in composed.retained else {}


def _with_copy(composed: Composed, subject: Subject, platform: Platform) -> tuple[Composed, list[str]]:
    """A legacy claim's connection Secret is no part; a copy elsewhere is one, where it is granted."""
    if subject.form != xrd.LEGACY:
        return composed, []
    part = composed.desired.get(CONNECTION)
    desired = {name: each for name, each in composed.desired.items() if name != CONNECTION and not each.is_shared}
    retained = composed.retained - {CONNECTION}
    place, home, told = subject.copy, objects.namespace(subject.claim), list[str]()
    if place is not None:
        annotation = f"the annotation {composites.CONNECTION_COPY}"
        if place.namespace == home:
            told.append(f"{annotation}: in the claim's own namespace the Secret is in spec.writeConnectionSecretToRef")
        elif not platform.connection_secrets.allows(home, place.namespace):
            told.append(
                f"{annotation}: claims in {home} have no grant for namespace {place.namespace} "
                "(connectionSecrets.grants in the platform file), so no copy is made there"
            )
        elif part is None:
            retained |= {COPY}
        else:
            metadata: Object = {"name": place.name, "namespace": place.namespace}
            copy: Object = {"apiVersion": SECRETS.api_version, "kind": SECRETS.kind, "metadata": metadata}
            data = objects.mapping(part.object.get("data"))
            desired[COPY] = Desired(SECRETS, {**copy, "type": "Opaque", "data": data}, ready=True)
    return dataclasses.replace(composed, desired=desired, retained=retained), told


def _parts(asked: Asked, composed: Composed, subject: Subject, form: Form) -> dict[str, Desired]:
    """Under Crossplane's resource names. In another place, a Secret whose place the author of the claim says is another
    resource: Crossplane makes the one and takes the other away."""
    return {
        _name_in_place(name, form.place(part), asked.observed) if name in _PLACED_BY_AUTHOR else name: part
        for name, part in identity.of_composite(subject.claim, composed).items()
    }


def _name_in_place(name: str, place: Selector, observed: Mapping[str, Object]) -> str:
    """`connection`, until it has been somewhere else: `connection-3f2a9c1b04`."""
    moved = f"{name}-{wrapping.digest(f'{place.namespace}/{place.name}')[:10]}"
    is_elsewhere = name in observed and wrapping.place_of(observed[name]) != place
    return moved if is_elsewhere or moved in observed else name


def _given(
    asked: Asked,
    composed: Composed,
    parts: Mapping[str, Desired],
    subject: Subject,
    form: Form,
    here: Mapping[str, Object],
    held: Container[str],
) -> dict[str, Given]:
    pushed = forms.pushed(composed.desired)
    given: dict[str, Given] = {}
    ordered: list[usages.Part] = []
    for name, part in parts.items():
        if not part.is_shared:
            called = objects.annotations(part.object)[names.RESOURCE_NAME]
            applied = holding.applied(part.object, here.get(called), is_held=called in held)
            part = dataclasses.replace(part, object=applied)
        made = form.outward(name, part, pushed)
        given |= {
            each: Given(obj, part.ready if each == name else each in asked.observed) for each, obj in made.items()
        }
        if usages.matters(part) and name in asked.observed:
            ordered.append(usages.Part(name, part.resource, made[name], part.deletion_stage))
    observed = {name: obj for name, obj in asked.observed.items() if names.RESOURCE_NAME in objects.annotations(obj)}
    for name, obj in identity.given_back(composed, given, observed).items():
        given[name] = Given(obj, ready=True)
    for name, usage in usages.of(subject.claim, ordered).items():
        given[name] = Given(usage, ready=name in asked.observed)
    return given


def _places(parts: Mapping[str, Desired], form: Form, observed: Mapping[str, Object]) -> dict[str, Selector]:
    """Where objects would be that have the names of parts which are not there yet. A resource of that name proves
    nothing: what is in an Object may have been somewhere else."""
    found = {name: form.place(part) for name, part in parts.items() if not part.is_shared}
    there = {name: wrapping.place_of(obj) for name, obj in observed.items()}
    return {name: place for name, place in found.items() if there.get(name) != place}


def _refuse_anothers(asked: Asked, subject: Subject, places: Mapping[str, Selector]) -> None:
    for name, place in places.items():
        for found in asked.required.get(f"{NAMESAKE}{name}") or ():
            if not inventory.is_the_claims(found, subject.claim):
                raise Refused(
                    "NameTaken",
                    f"{place.kind} {objects.qualified_name(found)} exists and was not made for this claim; delete it, "
                    "or choose another name",
                )


def _conditions(
    composite: Object, composed: Composed, subject: Subject, not_in_force: Sequence[str]
) -> list[Condition]:
    """Those that are not Crossplane's own. It keeps what was once said; so of what is no longer said, that is told."""
    told = [each for each in composed.conditions if each.type not in _OF_CROSSPLANE and each.type != "InForce"]
    sentences = [each.message for each in composed.conditions if each.type == "InForce"] + list(not_in_force)
    if sentences:
        told.append(Condition("InForce", "False", "NotAvailable", "; ".join(sentences)))
    known = {each.type for each in subject.kind.guide.conditions} | {"InForce", "UpToDate"}
    said = {each.type for each in told} | _OF_CROSSPLANE
    before = map(objects.mapping, objects.sequence(objects.at(composite, "status", "conditions")))
    for each in before:
        type_ = str(each.get("type"))
        if type_ in known - said:
            told.append(Condition(type_, "Unknown", "NoLongerReported"))
    return told


def _words(claim: Object, conditions: Sequence[Condition], withheld: Sequence[Result]) -> Object:
    """How the claim is, in a word and a line, as the claims controller reports it."""
    synced: Object = {"type": "Synced", "status": "False" if withheld else "True"}
    if withheld:
        synced |= {"reason": withheld[0].reason, "message": withheld[0].message}
    told: list[Object] = [
        synced,
        *({"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
          for each in conditions if each.type == "Ready"),
    ]  # fmt: skip
    found = state.of({"metadata": objects.metadata(claim), "status": {"conditions": told}})
    return {"state": found.word, "message": found.text}


def _ttl(subject: Subject, platform: Platform) -> list[str]:
    ttl = subject.kind.ttl(subject.claim, platform)
    return [f"the ttl of {ttl}: on Crossplane nothing deletes a claim when its time has come"] if ttl else []


def _look_again(composed: Composed) -> float:
    is_ready = any(each.type == "UpToDate" and each.status == "True" for each in composed.conditions)
    usual = SETTLED_SECONDS if is_ready and not composed.rolling else WAITING_SECONDS
    return min(usual, max(1.0, composed.look_again)) if composed.look_again else usual


def _is_placed(asked: Asked) -> bool:
    """Whether anything is there that others see what it has taken by."""
    return any(objects.annotations(obj).get(names.RESOURCE_NAME) == "cluster" for obj in asked.observed.values())
