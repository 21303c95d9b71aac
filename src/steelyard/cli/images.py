"""The verbs of `steelyard image`: the images that machines of KVM hosts boot from, on the host where this runs."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from steelyard.cli import output, progress, session
from steelyard.cli.exits import CommandError
from steelyard.cli.output import Format
from steelyard.cli.platform import PlatformOption, settings_of
from steelyard.cli.reach import DataDirOption
from steelyard.cli.session import OutputOption
from steelyard.frozen import frozen
from steelyard.images import building, catalogue, overlays, versions
from steelyard.images.building import Order, Source
from steelyard.images.catalogue import Found
from steelyard.images.failing import BuildFailed
from steelyard.settings import kvmhosts

_HEADINGS: Final = ("NAME", "KUBERNETES", "OS", "SIZE", "MACHINES", "STATE")
_DROPPABLE: Final = ("SIZE", "MACHINES")

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the image, as `steelyard image list` shows it.")
]
DirectoryOption = Annotated[
    Path | None,
    typer.Option(
        "--in",
        metavar="DIR",
        help="The directory of images. Default: the first of the local host, as the platform file has it.",
        show_default=False,
    ),
]
MachinesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--machines",
        metavar="DIR",
        help="A directory with disks of machines that may lie over images. Can be given again. Default: those of the "
        "local host.",
        show_default=False,
    ),
]


@frozen
class Places:
    """Where this host has its images and the disks of its machines."""

    images: Path
    machines: tuple[Path, ...]


def commands() -> typer.Typer:
    made = typer.Typer(no_args_is_help=True, help="Build, list, check and remove images of machines.")
    made.command("build")(build)
    made.command("list")(list_)
    made.command("verify")(verify)
    made.command("rm")(rm)
    return made


def build(
    kubernetes: Annotated[
        str, typer.Option("--kubernetes", metavar="VERSION", help="Version of Kubernetes in the image.")
    ] = versions.KUBERNETES,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="DIR",
            help="The directory of the image. Default: the first of the local host, as the platform file has it.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str,
        typer.Option("--name", metavar="NAME", help="Name of the image. Default: debian-12-kubernetes-VERSION.qcow2."),
    ] = "",
    source: Annotated[
        Source,
        typer.Option(
            "--from",
            help="Where programs come from: built from their Go modules, or as the projects released them. auto takes "
            "the releases where they can be reached.",
        ),
    ] = "auto",
    mirror: Annotated[
        str,
        typer.Option(
            "--mirror",
            metavar="URL",
            help="Where the releases are, under the names of their servers: URL/dl.k8s.io/… and URL/github.com/…",
        ),
    ] = "",
    debian_mirror: Annotated[
        str,
        typer.Option(
            "--debian-mirror",
            metavar="URL",
            help="Where Debian's packages come from. Default: where this host has its own from.",
        ),
    ] = "",
    machines: MachinesOption = None,
    platform_file: PlatformOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Build an image that machines boot from: Debian 12, containerd, Kubernetes and all its container images.

    Needs root, mmdebstrap and qemu-img, and Go where programs are built. An image that was made from the same is left
    as it is. One that disks of machines lie over is not replaced: build under another name, and let machines move.

    Example: sudo steelyard image build --kubernetes v1.34.4
    """

    def command() -> None:
        places = _places(to, machines, platform_file, data_dir)
        order = Order(
            kubernetes=kubernetes,
            to=places.images.absolute(),
            name=name,
            source=source,
            mirror=mirror,
            debian_mirror=debian_mirror,
            storage_roots=places.machines,
        )
        since = progress.Progress("image")
        outcome = building.build(order, output.note)
        taken = progress.span(since.seconds)
        how = "built" if outcome.is_new else "unchanged: it was made from the same and is whole"
        output.note(f"{outcome.path.name} {how} ({taken})")
        output.result(str(outcome.path))

    _guarded(command)


