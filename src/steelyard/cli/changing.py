"""The verbs that change what is there: scale, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from steelyard.cli import applying, asking, documents, goals, output, progress, session, targets, waiting
from steelyard.cli.arguments import TargetArgument
from steelyard.cli.documents import Document
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.goals import Goal
from steelyard.cli.reach import Given
from steelyard.cli.session import NamespaceOption, Session
from steelyard.cli.targets import Found
from steelyard.cli.waiting import TimeoutOption
from steelyard.kube import errors, objects

_UP_TO_DATE = goals.parse("UpToDate")


def scale(
    words: TargetArgument,
    given: Given,
    workers: Annotated[
        int,
        typer.Option("--workers", "--replicas", min=0, help="How many workers there are to be.", show_default=False),
    ],
    namespace: NamespaceOption = "",
    wait_: Annotated[bool, typer.Option("--wait", help="Wait until it is so, and show how it is going.")] = False,
    timeout: TimeoutOption = "5m",
) -> None:
    """Change how many workers a cluster has, or how many replicas anything else that can be scaled.

    Example: steelyard scale dev-cluster --workers 5 --wait
    """
    deadline = session.guarded(lambda: waiting.seconds(timeout))

    async def command(here: Session) -> None:
        found = await targets.find(here, targets.parse(words), here.namespace(namespace))
        name, place = objects.name(found.obj), objects.namespace(found.obj)
        patch = {"spec": {"replicas": workers}}
        try:
            await here.client.patch(found.resource, name, patch, place, subresource="scale")
        except errors.NotFound:
            raise CommandError(f"{found} cannot be scaled: its kind has no number of replicas") from None
        output.result(f"{output.object_name(found.obj)} scaled to {workers}")
        if wait_:
            # By what the object is now: until somebody has looked at the new number, it is not up to date.
            changed = Found(found.entry, await here.client.get(found.resource, name, place))
            await waiting.until(here, changed, _goal(changed), deadline)

    session.run(given, command)


def _goal(found: Found) -> Goal:
    return _UP_TO_DATE if found.is_claim else goals.READY


def delete(
    given: Given,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KIND] NAME", help="NAME, KIND/NAME or KIND NAME."),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--filename", "-f", metavar="FILE", help="What is in a file, a directory, or - instead.", show_default=False
        ),
    ] = None,
    namespace: NamespaceOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    wait_: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is gone.")] = True,
    timeout: TimeoutOption = "5m",
) -> None:
    """Delete a claim with all that was made for it, or any other object.

    Asks first. Where there is no terminal to ask on, it deletes with --yes only (exit code 2).

    Example: steelyard delete dev-cluster --yes
    """
    read = session.guarded(lambda: _named(words, files))
    deadline = session.guarded(lambda: waiting.seconds(timeout))

    async def find(here: Session) -> tuple[str, list[Found]]:
        if read:
            found = await _in_files(here, read, namespace)
        else:
            found = [await targets.find(here, targets.parse(words or []), here.namespace(namespace))]
        where = f" at {here.server.connection.server} ({here.server.why})" if here.server.is_contested else ""
        return where, found

    async def remove(here: Session, found: Sequence[Found]) -> None:
        for each in found:
            obj = each.obj
            await here.client.delete(
                each.resource, objects.name(obj), objects.namespace(obj), propagation="Background", uid=objects.uid(obj)
            )
            if not wait_:
                output.note(f"{each} is being deleted")
        for each in found if wait_ else ():
            taken = await waiting.until(here, each, goals.DELETED, deadline, quiet=True)
            output.note(f"{each} deleted after {progress.span(taken)}")

    async def find_and_remove(here: Session) -> None:
        await remove(here, (await find(here))[1])

    if yes:
        session.run(given, find_and_remove)
        return
    session.guarded(lambda: asking.check_terminal("nothing was deleted"))
    # Asked between two connections: while an event loop runs, Ctrl-C would not reach whoever reads the answer.
    where, found = session.run(given, find)
    if not found:
        return
    question = f"Delete {', '.join(map(str, found))}{where} and everything made for it?"
    session.guarded(lambda: asking.agree(question, otherwise="nothing was deleted"))
    session.run(given, lambda here: remove(here, found))


def _named(words: Sequence[str] | None, files: Sequence[str] | None) -> list[Document]:
    if bool(words) == bool(files):
        raise CommandError("name what to delete: NAME, KIND/NAME, KIND NAME, or -f FILE", code=Exit.USAGE)
    return documents.read(files) if files else []


async def _in_files(here: Session, read: Sequence[Document], namespace: str) -> list[Found]:
    """What is there of the documents, the last one first: what was made after something else goes before it."""
    known = await targets.served(here.client)
    found: list[Found] = []
    for document in reversed(read):
        entry = applying.entry_of(document.obj, known)
        if entry is None:
            raise CommandError(f"{document.origin}: this API serves no {document.obj['kind']}", is_of_server=True)
        wanted = applying.placed(here, document, entry.resource, namespace)
        try:
            obj = await here.client.get(entry.resource, objects.name(wanted), objects.namespace(wanted))
        except errors.NotFound:
            output.note(f"{document} is not there")
            continue
        found.append(Found(entry, obj))
    return found
