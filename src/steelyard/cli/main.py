"""The `steelyard` command: every verb, each defined in the module of its subject."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import steelyard
from steelyard.cli import (
    applying,
    backups,
    changing,
    config,
    crds,
    creating,
    crossplane,
    db,
    explain,
    images,
    kubeconfigs,
    logreading,
    management,
    moving,
    offered,
    output,
    planning,
    platform,
    providing,
    reach,
    reading,
    rendering,
    revising,
    secrets,
    waiting,
)
from steelyard.cli.dryrun import WithBareDryRun
from steelyard.cli.offered import Program
from steelyard.cli.planning import WithPlanExits
from steelyard.compose.offering import STANDARD, Offering


def application(offering: Offering = STANDARD, providers: tuple[Any, ...] | None = None) -> typer.Typer:
    """The program, with a `create` for each kind that is offered. Whoever has kinds or infrastructures of their own
    hands them over here; `providers` are those of `app.Options`.
    """
    app = typer.Typer(
        name="steelyard",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help="Your own cloud on bare metal: Kubernetes clusters and more, each asked for with a short claim.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def _before(  # pyright: ignore[reportUnusedFunction] (Typer has it)
        version: Annotated[
            bool,
            typer.Option("--version", help="Print the version of this command.", callback=_version, is_eager=True),
        ] = False,
    ) -> None:
        offered.offer(Program(offering, providers))

    app.command("up")(platform.up)
    app.command("down")(platform.down)
    app.command("status")(reach.options(platform.status))
    app.command("logs")(reach.options(logreading.logs))
    app.command("kubeconfig")(reach.options(kubeconfigs.kubeconfig))
    app.add_typer(creating.commands(offering), name="create")
    app.add_typer(db.commands(), name="db")
    app.add_typer(secrets.commands(), name="secrets")
    app.add_typer(images.commands(), name="image")
    app.command("apply", cls=WithBareDryRun)(reach.options(applying.apply))
    app.command("plan", cls=WithPlanExits)(reach.options(planning.plan))
    app.command("render")(rendering.render)
    app.command("get")(reach.options(reading.get))
    app.command("describe")(reach.options(reading.describe_))
    app.command("wait")(reach.options(waiting.wait))
    app.command("scale")(reach.options(changing.scale))
    app.command("revise")(reach.options(revising.revise))
    app.command("delete")(reach.options(changing.delete))
    app.command("backup")(reach.options(backups.backup))
    app.command("restore")(backups.restore)
    app.command("rotate-keys")(reach.options(backups.rotate_keys))
    app.command("renew-authority")(backups.renew_authority)
    app.command("explain")(explain.explain)
    app.command("config")(reach.options(config.config))
    app.command("crds")(crds.crds)
    app.command("controllers")(management.controllers)
    app.command("manifests")(management.manifests)
    app.command("move")(reach.options(moving.move))
    app.command("function")(crossplane.function)
    app.add_typer(crossplane.commands(), name="crossplane")
    app.add_typer(providing.commands(), name="provider")
    app.command("version")(reach.options(platform.version))
    app.command("doctor")(reach.options(platform.doctor))
    return app


def _version(is_wanted: bool) -> None:
    if is_wanted:
        output.result(f"steelyard {steelyard.__version__}")
        raise typer.Exit


app = application()


def main() -> None:
    app()