def list_(
    directory: DirectoryOption = None,
    machines: MachinesOption = None,
    format_: OutputOption = Format.TABLE,
    platform_file: PlatformOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the images of this host: what is in each, how many machines' disks lie over it, and whether it is whole.

    Example: steelyard image list
    """

    def command() -> None:
        places = _places(directory, machines, platform_file, data_dir)
        images = catalogue.found(places.images)
        using = _using(places.machines) if images else []
        rows = [_row(image, using) for image in images]
        if format_ in (Format.JSON, Format.YAML):
            output.result(output.as_json(rows) if format_ is Format.JSON else output.as_yaml(rows).rstrip())
        elif format_ is Format.NAME:
            for row in rows:
                output.result(row["name"])
        elif not rows:
            output.note(f"There are no images in {places.images}. Build one with: steelyard image build")
        else:
            for line in output.aligned(_table(rows), width=output.columns(), droppable=_DROPPABLE):
                output.result(line)

    _guarded(command)


def verify(
    name: NameArgument,
    directory: DirectoryOption = None,
    platform_file: PlatformOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Read an image and compare its checksum with the one in its manifest. Exit code 1 if it is another.

    Example: steelyard image verify debian-12-kubernetes-v1.34.4.qcow2
    """

    def command() -> None:
        places = _places(directory, None, platform_file, data_dir)
        kept = catalogue.verify(catalogue.named(places.images, name))
        output.result(f"{kept.name}: sha256:{kept.sha256} as its manifest says")

    _guarded(command)


def rm(
    name: NameArgument,
    directory: DirectoryOption = None,
    machines: MachinesOption = None,
    platform_file: PlatformOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Remove an image and its manifest. Refused while disks of machines lie over it.

    Example: sudo steelyard image rm debian-12-kubernetes-v1.34.3.qcow2
    """

    def command() -> None:
        places = _places(directory, machines, platform_file, data_dir)
        path = catalogue.named(places.images, name)
        catalogue.remove(path, places.machines)
        output.result(f"{path.name} removed")

    _guarded(command)


def _guarded(command: Callable[[], None]) -> None:
    """Being told to end is as good as Ctrl-C: what is half made is put away first."""

    def wrapped() -> None:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            command()
        except BuildFailed as error:
            raise CommandError(str(error)) from None
        finally:
            signal.signal(signal.SIGTERM, before)

    session.guarded(wrapped)


def _places(
    images: Path | None, machines: list[Path] | None, platform_file: Path | None, data_dir: Path | None
) -> Places:
    """As given, else as the platform file has the host that is this machine, else as such a host has them."""
    if images is not None and machines:
        return Places(images, tuple(machines))
    hosts = settings_of(session.locate(data_dir), platform_file).platform.kvm.hosts or kvmhosts.STANDARD
    local = [host for host in hosts.values() if host.uri == kvmhosts.LOCAL_URI]
    if images is None and not local:
        raise CommandError("the platform file names no KVM host that is this machine: say which directory is meant")
    roots = [Path(root) for host in local for root in host.storage_roots]
    return Places(images or Path(local[0].image_roots[0]), tuple(machines or roots))


def _using(machines: Sequence[Path]) -> list[Path] | None:
    """What disks of machines lie over; None where that cannot be seen, as by somebody who is not root."""
    try:
        return [overlay.base.resolve() for overlay in overlays.all_of(machines)]
    except BuildFailed as error:
        output.note(str(error))
        return None


def _row(image: Found, using: list[Path] | None) -> dict[str, Any]:
    kept = image.manifest
    machines = None if using is None else using.count(image.path.resolve())
    return {
        "name": image.path.name,
        "path": str(image.path),
        "kubernetes": kept.kubernetes if kept else "",
        "operatingSystem": f"Debian {kept.operating_system.version}" if kept else "",
        "sizeBytes": image.size,
        "sha256": kept.sha256 if kept else "",
        "machines": machines,
        "problem": image.problem,
    }


def _table(rows: Sequence[dict[str, Any]]) -> list[Sequence[str]]:
    return [
        _HEADINGS,
        *(
            (
                row["name"],
                row["kubernetes"] or "-",
                row["operatingSystem"] or "-",
                f"{row['sizeBytes'] / 2**30:.1f} GiB",
                "?" if row["machines"] is None else str(row["machines"]),
                row["problem"] or "ok",
            )
            for row in rows
        ),
    ]
