"""The verb `revise`: a claim is moved to a newer revision of its composition, once what that does was seen.

The wish is an annotation of the claim, which whoever may change the claim may write, also in Git; nothing else ever
moves a claim.
"""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from steelyard.cli import asking, comparing, offered, output, planned, planning, session, targets
from steelyard.cli.arguments import TargetArgument
from steelyard.cli.claimfiles import Claim
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.platform import PlatformOption
from steelyard.cli.reach import Given
from steelyard.cli.session import NamespaceOption, Session
from steelyard.cli.targets import Found
from steelyard.compose.refusing import REVISION
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.plan.planning import Plan

_TRIES: Final = 5


def revise(
    words: TargetArgument,
    given: Given,
    to: Annotated[
        str, typer.Option("--to", metavar="REVISION", help="The revision to move to, as v2.", show_default=False)
    ],
    namespace: NamespaceOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    platform_file: PlatformOption = None,
) -> None:
    """Move a claim to a newer revision of its composition, after showing what that changes.

    Asks first. Where there is no terminal to ask on, it does so with --yes only (exit code 2). There is no way back.

    Example: steelyard revise dev-cluster --to v2
    """
    if not yes:
        session.guarded(lambda: asking.check_terminal("nothing was changed"))

    async def look(here: Session) -> tuple[Found, Plan] | None:
        found = await targets.find(here, targets.parse(words), here.namespace(namespace))
        kind = offered.current().kind_of(found.obj)
        if kind is None:
            raise CommandError(f"{found} is no claim of this platform; only claims have revisions", code=Exit.USAGE)
        if objects.at(found.obj, "status", "compositionRevision") == to:
            output.note(f"{found} is at {to} already")
            return None
        now = comparing.known(here.server, given, platform_file)
        [plan] = await planning.of_live(here, now, [Claim(kind, found.obj)], to)
        if plan.refusal:
            raise CommandError(f"{found} cannot be moved to {to}: {plan.refusal}")
        return found, plan

    seen = session.run(given, look)
    if seen is None:
        return
    found, plan = seen
    output.note(planned.text([plan], stream=sys.stderr))
    if not yes:
        question = f"Move {found} to {to}?"
        session.guarded(lambda: asking.agree(question, otherwise="nothing was changed"))

    async def move(here: Session) -> None:
        await _write(here, found, to)
        output.result(f"{output.object_name(found.obj)} moved to {to}")
        output.note(f"Where the claim is kept in Git, add the annotation there: {REVISION}: {to}")

    session.run(given, move)


async def _write(here: Session, found: Found, to: str) -> None:
    """Only onto the claim that was looked at: what was shown is what is done. A new status is no other claim."""
    name, namespace, seen = objects.name(found.obj), objects.namespace(found.obj), found.obj
    for _ in range(_TRIES):
        patch: Object = {"metadata": {"annotations": {REVISION: to}, "resourceVersion": objects.resource_version(seen)}}
        try:
            await here.client.patch(found.resource, name, patch, namespace)
        except errors.Conflict:
            seen = await here.client.get(found.resource, name, namespace)
            if (objects.uid(seen), objects.generation(seen)) != (objects.uid(found.obj), objects.generation(found.obj)):
                break
        else:
            return
    raise CommandError(f"{found} was changed meanwhile; nothing was done. Look again, and say it again")
