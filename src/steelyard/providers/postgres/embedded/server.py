"""Keeps a server of the platform's own running, from the first who needs it until the platform ends.

    not needed yet -> starting -> running -> (it ended) starting after a pause -> ... -> stopped with the platform

What a killed platform left is found again: a server that runs is adopted, one that died recovers by itself when it is
started. Nothing that was there is ever made anew: databases whose folder is gone, or that another version made, are
told of, and no empty server takes their place.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import shutil
import subprocess
from pathlib import Path
from typing import Final, Literal

from steelyard import durable
from steelyard.kube import pki
from steelyard.kube.pki import KeyPair
from steelyard.kube.runtime import logs
from steelyard.kube.runtime.clock import Clock
from steelyard.providers.postgres.embedded import account as accounts
from steelyard.providers.postgres.embedded import configuration, layout, postmaster, programs
from steelyard.providers.postgres.embedded.account import Account
from steelyard.providers.postgres.embedded.layout import Record
from steelyard.providers.postgres.embedded.postmaster import Postmaster
from steelyard.providers.postgres.embedded.programs import Programs
from steelyard.providers.postgres.problems import Away, Broken, Full, Problem
from steelyard.providers.toolkit.provider import Service
from steelyard.settings.postgresservers import Embedded

_START_DEADLINE: Final = 60.0
"""For whoever waits; a server that recovers for longer goes on."""
_RECOVERY_DEADLINE: Final = 3600.0
_INITDB_DEADLINE: Final = 120.0
_POLL: Final = 0.05
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
_STEADY: Final = 60.0
"""Seconds after which a server counts as well again."""
_RENEWED_BEFORE: Final = datetime.timedelta(days=120)
_TOLD_BYTES: Final = 1500

_log = logs.get(__name__)


class EmbeddedServer:
    """One server; `name` is that of its ProviderConfig."""

    def __init__(self, name: str, settings: Embedded, folder: Path, data_dir: Path, clock: Clock) -> None:
        self.name = name
        self._settings = settings
        self._folder = folder
        self._data_dir = data_dir
        self._clock = clock
        self._record: Record | None = None
        self._programs: Programs | None = None
        self._account: Account | None = None
        self._postmaster: Postmaster | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._how: Literal["running", "not needed yet", "starting", "down"] = "not needed yet"
        self._problem: Problem | None = None
        self._has_tls = False

    @property
    def admin_host(self) -> str:
        return self._known().admin_host

    @property
    def port(self) -> int:
        return self._known().port

    @property
    def is_known(self) -> bool:
        """Whether it has run since the platform was started, or is running: then it has a port."""
        return self._record is not None

    @property
    def username(self) -> str:
        return layout.ADMINISTRATOR

    @property
    def has_tls(self) -> bool:
        return self._has_tls

    @property
    def programs(self) -> Path | None:
        return self._programs.folder if self._programs is not None else None

    @property
    def pid(self) -> int | None:
        return self._postmaster.pid if self._postmaster is not None else None

    @property
    def authority(self) -> bytes:
        """Of its certificate."""
        return (self._folder / "pki" / "ca.crt").read_bytes() if self._has_tls else b""

    def password(self) -> str:
        return layout.password(self._folder)

    async def version(self) -> str:
        """That of its programs; empty where there are none that suit."""
        if self._programs is None:
            with contextlib.suppress(Problem):
                record = layout.recorded(self._folder)
                major = record.major if record is not None and record.is_made else None
                return (await asyncio.to_thread(programs.choose, self._settings.binaries, major)).version
            return ""
        return self._programs.version

    def service(self) -> Service:
        """For `steelyard status` and `doctor`."""
        name = f"PostgreSQL ({self.name})"
        if self._how == "running" and self._record is not None and self._programs is not None:
            where = f"127.0.0.1:{self._record.port}, data in {self._record.directory}"
            return Service(name, "running", f"{self._programs.version} ({self._programs.origin}) at {where}")
        text = "the first database starts it" if self._how == "not needed yet" else str(self._problem or "")
        return Service(name, self._how, text)

    def check(self) -> str | None:
        """For `/readyz`: what is wrong with a server that somebody needs."""
        return f"PostgreSQL ({self.name}) is down: {self._problem}" if self._how == "down" else None

    async def ensure(self) -> None:
        """Returns once sessions are let in. Raises a `Problem` where they are not before long."""
        if self._is_running():
            return
        if self._keeping is None:
            self._how = "starting"
            self._keeping = asyncio.create_task(self._keep(), name=f"postgres-{self.name}")
        try:
            async with asyncio.timeout(_START_DEADLINE):
                while not self._is_running():
                    if self._how == "down" and self._problem is not None:
                        raise self._problem
                    await self._changed.wait()
        except TimeoutError:
            raise Away(f"the server ({self.name}) is still starting; it may be recovering after a crash") from None

    async def stop(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping
            self._keeping = None
        if self._postmaster is not None:
            await self._postmaster.stop()
            self._postmaster = None

    def _is_running(self) -> bool:
        return self._how == "running" and self._postmaster is not None and not self._postmaster.has_ended

    def _known(self) -> Record:
        if self._record is None:
            raise Away(f"the server ({self.name}) has not been started yet")
        return self._record

    def _tell(self, how: Literal["running", "starting", "down"], problem: Problem | None = None) -> None:
        self._how, self._problem = how, problem
        self._changed.set()
        self._changed = asyncio.Event()

    async def _keep(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            began = self._clock.monotonic()
            try:
                self._postmaster = await self._up()
                await self._let_in(self._postmaster)
                self._tell("running")
                _log.info("PostgreSQL runs", server=self.name, pid=self._postmaster.pid, port=self.port)
                await self._postmaster.wait()
                problem: Problem = Away(f"the server ({self.name}) ended; it is being started again")
            except Problem as error:
                problem = error
            except OSError as error:
                problem = Broken(f"the server ({self.name}) cannot be started: {error}")
            if self._clock.monotonic() - began > _STEADY:
                pause = _FIRST_PAUSE
            _log.error("PostgreSQL is down", server=self.name, problem=str(problem), retry_in=f"{pause:g}s")
            self._tell("down", problem)
            await self._clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            self._tell("starting", problem)

    async def _up(self) -> Postmaster:
        """A process for this server: the one that runs, else a new one."""
        record, found = await asyncio.to_thread(self._decide)
        self._record, self._programs = record, found
        account = self._account = self._account or await asyncio.to_thread(accounts.account)
        if not record.is_made:
            await asyncio.to_thread(self._make, record, found, account)
            record = self._record = layout.made(self._folder, record)
        is_changed = await asyncio.to_thread(self._configure, record, found, account)
        running = postmaster.find(record.data)
        if running is not None and not is_changed:
            _log.info("PostgreSQL that was running is adopted", server=self.name, pid=running.pid)
            return running
        if running is not None:
            await running.stop()
        postmaster.forget_stale(record.data)
        return postmaster.start(
            self._runnable(found, account).folder / "postgres", record.data, account, record.startup_log
        )

    def _decide(self) -> tuple[Record, Programs]:
        record = layout.recorded(self._folder)
        if record is not None and record.is_made and not (record.data / "PG_VERSION").exists():
            raise Broken(
                f"the databases of the server ({self.name}) are gone: {record.data} is empty or not there. Bring it "
                f"back from a backup or mount it. To begin anew without them, delete {self._folder / 'server.json'}"
            )
        if record is not None and record.is_made:
            major = int((record.data / "PG_VERSION").read_text().strip())
            return record, programs.choose(self._settings.binaries, major)
        found = programs.choose(self._settings.binaries, None)
        if record is None:
            account = self._account = accounts.account()
            directory = layout.directory(self._settings.directory, self._folder, self._data_dir, account)
            record = Record(directory, self._settings.port or layout.free_port(), found.major)
        record = Record(record.directory, record.port, found.major)
        layout.record(self._folder, record)
        return record, found

    def _make(self, record: Record, found: Programs, account: Account) -> None:
        """The first time: an empty cluster of databases. Made aside and moved into place whole."""
        layout.prepare(record, account)
        if (record.data / "PG_VERSION").exists():
            return
        unfinished = record.directory / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        secret = record.directory / "password.new"
        secret.unlink(missing_ok=True)
        durable.write(secret, self.password().encode())
        account.give(secret, 0o600)
        command = [
            str(self._runnable(found, account).folder / "initdb"),
            *("-D", str(unfinished), "-U", layout.ADMINISTRATOR, "--pwfile", str(secret), "-E", "UTF8"),
            *("--locale=C.UTF-8", "--auth-local=scram-sha-256", "--auth-host=scram-sha-256"),
        ]
        try:
            done = subprocess.run(  # noqa: S603 (a program that was looked for)
                command,
                capture_output=True,
                text=True,
                timeout=_INITDB_DEADLINE,
                cwd="/",
                env=postmaster.environment(),
                check=False,
                **account.starting(),
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Broken(f"{' '.join(command)}: {error}") from error
        finally:
            secret.unlink(missing_ok=True)
        if done.returncode:
            raise _failure(f"initdb ended with exit code {done.returncode}", done.stdout + done.stderr, record)
        unfinished.rename(record.data)

    def _configure(self, record: Record, found: Programs, account: Account) -> bool:
        """Writes the server's files where they differ; whether a server that runs has older ones."""
        layout.prepare(record, account)
        self._has_tls = self._can_tls(found, account, record)
        if self._settings.listen is not None and not self._has_tls:
            raise Broken(
                f"postgresql.embedded.listen needs TLS, and PostgreSQL {found.version} ({found.origin}) has none. "
                "Install this machine's package postgresql"
            )
        wanted = {
            record.data / "postgresql.conf": configuration.server_conf(self._settings, record, tls=self._has_tls),
            record.data / "pg_hba.conf": configuration.access(self._settings, tls=self._has_tls),
        }
        is_changed = self._has_tls and self._certify(record, account)
        for path, text in wanted.items():
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
                account.give(path, 0o600)
                is_changed = True
        return is_changed

    def _can_tls(self, found: Programs, account: Account, record: Record) -> bool:
        command = [str(self._runnable(found, account).folder / "postgres"), "-D", str(record.data)]
        try:
            done = subprocess.run(  # noqa: S603 (a program that was looked for)
                [*command, "-C", "ssl", "-c", "ssl=on"],
                capture_output=True,
                text=True,
                timeout=_INITDB_DEADLINE,
                cwd="/",
                env=postmaster.environment(),
                check=False,
                **account.starting(),
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Broken(f"{' '.join(command)}: {error}") from error
        return done.returncode == 0 and done.stdout.strip() == "on"

    def _certify(self, record: Record, account: Account) -> bool:
        """A certificate of an authority of the server's own; a new one when a third of its year is left."""
        now = self._clock.now()
        hosts = configuration.certificate_hosts(self._settings)
        certificate, key = record.tls / "server.crt", record.tls / "server.key"
        if certificate.exists() and key.exists():
            present = certificate.read_bytes()
            if pki.expiry_of(present) - now > _RENEWED_BEFORE and set(hosts) <= set(pki.hosts_of(present)):
                return False
        folder = self._folder / "pki"
        folder.mkdir(exist_ok=True, mode=0o700)
        if not (folder / "ca.key").exists():
            made = pki.new_authority(f"steelyard-{self.name}", now=now)
            durable.write(folder / "ca.crt", made.certificate)
            durable.write(folder / "ca.key", made.key)
        authority = KeyPair((folder / "ca.crt").read_bytes(), (folder / "ca.key").read_bytes())
        issued = pki.issue_serving(authority, "localhost", hosts, now=now)
        for path, content in ((key, issued.key), (certificate, issued.certificate)):
            durable.write(path, content)
            account.give(path, 0o600)
        return True

    def _runnable(self, found: Programs, account: Account) -> Programs:
        if account.may_enter(found.folder) or not found.is_wheel:
            return found
        root = layout.elsewhere()
        root.mkdir(parents=True, exist_ok=True, mode=0o755)
        return programs.reachable_copy(found, root)

    async def _let_in(self, process: Postmaster) -> None:
        """Until it answers, which takes a while after a crash; then what every server of ours has is seen to."""
        record = self._known()
        deadline = self._clock.monotonic() + _RECOVERY_DEADLINE
        while not postmaster.is_ready(record.data, process.pid):
            if process.has_ended:
                told = record.startup_log.read_text(errors="replace") + _last_log(record)
                raise _failure(f"the server ({self.name}) does not start", told, record)
            if self._clock.monotonic() > deadline:
                raise Away(f"the server ({self.name}) has not let anybody in for an hour; see {record.log}")
            await asyncio.sleep(_POLL)
        await self._close_to_tenants()

    async def _close_to_tenants(self) -> None:
        """Databases that are nobody's: no tenant may connect to them and leave something there."""
        from steelyard.providers.postgres.embedded import hardening

        await hardening.close(self.admin_host, self.port, layout.ADMINISTRATOR, self.password())


def _last_log(record: Record) -> str:
    with contextlib.suppress(OSError, ValueError):
        newest = max(record.log.glob("*.log"), key=lambda path: path.stat().st_mtime)
        return newest.read_text(errors="replace")[-_TOLD_BYTES:]
    return ""


def _failure(what: str, told: str, record: Record) -> Problem:
    if "No space left on device" in told:
        return Full(f"{what}: the disk of {record.directory} is full. Make room on it; it starts by itself then")
    if "Address already in use" in told:
        return Away(
            f"{what}: port {record.port} is in use by another program. End that program; the port was given to "
            "applications and stays the same"
        )
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    return Broken(f"{what}: {' / '.join(lines[-4:])[-_TOLD_BYTES:]}")
