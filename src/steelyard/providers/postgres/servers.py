"""The way to each PostgreSQL server: by the name of a ProviderConfig to a connection, or to where the server is.

    async with servers.connect("postgres-provider", "shop") as connection:
        await connection.execute("SELECT 1")
    place = await servers.place("postgres-provider")    # for pg_dump: place.environment("shop")

A ProviderConfig is provider-sql's: it names a Secret with username, password, endpoint and port. What the platform file
adds to that (authority, client certificate) is added here; a server that the platform runs itself is started by the
first who asks. All errors are `problems`. Sessions are few: each server has a bound, over all databases, and who waits
for too long is told.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import re
import select
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from steelyard.api.crossplane import PROVIDER_CONFIGS
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.providers.postgres import problems
from steelyard.providers.postgres.problems import Away, Busy, Invalid, Missing, Problem

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import TupleRow

    Connection: TypeAlias = AsyncConnection[TupleRow]
else:
    Connection = Any

APPLICATION: Final = "steelyard"
LOOPBACK: Final = "127.0.0.1"
SESSIONS: Final = 8
"""At once on one server, over all its databases."""
_WAIT: Final = 60.0
_CONNECT_SECONDS: Final = 10
_STATEMENT_SECONDS: Final = 60.0
_LOCK_SECONDS: Final = 10.0
_IDLE_KEPT: Final = 2
_IDLE_SECONDS: Final = 120.0
_DEFAULT_DATABASE: Final = "postgres"
_SSL_MODES: Final = frozenset(("disable", "allow", "prefer", "require", "verify-ca", "verify-full"))

Connect: TypeAlias = Callable[[Mapping[str, Any]], "Awaitable[Connection]"]


@frozen
class Place:
    """Where a server is and as whom the platform comes to it."""

    host: str
    """A name, an address, or the folder of a Unix socket."""
    port: int
    username: str
    password: str
    ssl_mode: str
    endpoint: str
    """The server as applications reach it: what Secrets say."""
    endpoint_port: int
    database: str = _DEFAULT_DATABASE
    """The one to connect to where no other is meant."""
    authority: str = ""
    client_certificate: str = ""
    client_key: str = ""
    """Paths; empty where there are none."""
    endpoint_ssl_mode: str = ""
    """What applications must ask of TLS, where that is known: `disable` on a server that has none."""

    def parameters(self, database: str = "") -> dict[str, str]:
        """As libpq calls them."""
        found = {
            "host": self.host,
            "port": str(self.port),
            "user": self.username,
            "password": self.password,
            "dbname": database or self.database,
            "sslmode": self.ssl_mode,
            "sslrootcert": self.authority,
            "sslcert": self.client_certificate,
            "sslkey": self.client_key,
        }
        return {key: value for key, value in found.items() if value}

    def environment(self, database: str = "") -> dict[str, str]:
        """For pg_dump and its like: no password in their arguments, and none asked for."""
        names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
        tls = {key: f"PG{key.upper()}" for key in ("sslmode", "sslrootcert", "sslcert", "sslkey")}
        named = {(names | tls)[key]: value for key, value in self.parameters(database).items()}
        return {**named, "PGAPPNAME": APPLICATION, "PGCONNECT_TIMEOUT": str(_CONNECT_SECONDS)}


class Instance(Protocol):
    """A server that the platform runs itself."""

    async def ensure(self) -> None:
        """Returns once it answers; starts it where it does not run. Raises a `Problem` where it cannot."""
        ...

    @property
    def admin_host(self) -> str:
        """The folder of its socket, or loopback."""
        ...

    @property
    def has_tls(self) -> bool: ...

    @property
    def programs(self) -> Path | None: ...

    @property
    def port(self) -> int: ...

    @property
    def username(self) -> str: ...

    def password(self) -> str: ...


@frozen
class Known:
    """What the platform file adds to a ProviderConfig."""

    instance: Instance | None = None
    authority: str = ""
    client_certificate: str = ""
    client_key: str = ""
    ssl_mode: str = ""
    endpoint: str = ""
    endpoint_port: int = 0
    find_programs: Callable[[], Path | None] = lambda: None
    """For a server that is there already: programs of this machine that can deal with it."""


async def connect(parameters: Mapping[str, Any]) -> Connection:
    psycopg = await _driver()
    return await psycopg.AsyncConnection.connect(**parameters)


async def _nothing(_: str) -> None:
    pass


async def _driver() -> Any:
    """Loaded in a thread, and only once somebody connects."""

    def load() -> Any:
        import psycopg

        return psycopg

    return await asyncio.to_thread(load)


class Servers:
    def __init__(self, client: Client, known: Mapping[str, Known], *, connect: Connect = connect) -> None:
        """`known` by the name of the ProviderConfig. `connect` is for tests, which watch or break connections."""
        self._client = client
        self._known = known
        self._connect = connect
        self._pools: dict[str, _Pool] = {}
        self._announced: set[str] = set()
        self.versions: dict[str, str] = {}
        """Of the servers that have answered, by ProviderConfig: as in 15.18."""
        self.announce: Callable[[str], Awaitable[None]] = _nothing
        """Called with the ProviderConfig of a server of ours when it first runs: others find it by that."""

    def connect(
        self,
        provider_config: str,
        database: str = "",
        *,
        statement_seconds: float = _STATEMENT_SECONDS,
        lock_seconds: float = _LOCK_SECONDS,
    ) -> AbstractAsyncContextManager[Connection]:
        """A session of the administrator's, in autocommit. Zero seconds are no limit.

        Leave no setting behind: a session with the usual limits on the usual database is used again.
        """
        return self._session(provider_config, database, statement_seconds, lock_seconds)

    @contextlib.asynccontextmanager
    async def _session(
        self, provider_config: str, database: str, statement_seconds: float, lock_seconds: float
    ) -> AsyncGenerator[Connection]:
        place = await self.place(provider_config)
        parameters: dict[str, Any] = {
            **place.parameters(database),
            "autocommit": True,
            "application_name": APPLICATION,
            "connect_timeout": _CONNECT_SECONDS,
            "options": (
                f"-c statement_timeout={int(statement_seconds * 1000)} -c lock_timeout={int(lock_seconds * 1000)} "
                "-c idle_in_transaction_session_timeout=300000 -c client_min_messages=error"
            ),
            "keepalives_idle": 30,
        }
        is_usual = not database or database == place.database
        is_kept = is_usual and (statement_seconds, lock_seconds) == (_STATEMENT_SECONDS, _LOCK_SECONDS)
        pool = self._pools.setdefault(provider_config, _Pool(self._connect))
        async with pool.session(parameters, is_kept=is_kept) as connection:
            self.versions[provider_config] = str(connection.info.parameter_status("server_version") or "")
            yield connection

    async def place(self, provider_config: str) -> Place:
        """Where the server is. One that the platform runs itself is started for that."""
        known = self._known.get(provider_config, Known())
        if known.instance is not None:
            return await self._own(provider_config, known, known.instance)
        config = await self._get_config(provider_config)
        reference = objects.mapping(objects.at(config, "spec", "credentials", "connectionSecretRef"))
        mapping = objects.mapping(objects.at(config, "spec", "credentials", "secretKeyMapping"))
        namespace, name = str(reference.get("namespace") or ""), str(reference.get("name") or "")
        if not namespace or not name:
            raise Invalid(f"ProviderConfig {provider_config} refers to no Secret: spec.credentials.connectionSecretRef")
        data = await self._read_secret(namespace, name)
        values = {
            key: data.get(str(mapping.get(key) or key), "") for key in ("endpoint", "port", "username", "password")
        }
        missing = [key for key in ("endpoint", "port", "username") if not values[key]]
        if missing or not re.fullmatch(r"[0-9]{1,5}", values["port"]):
            lacks = ", ".join(missing or ["a port that is a number"])
            raise Invalid(f"Secret {namespace}/{name} of ProviderConfig {provider_config} lacks {lacks}")
        return _place(config, values, known)

    async def _own(self, provider_config: str, known: Known, instance: Instance) -> Place:
        await instance.ensure()
        if provider_config not in self._announced:
            await self.announce(provider_config)
            self._announced.add(provider_config)
        return Place(
            host=instance.admin_host,
            port=instance.port,
            username=instance.username,
            password=instance.password(),
            ssl_mode="disable",
            endpoint=known.endpoint or LOOPBACK,
            endpoint_port=known.endpoint_port or instance.port,
            endpoint_ssl_mode="" if instance.has_tls else "disable",
        )

    def programs(self, provider_config: str) -> Path | None:
        """The folder with pg_dump, pg_restore and psql that suit the server; None where there is none."""
        known = self._known.get(provider_config, Known())
        return known.instance.programs if known.instance is not None else known.find_programs()

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.close()

    async def _get_config(self, name: str) -> Object:
        try:
            return await self._client.get(PROVIDER_CONFIGS, name)
        except errors.NotFound:
            raise Missing(f"there is no ProviderConfig {name} in {PROVIDER_CONFIGS.group}") from None

    async def _read_secret(self, namespace: str, name: str) -> dict[str, str]:
        try:
            secret = await self._client.get(SECRETS, name, namespace)
        except errors.NotFound:
            raise Missing(f"there is no Secret {namespace}/{name} with the server's credentials") from None
        return decoded(secret)


def decoded(secret: Object) -> dict[str, str]:
    """What is in a Secret, as text; values that are none are left out."""
    found: dict[str, str] = {}
    for key, value in objects.mapping(secret.get("data")).items():
        with contextlib.suppress(binascii.Error, UnicodeDecodeError):
            found[key] = base64.b64decode(str(value), validate=True).decode()
    return found


def _place(config: Object, values: Mapping[str, str], known: Known) -> Place:
    asked = str(objects.at(config, "spec", "sslMode") or "verify-full")
    mode = known.ssl_mode or asked
    if mode not in _SSL_MODES:
        raise Invalid(f"ProviderConfig {objects.name(config)}: sslMode {mode!r} is not known")
    endpoint, port = values["endpoint"], int(values["port"])
    authority = known.authority
    if mode in ("verify-ca", "verify-full") and not authority:
        # As provider-sql does it: the authorities of the system.
        authority = "system" if mode == "verify-full" else ""
    return Place(
        host=endpoint,
        port=port,
        username=values["username"],
        password=values["password"],
        ssl_mode=mode,
        endpoint=known.endpoint or endpoint,
        endpoint_port=known.endpoint_port or port,
        database=str(objects.at(config, "spec", "defaultDatabase") or _DEFAULT_DATABASE),
        authority=authority,
        client_certificate=known.client_certificate,
        client_key=known.client_key,
    )


class _Pool:
    """The sessions on one server: bounded, and a few of the usual ones kept for whoever comes next."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._room = asyncio.Semaphore(SESSIONS)
        self._idle: list[tuple[Mapping[str, Any], Connection, float]] = []

    @contextlib.asynccontextmanager
    async def session(self, parameters: Mapping[str, Any], *, is_kept: bool) -> AsyncGenerator[Connection]:
        try:
            async with asyncio.timeout(_WAIT):
                await self._room.acquire()
        except TimeoutError:
            raise Busy(f"all {SESSIONS} sessions that the platform has on the server have been in use") from None
        connection: Connection | None = None
        try:
            connection = self._take(parameters) if is_kept else None
            connection = connection or await self._open(parameters)
            with told():
                yield connection
        except BaseException:
            if connection is not None:
                await _end(connection)
            raise
        else:
            if is_kept and len(self._idle) < _IDLE_KEPT and _is_clean(connection):
                self._idle.append((parameters, connection, asyncio.get_running_loop().time()))
            else:
                await _end(connection)
        finally:
            self._room.release()

    def _take(self, parameters: Mapping[str, Any]) -> Connection | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            made_with, connection, since = self._idle.pop()
            if (
                made_with == parameters
                and now - since < _IDLE_SECONDS
                and _is_clean(connection)
                and _is_quiet(connection)
            ):
                return connection
            connection.pgconn.finish()
        return None

    async def _open(self, parameters: Mapping[str, Any]) -> Connection:
        try:
            with told():
                async with asyncio.timeout(2 * _CONNECT_SECONDS):
                    return await self._connect(parameters)
        except TimeoutError:
            raise Away(f"the server does not answer: {parameters['host']}, port {parameters['port']}") from None

    async def close(self) -> None:
        while self._idle:
            await _end(self._idle.pop()[1])


@contextlib.contextmanager
def told() -> Generator[None]:
    """Turns the driver's errors into problems."""
    try:
        yield
    except Problem:
        raise
    except Exception as error:
        import psycopg

        if isinstance(error, psycopg.Error):
            raise problems.of(error) from error
        raise


def _is_clean(connection: Connection) -> bool:
    from psycopg.pq import TransactionStatus

    return not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE


def _is_quiet(connection: Connection) -> bool:
    """Whether nothing has arrived since it was last used: what does is the server's farewell."""
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    return not poller.poll(0)


async def _end(connection: Connection) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(5):
            await connection.close()
