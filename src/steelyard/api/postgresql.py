"""PostgreSQLInstance: the claim for a database.

    apiVersion: database.steelyard.dev/v1alpha1
    kind: PostgreSQLInstance
    metadata: {name: shop, namespace: team-a}
    spec:
      parameters: {environment: dev, size: small, storageGB: 20}
      writeConnectionSecretToRef: {name: postgres-connection}

Size, storage and backup have no schema default, for the reason that WorkloadCluster gives: what a claim leaves out
comes from the platform file, and `status.parameters` says what was used.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from steelyard.api import claims, dataservices, model
from steelyard.api.claims import ClaimSpec, ClaimStatus, EnvironmentName, ObjectReference, SecretReference
from steelyard.api.dataservices import VaultPath
from steelyard.api.model import ApiModel, Column, Kind
from steelyard.kube.resources import Resource

SizeName = Literal["small", "medium", "large"]
StorageGB = Annotated[int, Field(ge=1, le=65536)]
NAME_MAX: Final = 57
"""Of a database. PostgreSQL cuts names at 63 bytes, and `<name>_owner` is the role that has it."""
ExternalName = Annotated[str, Field(max_length=NAME_MAX, pattern=r"^[a-z]([a-z0-9_-]*[a-z0-9])?$")]

DEFAULT_SIZE: Final = "small"
DEFAULT_STORAGE_GB: Final = 20

_FROM_PLATFORM: Final = "Default: the platform file's."
_STORAGE: Final = "spec.parameters.storageGB"
_USED: Final = "status.parameters.storageGB"


def _only_true(what: str) -> dict[str, Any]:
    return {
        "x-kubernetes-validations": [{"rule": "self", "message": f"{what}; leave the field out, or set it to true"}]
    }


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


class PostgreSQLInstanceSpec(ClaimSpec[Parameters]):
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


class PostgreSQLInstanceStatus(ClaimStatus):
    parameters: UsedParameters | None = Field(default=None, description="What was used for each parameter.")
    database: str | None = Field(default=None, description="Its name on the server. It never changes.")
    role: str | None = Field(default=None, description="The login's name on the server.")
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
            Column("State", ".status.state", "How it is, in one word."),
            Column("Ready", ".status.conditions[?(@.type=='Ready')].status", "Whether the database can be used."),
            Column(
                "Synced", ".status.conditions[?(@.type=='Synced')].status", "Whether the claim was applied.", priority=1
            ),
            Column("Host", ".status.host", "The server.", priority=1),
            Column("Secret", ".status.connectionSecret.name", "What is needed to connect.", priority=1),
            Column("Message", ".status.message", "What is going on.", priority=1),
            model.AGE,
        ),
        name_schema=dataservices.NAME_SCHEMA,
        rules={"spec.parameters.environment": (dataservices.stays("database"),), "": _GROWS},
    )
