"""Runs parts of the platform (`parts.py`) against any Kubernetes API, as a client of it like any other.

No API is served here but those of simulated clusters. Each part has a Lease of its own, so that no two processes run
the same one, whatever else they run; who has not all of its Leases waits. Losing one ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import socket
import uuid
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Final

import uvloop
from prometheus_client import CONTENT_TYPE_LATEST

from steelyard import parts
from steelyard.compose import offering as offerings
from steelyard.compose.offering import Offering
from steelyard.frozen import frozen
from steelyard.installation import opening
from steelyard.installation.datadir import AlreadyRunning, DataDir, Hold
from steelyard.kube import exposition
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import logs, probes
from steelyard.kube.runtime.leadership import Leadership, Lost, Terms
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.server.hosting import Hosting
from steelyard.kube.server.transport.limits import Commons
from steelyard.kube.server.webhooks.reach import Reach
from steelyard.management import memory, preflight
from steelyard.management.preflight import CannotRun
from steelyard.providers.toolkit.provider import Ground, Provider
from steelyard.settings import Chosen, Platform

FIELD_MANAGER: Final = "steelyard-controllers"
_LOOPBACK: Final = "127.0.0.1"


@frozen
class Options:
    wanted: tuple[str, ...]
    """Names of parts."""
    connection: Connection
    namespace: str
    """Where the Leases are."""
    platform: Platform = Platform.known()
    platform_file: Path | None = None
    """Where the settings are from."""
    accepts: bool = False
    """Whether settings may change claims; else that is refused, with what they would change."""
    offering: Offering = offerings.STANDARD
    providers: tuple[Provider, ...] = parts.PROVIDERS
    data_dir: DataDir | None = None
    """For providers that keep files."""
    host: str = _LOOPBACK
    """Where the APIs of simulated clusters are served."""
    elects: bool = True
    """Whether only one of several works."""
    health: tuple[str, int] | None = None
    """Where `/healthz`, `/readyz` and `/metrics` are served."""
    terms: Terms = Terms()
    look_again: float = 30.0
    """Seconds after which it is asked again whether the kinds are still ours."""
    tell: Callable[[str], None] = lambda _: None

    @property
    def chosen(self) -> Chosen:
        return Chosen(self.platform, self.platform_file)

    @property
    def started_providers(self) -> list[Provider]:
        return [each for each in self.providers if each.name in self.wanted]


@frozen
class Here:
    """Parts that are being run."""

    health_port: int
    leading: asyncio.Event
    """Set while they work."""
    working: asyncio.Task[None]
    """Ends with `Lost` when another may work now, and with `CannotRun` where nothing can be done."""


def run(options: Options) -> None:
    """Until Ctrl-C or SIGTERM. Raises Lost and CannotRun."""
    logs.set_up()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(options))


async def _serve(options: Options) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _end_or_force, ended)
    async with started(options) as here:
        waiting = asyncio.create_task(ended.wait())
        await asyncio.wait((waiting, here.working), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if here.working.done():
            here.working.result()


def _end_or_force(ended: asyncio.Event) -> None:
    if ended.is_set():
        os._exit(130)
    ended.set()


@contextlib.asynccontextmanager
async def started(options: Options) -> AsyncGenerator[Here]:
    """While they run, whether they work or wait for their turn."""
    async with contextlib.AsyncExitStack() as stack:
        client = HttpClient(options.connection, field_manager=FIELD_MANAGER)
        stack.push_async_callback(client.close)
        leading = asyncio.Event()
        checks: list[probes.Check] = []

        def readiness() -> str | None:
            # Who waits for a turn is as ready as can be: the one that works must be replaceable.
            return next(filter(None, (check() for check in checks)), None)

        port = 0
        if options.health is not None:
            port = await _probed(stack, options.health, readiness)
        working = asyncio.create_task(_work(options, client, leading, checks), name="+".join(options.wanted))
        stack.push_async_callback(_cancel, working)
        yield Here(port, leading, working)


async def _probed(stack: contextlib.AsyncExitStack, place: tuple[str, int], readiness: probes.Check) -> int:
    pages = {"/metrics": probes.Page(exposition.text, CONTENT_TYPE_LATEST)}
    checks: dict[str, probes.Check] = {"/healthz": lambda: None, "/readyz": readiness}
    try:
        return await stack.enter_async_context(probes.served(*place, checks, pages))
    except OSError as error:
        where = f"{place[0]}:{place[1]}"
        raise CannotRun(
            f"cannot serve /healthz at {where}: {error.strerror or error}; choose another place with --health-address"
        ) from error


async def _work(options: Options, client: HttpClient, leading: asyncio.Event, checks: list[probes.Check]) -> None:
    wanted = preflight.Wanted(options.wanted, options.platform, options.offering, options.providers)
    lease_namespace = options.namespace if options.elects else ""
    left = await preflight.check(client, wanted, lease_namespace=lease_namespace, tell=options.tell)
    options = dataclasses.replace(options, offering=left)
    async with contextlib.AsyncExitStack() as stack:
        lost: list[asyncio.Future[None]] = []
        if options.elects:
            lost += [await _led(stack, options, client, part) for part in options.wanted]
        if parts.CLAIMS in options.wanted:
            await memory.check(
                client, options.namespace, options.chosen, left, accepts=options.accepts, tell=options.tell
            )
        manager = Manager(client)
        checks.append(manager.problem)
        await _prepare(options, client, manager, stack, checks)
        running = asyncio.create_task(manager.run(), name="manager")
        stack.push_async_callback(_stop, manager, running)
        taken = asyncio.create_task(
            preflight.watch_owners(client, dataclasses.replace(wanted, offering=left), options.look_again),
            name="owners",
        )
        stack.callback(taken.cancel)
        lost.append(taken)
        leading.set()
        options.tell(f"{' and '.join(options.wanted)} of {options.connection.server}: at work")
        await asyncio.wait({running, *lost}, return_when=asyncio.FIRST_COMPLETED)
        for each in lost:
            if each.done():
                # At once, in the middle of whatever is being done: another may have begun.
                running.cancel()
                each.result()
        running.result()


async def _led(
    stack: contextlib.AsyncExitStack, options: Options, client: HttpClient, part: str
) -> asyncio.Future[None]:
    lease = Leadership(client, options.namespace, lease_name(part), _identity(), terms=options.terms)
    return await stack.enter_async_context(lease.held())


def lease_name(part: str) -> str:
    """The same for everybody who runs the part."""
    return f"steelyard-{part}" if part in parts.OWN else f"steelyard-provider-{part}"


async def _prepare(
    options: Options,
    client: HttpClient,
    manager: Manager,
    stack: contextlib.AsyncExitStack,
    checks: list[probes.Check],
) -> None:
    at_end = stack.push_async_callback
    found = parts.controllers(manager, options.wanted, at_end, ())
    if parts.CLAIMS in options.wanted:
        found += parts.of_claims(manager, options.platform, options.offering)
    ground = await _ground(options, client, manager, stack)
    for provider in options.started_providers:
        # Of machines elsewhere it is the API that tells whose they are: any process may look after them.
        here = ground.data_dir if provider.has_files else _nowhere(options)
        unit = await provider.start(dataclasses.replace(ground, folder=here / provider.name, data_dir=here))
        found += unit.controllers
        checks += unit.checks.values()
    for controller in found:
        manager.add(controller)


async def _ground(options: Options, client: HttpClient, manager: Manager, stack: contextlib.AsyncExitStack) -> Ground:
    keeping = [each for each in options.started_providers if each.has_files]
    where = options.data_dir
    if keeping and where is None:
        raise CannotRun(
            f"{keeping[0].name} keeps what it makes in files: name a folder for them with --data-dir, which is there "
            "again when it is started anew"
        )
    hosting: Callable[..., Hosting] = _no_apis
    if keeping and where is not None:
        hosting = await _hosting(options, where, keeping, stack)
    here = where.root if where is not None else _nowhere(options)
    return Ground(client, manager, options.platform, clocks.SYSTEM, hosting, stack, folder=here, data_dir=here)


async def _hosting(
    options: Options, where: DataDir, keeping: list[Provider], stack: contextlib.AsyncExitStack
) -> Callable[..., Hosting]:
    where.create()
    try:
        hold = Hold(where)
        stack.callback(hold.release)
        databases = [(name, provider.stands_for) for provider in keeping for name in provider.databases]
        stores = await opening.worlds(stack, where, databases)
    except AlreadyRunning as error:
        raise CannotRun(f"{where.root}: {error}; choose another with --data-dir") from error
    except opening.CannotOpen as error:
        raise CannotRun(str(error)) from error
    commons = Commons()

    def host_apis(database: str, *, reach: Reach, quota: int) -> Hosting:
        made = Hosting(
            stores[database], host=options.host, clock=clocks.SYSTEM, reach=reach, quota=quota, commons=commons
        )
        stack.push_async_callback(made.close)
        return made

    return host_apis


def _no_apis(database: str, *, reach: Reach, quota: int) -> Hosting:
    # Parts that have databases are refused without a folder before they are started.
    raise AssertionError(f"there is no database {database} without a folder")


def _nowhere(options: Options) -> Path:
    """A name in place of a folder, which is never made."""
    return Path("/", "steelyard-provider", options.connection.server.replace("/", "_"))


def _identity() -> str:
    return f"{socket.gethostname()}_{uuid.uuid4()}"


async def _stop(manager: Manager, running: asyncio.Task[None]) -> None:
    manager.stop()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Lost, CannotRun):
        await task
