"""PostgreSQLAccess: the claim for a login of one's own to a database, for a while.

    apiVersion: database.steelyard.dev/v1alpha1
    kind: PostgreSQLAccess
    metadata: {name: reports, namespace: team-a}
    spec:
      parameters: {instance: shop, access: readOnly, ttl: 8h}
      writeConnectionSecretToRef: {name: reports-connection}

The login in the Secret ends by itself. Before it does, at two thirds of its life, the Secret has the next one, for as
long as the claim is there. It is to a database of the claim's own namespace: who may write claims there may have it.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from steelyard.api import claims, dataservices, durations, model, postgresql
from steelyard.api.claims import ClaimSpec, ClaimStatus, ObjectReference, SecretReference
from steelyard.api.durations import PATTERN
from steelyard.api.model import ApiModel, Column, Kind, Timestamp
from steelyard.kube.resources import Resource

DEFAULT_LIFE: Final = "1h"
RENEW: Final = "steelyard.dev/rotate"
"""Annotation: a new value asks for another login now; the one before lives to its end."""

InstanceName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
Life = Annotated[
    str, Field(max_length=9, pattern=PATTERN, json_schema_extra=durations.within("5m", "24h", "8h for a day's work"))
]


class Parameters(ApiModel):
    """Which database, and what may be done there."""

    instance: InstanceName = Field(
        description="Name of the PostgreSQLInstance, in the claim's own namespace. It stays what it is.",
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "self == oldSelf",
                    "message": "a login is to one database: put instance back, and make another claim for another",
                }
            ]
        },
    )
    access: Literal["readWrite", "readOnly"] | None = Field(
        default=None,
        description="What the login may do: read, or everything that the application may. Default: readOnly.",
    )
    ttl: Life | None = Field(
        default=None,
        description="How long each login lives, from 5m to 24h. At its end its sessions are ended and what it made is "
        f"the database owner's. The next one is made at two thirds of that. Default: {DEFAULT_LIFE}.",
    )


class PostgreSQLAccessSpec(ClaimSpec):
    parameters: Parameters = Field(description="Which database, and what may be done there.")
    write_connection_secret_to_ref: SecretReference | None = Field(
        default=None,
        description="A Secret to write the login into, under the keys host, endpoint, port, database, username, "
        "password, url, uri and expires-at.",
    )


class UsedParameters(ApiModel):
    instance: str
    access: Literal["readWrite", "readOnly"]
    ttl: str


class PostgreSQLAccessStatus(ClaimStatus):
    parameters: UsedParameters | None = Field(default=None, description="What was used for each parameter.")
    database: str | None = Field(default=None, description="The database's name on the server.")
    role: str | None = Field(default=None, description="The login in use.")
    login_expires_at: Timestamp | None = Field(default=None, description="When it ends.")
    host: str | None = Field(default=None, description="The server.")
    port: int | None = Field(default=None, description="The server's port.")
    connection_secret: ObjectReference | None = Field(
        default=None, description="The Secret with the login, once it is written."
    )


def resource(domain: str) -> Resource:
    return Resource(postgresql.group(domain), "v1alpha1", "postgresqlaccesses", "PostgreSQLAccess")


def kind(domain: str) -> Kind:
    return Kind(
        resource=resource(domain),
        singular="postgresqlaccess",
        description="A login to a database that ends by itself and is made anew before it does.",
        spec=PostgreSQLAccessSpec,
        status=PostgreSQLAccessStatus,
        short_names=("pgaccess",),
        categories=claims.CATEGORIES,
        columns=(
            Column("Instance", ".spec.parameters.instance", "The claim for the database."),
            Column("Access", ".status.parameters.access", "What the login may do."),
            Column("Login", ".status.role", "The one in use."),
            Column("Expires", ".status.loginExpiresAt", "When it ends."),
            Column("State", ".status.state", "How it is, in one word."),
            Column("Ready", ".status.conditions[?(@.type=='Ready')].status", "Whether there is a login to use."),
            Column(
                "Synced", ".status.conditions[?(@.type=='Synced')].status", "Whether the claim was applied.", priority=1
            ),
            Column("Secret", ".status.connectionSecret.name", "What is needed to connect.", priority=1),
            Column("Message", ".status.message", "What is going on.", priority=1),
            model.AGE,
        ),
        name_schema=dataservices.NAME_SCHEMA,
    )
