"""What `steelyard doctor` looks at. Each check says what it found and, where something is wrong, what to do."""

from __future__ import annotations

import asyncio
import datetime
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from steelyard import settings
from steelyard.cli import claimchecks, kvmchecks, offered, ownerchecks, services
from steelyard.cli.claimchecks import Examined
from steelyard.cli.findings import Finding
from steelyard.cli.hints import Hints
from steelyard.cli.ownerchecks import Owned
from steelyard.cli.reach import Server
from steelyard.cli.services import Service
from steelyard.frozen import frozen
from steelyard.installation.datadir import DataDir
from steelyard.kube import errors, pki
from steelyard.kube.client import kubeconfig as kubeconfigs
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.objects import Object
from steelyard.settings import Chosen, Platform

_DISK_WANTED = 1 << 30
_EXPIRY_WARNING = datetime.timedelta(days=30)
_CERTIFICATES = (
    ("ca.crt", "certificate authority", "make a new data directory, and restore a backup into it"),
    ("server.crt", "serving certificate", "restart the platform, which renews it"),
)
_OLDEST_SQLITE = (3, 35, 0)


def run(where: DataDir, platform_file: Path | None, hints: Hints) -> Iterator[Finding]:
    yield _python()
    yield _sqlite()
    platform: Platform | None = None
    try:
        chosen = settings.choose(platform_file, where.remembered, infrastructures=offered.infrastructure_names())
    except settings.SettingsError as error:
        yield Finding("FAIL", "platform file", str(error))
    else:
        platform = chosen.platform
        yield from _platform_file(chosen)
    data_directory = list(_data_directory(where))
    yield from data_directory
    if not any(finding.is_failure and finding.subject == "data directory" for finding in data_directory):
        yield from _platform(where, hints)
    yield _kubectl()
    if platform is not None:
        yield from kvmchecks.findings(platform)


def _python() -> Finding:
    return Finding("ok", "python", f"{sys.version.split()[0]} at {sys.executable}")


def _sqlite() -> Finding:
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        return Finding("FAIL", "sqlite", f"{sqlite3.sqlite_version} is too old; use a Python built with 3.35 or later")
    return Finding("ok", "sqlite", sqlite3.sqlite_version)


def _platform_file(chosen: Chosen) -> Iterator[Finding]:
    origin = str(chosen.path) if chosen.path else "none found, built-in defaults"
    if chosen.from_memory:
        origin += " (of the last start)"
    platform = chosen.platform
    yield Finding("ok", "platform file", f"{origin}; domain {platform.domain}, {platform.infrastructure} machines")
    yield from ended_versions(platform, datetime.datetime.now(datetime.UTC).date())
    yield from unnamed_servers(platform)


def ended_versions(platform: Platform, today: datetime.date) -> Iterator[Finding]:
    """Environments whose version gets no more fixes. Claims that name none have it, and nobody else is told."""
    having: dict[str, list[str]] = {}
    for name, environment in platform.environments.items():
        found = platform.versions.find(platform.infrastructure, environment.kubernetes_version)
        is_over = found is not None and found.end_of_life is not None and found.end_of_life < today.isoformat()
        if found is not None and (is_over or found.state == "ended"):
            since = f" since {found.end_of_life}" if is_over else ""
            having.setdefault(f"Kubernetes {environment.kubernetes_version} gets no more fixes{since}", []).append(name)
    for what, names in having.items():
        yield Finding(
            "note",
            "kubernetes versions",
            f"{what}; it is the version of {', '.join(names)}. Set kubernetesVersion of these environments to a newer "
            "one, one minor version at a time: clusters that name none follow",
        )


def unnamed_servers(platform: Platform) -> Iterator[Finding]:
    """PostgreSQL servers that other machines reach, under a name that only this machine understands."""
    postgresql = platform.postgresql
    for server in (postgresql, *postgresql.servers):
        listen = server.embedded.listen
        if server.dsn is None and listen is not None and server.host is None:
            yield Finding(
                "note",
                "databases",
                f"the server {server.provider_config} listens at {listen.address} for other machines, but connection "
                "Secrets name loopback, which leads nowhere from there. Set host beside its embedded in the platform "
                "file to a name or address at which they reach this machine",
            )


