"""The `steelyard` command: every verb, each defined in the module of its subject, and loaded when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

import steelyard
from steelyard.cli import offered, output, verbs
from steelyard.cli.offered import Program

if TYPE_CHECKING:
    from steelyard.compose.offering import Offering


def application(offering: Offering | None = None, providers: tuple[Any, ...] | None = None) -> typer.Typer:
    """The program, with a `create` for each kind that is offered. Whoever has kinds or infrastructures of their own
    hands them over here; `providers` are those of `app.Options`.
    """
    app = typer.Typer(
        name="steelyard",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help="Your own cloud on bare metal: Kubernetes clusters and more, each asked for with a short claim.",
        cls=verbs.of(_verbs(offering)),
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

    return app


def _verbs(offering: Offering | None) -> dict[str, verbs.Add]:
    """In the order of the help: commands, then groups of them."""
    command, reaching, group = verbs.command, verbs.reaching, verbs.group
    return {
        "up": command("platform.up"),
        "down": command("platform.down"),
        "status": reaching("platform.status"),
        "logs": reaching("logreading.logs"),
        "kubeconfig": reaching("kubeconfigs.kubeconfig"),
        "apply": reaching("applying.apply", cls="dryrun.WithBareDryRun"),
        "plan": reaching("planning.plan", cls="planning.WithPlanExits"),
        "render": command("rendering.render"),
        "get": reaching("reading.get"),
        "describe": reaching("reading.describe_"),
        "wait": reaching("waiting.wait"),
        "scale": reaching("changing.scale"),
        "revise": reaching("revising.revise"),
        "delete": reaching("changing.delete"),
        "backup": reaching("backups.backup"),
        "restore": command("backups.restore"),
        "rotate-keys": reaching("backups.rotate_keys"),
        "renew-authority": command("backups.renew_authority"),
        "explain": command("explain.explain"),
        "config": reaching("config.config"),
        "crds": command("crds.crds"),
        "controllers": command("management.controllers"),
        "manifests": command("management.manifests"),
        "move": reaching("moving.move"),
        "function": command("crossplane.function"),
        "version": reaching("platform.version"),
        "doctor": reaching("platform.doctor"),
        "create": group("creating.commands", offering),
        "db": group("db.commands"),
        "secrets": group("secrets.commands"),
        "image": group("images.commands"),
        "crossplane": group("crossplane.commands"),
        "provider": group("providing.commands"),
    }


def _version(is_wanted: bool) -> None:
    if is_wanted:
        output.result(f"steelyard {steelyard.__version__}")
        raise typer.Exit


app = application()


def main() -> None:
    app()
