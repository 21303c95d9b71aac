"""From a command to the API and back: opens a client to the chosen server, and turns failures into exit codes."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from steelyard import interrupts
from steelyard.cli import completing, output, reach
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.hints import Hints
from steelyard.cli.reach import Given, Server
from steelyard.frozen import frozen
from steelyard.installation import datadir
from steelyard.installation.datadir import DataDir
from steelyard.kube import errors
from steelyard.kube.client.interface import Client
from steelyard.kube.client.kubeconfig import InvalidKubeconfig

T = TypeVar("T")

FIELD_MANAGER = "steelyard-cli"

NamespaceOption = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NS",
        help="The namespace. Default: that of the kubeconfig's context, else all of them.",
        show_default=False,
        autocompletion=completing.namespaces,
    ),
]
AllNamespacesOption = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="In all namespaces, whatever the context says.")
]
OutputOption = Annotated[output.Format, typer.Option("--output", "-o", help="How to print the result.")]


@frozen
class Session:
    """A command's connection to the API."""

    client: Client
    server: Server

    @property
    def hints(self) -> Hints:
        return self.server.hints

    def namespace(self, given: str, *, everywhere: bool = False) -> str:
        """Where to look; empty for everywhere."""
        return "" if everywhere else given or self.server.namespace


def locate(data_dir: Path | None) -> DataDir:
    return datadir.locate(data_dir, os.environ)


def run(given: Given, command: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
    """Runs a command that needs the API."""
    server = guarded(lambda: reach.choose(given))

    async def with_client() -> T:
        from steelyard.kube.client.http import HttpClient  # here, as `up` does without it

        client = HttpClient(server.connection, field_manager=FIELD_MANAGER, field_validation="Strict")
        try:
            return await command(Session(client, server))
        finally:
            await client.close()

    return guarded(lambda: asyncio.run(with_client()), server)


def guarded(command: Callable[[], T], server: Server | None = None) -> T:
    """Runs any command; its failure becomes a message on stderr and an exit code."""
    interrupts.raise_again()
    try:
        return command()
    except CommandError as error:
        output.failure(str(error) + (_asked(server) if error.is_of_server else ""))
        raise typer.Exit(error.code) from error
    except InvalidKubeconfig as error:
        output.failure(f"{error}{_asked(server)}")
        raise typer.Exit(Exit.USAGE) from error
    except errors.ServiceUnavailable as error:
        output.failure(f"{error.message}{_asked(server)}{_start(server)}")
        raise typer.Exit(Exit.NOT_RUNNING) from error
    except errors.ApiError as error:
        output.failure(f"{error.message}{_asked(server)}{_widen(error)}")
        raise typer.Exit(Exit.FAILED) from error
    except BrokenPipeError:
        # Who reads the output has seen enough, as `head` does. Nothing more can be written, not even at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(Exit.FAILED) from None
    except OSError as error:
        output.failure(f"{error.filename or 'a file'}: {error.strerror or error}; {_advice(error)}")
        raise typer.Exit(Exit.FAILED) from error
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None


def _asked(server: Server | None) -> str:
    """Which server that was, where somebody could have expected another."""
    if server is None or not server.is_contested:
        return ""
    text = f"\nAsked was {server.connection.server}: {server.why}."
    if server.data_dir is not None:
        text += " It goes before KUBECONFIG; for that, give --context or --kubeconfig."
    return text


def _start(server: Server | None) -> str:
    if server is None or server.data_dir is not None:
        up = server.hints.steelyard("up") if server else "steelyard up"
        return f"\nIs the platform running? Start it with: {up}"
    return "\nIs the platform running there, and can it be reached from here?"


def _widen(error: errors.ApiError) -> str:
    """Who may not look into all namespaces may look into one."""
    is_everywhere = isinstance(error, errors.Forbidden) and error.message.endswith("at the cluster scope")
    return "\nYou may not look into all namespaces; name yours with -n." if is_everywhere else ""


def _advice(error: OSError) -> str:
    """The files at hand are those of the data directory and the platform file; transport failures came before."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space and try again"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "it must belong to you; or choose another data directory with --data-dir"
    return "choose another with --data-dir"