def _data_directory(where: DataDir) -> Iterator[Finding]:
    existing = next(path for path in (where.root, *where.root.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        yield Finding(
            "FAIL", "data directory", f"{existing} is not a writable directory; choose another with --data-dir"
        )
        return
    free = shutil.disk_usage(existing).free
    text = f"{where.root}, {free / (1 << 30):.1f} GiB free"
    if free < _DISK_WANTED:
        yield Finding("FAIL", "data directory", f"{text}: make room, writes fail when the disk is full")
    else:
        yield Finding("ok", "data directory", text)
    if where.kubeconfig.exists():
        mode = stat.S_IMODE(where.kubeconfig.stat().st_mode)
        if mode & 0o077:
            yield Finding("FAIL", "kubeconfig", f"mode {mode:o} lets others read it; run: chmod 600 {where.kubeconfig}")
    for name, subject, remedy in _CERTIFICATES:
        certificate = where.pki / name
        if certificate.exists():
            yield _expiry(certificate, subject, remedy)


def _expiry(certificate: Path, subject: str, remedy: str) -> Finding:
    try:
        expires = pki.expiry_of(certificate.read_bytes())
    except (OSError, ValueError) as error:
        return Finding("FAIL", subject, f"{certificate} cannot be read: {error}")
    now = datetime.datetime.now(datetime.UTC)
    if expires - now < _EXPIRY_WARNING:
        ends = "expired" if expires < now else "expires"
        return Finding("FAIL", subject, f"{ends} {expires:%Y-%m-%d}; clients refuse it from then on: {remedy}")
    return Finding("ok", subject, f"valid until {expires:%Y-%m-%d}")


def _platform(where: DataDir, hints: Hints) -> Iterator[Finding]:
    instance = where.running()
    if instance is None:
        yield Finding("note", "platform", f"not running; start it with: {hints.steelyard('up')}")
        return
    if not instance.url:
        yield Finding("note", "platform", f"process {instance.pid} is starting")
        return
    remembered = settings.recall(where.remembered, infrastructures=offered.infrastructure_names())
    domain = remembered.platform.domain if remembered is not None and remembered.platform is not None else ""
    try:
        seen = asyncio.run(_ask(kubeconfigs.load(where.kubeconfig).resolve(), domain))
    except errors.ApiError as error:
        yield Finding(
            "FAIL",
            "platform",
            f"process {instance.pid} runs, but does not answer at {instance.url}: {error.message}; see "
            f"{where.log_file}, or end it with `{hints.steelyard('down')}` and start it again",
        )
        return
    yield Finding("ok", "platform", f"answers at {instance.url}, process {instance.pid}")
    yield from _told(seen, domain, hints)


def elsewhere(server: Server) -> Iterator[Finding]:
    """A platform that only its API tells of."""
    address = server.connection.server
    try:
        seen = asyncio.run(_ask(server.connection, ""))
    except errors.ApiError as error:
        yield Finding("FAIL", "platform", f"no good answer from {address} ({server.why}): {error.message}")
        return
    yield Finding("ok", "platform", f"answers at {address} ({server.why})")
    yield from _told(seen, "", server.hints)


@frozen
class _Seen:
    """What an API tells of itself."""

    examined: Examined
    running: Sequence[Service]
    hosts: Sequence[Object]
    owned: Sequence[Owned]


def _told(seen: _Seen, domain: str, hints: Hints) -> Iterator[Finding]:
    yield from services.findings(seen.running)
    yield from kvmchecks.of_hosts(seen.hosts)
    yield from ownerchecks.findings(seen.owned)
    yield from claimchecks.findings(seen.examined, domain, datetime.datetime.now(datetime.UTC), hints)


async def _ask(connection: Connection, domain: str) -> _Seen:
    from steelyard.kube.client.http import HttpClient  # here, as `up` does without it

    client = HttpClient(connection)
    try:
        await client.request("GET", "/version")
        return _Seen(
            await claimchecks.gather(client, domain),
            await services.gather(client),
            await kvmchecks.gather(client),
            await ownerchecks.gather(client),
        )
    finally:
        await client.close()


def _kubectl() -> Finding:
    path = shutil.which("kubectl")
    if path is None:
        return Finding("note", "kubectl", "not on the PATH; `steelyard get` and `describe` work without it")
    answer = subprocess.run(  # noqa: S603 - the user's own kubectl
        [path, "version", "--client"], capture_output=True, text=True, timeout=10, check=False
    )
    return Finding("ok", "kubectl", f"{path}, {answer.stdout.splitlines()[0] if answer.stdout else 'version unknown'}")
