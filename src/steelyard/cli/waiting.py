"""The verb `wait`, and the waiting of create, delete and scale: with live progress, and one line at the end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Annotated

import typer

from steelyard.api import state
from steelyard.cli import durations, goals, output, progress, session, targets
from steelyard.cli.arguments import TargetArgument
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.goals import Goal
from steelyard.cli.progress import Progress
from steelyard.cli.reach import Given
from steelyard.cli.session import AllNamespacesOption, NamespaceOption, Session
from steelyard.cli.targets import Found, Target
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object

_PAUSE = 0.5
TimeoutOption = Annotated[str, typer.Option("--timeout", help="How long to wait: 90s, 5m, 1h30m.")]


def wait(
    words: TargetArgument,
    given: Given,
    for_: Annotated[
        str,
        typer.Option(
            "--for",
            help="A condition that must be True, or as kubectl spells it: condition=Ready, condition=Ready=False, "
            "jsonpath={.status.state}=Ready, create, delete.",
        ),
    ] = "Ready",
    timeout: TimeoutOption = "5m",
    namespace: NamespaceOption = "",
    all_namespaces: AllNamespacesOption = False,
) -> None:
    """Wait until a claim is ready, or gone, or as you say. Shows how it is going.

    Exit code 4 if it does not happen in time.

    Example: steelyard wait dev-cluster --for=delete --timeout 2m
    """
    goal = session.guarded(lambda: goals.parse(for_))
    deadline = session.guarded(lambda: seconds(timeout))

    async def command(here: Session) -> None:
        target, place = targets.parse(words), here.namespace(namespace, everywhere=all_namespaces)
        try:
            found = await _found(here, target, place, deadline if goal.is_there else 0)
        except errors.NotFound:
            if goal.is_gone:
                output.note(f"{target.name} is gone")
                return
            raise
        await until(here, found, goal, deadline)

    session.run(given, command)


async def _found(here: Session, target: Target, namespace: str, patience: float) -> Found:
    """What is not there yet is looked for again, for so many seconds."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return await targets.find(here, target, namespace)
        except errors.NotFound as error:
            if not patience:
                raise
            if time.monotonic() > deadline:
                raise CommandError(f"{error.message}, after {patience:g} s", code=Exit.TIMEOUT) from None
            await asyncio.sleep(_PAUSE)


async def until(here: Session, found: Found, goal: Goal, timeout: float, *, quiet: bool = False) -> float:
    """Until the goal is reached by this very object (by UID); the seconds that took.

    `quiet` leaves the last line to the caller.
    """
    watched = _Watched(found, Progress(str(found)))
    ticking = asyncio.create_task(watched.tick())
    try:
        async with asyncio.timeout(timeout):
            await watched.follow(here.client, goal)
    except TimeoutError:
        watched.shown.clear()
        name, namespace = objects.name(found.obj), objects.namespace(found.obj)
        where = f"describe {name}" + (f" -n {namespace}" if namespace else "")
        how = told(watched.last, is_claim=found.is_claim)
        raise CommandError(
            f"{found} is not {goal.words} after {timeout:g} s: {how}{goal.other_conditions(watched.last)}; "
            f"see: {here.hints.steelyard(where)}",
            code=Exit.TIMEOUT,
        ) from None
    finally:
        ticking.cancel()
        watched.shown.clear()
    taken = watched.shown.seconds
    if not quiet:
        output.note(f"{found} is {goal.words} after {progress.span(taken)}")
    return taken


class _Watched:
    def __init__(self, found: Found, shown: Progress) -> None:
        self._found = found
        self.shown = shown
        self.last = found.obj

    async def tick(self) -> None:
        while True:
            await asyncio.sleep(1)
            self.shown.redraw()

    async def follow(self, client: Client, goal: Goal) -> None:
        """Returns when the goal is reached."""
        found = self._found
        name, namespace, uid = objects.name(found.obj), objects.namespace(found.obj), objects.uid(found.obj)
        selector = f"metadata.name={name}"
        while True:
            listed = await client.list(found.resource, namespace, field_selector=selector)
            current = next((item for item in listed.items if objects.uid(item) == uid), None)
            if self._is_over(current, goal):
                return
            with contextlib.suppress(errors.Expired):
                async for event in client.watch(
                    found.resource, namespace, resource_version=listed.resource_version, field_selector=selector
                ):
                    if event.type == "BOOKMARK":
                        continue
                    is_gone = event.type == "DELETED" or objects.uid(event.object) != uid
                    if self._is_over(None if is_gone else event.object, goal):
                        return

    def _is_over(self, obj: Object | None, goal: Goal) -> bool:
        if obj is None and not goal.is_gone:
            raise CommandError("the object was deleted while it was waited for")
        if goal.is_reached(obj):
            return True
        if obj is not None:
            self.last = obj
            self.shown.show(told(obj, is_claim=self._found.is_claim))
        return False


def told(obj: Object, *, is_claim: bool) -> str:
    """How the object is, in a line."""
    if is_claim:
        here = state.of(obj)
        return f"{here.word}: {here.text}" if here.text else here.word
    message = objects.at(obj, "status", "message")
    if message:
        return str(message)
    conditions = [objects.mapping(item) for item in objects.sequence(objects.at(obj, "status", "conditions"))]
    return "; ".join(f"{item.get('type')}={item.get('status')}" for item in conditions) or "nothing reported yet"


def seconds(text: str) -> float:
    try:
        return durations.seconds(text)
    except ValueError as error:
        raise CommandError(str(error), code=Exit.USAGE) from None
