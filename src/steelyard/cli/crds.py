"""The verb `crds`: what an API server must be given before it takes claims, without one that runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli import offered, output, session
from steelyard.cli.platform import PlatformOption, settings_of
from steelyard.cli.reach import DataDirOption
from steelyard.compose import shipped
from steelyard.kube import objects
from steelyard.kube.objects import Object


def crds(
    directory: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="A directory to write one file for each into, made if it is not there. Default: print them.",
            show_default=False,
        ),
    ] = None,
    platform_file: PlatformOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Print the definitions of all kinds, and the admission policies that guard claims, as the platform file has them.

    For a Kubernetes management cluster: the embedded platform has them already. No platform needs to run.

    Example: steelyard crds -o manifests/
    """

    def command() -> None:
        platform = settings_of(session.locate(data_dir), platform_file).platform
        offering = offered.current()
        files: dict[str, Sequence[Object]] = {
            f"{objects.name(each)}.yaml": (each,) for each in shipped.definitions(platform, offering)
        }
        for policy, binding in shipped.guards(platform, offering):
            files[f"{objects.name(policy)}.yaml"] = (policy, binding)
        if directory is None:
            output.result(_text([each for objects_ in files.values() for each in objects_]))
            return
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (directory / name).write_text(_text(content), encoding="utf-8")
        output.note(f"{len(files)} files written into {directory}; use them with: kubectl apply -f {directory}")

    session.guarded(command)


def _text(content: Sequence[Object]) -> str:
    return "---\n".join(map(output.as_yaml, content))
