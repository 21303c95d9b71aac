"""Databases and caches: which server they are on, who makes them there, and what a size means."""

from typing import Annotated, Any, Final, Literal, Self, cast

from pydantic import Field, field_validator, model_validator

from steelyard.api.dataservices import (
    DEFAULT_MEMORY_GB,
    DEFAULT_REPLICAS,
    DEFAULT_SIZE,
    DEFAULT_STORAGE_GB,
    ExternalName,
    MemoryGB,
    Replicas,
    SizeName,
    StorageGB,
)
from steelyard.settings.base import SettingsModel
from steelyard.settings.databases import DatabaseTerms
from steelyard.settings.postgresservers import FurtherServer, Reached, ServerSettings

_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN: Final = rf"^{_LABEL}(\.{_LABEL})*$"

NamespaceName = Annotated[str, Field(pattern=rf"^{_LABEL}$")]
ObjectName = Annotated[str, Field(pattern=_SUBDOMAIN, max_length=253)]
Duration = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,6}(ms|s|min|h|d))$")]
Memory = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,6}(kB|MB|GB)$")]
VaultMount = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,63}$")]


class Size(SettingsModel):
    """What one size of a database means. The number of connections is a limit; the rest are defaults of each session,
    which the application may change with SET."""

    connections: Annotated[int, Field(ge=1, le=10_000)] = Field(
        description="Connections at once: a limit, of the database and of its login."
    )
    statement_timeout: Duration = Field(description="A statement that runs for longer is ended: a session's default.")
    idle_transaction_timeout: Duration = Field(
        description="A transaction that is idle for longer is ended: a session's default."
    )
    work_memory: Memory = Field(description="For each sort or hash before it goes to disk: a session's default.")


_SIZES: Final = {
    "small": Size.known(connections=20, statement_timeout="60s", idle_transaction_timeout="60s", work_memory="4MB"),
    "medium": Size.known(connections=60, statement_timeout="5min", idle_transaction_timeout="5min", work_memory="16MB"),
    "large": Size.known(
        connections=200, statement_timeout="30min", idle_transaction_timeout="10min", work_memory="64MB"
    ),
}


class Sizes(SettingsModel):
    """What a database of each size may use. What the file leaves out of one keeps its default."""

    small: Size = Field(default=_SIZES["small"], description="For previews and for trying things out.")
    medium: Size = Field(default=_SIZES["medium"], description="For most services.")
    large: Size = Field(default=_SIZES["large"], description="For what many people use at once.")

    @field_validator("small", "medium", "large", mode="before")
    @classmethod
    def _completed(cls, value: Any, info: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {**_SIZES[str(info.field_name)].model_dump(), **cast("dict[str, Any]", value)}

    def of(self, name: SizeName) -> Size:
        return cast(Size, getattr(self, name))


class ExternalNames(SettingsModel):
    """Claims in some namespaces may have databases of these names, whatever their environment's prefix is."""

    claims_in: tuple[NamespaceName | Literal["*"], ...] = Field(
        min_length=1, strict=False, description="Namespaces of the claims; * is any."
    )
    names: tuple[ExternalName, ...] = Field(
        min_length=1, strict=False, description="What crossplane.io/external-name may say there."
    )


class DataService(SettingsModel):
    """What databases and caches have in common."""

    provider_config: ObjectName = Field(description="The ProviderConfig by which the provider reaches the server.")
    credentials_namespace: NamespaceName = Field(
        default="crossplane-system",
        description="Where the provider keeps the credentials that it makes. Nobody but the platform may write there: "
        "claims get copies.",
    )
    secret_store: ObjectName = Field(
        default="vault-backend",
        description="The ClusterSecretStore by which credentials reach Vault, where integrations.vault is enabled.",
    )
    vault_mount: VaultMount = Field(
        default="secret", description="The KV version 2 engine of that store: what each vaultPath begins with."
    )


class PostgreSQL(DatabaseTerms, ServerSettings, DataService):
    """The shared PostgreSQL, on which each PostgreSQLInstance has a database with an owner and a login of its own."""

    provider_config: ObjectName = Field(
        default="postgres-provider", description="Crossplane provider-sql's ProviderConfig of the server."
    )
    host: Annotated[str, Field(pattern=_SUBDOMAIN, max_length=253)] | None = Field(
        default=None,
        description="The server's name as applications reach it, such as postgres.shared-services.svc.cluster.local. "
        "Unset: the one that the provider uses.",
    )
    port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        default=None, description="Its port, where applications reach it at another one than the provider."
    )
    ssl_mode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] = Field(
        default="require", description="What the url in connection Secrets asks of TLS."
    )
    size: SizeName = Field(default=DEFAULT_SIZE, description="Where a claim names none.")
    storage_gb: StorageGB = Field(
        default=DEFAULT_STORAGE_GB, alias="storageGB", description="Where a claim names none, in GB."
    )
    enable_backup: bool = Field(default=True, description="Where a claim does not say.")
    sizes: Sizes = Field(default=Sizes.known(), description="What the sizes mean.")
    external_names: tuple[ExternalNames, ...] = Field(
        default=(),
        strict=False,
        description="Claims that may have a database of a name outside of their environment's prefix, such as one that "
        "was there before the platform: {claimsIn: [team-a], names: [ledger]}.",
    )
    servers: tuple[FurtherServer, ...] = Field(
        default=(),
        strict=False,
        description="Further servers, each for some namespaces or environments: {providerConfig: postgres-payments, "
        "namespaces: [payments]} runs one of its own for them. A database stays on the server that it was made on.",
    )

    @model_validator(mode="after")
    def _are_told_apart(self) -> Self:
        names = [self.provider_config, *(each.provider_config for each in self.servers)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"servers: {', '.join(twice)} is the providerConfig of two servers")
        return self

    def server_for(self, namespace: str, environment: str) -> Reached:
        """On which server a claim's database is made; the namespace decides before the environment."""
        for each in self.servers:
            if namespace in each.namespaces:
                return each
        return next((each for each in self.servers if environment in each.environments), self)

    def all_servers(self) -> dict[str, ServerSettings]:
        """By the name of the ProviderConfig."""
        return {self.provider_config: self, **{each.provider_config: each for each in self.servers}}

    def granted(self) -> dict[str, tuple[str, ...]]:
        """External names by the namespace of the claims."""
        found: dict[str, set[str]] = {}
        for grant in self.external_names:
            for source in grant.claims_in:
                found.setdefault(source, set()).update(grant.names)
        return {source: tuple(sorted(names)) for source, names in sorted(found.items())}

    def grants(self, namespace: str, name: str) -> bool:
        granted = self.granted()
        return name in granted.get(namespace, ()) or name in granted.get("*", ())


