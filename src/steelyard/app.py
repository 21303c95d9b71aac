"""The whole platform in one process. The only module that imports every layer; it decides nothing, it wires.

Start: data directory locked, databases opened, kinds defined, API served, controllers running. End (Ctrl-C, SIGTERM):
the same in reverse, each step with a deadline. Whatever moment the process is killed at, the next start goes on from
what was acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import errno
import os
import signal
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import uvloop

import steelyard
from steelyard import collecting, defining, groundwork, parts, settings
from steelyard.controllers.claims import beginning
from steelyard.defining import Owner
from steelyard.frozen import frozen
from steelyard.installation import credentials, datadir, encryption, opening, presence
from steelyard.installation.backup import making, placing
from steelyard.installation.backup.making import Backups
from steelyard.kube import errors
from steelyard.kube.client.interface import Client
from steelyard.kube.client.local import LocalClient
from steelyard.kube.pki import KeyPair
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import logs
from steelyard.kube.runtime.controller import Controller
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.server import hosting as hostings
from steelyard.kube.server.api import Api
from steelyard.kube.server.call import SYSTEM_MASTERS, User
from steelyard.kube.server.definitions import described
from steelyard.kube.server.fairness import memory
from steelyard.kube.server.fairness.shares import Limits, Shares
from steelyard.kube.server.hosting import Hosting
from steelyard.kube.server.rights import accounttokens, authn
from steelyard.kube.server.transport import http, tls
from steelyard.kube.server.transport.audit import AuditLog
from steelyard.kube.server.transport.health import Check
from steelyard.kube.server.transport.limits import Commons
from steelyard.kube.server.transport.operations import Operation, Operations
from steelyard.kube.server.transport.renewal import Renewals
from steelyard.kube.server.webhooks.reach import Reach
from steelyard.kube.store import record
from steelyard.kube.store.reserve import Reserve
from steelyard.kube.store.sealing import Sealer
from steelyard.kube.store.store import Store
from steelyard.options import Options
from steelyard.providers.toolkit import machinelogs
from steelyard.providers.toolkit import services as serviceslist
from steelyard.providers.toolkit.provider import Ground, Started

PROVIDERS: Final = parts.PROVIDERS
FIELD_MANAGER: Final = groundwork.FIELD_MANAGER
CONTROLLERS: Final = User("system:steelyard-controllers", (SYSTEM_MASTERS,))

OnReady = Callable[[str, Path, str], None]
Companion = Callable[[Client], Awaitable[None]]


class CannotStart(Exception):
    """The platform cannot run here; the message says why and what to do."""


@frozen
class Running:
    """What a started platform offers to whoever started it."""

    url: str
    client: Client
    controllers: asyncio.Task[None]
    """Ends only when the platform does, or when something is broken beyond what a retry can mend."""


@frozen
class Identity:
    """Whom clients trust, and whom the platform does."""

    authority: KeyPair
    service_account_key: bytes
    token: str


def run(options: Options, *, on_ready: OnReady | None = None, companion: Companion | None = None) -> None:
    """Runs until Ctrl-C or SIGTERM. `companion` runs beside it, with a client of the platform."""
    logs.set_up()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(options, on_ready, companion))


async def _serve(options: Options, on_ready: OnReady | None, companion: Companion | None) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _end_or_force, ended)
    async with contextlib.AsyncExitStack() as stack:
        with collecting.paused():
            platform = await stack.enter_async_context(started(options))
        stack.enter_context(collecting.paced(before=_tidy, after=memory.trim))
        if on_ready is not None:
            origin = options.platform_file or "none, built-in defaults"
            description = f"domain {options.platform.domain}, {options.platform.infrastructure} machines"
            on_ready(platform.url, options.data_dir.kubeconfig, f"{description}; platform file: {origin}")
        beside = asyncio.ensure_future(companion(platform.client)) if companion else None
        await _first(platform.controllers, ended)
        if beside is not None:
            beside.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beside


def _tidy() -> None:
    record.forget_large()
    described.tidy()


def _end_or_force(ended: asyncio.Event) -> None:
    """A second Ctrl-C ends the process at once; nothing acknowledged is lost by that."""
    if ended.is_set():
        os._exit(130)
    ended.set()


@contextlib.asynccontextmanager
async def started(options: Options) -> AsyncGenerator[Running]:
    """The platform while it runs."""
    clock = options.clock
    options.data_dir.create()
    async with contextlib.AsyncExitStack() as stack:
        hold = datadir.Hold(options.data_dir)
        stack.callback(hold.release)
        _finish_restore(options)
        _check_nothing_is_lost(options)
        reserve = Reserve(options.data_dir.reserve)
        sealer, store, worlds = await _databases(stack, options)
        stores = (store, *worlds.values())
        for each in stores:
            each.rely_on(reserve)
        identity = _identity(options, clock.now())
        _check_platform(options, store)
        api = await Api.start(store)
        stack.push_async_callback(api.close)
        client = LocalClient(api, CONTROLLERS, field_manager=FIELD_MANAGER)
        claims, owners = await groundwork.lay(api, client, options)
        await groundwork.keep_in_vault(client, options)
        await groundwork.keep_hosts(client, options)

        renewals = Renewals(clock)
        stack.callback(renewals.close)
        wanted = options.platform.limits
        commons = Commons(Shares(Limits(wanted.reading, wanted.writing)))
        hostings: list[Hosting] = []

        def host_apis(database: str, *, reach: Reach, quota: int) -> Hosting:
            hosting = Hosting(
                worlds[options.data_dir.provider_database(database)],
                host=options.host,
                clock=clock,
                reach=reach,
                renewals=renewals,
                quota=quota,
                commons=commons,
            )
            stack.push_async_callback(hosting.close)
            hostings.append(hosting)
            return hosting

        manager = Manager(client)
        checks: dict[str, Check] = {
            "store": lambda: next(filter(None, (each.check() for each in stores)), None),
            "controllers": manager.problem,
        }
        ground = Ground(
            client,
            manager,
            options.platform,
            clock,
            host_apis,
            stack,
            folder=options.data_dir.root,
            data_dir=options.data_dir.root,
        )
        for owner in owners:
            options.tell(str(owner))
        if parts.CLAIMS in options.runs:
            beginning.with_the_first(manager, claims, lambda: _of_claims(manager, options, owners))
        units = await _prepare(manager, ground, options, hostings)
        for unit in units:
            checks |= unit.checks
        rotation = encryption.Rotation(options.data_dir.encryption_keys, sealer, stores)
        operations = {
            making.PATH: Operation("GET", Backups(options.data_dir, store).make),
            encryption.ROTATION_PATH: Operation("POST", rotation.perform),
            serviceslist.PATH: Operation("GET", serviceslist.listing([unit.services for unit in units])),
            machinelogs.PATH: machinelogs.reading(
                {kind: read for unit in units for kind, read in unit.consoles.items()}
            ),
        }
        url = await _listen(stack, api, options, identity, reserve, commons, checks, operations, renewals)

        # Before the first thing is done with these settings, and after the last thing that keeps the platform from it.
        settings.remember(options.data_dir.remembered, options.chosen)
        running = asyncio.create_task(manager.run(), name="manager")
        stack.push_async_callback(_stop, manager, running)
        await _first(running, manager.ready)
        hold.describe(
            datadir.Instance(
                pid=os.getpid(), url=url, started=clocks.rfc3339(clock.now()), version=steelyard.__version__
            )
        )
        if not reserve.is_full:
            await asyncio.to_thread(reserve.renew)
        yield Running(url, client, running)


def _check_platform(options: Options, store: Store) -> None:
    """Nobody's machines are replaced because the platform was started in another directory."""
    remembered = settings.recall(options.data_dir.remembered, infrastructures=options.infrastructure_names)
    is_new = remembered is None and not store.revision
    if is_new or (remembered is not None and remembered.platform == options.platform):
        return
    from steelyard.installation import consent

    outcome = consent.foreseen(store, remembered, options.chosen, options.offered)
    if outcome.needs_consent and not options.accepts_platform_change:
        raise CannotStart(consent.refusal(outcome, remembered, options.chosen, options.data_dir))
    for line in outcome.lines:
        options.tell(line)


