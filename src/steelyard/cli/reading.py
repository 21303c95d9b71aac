"""The verbs that only look: get, describe."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from typing import Annotated
from urllib.parse import quote

import typer

from steelyard.cli import completing, describe, output, session, tables, targets
from steelyard.cli.arguments import TargetArgument
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.output import Format
from steelyard.cli.reach import Given
from steelyard.cli.session import AllNamespacesOption, NamespaceOption, OutputOption, Session
from steelyard.cli.tables import Table
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.discovery import Entry
from steelyard.kube.client.interface import ObjectList
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS


def get(
    given: Given,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KIND] [NAME]", help="What to list; default: claims.", autocompletion=completing.claims
        ),
    ] = None,
    namespace: NamespaceOption = "",
    all_namespaces: AllNamespacesOption = False,
    selector: Annotated[str, typer.Option("--selector", "-l", help="Only objects with these labels.")] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on with every change until Ctrl-C.")] = False,
    format_: OutputOption = Format.TABLE,
) -> None:
    """List claims, or objects of any kind, in all namespaces or one.

    Example: steelyard get machines -n team-a -o wide --watch
    """
    words = words or []
    is_one_word = len(words) == 1 and "/" not in words[0]
    target = targets.Target("", "") if not words or is_one_word else session.guarded(lambda: targets.parse(words))
    if watch and format_ not in (Format.TABLE, Format.WIDE, Format.NAME):
        session.guarded(lambda: _refuse_watch(format_))

    async def command(here: Session) -> None:
        place = here.namespace(namespace, everywhere=all_namespaces)
        meant = await targets.kind_or_name(here, words[0], place) if is_one_word else target
        listing = _Listing(here, place, selector, format_)
        if meant.name:
            found = await targets.find(here, meant, place)
            listing = _Listing(here, objects.namespace(found.obj), selector, format_, objects.name(found.obj))
            wanted = [found.entry]
        else:
            wanted = await targets.entries(here, meant.kind)
        await listing.show(wanted)
        if watch:
            await asyncio.gather(*map(listing.follow, wanted))

    session.run(given, command)


def describe_(
    words: TargetArgument, given: Given, namespace: NamespaceOption = "", all_namespaces: AllNamespacesOption = False
) -> None:
    """Say how a claim is: state, reasons, what it is made of, events, and what to do next.

    Example: steelyard describe dev-cluster
    """

    async def command(here: Session) -> None:
        place = here.namespace(namespace, everywhere=all_namespaces)
        found = await targets.find(here, targets.parse(words), place)
        now = datetime.datetime.now(datetime.UTC)
        if found.is_claim:
            picture = await describe.gather(here.client, found.obj, here.hints)
            output.result(describe.render(picture, now, width=output.columns()))
            return
        selector = f"involvedObject.uid={objects.uid(found.obj)}"
        events = (await here.client.list(EVENTS, objects.namespace(found.obj), field_selector=selector)).items
        output.result(describe.render_generic(found.obj, events, now, width=output.columns()))

    session.run(given, command)


def _refuse_watch(format_: Format) -> None:
    raise CommandError(f"--watch prints lines: leave out -o {format_}, or use wide or name", code=Exit.USAGE)


@frozen
class _Shown:
    """What stands on the screen of one kind, for a watch to go on with."""

    table: Table | None
    version: str


class _Listing:
    """What `get` prints, of one kind or several."""

    def __init__(self, here: Session, namespace: str, selector: str, format_: Format, name: str = "") -> None:
        self._client = here.client
        self._namespace, self._selector, self._name = namespace, selector, name
        self._format = format_
        self._shown: dict[Entry, _Shown] = {}

    async def show(self, wanted: list[Entry]) -> None:
        if self._format not in (Format.TABLE, Format.WIDE):
            await self._print_objects(wanted)
            return
        answers = await targets.of_each(wanted, self._answer)
        filled = [(entry, answer) for entry, answer in answers if answer.get("rows")]
        for number, (entry, answer) in enumerate(filled):
            if number:
                output.result("")
            table = self._table(entry, answer, is_one_of_several=len(filled) > 1)
            for line in table.lines():
                output.result(line)
            self._remember(entry, table, answer)
        for entry, answer in answers:
            if not answer.get("rows"):
                self._remember(entry, None, answer)
        if not filled:
            self._say_nothing(wanted)

    async def _answer(self, entry: Entry) -> Object:
        path = entry.resource.path(self._namespace, self._name)
        if self._selector and not self._name:
            path += f"?labelSelector={quote(self._selector)}"
        return objects.mapping(await self._client.request("GET", path, accept=tables.ACCEPT))

    async def _listed(self, entry: Entry) -> ObjectList:
        return await self._client.list(entry.resource, self._namespace, label_selector=self._selector)

    async def _print_objects(self, wanted: list[Entry]) -> None:
        if self._name:
            obj = await self._client.get(wanted[0].resource, self._name, self._namespace)
            output.object_(obj, self._format)
            return
        items: list[Object] = []
        for entry, listed in await targets.of_each(wanted, self._listed):
            self._shown[entry] = _Shown(None, listed.resource_version)
            items += listed.items
        output.list_(items, self._format)

    def _table(self, entry: Entry, answer: Object, *, is_one_of_several: bool) -> Table:
        return Table(
            answer,
            wide=self._format is Format.WIDE,
            namespaces=entry.resource.namespaced and not self._namespace,
            kind=entry.singular if is_one_of_several else "",
            width=output.columns(),
        )

    def _remember(self, entry: Entry, table: Table | None, answer: Object) -> None:
        self._shown[entry] = _Shown(table, str(objects.metadata(answer).get("resourceVersion") or ""))

    def _say_nothing(self, wanted: list[Entry]) -> None:
        what = wanted[0].resource.plural if len(wanted) == 1 else "claims"
        where = f" in namespace {self._namespace}" if self._namespace else " in any namespace"
        output.note(f"No {what}{where if wanted[0].resource.namespaced else ''}.")

    async def follow(self, entry: Entry) -> None:
        """Every change from what was shown on, until somebody ends it."""
        if entry not in self._shown:
            return
        shown = self._shown[entry]
        fields = f"metadata.name={self._name}" if self._name else ""
        version = shown.version
        while True:
            try:
                async for event in self._client.watch(
                    entry.resource,
                    self._namespace,
                    resource_version=version,
                    label_selector=self._selector,
                    field_selector=fields,
                ):
                    version = objects.resource_version(event.object) or version
                    if event.type == "BOOKMARK":
                        continue
                    if event.type == "DELETED":
                        output.note(f"{output.object_name(event.object)} is gone")
                        continue
                    await self._print_change(entry, event.object)
            except errors.Expired:
                version = (await self._client.list(entry.resource, self._namespace, limit=1)).resource_version

    async def _print_change(self, entry: Entry, obj: Object) -> None:
        if self._format is Format.NAME:
            output.flushed(output.object_name(obj))
            return
        path = entry.resource.path(objects.namespace(obj), objects.name(obj))
        with contextlib.suppress(errors.NotFound):
            answer = objects.mapping(await self._client.request("GET", path, accept=tables.ACCEPT))
            table = self._shown[entry].table
            if table is None:
                table = self._table(entry, answer, is_one_of_several=False)
                self._remember(entry, table, answer)
                output.flushed("\n".join(table.lines()))
                return
            for row in map(objects.mapping, objects.sequence(answer.get("rows"))):
                output.flushed(table.line(table.row(row)))
