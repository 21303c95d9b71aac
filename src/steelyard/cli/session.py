"""From a command to the API and back: finds the platform, opens a client, and turns failures into exit codes."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from steelyard import datadir, interrupts
from steelyard.cli import output
from steelyard.cli.exits import CommandError, Exit
from steelyard.datadir import DataDir
from steelyard.kube import errors
from steelyard.kube.client.interface import Client

T = TypeVar("T")

DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Where the platform keeps its data. Default: $STEELYARD_DATA_DIR, else the user's data directory.",
        show_default=False,
    ),
]
NamespaceOption = Annotated[
    str,
    typer.Option("--namespace", "-n", metavar="NS", help="The namespace; without it, all of them.", show_default=False),
]
OutputOption = Annotated[output.Format, typer.Option("--output", "-o", help="How to print the result.")]


def locate(data_dir: Path | None) -> DataDir:
    return datadir.locate(data_dir, os.environ)


def run(data_dir: Path | None, command: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    """Runs a command that needs the API of the platform of this data directory."""
    from steelyard.kube.client.http import HttpClient  # here, as `up` does without it

    where = locate(data_dir)

    async def with_client() -> T:
        _kubeconfig(where)
        client = HttpClient.from_kubeconfig(where.kubeconfig)
        try:
            return await command(client)
        finally:
            await client.close()

    return guarded(lambda: asyncio.run(with_client()))


def guarded(command: Callable[[], T]) -> T:
    """Runs any command; its failure becomes a message on stderr and an exit code."""
    interrupts.raise_again()
    try:
        return command()
    except CommandError as error:
        output.failure(str(error))
        raise typer.Exit(error.code) from error
    except errors.ServiceUnavailable as error:
        output.failure(f"{error.message}\nIs the platform running? Start it with: steelyard up")
        raise typer.Exit(Exit.NOT_RUNNING) from error
    except errors.ApiError as error:
        output.failure(error.message)
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


def _advice(error: OSError) -> str:
    """The files at hand are those of the data directory and the platform file; transport failures came before."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space and try again"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "it must belong to you; or choose another data directory with --data-dir"
    return "choose another with --data-dir"


def admin_kubeconfig(data_dir: Path | None) -> str:
    return _kubeconfig(locate(data_dir))


def _kubeconfig(where: DataDir) -> str:
    try:
        return where.kubeconfig.read_text()
    except FileNotFoundError:
        raise CommandError(
            f"no platform has run in {where.root}; start one with: steelyard up", code=Exit.NOT_RUNNING
        ) from None
    except PermissionError:
        raise CommandError(f"{where.kubeconfig} belongs to another user; it is readable by its owner only") from None