class Redis(DataService):
    """Caches: each RedisInstance is servers of its own, on this machine or as a Helm release on a cluster."""

    mode: Literal["process", "helm"] = Field(
        default="process",
        description="What new caches are made as. process: redis-server on the platform's machine, started and watched "
        "over by the platform. helm: a Release of Crossplane's provider-helm, in the claim's namespace of a cluster. A "
        "cache stays what it was made as.",
    )
    rotation_overlap: Annotated[str, Field(pattern=r"^[0-9]{1,6}[smh]$")] = Field(
        default="1h",
        description="How long the password before a rotation still works, as in 1h; of caches that are processes.",
    )
    provider_config: ObjectName = Field(
        default="helm-provider", description="Crossplane provider-helm's ProviderConfig of the cluster; for helm."
    )
    chart: Annotated[str, Field(min_length=1, max_length=253)] = Field(
        default="redis", description="Name of the chart; its values are those of Bitnami's; for helm."
    )
    repository: Annotated[str, Field(pattern=r"^(https?|oci)://[^\s]+$", max_length=500)] = Field(
        default="https://charts.bitnami.com/bitnami", description="Where the chart is; for helm."
    )
    chart_version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+[-+.0-9A-Za-z]*$")] = Field(
        default="19.0.0", description="Its version; for helm. Another one upgrades every cache."
    )
    replicas: Replicas = Field(default=DEFAULT_REPLICAS, description="Where a claim names none.")
    memory_gb: MemoryGB = Field(
        default=DEFAULT_MEMORY_GB, alias="memoryGB", description="Where a claim names none, in GiB."
    )
    storage_gb: Annotated[int, Field(ge=1, le=65536)] = Field(
        default=8,
        alias="storageGB",
        description="The least that the volume of each server has, in GiB; for helm. It has twice the memory where "
        "that is more, as it is when the cache is made: a volume cannot be changed afterwards.",
    )
    memory_percent: Annotated[int, Field(ge=10, le=95)] = Field(
        default=75,
        description="How much of its memory a server fills with data, in percent. The rest is for copies while it "
        "writes to disk.",
    )
    when_full: Literal["noeviction", "allkeys-lru", "allkeys-lfu", "volatile-lru", "volatile-lfu", "volatile-ttl"] = (
        Field(
            default="noeviction",
            description="What a full cache does: noeviction refuses writes and loses nothing; the others let go of "
            "keys by themselves.",
        )
    )
