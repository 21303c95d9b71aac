"""The `steelyard` command: every verb, each defined in the module of its subject."""

from __future__ import annotations

import typer

from steelyard.cli import backups, claims, platform

app = typer.Typer(
    name="steelyard",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Your own cloud on bare metal: Kubernetes clusters and more, each asked for with a short claim.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("up")(platform.up)
app.command("down")(platform.down)
app.command("status")(platform.status)
app.command("kubeconfig")(claims.kubeconfig)
app.add_typer(claims.create, name="create")
app.command("get")(claims.get)
app.command("describe")(claims.describe_)
app.command("wait")(claims.wait)
app.command("delete")(claims.delete)
app.command("backup")(backups.backup)
app.command("restore")(backups.restore)
app.command("rotate-keys")(backups.rotate_keys)
app.command("renew-authority")(backups.renew_authority)
app.command("version")(platform.version)
app.command("doctor")(platform.doctor)


def main() -> None:
    app()