def _of_claims(manager: Manager, options: Options, owners: Sequence[Owner]) -> Sequence[Controller]:
    offering = defining.left(options.offered, options.platform.domain, owners)
    return parts.of_claims(manager, options.platform, offering)


async def _prepare(manager: Manager, ground: Ground, options: Options, hostings: Sequence[Hosting]) -> list[Started]:
    """What the manager is to run from the beginning; the providers, as they were started."""
    at_end = ground.stack.push_async_callback
    found = parts.controllers(manager, options.runs, at_end, hostings)
    units = [
        await provider.start(dataclasses.replace(ground, folder=ground.folder / provider.name))
        for provider in options.providers
        if provider.name in options.runs
    ]
    for controller in (*found, *(each for unit in units for each in unit.controllers)):
        manager.add(controller)
    return units


def _finish_restore(options: Options) -> None:
    try:
        finished = placing.finish(options.data_dir)
    except placing.Interrupted as error:
        raise CannotStart(str(error)) from None
    placing.clean_up(options.data_dir)
    if finished is not None:
        options.tell(f"a restore that was interrupted has been finished; {finished}")


def _check_nothing_is_lost(options: Options) -> None:
    """Before anything is made: what is made anew in place of something lost hides the loss."""
    try:
        presence.check(options.data_dir, options.worlds)
    except presence.Lost as error:
        raise CannotStart(str(error)) from None


