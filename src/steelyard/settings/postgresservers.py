"""PostgreSQL servers: one that the platform runs itself, or one that is there already and reached by a DSN."""

import ipaddress
from typing import Annotated, Final, Literal, Protocol, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import AfterValidator, Field, model_validator

from steelyard.frozen import frozen
from steelyard.settings.base import SettingsModel
from steelyard.settings.networks import Network

_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN: Final = rf"^{_LABEL}(\.{_LABEL})*$"
_PORT: Final = 5432

NamespaceName = Annotated[str, Field(pattern=rf"^{_LABEL}$")]
ObjectName = Annotated[str, Field(pattern=_SUBDOMAIN, max_length=253)]
HostName = Annotated[str, Field(pattern=_SUBDOMAIN, max_length=253)]
Port = Annotated[int, Field(ge=1, le=65535)]
AbsolutePath = Annotated[str, Field(pattern=r"^/[^\x00\n]*$", max_length=4000)]
RoleName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_$-]*$", max_length=63)]
Memory = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,6}(kB|MB|GB)$")]
SslMode = Literal["disable", "prefer", "require", "verify-ca", "verify-full"]
_SSL_MODES: Final = ("disable", "require", "verify-ca", "verify-full")


@frozen
class Address:
    """What a DSN says."""

    host: str
    port: int
    username: str
    database: str
    ssl_mode: str


def address_of(dsn: str) -> Address:
    """Raises `ValueError`, with what is wrong, for one that cannot be meant."""
    parts = urlsplit(dsn)
    if parts.scheme not in ("postgresql", "postgres"):
        raise ValueError("must begin with postgresql://")
    if parts.password is not None:
        raise ValueError("has a password in it; put that into a file or a Secret and name it in password")
    if not parts.hostname or not parts.username:
        raise ValueError("must name a user and a host, as in postgresql://admin@db.example.com:5432/postgres")
    options = dict(parse_qsl(parts.query))
    unknown = sorted(options.keys() - {"sslmode"})
    if unknown:
        raise ValueError(f"says {', '.join(unknown)}; only sslmode is known here")
    mode = options.get("sslmode", "verify-full")
    if mode not in _SSL_MODES:
        raise ValueError(f"sslmode must be one of {', '.join(_SSL_MODES)}")
    return Address(
        parts.hostname, parts.port or _PORT, unquote(parts.username), parts.path.strip("/") or "postgres", mode
    )


def _dsn(value: str) -> str:
    address_of(value)
    return value


def _listening(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError as error:
        raise ValueError(f"must be an IP address of this machine, or 0.0.0.0 for all: {error}") from error


class SecretKey(SettingsModel):
    namespace: NamespaceName
    name: ObjectName
    key: Annotated[str, Field(min_length=1, max_length=253)] = "password"


class Password(SettingsModel):
    """Where a password is: in a Secret of the platform's API, or in a file."""

    secret: SecretKey | None = Field(default=None, description="A Secret: {namespace, name, key}.")
    file: AbsolutePath | None = Field(default=None, description="A file; a line break at its end does not count.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.secret is None) == (self.file is None):
            raise ValueError("must be a secret or a file, and not both")
        return self


class Admission(SettingsModel):
    """Who may come from where."""

    network: Network = Field(description="Addresses of the clients, such as those of a workload cluster's machines.")
    roles: tuple[RoleName | Literal["all"], ...] = Field(
        default=("all",), strict=False, min_length=1, description="Logins that may come from there."
    )


class Listening(SettingsModel):
    """An address besides loopback, with TLS. Needs PostgreSQL programs that can do TLS: the wheel's cannot."""

    address: Annotated[str, AfterValidator(_listening)] = Field(description="Of this machine, such as 192.0.2.10.")
    names: tuple[HostName, ...] = Field(
        default=(), strict=False, description="Further names that the server's certificate is for."
    )
    networks: tuple[Admission, ...] = Field(
        default=(), strict=False, description="Who may come: {network: 10.0.0.0/8, roles: [dev_shop]}. Nobody else may."
    )


class Embedded(SettingsModel):
    """A server of the platform's own, on loopback: started by the first database, stopped with the platform."""

    binaries: AbsolutePath | None = Field(
        default=None,
        description="Folder with initdb and postgres. Unset: the newest that this machine has, else those that came "
        "with Steelyard. A server stays with the major version that it was made with.",
    )
    directory: AbsolutePath | None = Field(
        default=None,
        description="Where its data is. Unset: in the platform's data directory where the server's user may go there, "
        "else in /var/lib/steelyard.",
    )
    port: Port | None = Field(default=None, description="Unset: a free one, chosen once.")
    listen: Listening | None = Field(
        default=None, description="For clients on other machines: an address, and the networks that may come."
    )
    max_connections: Annotated[int, Field(ge=20, le=10_000)] = Field(
        default=300, description="Sessions at once, of all databases together."
    )
    shared_memory: Memory = Field(default="128MB", description="What it keeps of its databases in memory.")


class ServerSettings(SettingsModel):
    """How the platform reaches a server."""

    dsn: Annotated[str, Field(max_length=1000), AfterValidator(_dsn)] | None = Field(
        default=None,
        description="A server that is there already, as postgresql://admin@db.example.com:5432/postgres; the user may "
        "make roles and databases. Without sslmode in it the server's certificate is checked. Unset: the platform runs "
        "a server itself.",
    )
    password: Password | None = Field(
        default=None, description="Of the DSN's user: {file: /path} or {secret: {namespace, name, key}}."
    )
    ca: AbsolutePath | None = Field(
        default=None, description="File with the authorities that the server's certificate is checked against."
    )
    client_certificate: AbsolutePath | None = Field(
        default=None, description="File with the certificate that the platform shows to the server."
    )
    client_key: AbsolutePath | None = Field(default=None, description="File with the key of that certificate.")
    embedded: Embedded = Field(
        default=Embedded.model_construct(), description="The server that the platform runs where dsn is unset."
    )

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.dsn is None and (self.password or self.ca or self.client_certificate or self.client_key):
            raise ValueError("password, ca, clientCertificate and clientKey belong to a dsn, and there is none")
        if (self.client_certificate is None) != (self.client_key is None):
            raise ValueError("clientCertificate and clientKey go together")
        return self

    @property
    def address(self) -> Address | None:
        return address_of(self.dsn) if self.dsn is not None else None


class Reached(Protocol):
    """A server as composition sees it."""

    @property
    def provider_config(self) -> str: ...

    @property
    def host(self) -> str | None: ...

    @property
    def port(self) -> int | None: ...

    @property
    def ssl_mode(self) -> SslMode: ...


class FurtherServer(ServerSettings):
    """A server of its own for some namespaces or environments: what is on another server cannot even see its names."""

    provider_config: ObjectName = Field(description="Crossplane provider-sql's ProviderConfig of the server.")
    host: HostName | None = Field(default=None, description="The server's name as applications reach it.")
    port: Port | None = Field(default=None, description="Its port as applications reach it.")
    ssl_mode: SslMode = Field(default="require", description="What the url in connection Secrets asks of TLS.")
    namespaces: tuple[NamespaceName, ...] = Field(
        default=(), strict=False, description="Claims in these have their databases there."
    )
    environments: tuple[Annotated[str, Field(min_length=1, max_length=63)], ...] = Field(
        default=(), strict=False, description="Claims for these have their databases there, unless a namespace decides."
    )
