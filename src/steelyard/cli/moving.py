"""The verb `move`: takes claims and living clusters from one API to another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli import output, reach, session
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.reach import Given, Server
from steelyard.cli.session import AllNamespacesOption
from steelyard.kube.client import kubeconfig as kubeconfigs
from steelyard.kube.client.interface import Client

if TYPE_CHECKING:
    from steelyard.moving.belongings import Belongings
    from steelyard.moving.preparing import Prepared


def move(
    given: Given,
    to_kubeconfig: Annotated[
        Path, typer.Option("--to-kubeconfig", metavar="FILE", help="The API that things go to.", show_default=False)
    ],
    to_context: Annotated[
        str, typer.Option("--to-context", metavar="NAME", help="The context of that file to use.", show_default=False)
    ] = "",
    namespaces: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", metavar="NS", help="What is in this namespace; may be given several times."),
    ] = None,
    everywhere: AllNamespacesOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing: list what would move, and what stands against it.")
    ] = False,
    leave_behind: Annotated[
        bool,
        typer.Option("--leave-behind", help="Leave claims that cannot move where they are, and move the rest."),
    ] = False,
    unattended: Annotated[
        bool,
        typer.Option(
            "--unattended",
            help="Nobody's controllers work at the source: do not wait until they say that they stopped.",
        ),
    ] = False,
    cancel: Annotated[
        bool,
        typer.Option(
            "--cancel", help="Give up a move that has begun, as long as nothing was removed: the source goes on."
        ),
    ] = False,
) -> None:
    """Move claims, their clusters and all that belongs to these to another API, without a machine's noticing.

    Everything is paused, copied with its status, removed at the source without effect, and goes on at the target: at no
    moment is anything active in two places. It is refused while something is being made or deleted. Interrupted
    anywhere, the same command goes on. The way back is the same with source and target exchanged.

    Example: steelyard move --to-kubeconfig management.kubeconfig -n team-a
    """

    def command() -> None:
        if namespaces and everywhere:
            raise CommandError("-n names namespaces, and -A means all of them; give one of them", code=Exit.USAGE)
        source = reach.choose(given)
        target = kubeconfigs.load(to_kubeconfig).resolve(to_context)
        asyncio.run(_connected(source, target))

    async def _connected(source: Server, there: kubeconfigs.Connection) -> None:
        from steelyard.kube.client.http import HttpClient  # here, as no other command needs two
        from steelyard.moving import preparing, rewriting

        clients = [HttpClient(each, field_manager=rewriting.FIELD_MANAGER) for each in (source.connection, there)]
        try:
            await _moved(clients[0], clients[1], there.server)
        except preparing.CannotMove as error:
            raise CommandError(str(error)) from error
        finally:
            for each in clients:
                await each.close()

    async def _moved(source: Client, target: Client, server: str) -> None:
        from steelyard.moving import carrying, preparing

        wanted = None if everywhere or not namespaces else list(dict.fromkeys(namespaces))
        record = await preparing.begun(source, target, wanted, is_named=everywhere or bool(namespaces))
        if record is None and cancel:
            raise CommandError("no move has begun here: there is nothing to cancel")
        if record is None:
            if not namespaces and not everywhere:
                raise CommandError("say what is to move: -n NAMESPACE, or -A for everything", code=Exit.USAGE)
            prepared = await preparing.prepare(source, target, server, wanted, leaves_behind=leave_behind)
            _tell_before(prepared)
            if dry_run:
                _show(prepared.belongings)
                return
            record = await preparing.begin(source, prepared)
        elif dry_run:
            output.result(f"a move of {record.scope} to {record.server} has begun, and is {record.phase}")
            return
        else:
            output.note(f"Going on with the move of {record.scope} to {record.server}: it is {record.phase}.")
        manner = carrying.Manner(is_attended=not unattended, tell=output.note)
        mover = carrying.Mover(source, target, record, manner)
        if cancel:
            count = await mover.cancel()
            output.note(f"The move is cancelled: {count} copies are gone, and the source goes on.")
            return
        moved = await mover.run()
        for each in moved.left:
            output.note(f"{each} was made at the source in the meantime, and stayed there.")
        output.result(f"moved {moved.moved} objects to {server}")

    session.guarded(command)


def _tell_before(prepared: Prepared) -> None:
    for thing, reasons in prepared.left:
        output.note(f"{thing} stays: {'; '.join(reasons)}")
    for thing in prepared.acting:
        output.note(f"{thing} reaches into another namespace: at the target it does with the rights of who moves it.")


def _show(belongings: Belongings) -> None:
    rows: list[Sequence[str]] = [("KIND", "NAMESPACE", "NAME", "WHAT")]
    for things, what in ((belongings.copied, "copied"), (belongings.moving, "moved")):
        rows += ((each.resource.kind, *each.place[2:], what) for each in things)
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        output.result("   ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
