"""What a command is about: from `cluster dev`, `cluster/dev` or plain `dev` to a resource and an object.

Claims come first. They are the kinds that the API lists in the category `claim`, whoever defined them: a plain name is
that of a claim of any kind, `claim` means all of these kinds, and `cluster` the one that the command line calls so (as
in `create cluster`). Any other resource is found by its plural, singular, kind or short name, as kubectl does it, with
the group after a dot where needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from steelyard.cli import offered, output
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.hints import Hints
from steelyard.cli.session import Session
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client import discovery
from steelyard.kube.client.discovery import Entry
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

if TYPE_CHECKING:
    from steelyard.compose.claimkind import ClaimKind

T = TypeVar("T")

CATEGORY = "claim"
_COMPARED = 500
_ANY_CLAIM = ("", "claim", "claims")


@frozen
class Target:
    kind: str
    """As the user wrote it; empty means a claim."""
    name: str


@frozen
class Found:
    entry: Entry
    obj: Object

    @property
    def resource(self) -> Resource:
        return self.entry.resource

    @property
    def is_claim(self) -> bool:
        return CATEGORY in self.entry.categories

    def __str__(self) -> str:
        return f"{self.resource.kind} {objects.qualified_name(self.obj)}"


def parse(words: Sequence[str]) -> Target:
    """`["dev"]`, `["cluster/dev"]` and `["cluster", "dev"]` all name the claim dev."""
    match list(words):
        case [name] if "/" in name:
            kind, _, name = name.partition("/")
            return Target(kind, name)
        case [name]:
            return Target("", name)
        case [kind, name]:
            return Target(kind, name)
        case _:
            raise CommandError("name one object: NAME, KIND/NAME or KIND NAME", code=Exit.USAGE)


async def served(client: Client) -> Sequence[Entry]:
    """Everything that the API serves."""

    async def fetch(path: str, accept: str) -> Any:
        return await client.request("GET", path, accept=accept)

    return await discovery.entries(fetch)


async def claims(client: Client) -> list[Entry]:
    """The kinds of claims."""
    return _claims(await served(client))


async def of_each(wanted: Sequence[Entry], ask: Callable[[Entry], Awaitable[T]]) -> list[tuple[Entry, T]]:
    """What is answered for each of these kinds, as far as the caller may list them; who may list none is told so."""
    answers: list[tuple[Entry, T]] = []
    refused: list[tuple[Entry, errors.Forbidden]] = []
    for entry in wanted:
        try:
            answers.append((entry, await ask(entry)))
        except errors.Forbidden as error:
            refused.append((entry, error))
    if refused and not answers:
        raise refused[0][1]
    if refused:
        kinds = ", ".join(entry.resource.plural for entry, _ in refused)
        output.note(f"Not shown, since you may not list them: {kinds}.")
    return answers


async def of_kind(client: Client, kind: ClaimKind) -> Entry:
    """The resource of a claim kind in this platform's domain, whatever that domain is."""
    found = _of_kind(_claims(await served(client)), kind)
    if not found:
        name = kind.definition("example.org").resource.kind
        raise CommandError(f"this API serves no {name}: is it a Steelyard platform?", is_of_server=True)
    return found[0]


async def kind_or_name(session: Session, word: str, namespace: str) -> Target:
    """`get machines` lists a kind, `get shop` shows a claim; a kind goes before a claim of the same name."""
    try:
        await entries(session, word)
    except CommandError:
        for entry in await claims(session.client):
            with contextlib.suppress(errors.Forbidden):
                if await _named(session.client, entry, word, namespace):
                    return Target("", word)
        raise
    return Target(word, "")


async def entries(session: Session, kind: str) -> list[Entry]:
    """The resources that the user means by `kind`: several where it stands for all claims."""
    known = await served(session.client)
    of_claims = _claims(known)
    if kind.lower() in _ANY_CLAIM:
        if not of_claims:
            raise CommandError("this API serves no claims: is it a Steelyard platform?", is_of_server=True)
        return of_claims
    for each in offered.current().kinds:
        if kind.lower() in (each.noun, each.nouns) and (found := _of_kind(of_claims, each)):
            return found
    name, _, group = kind.lower().partition(".")
    for is_meant in (_is_called, _is_called_in_short):
        for entry in known:
            if is_meant(entry, name) and (not group or entry.resource.group == group):
                return [entry]
    raise CommandError(_no_such_kind(kind, known, session.hints), is_of_server=True)


