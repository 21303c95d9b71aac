"""The verb `plan`: what would change and what that would do, before anything does. Nothing is written anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import typer.core

from steelyard.cli import claimfiles, comparing, completing, live, offered, output, planned, session, targets
from steelyard.cli.claimfiles import Claim
from steelyard.cli.comparing import Known
from steelyard.cli.creating import DEFAULT_NAMESPACE
from steelyard.cli.exits import CommandError, Exit, PlanExit
from steelyard.cli.platform import PlatformOption, settings_of
from steelyard.cli.reach import Given
from steelyard.cli.session import FIELD_MANAGER, NamespaceOption, Session
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.plan import ownership
from steelyard.plan.planning import Plan

LIVE: Final = "live"
_GIT: Final = "git:"


class PlanFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class WithPlanExits(typer.core.TyperCommand):
    """A command line that is wrong is an error, and must not look like a plan with changes."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # The error for a wrong command line has no public name in Typer; what tells it is its exit code.
            if getattr(error, "exit_code", None) == Exit.USAGE:
                vars(error)["exit_code"] = PlanExit.FAILED
            raise


def plan(
    given: Given,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KIND] [NAME]", help="A claim that is there, instead of files.", autocompletion=completing.claims
        ),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="Claims in a file, a directory, or - for standard input.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            "--against",
            metavar="live|DIR|git:REV",
            help="What to compare with: what is there, a directory of claims or rendered manifests, or the files as "
            "they were at a revision. Default: live.",
            show_default=False,
        ),
    ] = "",
    revision: Annotated[
        str,
        typer.Option("--revision", metavar="v2", help="As if the claims asked for this revision.", show_default=False),
    ] = "",
    all_: Annotated[
        bool,
        typer.Option(
            "--all", help="One line for each claim, the most disruptive first; without -f, of all claims there are."
        ),
    ] = False,
    namespace: NamespaceOption = "",
    full: Annotated[bool, typer.Option("--full", help="Also every field of new objects.")] = False,
    format_: Annotated[PlanFormat, typer.Option("--output", "-o", help="How to print it.")] = PlanFormat.TEXT,
    platform_file: PlatformOption = None,
) -> None:
    """Show what claims would change, object by object and field by field, and what that would disrupt.

    Nothing is changed. Secrets are never shown. With --all and --platform it shows what another platform file would do
    to every claim. Exit code 0: no changes; 2: changes; 3: changes that replace machines, recreate something or lose
    data; 1: an error.

    Example: steelyard plan -f examples/shop.yaml
    """

    def command() -> list[Plan]:
        _check(words, files, against, all_=all_)
        if files and (against not in ("", LIVE) or (all_ and not against)):
            sources = files
            return session.guarded(lambda: _offline(sources, against, revision, namespace, given, platform_file))

        async def ask(here: Session) -> list[Plan]:
            now = comparing.known(here.server, given, platform_file)
            if files:
                return await of_files(here, now, files, namespace, revision)
            if not now.is_certain and not revision:
                raise CommandError(
                    "nobody can say what these claims become without the platform's settings; name its platform file "
                    "with --platform FILE",
                    is_of_server=True,
                )
            if words:
                found = await targets.find(here, targets.parse(words), here.namespace(namespace))
                return await of_live(here, now, [_claim(found)], revision)
            return await of_live(
                here, now, await live.claims(here.client, now.platform.domain, here.namespace(namespace)), revision
            )

        return session.run(given, ask)

    plans = _with_own_codes(command)
    if format_ is PlanFormat.JSON:
        output.result(output.as_json(planned.as_json(plans)))
    else:
        output.result(planned.radius(plans) if all_ else planned.text(plans, full=full))
    raise typer.Exit(planned.exit_code(plans))


def _check(words: Sequence[str] | None, files: Sequence[str] | None, against: str, *, all_: bool) -> None:
    def refuse(why: str) -> None:
        def raising() -> None:
            raise CommandError(why, code=Exit.USAGE)

        session.guarded(raising)

    if words and (files or all_):
        refuse("name a claim, or give files with -f, or say --all: one of them")
    if not words and not files and not all_:
        refuse("name a claim, give files with -f, or say --all for every claim there is")
    if against not in ("", LIVE) and not files:
        refuse(f"--against {against} compares files: give them with -f")


def _with_own_codes(command: Callable[[], list[Plan]]) -> list[Plan]:
    """Whatever goes wrong is an error: elsewhere 2 and 3 mean other things than here."""
    try:
        return command()
    except typer.Exit as end:
        is_failure = end.exit_code not in (Exit.OK, Exit.INTERRUPTED)
        raise typer.Exit(PlanExit.FAILED if is_failure else end.exit_code) from end


def _claim(found: targets.Found) -> Claim:
    kind = offered.current().kind_of(found.obj)
    if kind is None:
        raise CommandError(f"{found} is no claim of this platform; plan is about claims", code=Exit.USAGE)
    return Claim(kind, found.obj)


def _offline(
    files: Sequence[str],
    against: str,
    revision: str,
    namespace: str,
    given: Given,
    platform_file: Path | None,
) -> list[Plan]:
    where, place = session.locate(given.data_dir), namespace or DEFAULT_NAMESPACE
    chosen = settings_of(where, platform_file)
    now = Known(chosen.platform, chosen.path)
    claims = comparing.with_revision(claimfiles.read(files, now.platform, place), revision)
    if not against:
        at_hand = settings_of(where, None).platform
        before = comparing.of_claims(claims, at_hand)
    elif against.startswith(_GIT):
        before = comparing.of_revision(against.removeprefix(_GIT), files, now, where, place)
    else:
        before = comparing.of_directory(Path(against), now.platform, place)
    with_deleted = any(Path(each).is_dir() for each in files)
    return comparing.plans(claims, before, now.platform, with_deleted=with_deleted)


async def of_files(here: Session, now: Known, files: Sequence[str], namespace: str, revision: str) -> list[Plan]:
    """Of claims as they would be once the files are applied."""
    place = here.namespace(namespace) or DEFAULT_NAMESPACE
    claims = comparing.with_revision(claimfiles.read(files, now.platform, place), revision)
    changes: list[tuple[Claim, Object | None]] = []
    for claim in claims:
        resource = claim.kind.resource(now.platform.domain)
        old = await live.claim(here.client, resource, claim.obj)
        new = claim.obj if old is None else ownership.applied_over(old, claim.obj, FIELD_MANAGER)
        changes.append((Claim(claim.kind, new, claim.origin), old))
    return await live.plans(here.client, changes, now)


async def of_live(here: Session, now: Known, claims: Sequence[Claim], revision: str) -> list[Plan]:
    """Of claims as they are, or as they would be with another composition revision."""
    changed = comparing.with_revision(claims, revision)
    deleted = [each for each in claims if objects.is_being_deleted(each.obj)]
    if deleted:
        raise CommandError(f"{deleted[0]} is being deleted; there is nothing to plan")
    return await live.plans(here.client, [(new, old.obj) for new, old in zip(changed, claims, strict=True)], now)
