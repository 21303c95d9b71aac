"""The verb `apply`: what manifests say is what there is, by server-side apply.

Nothing is changed unless every document can be read, its kind is served, and the API would accept it. What could not be
known beforehand (an object in a namespace that comes with it) fails where it stands, and says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated

import typer

from steelyard.cli import comparing, documents, mistakes, output, proposing, session, targets
from steelyard.cli.creating import DEFAULT_NAMESPACE
from steelyard.cli.documents import Document
from steelyard.cli.dryrun import DryRun, DryRunOption
from steelyard.cli.exits import CommandError
from steelyard.cli.output import Format
from steelyard.cli.platform import PlatformOption
from steelyard.cli.proposing import Coming
from steelyard.cli.reach import Given
from steelyard.cli.session import FIELD_MANAGER, NamespaceOption, OutputOption, Session
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.discovery import Entry
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.plan import planning
from steelyard.plan.planning import Plan

FilesOption = Annotated[
    list[str],
    typer.Option(
        "--filename", "-f", metavar="FILE", help="A file, a directory, or - for standard input.", show_default=False
    ),
]
_FIRST = ("Namespace", "CustomResourceDefinition")


def apply(
    files: FilesOption,
    given: Given,
    namespace: NamespaceOption = "",
    force: Annotated[
        bool, typer.Option("--force-conflicts", help="Take over fields that somebody else has set.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: DryRunOption = DryRun.NONE,
    format_: OutputOption = Format.TABLE,
    platform_file: PlatformOption = None,
) -> None:
    """Make what is there as the manifests say: created, configured or unchanged.

    Every document is read and checked before anything is changed, and all mistakes are told at once. What it is going
    to do is shown first, as `plan` does, and asked for. Where there is no terminal to ask on, it goes on by itself
    unless machines would be replaced or data lost: then it does so with --yes only (exit code 2).

    Example: steelyard apply -f examples/environments/
    """
    read = session.guarded(lambda: documents.read(files))

    async def look(here: Session) -> list[Plan]:
        wanted = await _placed(here, read, namespace)
        now = comparing.known(here.server, given, platform_file)
        return await proposing.plans(here, await _check(here, wanted, force=force), now)

    async def command(here: Session) -> None:
        wanted = await _placed(here, read, namespace)
        # Namespaces and kinds before what needs them; else in the order of the documents.
        wanted.sort(key=lambda each: each.document.obj["kind"] not in _FIRST)
        if dry_run is DryRun.SERVER:
            await _check(here, wanted, force=force)
        done: list[Object] = []
        for each in wanted:
            if dry_run is DryRun.CLIENT:
                word, obj = "read", each.obj
            else:
                word, obj = await _apply(here, each, force=force, dry_run=dry_run is DryRun.SERVER)
            done.append(obj)
            if format_ in (Format.TABLE, Format.WIDE):
                dry = "" if dry_run is DryRun.NONE else " (dry run)"
                output.flushed(f"{output.object_name(each.obj)} {word}{dry}")
        if format_ not in (Format.TABLE, Format.WIDE):
            output.list_(done, format_) if len(done) > 1 else output.object_(done[0], format_)

    if dry_run is DryRun.NONE:
        # Asked between two connections: while an event loop runs, Ctrl-C would not reach whoever reads the answer.
        plans = session.run(given, look)
        session.guarded(lambda: proposing.check(plans, yes=yes))
    session.run(given, command)


@frozen
class _Wanted:
    document: Document
    resource: Resource
    obj: Object
    """With its namespace."""


async def _placed(here: Session, read: Sequence[Document], namespace: str) -> list[_Wanted]:
    known = await targets.served(here.client)
    coming = [_defined(each.obj) for each in read if each.obj["kind"] == "CustomResourceDefinition"]
    found: list[_Wanted] = []
    complaints: list[str] = []
    for document in read:
        entry = entry_of(document.obj, [*known, *coming])
        if entry is None:
            complaints.append(
                f"{document.origin}: this API serves no {document.obj['kind']} of {document.obj['apiVersion']}"
            )
            continue
        try:
            found.append(_Wanted(document, entry.resource, placed(here, document, entry.resource, namespace)))
        except CommandError as error:
            complaints.append(str(error))
    if complaints:
        raise CommandError("\n".join((*complaints, "Nothing was done.")), is_of_server=True)
    return found


def entry_of(obj: Object, known: Sequence[Entry]) -> Entry | None:
    """Also in another served version than the preferred one, which has the same path otherwise."""
    group, _, version = str(obj["apiVersion"]).rpartition("/")
    for entry in known:
        each = entry.resource
        if (each.group, each.kind) == (group, obj["kind"]):
            meant = Resource(group, version, each.plural, each.kind, namespaced=each.namespaced)
            return dataclasses.replace(entry, resource=meant)
    return None


def placed(here: Session, document: Document, resource: Resource, given: str) -> Object:
    """The object in its namespace: its own, else the given one, else the context's.

    Raises CommandError where its own is not the given one.
    """
    own = objects.namespace(document.obj)
    if not resource.namespaced:
        return document.obj
    if own and given and own != given:
        raise CommandError(f"{document.origin}: it is for namespace {own}, and -n says {given}; leave one out")
    metadata = {**objects.metadata(document.obj), "namespace": own or here.namespace(given) or DEFAULT_NAMESPACE}
    return {**document.obj, "metadata": metadata}


def _defined(definition: Object) -> Entry:
    """The resource that a definition among the documents will bring."""
    names = objects.mapping(objects.at(definition, "spec", "names"))
    is_namespaced = objects.at(definition, "spec", "scope") == "Namespaced"
    group = str(objects.at(definition, "spec", "group") or "")
    return Entry(Resource(group, "", str(names.get("plural")), str(names.get("kind")), namespaced=is_namespaced))


async def _check(here: Session, wanted: Sequence[_Wanted], *, force: bool) -> list[Coming]:
    """What each object is, and would be. Raises CommandError with everything that the API would refuse."""
    complaints: list[str] = []
    coming: list[Coming] = []
    for each in wanted:
        try:
            after = await _sent(here, each, force=force, dry_run=True)
            coming.append(Coming(await _as_it_is(here, each), after))
        except errors.NotFound:
            # Its namespace or its kind is not there; it may come with another document.
            coming.append(Coming(None, each.obj))
        except (errors.BadRequest, errors.Invalid, errors.InternalError) as refused:
            found = await mistakes.of(here.client, each.resource, each.obj, refused)
            complaints.append(mistakes.told(f"{each.document.origin}: {each.document}", _without_echo(found)))
        except errors.Conflict as error:
            complaints.append(f"{each.document.origin}: {error.message}; to take the fields over: --force-conflicts")
    if complaints:
        raise CommandError("\n".join((*complaints, "Nothing was done.")), is_of_server=True)
    return coming


async def _as_it_is(here: Session, each: _Wanted) -> Object | None:
    try:
        return await here.client.get(each.resource, objects.name(each.obj), objects.namespace(each.obj))
    except errors.NotFound:
        return None


def _without_echo(found: list[mistakes.Mistake]) -> list[mistakes.Mistake]:
    """Without what apply says in its own words of a field that is listed as unknown."""
    with_field = [each for each in found if each.field]
    return with_field or found


async def _apply(here: Session, each: _Wanted, *, force: bool, dry_run: bool) -> tuple[str, Object]:
    before = await _as_it_is(here, each)
    try:
        after = await _sent(here, each, force=force, dry_run=dry_run)
    except errors.ApiError as error:
        raise CommandError(
            f"{each.document.origin}: {error.message}\nWhat is listed above was done; the rest was not.",
            is_of_server=True,
        ) from None
    if before is None:
        return "created", after
    is_same = planning.said(before) == planning.said(after)
    return "unchanged" if is_same else "configured", after


async def _sent(here: Session, each: _Wanted, *, force: bool, dry_run: bool) -> Object:
    """Fields that this command line has set otherwise, by create or scale, are nobody else's: they are taken over."""
    try:
        return await here.client.apply(
            each.resource, each.obj, field_manager=FIELD_MANAGER, force=force, dry_run=dry_run
        )
    except errors.Conflict as conflict:
        if not conflict.causes or not all(f'"{FIELD_MANAGER}"' in cause.message for cause in conflict.causes):
            raise
        return await here.client.apply(each.resource, each.obj, field_manager=FIELD_MANAGER, dry_run=dry_run)
