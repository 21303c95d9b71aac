"""The verbs for Crossplane: `function` serves compositions to it, `crossplane package` writes what it is to know.

What they need besides is the extra `crossplane`; nothing else does without it.
"""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import Annotated, Final

import typer

from steelyard.cli import offered, output, session
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.platform import PlatformOption, settings_of
from steelyard.cli.reach import DataDirOption

_EXTRA: Final = "crossplane-function-sdk-python"
_EVERYWHERE: Final = "0.0.0.0:9443"
"""In a Pod; only who has a certificate is answered."""
_HERE: Final = "localhost:9443"


def function(
    address: Annotated[
        str,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help=f"Where to listen; port 0 picks a free one. Default: {_EVERYWHERE}, and with --insecure {_HERE}.",
            show_default=False,
        ),
    ] = "",
    tls_certs_dir: Annotated[
        Path | None,
        typer.Option(
            "--tls-certs-dir",
            metavar="DIR",
            envvar="TLS_SERVER_CERTS_DIR",
            help="A folder with tls.crt, tls.key and ca.crt: only who has a certificate of that authority is answered. "
            "Crossplane mounts it, and names it in $TLS_SERVER_CERTS_DIR.",
            show_default=False,
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve anybody, without TLS: for `crossplane render` on this machine.")
    ] = False,
    platform_file: PlatformOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Serve the compositions of claims to Crossplane, as a composition function.

    Settings come from the input that a Composition gives; where it gives none, from the platform file. It holds no
    data and asks no API server. Ends with SIGTERM or Ctrl-C.

    Example: steelyard function --insecure --address localhost:9443
    """

    def command() -> None:
        platform = settings_of(session.locate(data_dir), platform_file).platform
        if tls_certs_dir is None and not insecure:
            raise CommandError(
                "name the folder with the certificates with --tls-certs-dir, or say --insecure to serve anybody",
                code=Exit.USAGE,
            )
        place = address or (_HERE if insecure else _EVERYWHERE)
        _check(place)
        from steelyard.crossplane import serving  # here, as no other command needs it

        served = serving.Served(platform, offered.current(), place, None if insecure else tls_certs_dir)
        how = "without TLS, to anybody" if insecure else "to who has a certificate of its authority"
        try:
            asyncio.run(serving.serve(served, lambda where: output.note(f"serves compositions at {where}, {how}")))
        except serving.CannotServe as error:
            raise CommandError(str(error)) from error

    session.guarded(command)


def commands() -> typer.Typer:
    made = typer.Typer(no_args_is_help=True, help="Have claims composed by Crossplane on a Kubernetes cluster.")
    made.command("package")(package)
    return made


def package(
    directory: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Where to write it; made if it is not there."),
    ],
    function_package: Annotated[
        str,
        typer.Option(
            "--function-package",
            metavar="REF",
            help="Where the function's package is, or will be pushed to: registry/name:version.",
            show_default=False,
        ),
    ] = "",
    platform_file: PlatformOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Write what Crossplane needs to compose claims: definitions, Compositions, and what is installed beside them.

    The platform file is written into every Composition. The kinds come in two forms, of which a cluster has one:
    claims with composites (legacy/), or composites in a namespace (namespaced/). Files that are there are replaced.

    Example: steelyard crossplane package -o crossplane/
    """

    def command() -> None:
        platform = settings_of(session.locate(data_dir), platform_file).platform
        from steelyard.crossplane import package as packages  # here, as no other command needs it
        from steelyard.crossplane.package.references import References

        if function_package and ":" not in function_package.rpartition("/")[2]:
            raise CommandError(f"--function-package {function_package}: name its version, too", code=Exit.USAGE)
        references = References(function_package) if function_package else References()
        files = packages.files(offered.current(), platform, references)
        for name, content in files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("---\n".join(map(output.as_yaml, content)), encoding="utf-8")
        image = directory / "function" / "Dockerfile"
        image.write_text(packages.dockerfile(), encoding="utf-8")
        for note in packages.notes(platform):
            output.note(note)
        output.note(f"{len(files) + 1} files written into {directory}; docs/crossplane.md says what to do with them")

    session.guarded(command)


def _check(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise CommandError(f"--address {address}: write it as HOST:PORT, as in localhost:9443", code=Exit.USAGE)
    if importlib.util.find_spec("grpc") is None or importlib.util.find_spec("crossplane") is None:
        raise CommandError(
            f"the package {_EXTRA} is not installed; install it with: pip install 'steelyard[crossplane]'"
        )