async def find(session: Session, target: Target, namespace: str) -> Found:
    """The object. Without a namespace it is looked for in all of them, and must be the only one of its name."""
    wanted = await entries(session, target.kind)
    answers = await asyncio.gather(
        *(_named(session.client, entry, target.name, namespace) for entry in wanted), return_exceptions=True
    )
    failures = [each for each in answers if isinstance(each, BaseException)]
    # Who has rights on one kind of claims only can still name them without the kind.
    if failures and (len(failures) == len(answers) or not isinstance(failures[0], errors.Forbidden)):
        raise failures[0]
    found = [each for answer in answers if not isinstance(answer, BaseException) for each in answer]
    if not found:
        raise errors.NotFound(await _no_such(session, wanted, target.name, namespace))
    if len(found) > 1:
        raise CommandError(_ambiguous(found, target), code=Exit.USAGE)
    return found[0]


async def _named(client: Client, entry: Entry, name: str, namespace: str) -> list[Found]:
    resource = entry.resource
    if namespace or not resource.namespaced:
        try:
            return [Found(entry, await client.get(resource, name, namespace))]
        except errors.NotFound:
            return []
    listed = await client.list(resource, field_selector=f"metadata.name={name}")
    return [Found(entry, obj) for obj in listed.items]


def _ambiguous(found: Sequence[Found], target: Target) -> str:
    kinds = {each.resource.group_resource for each in found}
    if len(kinds) > 1:
        places = ", ".join(sorted(f"{each.entry.singular}/{target.name}" for each in found))
        return f'several claims are named "{target.name}"; say which one: {places}'
    places = ", ".join(sorted(objects.namespace(each.obj) for each in found))
    plural = found[0].resource.plural
    return f'several {plural} are named "{target.name}", in the namespaces {places}; use --namespace'


async def _no_such(session: Session, wanted: Sequence[Entry], name: str, namespace: str) -> str:
    """That there is none of the name, with the one that was most likely meant, wherever that is."""
    known: dict[str, list[str]] = {}
    for entry in wanted:
        for place in dict.fromkeys(("", namespace)):
            with contextlib.suppress(errors.Forbidden):
                for obj in (await session.client.list(entry.resource, place, limit=_COMPARED)).items:
                    known.setdefault(objects.name(obj), []).append(objects.qualified_name(obj))
                break
    is_claim = all(CATEGORY in entry.categories for entry in wanted)
    first = wanted[0].resource
    what = first.group_resource if len(wanted) == 1 else "claim"
    where = f" in namespace {namespace}" if namespace and first.namespaced else ""
    text = f'{what} "{name}" not found{where}'
    if name in known:
        return f"{text}; did you mean {known[name][0]}?"
    if close := difflib.get_close_matches(name, known, n=1):
        return f"{text}; did you mean {known[close[0]][0]}?"
    listing, plural = ("get", "claims") if is_claim else (f"get {first.plural}", first.plural)
    return f"{text}; {session.hints.steelyard(listing)} lists all {plural}"


def _no_such_kind(kind: str, known: Sequence[Entry], hints: Hints) -> str:
    nouns = [word for each in offered.current().kinds for word in (each.noun, each.nouns)]
    words = [*nouns, *_ANY_CLAIM[1:], *(word for each in known for word in (each.resource.plural, each.singular))]
    close = difflib.get_close_matches(kind.lower(), words, n=1)
    text = f'there is no resource "{kind}"'
    if close:
        return f'{text}; did you mean "{close[0]}"?'
    return f"{text}, and no claim of that name; `{hints.kubectl('api-resources')}` lists all kinds"


def is_of_another_domain(entry: Entry, domain: str) -> bool:
    """Whether it is a kind that is offered, but not in this domain: then nobody looks after it."""
    return any(
        _of_kind([entry], kind) and entry.resource.group != kind.definition(domain).resource.group
        for kind in offered.current().kinds
    )


def _claims(known: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in known if CATEGORY in entry.categories]


def _of_kind(of_claims: Sequence[Entry], kind: ClaimKind) -> list[Entry]:
    """By kind and the group's first word; what comes after that is the platform's domain."""
    meant = kind.definition("example.org").resource
    prefix = meant.group.removesuffix("example.org")
    return [each for each in of_claims if each.resource.kind == meant.kind and each.resource.group.startswith(prefix)]


def _is_called(entry: Entry, name: str) -> bool:
    return name in (entry.resource.plural, entry.singular, entry.resource.kind.lower())


def _is_called_in_short(entry: Entry, name: str) -> bool:
    return name in entry.short_names
