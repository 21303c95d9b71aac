"""PostgreSQLInstance: the claim for a database.

    apiVersion: database.steelyard.dev/v1alpha1
    kind: PostgreSQLInstance
    metadata: {name: shop, namespace: team-a}
    spec:
      parameters: {environment: dev, size: small, storageGB: 20}
      writeConnectionSecretToRef: {name: postgres-connection}

Size, storage and backup have no schema default, for the reason that WorkloadCluster gives: what a claim leaves out
comes from the platform file, and `status.parameters` says what was used. What is further down than `multiTenant`
composition acts on from revision v2 on.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from steelyard.api import claims, dataservices, durations, model
from steelyard.api.claims import (
    ClaimSpec,
    ClaimStatus,
    EnvironmentName,
    NamespaceName,
    ObjectName,
    ObjectReference,
    SecretReference,
)
from steelyard.api.clusterfields import Ttl
from steelyard.api.dataservices import (
    DEFAULT_SIZE,
    DEFAULT_STORAGE_GB,
    SizeName,
    StorageGB,
    VaultPath,
)
from steelyard.api.durations import PATTERN
from steelyard.api.model import ApiModel, Column, Kind, Timestamp
from steelyard.api.secretdelivery import DELIVER_TO, DeliverTo, DeliveryReport
from steelyard.kube.resources import Resource
from steelyard.masking.rules import MaskingRules

Interval = Annotated[
    str, Field(max_length=9, pattern=PATTERN, json_schema_extra=durations.within("1h", "8760h", "24h for a day"))
]
ExtensionName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z][a-z0-9_-]*$")]
TemplateName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z_][a-z0-9_-]*$")]
DumpName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$")]

TTL: Final = "ttl"
SOURCE: Final = "source"
"""Annotations that the documents have: how long the claim lives, and what the database is filled with."""
ROTATE: Final = "steelyard.dev/rotate"
REFRESH: Final = "steelyard.dev/refresh"
BACK_UP: Final = "steelyard.dev/back-up"
"""Annotations by which a new login, a new copy or a dump is asked for: each new value asks once."""
MAKE_ROOM: Final = "steelyard.dev/make-room-until"
"""Annotation: until when a database that is too full takes one session, to delete what is not needed."""


_FROM_PLATFORM: Final = "Default: the platform file's."
_STORAGE: Final = "spec.parameters.storageGB"
_USED: Final = "status.parameters.storageGB"


def _only_true(what: str) -> dict[str, Any]:
    return {
        "x-kubernetes-validations": [{"rule": "self", "message": f"{what}; leave the field out, or set it to true"}]
    }


class CloneSource(ApiModel):
    """Whose data the database begins with."""

    name: ObjectName = Field(description="Of the claim for the database that is copied.")
    namespace: NamespaceName | None = Field(
        default=None,
        description="Of that claim. Default: this claim's. For another one the author must be allowed to read Secrets "
        "there, or the platform file grants it (postgresql.clones).",
    )
    backup: DumpName | None = Field(
        default=None,
        description="A backup of it instead of its data of now, by the name that `steelyard db list` shows. It is "
        "restored as it is: anonymise must be false.",
    )
    anonymise: bool | None = Field(
        default=None,
        description="Whether values are masked on the way, by the rules in the other claim's spec.parameters.masking. "
        "Without, the author must be allowed to read Secrets in the other namespace, whatever is granted. "
        "Default: true.",
    )


class BackupPlan(ApiModel):
    """When backups are made, and how many are kept."""

    every: Interval | None = Field(default=None, description=f"How often. {_FROM_PLATFORM} (24h)")
    keep: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None, description=f"How many scheduled ones are kept, and how many asked for. {_FROM_PLATFORM} (7)"
    )


_CLONE_RULES: Final[list[Any]] = [
    {
        "rule": "!has(self.backup) || (has(self.anonymise) && !self.anonymise)",
        "message": "a backup is restored as it is: set anonymise to false, or leave backup out",
    },
]
_PARAMETER_RULES: Final[tuple[dict[str, Any], ...]] = (
    {
        "rule": "has(self.cloneFrom) == has(oldSelf.cloneFrom) && (!has(self.cloneFrom) || "
        "self.cloneFrom == oldSelf.cloneFrom)",
        "message": "a database stays the copy that it is, or none: put cloneFrom back as it was, and make a claim of "
        "another name for another copy",
        "fieldPath": ".cloneFrom",
    },
    {
        "rule": "has(self.template) == has(oldSelf.template) && (!has(self.template) || "
        "self.template == oldSelf.template)",
        "message": "a database is made of a template once: put template back as it was, or make another claim",
        "fieldPath": ".template",
    },
    {
        "rule": "!has(self.cloneFrom) || !has(self.template)",
        "message": "a database begins with a copy or with a template: leave cloneFrom or template out",
        "fieldPath": ".template",
    },
    {
        "rule": "!has(self.refreshEvery) || (has(self.cloneFrom) && !has(self.cloneFrom.backup))",
        "message": "only the copy of a database is made anew: name one in cloneFrom, or leave refreshEvery out",
        "fieldPath": ".refreshEvery",
    },
)


class Parameters(ApiModel):
    """What kind of database."""

    environment: EnvironmentName = Field(
        description="The stage the database serves: what its name begins with. It stays what it is."
    )
    size: SizeName | None = Field(
        default=None,
        description="How many connections it takes at once, and the defaults of a session: timeouts, memory; see "
        f"postgresql.sizes in the platform file. A change is made while it runs. {_FROM_PLATFORM} ({DEFAULT_SIZE})",
    )
    storage_gb: StorageGB | None = Field(
        default=None,
        alias="storageGB",
        description="How much data it is meant to hold, in GB. It can grow, and does not shrink. "
        f"{_FROM_PLATFORM} ({DEFAULT_STORAGE_GB})",
    )
    enable_backup: bool | None = Field(
        default=None, description=f"Whether backups are made of it. {_FROM_PLATFORM} (true)"
    )
    vault_path: VaultPath | None = Field(
        default=None,
        description="Where its credentials are in Vault, if the platform works with one: secret/apps/ or "
        "secret/database/, and behind that <namespace>, <namespace>/<name>, <environment>/<namespace>/<name> or "
        "<environment>. Default: secret/apps/<environment>/<name> in the namespace that is called as the environment, "
        "else secret/apps/<environment>/<namespace>/<name>.",
    )
    primary_cluster_db: bool | None = Field(
        default=None,
        alias="primaryClusterDB",
        description="On the PostgreSQL of the management cluster. Always so: true changes nothing, false is refused.",
        json_schema_extra=_only_true("databases are made on the platform's own PostgreSQL alone"),
    )
    multi_tenant: bool | None = Field(
        default=None,
        description="Beside those of others on one server, apart by database, role and grant. Always so: true changes "
        "nothing, false is refused.",
        json_schema_extra=_only_true("no claim gets a server of its own"),
    )
    version: Annotated[int, Field(ge=9, le=99)] | None = Field(
        default=None,
        description="The oldest major version of PostgreSQL that will do. On an older server the claim is refused.",
    )
    extensions: (
        Annotated[list[ExtensionName], Field(max_length=32, json_schema_extra={"x-kubernetes-list-type": "set"})] | None
    ) = Field(
        default=None,
        description="Extensions to install, of those that the platform file allows (postgresql.extensions).",
    )
    backup: BackupPlan | None = Field(
        default=None, description="When backups are made and how many are kept, where enableBackup is true."
    )
    ttl: Ttl | None = Field(
        default=None,
        description="How long the claim lives, from its creation on, as in 168h: then it is deleted with everything in "
        "the database. Default: the annotation ttl; in environments of pull requests previews.ttl of the platform file "
        "(168h); elsewhere for ever.",
    )
    deletion_protection: bool | None = Field(
        default=None,
        description="Whether the claim cannot be deleted. Default: as the environment has it (protectDatabases), which "
        "is true for production.",
    )
    deletion_policy: Literal["Delete", "Orphan"] | None = Field(
        default=None,
        description="What becomes of the database when the claim is deleted. Delete: it is dropped with everything in "
        "it. Orphan: it stays on the server with its roles, and nobody looks after it. Default: Delete.",
    )
    rotate_every: Interval | None = Field(
        default=None,
        description="How often the login is replaced by a new one. The old one works on for postgresql.rotationOverlap "
        "of the platform file. Default: only when asked for.",
    )
    template: TemplateName | None = Field(
        default=None,
        description="A closed database that the new one is a copy of at first, of those that the platform file allows "
        "(postgresql.templates). Default: it is empty.",
    )
    clone_from: CloneSource | None = Field(
        default=None,
        description="Whose data the database begins with. It stays what it is. Default: the database is empty.",
        json_schema_extra={"x-kubernetes-validations": _CLONE_RULES},
    )
    refresh_every: Interval | None = Field(
        default=None,
        description="How often a copy is made anew: a new database takes the place of the old one, and what was "
        "changed there is lost. Default: 24h in environments that are renewed daily, as sandbox is; elsewhere only "
        "when asked for.",
    )
    masking: MaskingRules | None = Field(
        default=None,
        description="What is masked in copies of this database, by table and column. It is for whoever has the data to "
        "say: copies go by the rules of the database that they are made of, never by their own.",
    )
    deliver_to: DeliverTo | None = Field(default=None, description=DELIVER_TO)


class PostgreSQLInstanceSpec(ClaimSpec):
    """The database asked for. The fields beside `parameters` are those of a Crossplane claim, so that a claim made for
    Crossplane is accepted as it stands; embedded, those about compositions are kept without effect.
    """

    parameters: Parameters = Field(description="What kind of database.")
    write_connection_secret_to_ref: SecretReference | None = Field(
        default=None,
        description="A Secret to write what is needed to connect into, under the keys host, endpoint, port, database, "
        "username, password, url and uri. host and endpoint are the same, and so are url and uri.",
    )


class UsedParameters(ApiModel):
    """Every parameter with the value in use, whether from the claim or from the platform file."""

    environment: EnvironmentName
    size: SizeName
    storage_gb: int = Field(alias="storageGB")
    enable_backup: bool
    connections: int = Field(description="How many there can be at once.")
    deletion_policy: Literal["Delete", "Orphan"] | None = None
    deletion_protection: bool | None = None
    backup: BackupPlan | None = Field(default=None, description="When backups are made; unset where none are.")
    rotate_every: str | None = None
    refresh_every: str | None = None


class Former(ApiModel):
    """What was in use before, and still works for a while."""

    generation: int = Field(ge=0)
    until: Timestamp = Field(description="When it goes.")


class Generation(ApiModel):
    """Something that is replaced by another of its kind, which is made before the old one goes."""

    generation: int = Field(ge=0, description="Of the one in use, counted from 1; 0 while there is none.")
    since: Timestamp | None = Field(default=None, description="Since when it is.")
    begun_at: Timestamp | None = Field(default=None, description="When the newest was begun; a schedule goes by it.")
    next: int | None = Field(default=None, ge=1, description="The generation that is being made.")
    trigger: str | None = Field(
        default=None, max_length=253, description="The last value of the annotation that was acted on."
    )
    due_at: Timestamp | None = Field(default=None, description="When the next one is made.")
    former: Annotated[list[Former], Field(max_length=8)] | None = Field(
        default=None, description="Those before it that have not gone yet."
    )


class CloneReport(Generation):
    source: ObjectReference | None = Field(default=None, description="The claim whose data it is.")
    data_of: Timestamp | None = Field(default=None, description="Of which moment the data is.")
    anonymised: bool | None = None
    message: str | None = Field(default=None, description="How far the copy is that is being made, or why it is not.")


class StorageReport(ApiModel):
    size_bytes: int | None = Field(default=None, description="What the database held when that was last reported.")
    percent: int | None = Field(default=None, description="Of storageGB.")
    level: Literal["ok", "low", "almost full", "read-only", "closed"] = Field(
        description="From 80 % on low, from 95 % almost full; from 100 % new sessions are read-only unless they say "
        "otherwise; from 110 % there are none."
    )


class DumpReport(ApiModel):
    name: str = Field(description="By which it can be restored.")
    at: Timestamp
    size_bytes: int
    sha256: str
    reason: str | None = None


class BackupReport(ApiModel):
    """How backups are going. `steelyard db list` shows each."""

    last: str | None = Field(default=None, description="Name of the newest backup.")
    last_at: Timestamp | None = Field(default=None, description="Of which moment it is.")
    count: int | None = Field(default=None, description="How many are kept.")
    due_at: Timestamp | None = Field(default=None, description="When the next is made.")
    trigger: str | None = Field(default=None, description="The last value of the annotation that was acted on.")
    dumps: Annotated[list[DumpReport], Field(max_length=100)] | None = Field(
        default=None, description="The newest of those that are kept."
    )


class PostgreSQLInstanceStatus(ClaimStatus):
    parameters: UsedParameters | None = Field(default=None, description="What was used for each parameter.")
    database: str | None = Field(
        default=None,
        description="Its name on the server. It never changes, but for a copy that is made anew: _c and a number "
        "follow it then.",
    )
    role: str | None = Field(default=None, description="The login's name on the server.")
    login: Generation | None = Field(default=None, description="Which login is in use, and how its rotation is going.")
    clone: CloneReport | None = Field(default=None, description="Which copy is in use, and how its refresh is going.")
    storage: StorageReport | None = Field(default=None, description="How full it is.")
    backup: BackupReport | None = Field(default=None, description="How backups are going.")
    expires_at: Timestamp | None = Field(default=None, description="When the claim is deleted, where it has a ttl.")
    deliveries: list[DeliveryReport] | None = Field(
        default=None, description="How far the deliveries into workload clusters are."
    )
    server: str | None = Field(default=None, description="The ProviderConfig of the server that it is on.")
    host: str | None = Field(default=None, description="The server, once it is known.")
    port: int | None = Field(default=None, description="The server's port, once it is known.")
    connection_secret: ObjectReference | None = Field(
        default=None, description="The Secret with what is needed to connect, once it is written."
    )
    vault_path: str | None = Field(default=None, description="Where the credentials are in Vault.")


_GROWS: Final = (
    {
        "rule": f"!has(oldSelf.{_STORAGE}) || (has(self.{_STORAGE}) && self.{_STORAGE} >= oldSelf.{_STORAGE})",
        "message": "a database does not shrink: leave it as it was, or ask for more. For a smaller one make a claim of "
        "another name and move the data",
        "fieldPath": f".{_STORAGE}",
    },
    {
        "rule": f"has(oldSelf.{_STORAGE}) || !has(self.{_STORAGE}) || !has(oldSelf.status) || "
        f"!has(oldSelf.status.parameters) || self.{_STORAGE} >= oldSelf.{_USED}",
        "message": "a database does not shrink: ask for as much as it has by the platform file's default "
        "(status.parameters.storageGB), or for more",
        "fieldPath": f".{_STORAGE}",
    },
)


def group(domain: str) -> str:
    return f"database.{domain}"


def resource(domain: str) -> Resource:
    return Resource(group(domain), "v1alpha1", "postgresqlinstances", "PostgreSQLInstance")


def kind(domain: str) -> Kind:
    return Kind(
        resource=resource(domain),
        singular="postgresqlinstance",
        description="A PostgreSQL database of one's own, with a login that nobody else has.",
        spec=PostgreSQLInstanceSpec,
        status=PostgreSQLInstanceStatus,
        short_names=("pg",),
        categories=claims.CATEGORIES,
        columns=(
            Column("Environment", ".spec.parameters.environment", "The stage it serves."),
            Column("Size", ".status.parameters.size", "How much it may use."),
            Column("Database", ".status.database", "Its name on the server."),
            Column("Used", ".status.storage.percent", "How much of storageGB is used, in percent.", "integer"),
            Column("State", ".status.state", "How it is, in one word."),
            Column("Ready", ".status.conditions[?(@.type=='Ready')].status", "Whether the database can be used."),
            Column(
                "Synced", ".status.conditions[?(@.type=='Synced')].status", "Whether the claim was applied.", priority=1
            ),
            Column("Host", ".status.host", "The server.", priority=1),
            Column("Backup", ".status.backup.lastAt", "When the newest backup was made.", "date", priority=1),
            Column("Expires", ".status.expiresAt", "When the claim is deleted.", "string", priority=1),
            Column("Secret", ".status.connectionSecret.name", "What is needed to connect.", priority=1),
            Column("Message", ".status.message", "What is going on.", priority=1),
            model.AGE,
        ),
        name_schema=dataservices.NAME_SCHEMA,
        rules={
            "spec.parameters.environment": (dataservices.stays("database"),),
            "spec.parameters": _PARAMETER_RULES,
            "": _GROWS,
        },
    )
