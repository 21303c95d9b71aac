"""The verbs for a management cluster: `controllers` runs parts of the platform there, `manifests` writes what that
needs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

import steelyard
from steelyard import settings
from steelyard.cli import offered, output, session
from steelyard.cli.exits import CommandError, Exit
from steelyard.installation.datadir import DataDir
from steelyard.kube import errors
from steelyard.kube.client import kubeconfig as kubeconfigs
from steelyard.kube.client.kubeconfig import Connection

if TYPE_CHECKING:
    from steelyard.management import running

NAMESPACE: Final = "steelyard-system"
_ADDRESS: Final = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]*):([0-9]{1,5})")
_LAST_PORT: Final = 65535

KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="Of the management cluster. Default: the account of the pod that this runs in, else $KUBECONFIG or "
        "~/.kube/config.",
        show_default=False,
    ),
]
ContextOption = Annotated[
    str, typer.Option("--context", metavar="NAME", help="The context of the kubeconfig to use.", show_default=False)
]
ElectsOption = Annotated[
    bool, typer.Option("--leader-elect/--no-leader-elect", help="Whether only one of several works at a time.")
]
WithOption = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="PARTS",
        help="What to run, with commas between: claims, lifecycle (Cluster API's own kinds, in place of its programs), "
        "and providers: simulated, kvm, postgres, redis, vault. Default: claims.",
        show_default=False,
    ),
]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--platform",
        metavar="FILE",
        help="The platform file. Default: $STEELYARD_PLATFORM, else ./platform.yaml, else built-in defaults.",
        show_default=False,
    ),
]


def controllers(
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    with_: WithOption = None,
    platform_file: FileOption = None,
    accept_platform_change: Annotated[
        bool,
        typer.Option(
            "--accept-platform-change", help="Start although the platform file changes what claims there are get."
        ),
    ] = False,
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", metavar="NS", help="Where the leases are by which one of several works."),
    ] = os.environ.get("POD_NAMESPACE") or NAMESPACE,
    elects: ElectsOption = True,
    health: Annotated[
        str,
        typer.Option(
            "--health-address",
            metavar="HOST:PORT",
            help="Where /healthz, /readyz and /metrics are. Empty: nowhere. Port 0 picks a free one.",
        ),
    ] = "127.0.0.1:9440",
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir",
            metavar="DIR",
            help="For what providers keep in files (simulated, postgres, redis, vault). The platform's own is not "
            "taken.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to serve the APIs of simulated clusters on.")
    ] = "127.0.0.1",
) -> None:
    """Run the platform's controllers against any Kubernetes API, in place of the embedded one.

    Its kinds must be defined there, and the rights be granted: steelyard manifests writes both. Of several processes
    one works on each part; the others wait. Ends with SIGTERM or Ctrl-C, and with exit code 1 when another has taken
    over.

    Example: steelyard controllers --kubeconfig management.kubeconfig --with claims,kvm
    """

    def command() -> None:
        connection = connection_of(kubeconfig, context, os.environ)
        settings_ = settings_of(platform_file)
        place = address_of(health) if health else None
        from steelyard import parts  # here: no other command needs controllers and providers
        from steelyard.management import running

        providers = offered.providers(parts.PROVIDERS)
        options = running.Options(
            chosen(with_, parts.names(providers)),
            connection,
            namespace,
            platform=settings_.platform,
            platform_file=settings_.path,
            accepts=accept_platform_change,
            offering=offered.current(),
            providers=providers,
            data_dir=DataDir(data_dir.absolute()) if data_dir is not None else None,
            host=host,
            elects=elects,
            health=place,
            tell=output.note,
        )
        run(options)

    session.guarded(command)


def run(options: running.Options) -> None:
    """Until it is told to end; raises CommandError with what keeps it from its work."""
    from steelyard.management import running  # as above

    try:
        running.run(options)
    except running.Lost as error:
        raise CommandError(f"{error}; start it again to wait for the next turn") from error
    except running.CannotRun as error:
        raise CommandError(str(error), code=Exit.NOT_RUNNING if error.is_unreachable else Exit.FAILED) from error
    except errors.ApiError as error:
        raise CommandError(f"{options.connection.server}: {error.message}") from error


def chosen(given: Iterable[str] | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """Always in the same order: that in which leases are taken."""
    named = [name.strip() for text in given or ("claims",) for name in text.split(",")]
    for name in named:
        if name not in known:
            raise CommandError(f"--with {name}: there is no such part; there are {', '.join(known)}", code=Exit.USAGE)
    return tuple(name for name in known if name in named)


def settings_of(platform_file: Path | None) -> settings.Chosen:
    """Of that file and none that an embedded platform remembers: processes in several places must agree."""
    try:
        known = offered.infrastructure_names()
        return settings.choose(platform_file, Path(os.devnull, "none"), infrastructures=known)
    except settings.SettingsError as error:
        raise CommandError(str(error), code=Exit.USAGE) from None


def connection_of(kubeconfig: Path | None, context: str, environment: Mapping[str, str]) -> Connection:
    if kubeconfig is not None:
        return kubeconfigs.load(kubeconfig).resolve(context)
    found = None if context or environment.get("KUBECONFIG") else kubeconfigs.of_service_account(environment)
    if found is not None:
        return found
    files = kubeconfigs.default_files(environment)
    if not any(path.exists() for path in files):
        raise CommandError(
            f"there is no kubeconfig: {', '.join(map(str, files))} is not there. Name that of the management cluster "
            "with --kubeconfig",
            code=Exit.USAGE,
        )
    return kubeconfigs.load_default(environment).resolve(context)


def address_of(text: str) -> tuple[str, int]:
    """
    >>> address_of("127.0.0.1:9440")
    ('127.0.0.1', 9440)
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[2]) > _LAST_PORT:
        raise CommandError(f"--health-address {text}: write HOST:PORT, as in 127.0.0.1:9440", code=Exit.USAGE)
    return found[1].strip("[]"), int(found[2])


