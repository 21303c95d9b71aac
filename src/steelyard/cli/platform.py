"""The verbs on the platform itself: up, down, status, doctor, version."""

from __future__ import annotations

import importlib
import os
import platform as machine
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import steelyard
from steelyard import collecting, settings
from steelyard.api import state
from steelyard.cli import logfile, offered, output, reach, services, session, targets
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.hints import Hints
from steelyard.cli.reach import DataDirOption, Given
from steelyard.cli.session import Session
from steelyard.installation.datadir import AlreadyRunning, DataDir, Instance
from steelyard.kube import errors, objects
from steelyard.kube.client.discovery import Entry
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object

_START_DEADLINE = 30.0
_STOP_DEADLINE = 30.0

PlatformOption = Annotated[
    Path | None,
    typer.Option(
        "--platform",
        metavar="FILE",
        help="The platform file. Default: $STEELYARD_PLATFORM, else ./platform.yaml, else that of the last start, "
        "else built-in defaults.",
        show_default=False,
    ),
]


def up(
    host: Annotated[
        str, typer.Option("--host", help="Address to serve on; loopback unless told otherwise.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to serve on; 0 picks a free one.")] = 7443,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run in the background; end it with: steelyard down.")
    ] = False,
    demo_: Annotated[bool, typer.Option("--demo", help="Claim example clusters and show them coming up.")] = False,
    platform_file: PlatformOption = None,
    accept_platform_change: Annotated[
        bool,
        typer.Option(
            "--accept-platform-change", help="Start although the platform file changes what claims there are get."
        ),
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="PART",
            help="Leave a part out, since somebody else's program looks after its objects: claims, lifecycle (Cluster "
            "API's own kinds), or a provider. Can be given again.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Run the platform: the Kubernetes API, the controllers, simulated machines, in one process.

    Settings that would replace machines or leave claims alone are refused, with what they would change.

    Example: steelyard up --data-dir ./data --port 7443
    """
    where, hints = session.locate(data_dir), reach.hints_of(Given(data_dir))
    if detach:
        accepts = accept_platform_change
        left_out = tuple(without or ())
        session.guarded(lambda: _start_detached(where, host, port, platform_file, left_out, accepts=accepts))
        return
    with collecting.paused():
        # Here: no other command needs it. Not in the guarded part: Ctrl-C ends loading at once.
        importlib.import_module("steelyard.app")
    session.guarded(
        lambda: _run(
            where,
            host,
            port,
            platform_file,
            hints,
            accepts=accept_platform_change,
            with_demo=demo_,
            without=frozenset(without or ()),
        )
    )


def down(data_dir: DataDirOption = None) -> None:
    """End the platform of a data directory cleanly. Its data stays.

    Example: steelyard down
    """
    session.guarded(lambda: _stop(session.locate(data_dir)))


def status(given: Given) -> None:
    """Say whether the platform runs, where, and how its claims are. Exit code 3 if it does not run.

    Example: steelyard status
    """
    where = _directory_of(given)
    if where is not None:
        instance = session.guarded(where.running)
        up = reach.hints_of(given).steelyard("up")
        if instance is None:
            output.result(f"not running (data directory {where.root}); start it with: {up}")
            raise typer.Exit(Exit.NOT_RUNNING)
        if not instance.url:
            output.result(f"starting (data directory {where.root})")
            return
        output.result(f"running: {instance.url}, process {instance.pid}, version {instance.version}")
        output.result(f"started: {instance.started}")
        output.result(f"data:    {where.root}")

    async def command(here: Session) -> None:
        if where is None:
            output.result(f"running: {here.server.connection.server}, Kubernetes API {await _version(here.client)}")
            output.result(f"reached: {here.server.why}")

        async def listed(entry: Entry) -> Sequence[Object]:
            return (await here.client.list(entry.resource, here.namespace(""))).items

        found = await targets.of_each(await targets.claims(here.client), listed)
        claims = [claim for _, items in found for claim in items]
        ready = sum(1 for claim in claims if state.is_ready(claim))
        for service in await services.gather(here.client):
            output.result(f"service: {service}")
        output.result(f"claims:  {len(claims)}, of which {ready} ready")
        for claim in claims:
            if not state.is_ready(claim):
                how = state.of(claim)
                text = f", {how.text}" if how.text else ""
                output.result(f"  {objects.qualified_name(claim)}: {how.word}{text}")

    session.run(given, command)


def _directory_of(given: Given) -> DataDir | None:
    """The data directory, unless a kubeconfig leads to a platform elsewhere."""
    if given.kubeconfig is not None or given.context:
        return None
    where = session.locate(given.data_dir)
    if not where.kubeconfig.exists():
        try:
            return reach.choose(given).data_dir
        except CommandError:
            return where
    return where


async def _version(client: Client) -> str:
    return str(objects.mapping(await client.request("GET", "/version")).get("gitVersion") or "unknown")


def doctor(given: Given, platform_file: PlatformOption = None) -> None:
    """Check this machine and the platform, and say what to do about each finding. Exit code 1 if something is wrong.

    With --kubeconfig or --context it looks at that platform alone, and not at this machine.

    Example: steelyard doctor
    """
    from steelyard.cli import checks  # imported here: no other command needs to read certificates

    if given.kubeconfig is not None or given.context:
        findings = session.guarded(lambda: list(checks.elsewhere(reach.choose(given))))
    else:
        where = session.locate(given.data_dir)
        findings = session.guarded(lambda: list(checks.run(where, platform_file, reach.hints_of(given))))
    for finding in findings:
        output.result(str(finding))
    if any(finding.is_failure for finding in findings):
        raise typer.Exit(Exit.FAILED)


def version(given: Given) -> None:
    """Print the version of this command, and of the platform that runs in the data directory or is asked for.

    Example: steelyard version
    """
    output.result(
        f"steelyard {steelyard.__version__} (Python {machine.python_version()}, {machine.system()} {machine.machine()})"
    )
    if given.kubeconfig is not None or given.context:

        async def command(here: Session) -> None:
            output.result(f"platform  Kubernetes API {await _version(here.client)} at {here.server.connection.server}")

        session.run(given, command)
        return
    instance = session.guarded(session.locate(given.data_dir).running)
    if instance is not None:
        output.result(f"platform  {instance.version or 'starting'} at {instance.url}")


def _run(
    where: DataDir,
    host: str,
    port: int,
    platform_file: Path | None,
    hints: Hints,
    *,
    accepts: bool,
    with_demo: bool,
    without: frozenset[str],
) -> None:
    from steelyard import app, parts  # `up` has loaded them

    providers = offered.providers(app.PROVIDERS)
    known = parts.names(providers)
    if unknown := sorted(without - set(known)):
        raise CommandError(
            f"--without {unknown[0]}: there is no such part; there are {', '.join(known)}", code=Exit.USAGE
        )
    chosen = settings_of(where, platform_file)
    if chosen.from_memory:
        output.note(f"no platform file here: going on with that of the last start, {chosen.path}")
    kept = logfile.keep(where.log_file)

    def announce(url: str, kubeconfig: Path, description: str) -> None:
        logfile.say(kept, "platform started", version=steelyard.__version__, url=url, pid=os.getpid())
        _announce(url, kubeconfig, description, hints)

    companion: app.Companion | None = None
    if with_demo:
        from steelyard.cli import demo

        companion = demo.show
    try:
        app.run(
            app.Options(
                data_dir=where,
                host=host,
                port=port,
                platform=chosen.platform,
                platform_file=chosen.path,
                accepts_platform_change=accepts,
                tell=output.note,
                offering=offered.own(),
                providers=providers,
                without=without,
            ),
            on_ready=announce,
            companion=companion,
        )
        logfile.say(kept, "platform ended", pid=os.getpid())
    except AlreadyRunning as error:
        raise CommandError(
            f"{where.root}: {error}.\n"
            f"Use that one, end it with `{hints.steelyard('down')}`, or choose another --data-dir."
        ) from None
    except app.CannotStart as error:
        raise CommandError(str(error)) from None
    except errors.ApiError as error:
        raise CommandError(f"the platform cannot start: {error.message}") from None


def settings_of(where: DataDir, platform_file: Path | None) -> settings.Chosen:
    """Raises CommandError with everything that is wrong with the file."""
    try:
        known = offered.infrastructure_names()
        return settings.choose(platform_file, where.remembered, infrastructures=known)
    except settings.SettingsError as error:
        raise CommandError(str(error), code=Exit.USAGE) from None


def _announce(url: str, kubeconfig: Path, description: str, hints: Hints) -> None:
    output.note(f"Steelyard {steelyard.__version__} serves the Kubernetes API at {url}")
    for part in description.split("; "):
        output.note(f"  {part}")
    output.note(f"  export KUBECONFIG={kubeconfig}")
    output.note(f"  kubectl get claim -A        (or: {hints.steelyard('get')})")
    output.note("Ctrl-C ends it; its data stays.")


def _start_detached(
    where: DataDir, host: str, port: int, platform_file: Path | None, without: Sequence[str], *, accepts: bool
) -> None:
    running = where.running()
    if running is not None:
        raise CommandError(f"{where.root}: {AlreadyRunning(running)}")
    settings_of(where, platform_file)
    where.create()
    command = [sys.executable, "-m", "steelyard", "up", "--host", host, "--port", str(port)]
    command += ["--data-dir", str(where.root)]
    if platform_file is not None:
        command += ["--platform", str(platform_file.absolute())]
    if accepts:
        command.append("--accept-platform-change")
    for provider in without:
        command += ["--without", provider]
    with os.fdopen(os.open(where.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab") as log:
        start = log.tell()
        process = subprocess.Popen(  # noqa: S603 - our own program with our own arguments
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    instance = _await_start(where, process)
    if instance is None:
        tail = where.log_file.read_bytes()[start:].decode(errors="replace").strip()
        raise CommandError(f"the platform did not start (exit code {process.poll()}). It wrote:\n{tail[-2000:]}")
    output.note(f"Steelyard runs at {instance.url}, process {instance.pid}; it logs to {where.log_file}")
    output.note(f"  export KUBECONFIG={where.kubeconfig}")


def _await_start(where: DataDir, process: subprocess.Popen[bytes]) -> Instance | None:
    deadline = time.monotonic() + _START_DEADLINE
    while time.monotonic() < deadline and process.poll() is None:
        instance = where.running()
        if instance is not None and instance.url:
            return instance
        time.sleep(0.05)
    return None


def _stop(where: DataDir) -> None:
    if where.running() is None:
        output.note(f"no platform runs in {where.root}")
        return
    deadline = time.monotonic() + _STOP_DEADLINE
    told = 0
    while (instance := where.running()) is not None:
        # A platform in its first or last moments names no process yet, or no longer. Process 0 would be ourselves.
        if instance.pid and instance.pid != told:
            os.kill(instance.pid, signal.SIGTERM)
            told = instance.pid
        if time.monotonic() > deadline:
            raise CommandError(
                f"process {told} has not ended after {_STOP_DEADLINE:g} s; nothing acknowledged is lost if you "
                f"end it by force: kill -9 {told}",
                code=Exit.TIMEOUT,
            )
        time.sleep(0.05)
    output.note("the platform has ended; its data stays")
