"""The verb `render`: claims as the manifests that they become, without any server, for a repository or for reading.

A file that it has written says so in its first line. Only such files are ever replaced or taken away, and only those of
the claims that are rendered.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Annotated, Final

import typer

from steelyard.cli import claimfiles, output, session
from steelyard.cli.applying import FilesOption
from steelyard.cli.claimfiles import Claim
from steelyard.cli.creating import DEFAULT_NAMESPACE
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.platform import PlatformOption, settings_of
from steelyard.cli.reach import DataDirOption
from steelyard.kube import objects
from steelyard.plan import offline
from steelyard.plan.offline import Rendered

_HEAD: Final = "# Made by steelyard render from "
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


def render(
    files: FilesOption,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="A directory to write one file for each object into, made if it is not there. Default: print them.",
            show_default=False,
        ),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NS", help="Of claims that name none.")
    ] = DEFAULT_NAMESPACE,
    platform_file: PlatformOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Print what claims become: every object, as it is applied, in the order in which it is.

    No platform needs to run. The claims are checked as the API would, and all mistakes are told at once. What is made
    from what there is (a copy of a kubeconfig) is left out, and told.

    Example: steelyard render -f examples/shop.yaml
    """

    def command() -> None:
        platform = settings_of(session.locate(data_dir), platform_file).platform
        claims = claimfiles.read(files, platform, namespace)
        rendered = [(claim, offline.render(claim.kind, claim.obj, platform)) for claim in claims]
        refused = [(claim, each.composed.refusal) for claim, each in rendered if each.composed.refusal is not None]
        if refused:
            raise CommandError("\n".join(f"{claim.origin}: {claim}: {why.message}" for claim, why in refused if why))
        for claim, each in rendered:
            for note in each.notes:
                output.note(f"{claim}: {note}")
        if directory is None:
            output.result("---\n".join(output.as_yaml(obj) for _, each in rendered for obj in each.parts.values()))
            return
        written = [_write(directory, claim, each) for claim, each in rendered]
        count, removed = (sum(numbers) for numbers in zip(*written, strict=True))
        gone = f", {removed} that are no longer made taken away" if removed else ""
        output.note(f"{count} objects of {len(claims)} claims are in {directory}{gone}")

    session.guarded(command)


def _write(directory: Path, claim: Claim, rendered: Rendered) -> tuple[int, int]:
    """Writes one claim's files into a folder of its own; how many objects there are, and how many files went."""
    head = f"{_HEAD}{claim}\n"
    folder = directory / _safe(objects.namespace(claim.obj)) / _safe(f"{claim.obj['kind'].lower()}-{claim.identity[2]}")
    root = directory.resolve()
    if not folder.resolve().is_relative_to(root):
        raise CommandError(f"{folder} leads out of {directory}: a link is in the way", code=Exit.USAGE)
    folder.mkdir(parents=True, exist_ok=True)
    # Called after their part, which is the same whatever a template's hash is: a change is a change of a file.
    wanted = {f"{_safe(name)}.yaml": head + output.as_yaml(obj) for name, obj in rendered.parts.items()}
    for name, text in wanted.items():
        _replace(folder / name, text, head)
    stale = [file for file in sorted(folder.glob("*.yaml")) if file.name not in wanted and _is_ours(file, head)]
    for file in stale:
        file.unlink()
    return len(wanted), len(stale)


def _replace(file: Path, text: str, head: str) -> None:
    if file.is_symlink() or (file.exists() and not _is_ours(file, head)):
        raise CommandError(f"{file} is there and was not made by render; move it away, or choose another directory")
    if file.exists() and file.read_text(encoding="utf-8") == text:
        return
    new = file.with_name(f".{file.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w", encoding="utf-8") as stream:
        stream.write(text)
    new.replace(file)


def _is_ours(file: Path, head: str) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    with file.open(encoding="utf-8", errors="replace") as stream:
        return stream.readline() == head


def _safe(name: str) -> str:
    """A name as one of a file: names of objects may have colons, and whatever a claim says comes from outside."""
    kept = _UNSAFE.sub("_", name)
    if kept == name and kept not in ("", ".", ".."):
        return name
    return f"{kept.strip('.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