def manifests(
    directory: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where to write them; made if it is not there.")
    ],
    with_: WithOption = None,
    platform_file: FileOption = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NS", help="Where the controllers are to run.")
    ] = NAMESPACE,
    image: Annotated[
        str,
        typer.Option(
            "--image",
            metavar="REF",
            help="The container image of this program, with its version. Default: registry.steelyard.local/steelyard "
            "with the version of this command.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Write what a management cluster is to have: definitions, policies, rights, and a Deployment of the controllers.

    A kustomize base, and in chart/ the same as a Helm chart. The account may do what the parts need, and nothing more.
    Files that somebody else wrote are never replaced. No platform needs to run.

    Example: steelyard manifests -o manifests/ --with claims,kvm
    """

    def command() -> None:
        settings_ = settings_of(platform_file)
        # As it was written, with its comments.
        text = settings_.path.read_text(encoding="utf-8") if settings_.path is not None else "{}\n"
        from steelyard import parts  # here: few commands need controllers and providers
        from steelyard.management import manifests as made
        from steelyard.management.manifests import content, writing

        version = steelyard.__version__
        providers = offered.providers(parts.PROVIDERS)
        install = made.Install(
            chosen(with_, parts.names(providers)),
            settings_.platform,
            offered.current(),
            providers,
            namespace,
            _image(image or f"{content.IMAGE}:v{version}"),
            text,
            version,
        )
        try:
            written, removed = writing.write(directory, made.files(install, output.as_yaml), version)
        except writing.NotOurs as error:
            raise CommandError(str(error)) from error
        old = f", {removed} of an earlier time removed" if removed else ""
        output.note(
            f"{written} files are in {directory}{old}; use them with: kubectl apply --server-side -k {directory}"
        )
        if content.standing(install):
            output.note(f"and then: kubectl apply --server-side -k {directory / 'standing'}")

    session.guarded(command)


def _image(text: str) -> str:
    if ":" not in text.rpartition("/")[2]:
        raise CommandError(f"--image {text}: name its version, too, as in {text}:v1", code=Exit.USAGE)
    return text