def _identity(options: Options, now: datetime.datetime) -> Identity:
    data_dir = options.data_dir
    has_kubeconfig = data_dir.kubeconfig.exists()
    try:
        authority = credentials.authority(data_dir, now=now)
        key = credentials.service_account_key(data_dir)
        token = credentials.administrator_token(data_dir)
    except credentials.Unusable as error:
        raise CannotStart(str(error)) from None
    if not has_kubeconfig and data_dir.remembered.exists():
        options.tell(
            f"{data_dir.kubeconfig} was missing: the administrator gets a new token, and copies of the old file no "
            "longer work"
        )
    return Identity(authority, key, token)


async def _databases(stack: contextlib.AsyncExitStack, options: Options) -> tuple[Sealer, Store, Mapping[Path, Store]]:
    """What encrypts the databases, the platform's, and those of the providers. New keys are kept only if nothing needs
    older ones.
    """
    path = options.data_dir.encryption_keys
    try:
        known = encryption.load(path)
    except encryption.BadKeys as error:
        raise CannotStart(str(error)) from error
    keys = known or [encryption.new_key()]
    sealer = encryption.sealer(keys)
    store = await _open(stack, options, options.data_dir.database, sealer)
    worlds = {each: await _open(stack, options, each, sealer) for each in options.worlds}
    if not known:
        encryption.save(path, keys)
    return sealer, store, worlds


async def _open(stack: contextlib.AsyncExitStack, options: Options, path: Path, sealer: Sealer) -> Store:
    try:
        store = await opening.opened(
            options.data_dir,
            path,
            sealer,
            open_store=options.open_store,
            stands_for=options.worlds.get(path, ""),
        )
    except opening.CannotOpen as error:
        raise CannotStart(str(error)) from error
    stack.push_async_callback(store.close)
    return store


async def _listen(
    stack: contextlib.AsyncExitStack,
    api: Api,
    options: Options,
    identity: Identity,
    reserve: Reserve,
    commons: Commons,
    checks: Mapping[str, Check],
    operations: Operations,
    renewals: Renewals,
) -> str:
    """Serves the platform's API and writes the administrator's kubeconfig; the URL."""
    now = options.clock.now()
    advertised_host = hostings.advertised(options.host)
    authority, token = identity.authority, identity.token
    hosts = ["localhost", "127.0.0.1", "kubernetes.default.svc", advertised_host]
    certificate = credentials.serving(options.data_dir, authority, hosts, now=now)
    api.access.know(authn.TokensAndCertificates(credentials.users(token)))
    api.access.signer = accounttokens.Signer(lambda: identity.service_account_key)
    try:
        listener = await http.listen(
            api,
            options.host,
            options.port,
            tls=tls.ServingTls(certificate, client_authority=authority.certificate),
            authenticator=api.access,
            authorizer=api.access.rbac,
            checks=checks,
            operations=operations,
            audit=_audit_log(stack, options, reserve),
            commons=commons,
        )
    except OSError as error:
        raise CannotStart(_cannot_serve(options, error)) from error
    stack.push_async_callback(listener.close)

    def renew(now: datetime.datetime) -> bytes:
        made = credentials.serving(options.data_dir, authority, hosts, now=now)
        listener.present(made)
        return made.certificate

    renewals.add("platform", certificate.certificate, renew)
    url = f"https://{advertised_host}:{listener.port}"
    api.access.address = url
    # On a full disk its record stays behind; who asks for it makes it follow when there is space.
    with contextlib.suppress(errors.ServiceUnavailable):
        await api.own_service.publish(advertised_host, listener.port)
    credentials.write_kubeconfig(options.data_dir, url, authority.certificate, token)
    return url


def _cannot_serve(options: Options, error: OSError) -> str:
    advice = "Choose another with --host or --port; --port 0 takes any free one."
    if isinstance(error, ssl.SSLError):
        # The files have been read and checked by now.
        return f"no connection can be secured with the certificates in {options.data_dir.pki}: {error}"
    if error.errno == errno.EACCES:
        advice = "Ports below 1024 are for the superuser. Choose another with --port; --port 0 takes any free one."
    elif error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        advice = "It is no address of this machine. Choose another with --host."
    return f"cannot serve on {options.host}:{options.port}: {error.strerror or error}. {advice}"


def _audit_log(stack: contextlib.AsyncExitStack, options: Options, reserve: Reserve) -> AuditLog | None:
    wanted = options.platform.audit
    if not wanted.enabled:
        return None
    log = AuditLog(
        options.data_dir.audit_log,
        max_bytes=wanted.max_megabytes * 1_000_000,
        keep=wanted.keep,
        is_full=lambda: reserve.is_full,
    )
    stack.push_async_callback(log.close)
    return log


async def _first(task: asyncio.Task[None], event: asyncio.Event) -> None:
    """Until the event is set; a task that fails before that raises its error here."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        task.result()


async def _stop(manager: Manager, running: asyncio.Task[None]) -> None:
    manager.stop()
    await running
