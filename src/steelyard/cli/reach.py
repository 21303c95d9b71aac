"""Which API a command talks to, and why that one.

The first of these that says something:

1. `--kubeconfig FILE`, with its current context or `--context NAME`;
2. `--data-dir DIR`: the platform of that directory;
3. `--context NAME`: that context of the files in KUBECONFIG, else of `~/.kube/config`;
4. STEELYARD_DATA_DIR: the platform of that directory;
5. the user's data directory, where a platform has run in it;
6. the current context of the files in KUBECONFIG, else of `~/.kube/config`.

So whoever runs a platform here reaches it whatever KUBECONFIG is for, also while it is down: a command must not go to
another server because one has ended. Whoever runs none needs only what kubectl needs. Where the choice could have been
another, a failure says which server was asked and why.
"""

from __future__ import annotations

import inspect
import os
import shlex
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.hints import Hints
from steelyard.frozen import frozen
from steelyard.installation import datadir
from steelyard.installation.datadir import DataDir
from steelyard.kube.client import kubeconfig as kubeconfigs
from steelyard.kube.client.kubeconfig import Connection, InvalidKubeconfig, Kubeconfig

DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Where the platform keeps its data. Default: $STEELYARD_DATA_DIR, else the user's data directory.",
        show_default=False,
    ),
]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="The platform that this kubeconfig leads to. Default: that of the data directory; where none has run, "
        "that of $KUBECONFIG or ~/.kube/config.",
        show_default=False,
    ),
]
ContextOption = Annotated[
    str,
    typer.Option("--context", metavar="NAME", help="The context of the kubeconfig to use.", show_default=False),
]


@frozen
class Given:
    """What the command line says about the server to ask."""

    data_dir: Path | None = None
    kubeconfig: Path | None = None
    context: str = ""


@frozen
class Server:
    """The API that a command talks to."""

    connection: Connection
    why: str
    """What led to it: `the platform in /srv/steelyard` or `KUBECONFIG, context work`."""
    hints: Hints
    data_dir: DataDir | None = None
    """Of a platform of this machine that was chosen by its directory."""
    namespace: str = ""
    """The context's; empty where there is none, or where no context was chosen."""
    is_contested: bool = False
    """Whether somebody could have expected another one."""


def choose(given: Given, environment: Mapping[str, str] | None = None) -> Server:
    """Raises CommandError."""
    environment = os.environ if environment is None else environment
    if given.kubeconfig is not None and given.data_dir is not None:
        raise CommandError("--kubeconfig and --data-dir each name a platform; give one of them", code=Exit.USAGE)
    if given.data_dir is not None and given.context:
        raise CommandError("--context is of a kubeconfig, and --data-dir has only one; leave one out", code=Exit.USAGE)
    try:
        if given.kubeconfig is not None:
            file = _quoted(given.kubeconfig)
            flags = f" --kubeconfig {file}" + (f" --context {shlex.quote(given.context)}" if given.context else "")
            config = kubeconfigs.load(given.kubeconfig)
            return _of_context(config, given.context, f"--kubeconfig {file}", Hints(flags, flags))
        where = datadir.locate(given.data_dir, environment)
        is_named = given.data_dir is not None or bool(environment.get("STEELYARD_DATA_DIR"))
        if not given.context and (is_named or where.kubeconfig.exists() or not _has_kubeconfig(environment)):
            return _of_directory(where, given, environment)
        flags = f" --context {shlex.quote(given.context)}" if given.context else ""
        origin = "KUBECONFIG" if environment.get("KUBECONFIG") else "~/.kube/config"
        config = kubeconfigs.load_default(environment)
        return _of_context(config, given.context, origin, Hints(flags, flags))
    except InvalidKubeconfig as error:
        raise CommandError(str(error), code=Exit.USAGE) from None


def _of_directory(where: DataDir, given: Given, environment: Mapping[str, str]) -> Server:
    hints = hints_of(given)
    try:
        connection = kubeconfigs.parse(where.kubeconfig.read_text()).resolve()
    except FileNotFoundError:
        elsewhere = "To reach one that runs elsewhere, name its kubeconfig with --kubeconfig or in KUBECONFIG."
        if environment.get("KUBECONFIG") and not _has_kubeconfig(environment):
            elsewhere = f"KUBECONFIG names no file that is there: {environment['KUBECONFIG']}"
        raise CommandError(
            f"no platform has run in {where.root}; start one with: {hints.steelyard('up')}\n{elsewhere}",
            code=Exit.NOT_RUNNING,
        ) from None
    except PermissionError:
        raise CommandError(f"{where.kubeconfig} belongs to another user; it is readable by its owner only") from None
    return Server(
        connection,
        f"the platform in {where.root}",
        hints,
        where,
        is_contested=given.data_dir is None and bool(environment.get("KUBECONFIG")),
    )


def hints_of(given: Given) -> Hints:
    """Of a data directory: nothing where it was found without a flag."""
    if given.data_dir is None:
        return Hints()
    kubeconfig = DataDir(given.data_dir).kubeconfig
    return Hints(f" --data-dir {_quoted(given.data_dir)}", f" --kubeconfig {_quoted(kubeconfig)}")


def _of_context(config: Kubeconfig, context: str, origin: str, hints: Hints) -> Server:
    name = context or config.current_context
    connection = config.resolve(context)
    namespace = config.contexts[name].namespace
    return Server(connection, f"{origin}, context {name}", hints, namespace=namespace, is_contested=True)


def _has_kubeconfig(environment: Mapping[str, str]) -> bool:
    return any(path.exists() for path in kubeconfigs.default_files(environment))


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command `--data-dir`, `--kubeconfig` and `--context` in place of its parameter of the type Given."""
    hints = typing.get_type_hints(command, include_extras=True)
    [place] = [name for name, hint in hints.items() if hint is Given]

    def called(**arguments: Any) -> None:
        given = Given(arguments.pop("data_dir"), arguments.pop("kubeconfig"), arguments.pop("context"))
        command(**arguments, **{place: given})

    kept = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(command).parameters.items()
        if name != place
    ]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in (
            ("data_dir", DataDirOption, None),
            ("kubeconfig", KubeconfigOption, None),
            ("context", ContextOption, ""),
        )
    ]
    return shaped(called, [*kept, *added], name=command.__name__, help=command.__doc__)


def shaped(
    command: Callable[..., None], parameters: list[inspect.Parameter], *, name: str, help: str | None
) -> Callable[..., None]:
    """A command that takes whatever it is given, with the parameters that Typer is to read."""
    # inspect reads a signature from here if there is one; typeshed does not know the attribute.
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__name__, command.__doc__ = name, help
    return command
