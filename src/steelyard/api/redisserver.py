"""RedisServer: a cache as processes of the platform's machine; what a RedisInstance becomes in embedded mode.

    apiVersion: data.steelyard.dev/v1alpha1
    kind: RedisServer
    metadata: {name: team-a-redis-sessions-5b0e7a19}
    spec:
      forProvider: {username: redis-sessions, replicas: 1, memoryBytes: 1073741824, ...}
      writeConnectionSecretToRef: {namespace: crossplane-system, name: redis.team-a.sessions}

Upstream has no kind for it. It is cluster-scoped and follows Crossplane's conventions for managed resources:
conditions, finalizer, deletion policy, pause, connection Secret.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from steelyard.api import crd, model
from steelyard.api.model import ApiModel, Column, Conditions, Kind, Timestamp
from steelyard.api.resources import REDIS_SERVERS
from steelyard.kube.objects import Object

RESOURCE: Final = REDIS_SERVERS

WhenFull = Literal["noeviction", "allkeys-lru", "allkeys-lfu", "volatile-lru", "volatile-lfu", "volatile-ttl"]
Duration = Annotated[str, Field(pattern=r"^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?$", min_length=2, max_length=18)]
"""As in 24h, 1h30m, 90s."""
Username = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", max_length=63)]
Trigger = Annotated[str, Field(max_length=253)]
Ordinal = Annotated[int, Field(ge=0, le=63)]
Port = Annotated[int, Field(ge=1, le=65535)]


class Rotation(ApiModel):
    """When the application gets another password."""

    trigger: Trigger | None = Field(default=None, description="Another value than before: now.")
    every: Duration | None = Field(default=None, description="And by itself so long after the last time.")
    overlap: Duration = Field(description="How long the old password is good beside the new one.")


class Parameters(ApiModel):
    """What the cache is like."""

    username: Username = Field(description="Whom applications log in as.")
    replicas: Annotated[int, Field(ge=1, le=10)] = Field(
        description="1: one server. More: a primary and this many replicas that follow it."
    )
    memory_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 50)] = Field(description="Memory of each server.")
    memory_percent: Annotated[int, Field(ge=10, le=95)] = Field(description="How much of that data may fill.")
    when_full: WhenFull = Field(description="What a full server does: refuse writes, or let go of keys.")
    append_only: bool = Field(description="Whether every write goes to a file, and survives a restart.")
    rotation: Rotation


class SecretPlace(ApiModel):
    namespace: str = Field(max_length=63)
    name: str = Field(max_length=253)


class RedisServerSpec(ApiModel):
    for_provider: Parameters = Field(description="What the cache is like.")
    write_connection_secret_to_ref: SecretPlace = Field(
        description="The Secret with endpoint, port, username and password, which the provider keeps."
    )
    deletion_policy: Literal["Delete", "Orphan"] = Field(
        default="Delete",
        description="Orphan: when the object is deleted, the servers are stopped and their files stay on disk.",
    )


class Member(ApiModel):
    """One server."""

    ordinal: Ordinal
    role: Literal["primary", "replica"]
    address: str = Field(description="Its own, on this machine.")
    pid: int = Field(description="Of its process; 0 while there is none.")
    state: Literal["running", "loading", "copying", "down"]


class LastRotation(ApiModel):
    trigger: Trigger | None = Field(default=None, description="What it was asked for by.")
    at: Timestamp | None = Field(default=None, description="When the password became another.")
    old_until: Timestamp | None = Field(default=None, description="Until when the one before is good as well.")


class AtProvider(ApiModel):
    version: str | None = Field(default=None, description="Of redis-server.")
    host: str | None = Field(default=None, description="Where applications reach the primary, whichever that is.")
    port: Port | None = Field(
        default=None, description="Recorded before anything listens there; the same for as long as the cache exists."
    )
    primary: Ordinal | None = Field(default=None, description="The server that takes the writes, or is to.")
    history: str | None = Field(
        default=None, description="What the primary writes, by Redis' own name: only who follows it may take its place."
    )
    servers: list[Member] | None = None
    rotation: LastRotation | None = None


class RedisServerStatus(ApiModel):
    at_provider: AtProvider | None = Field(default=None, description="What there is.")
    conditions: Conditions | None = None


KIND: Final = Kind(
    resource=RESOURCE,
    singular="redisserver",
    description="A Redis of the platform's machine: one process, or a primary with replicas.",
    spec=RedisServerSpec,
    status=RedisServerStatus,
    categories=("steelyard", "managed"),
    columns=(
        Column("Ready", ".status.conditions[?(@.type=='Ready')].status", "Whether it can be used."),
        Column("Synced", ".status.conditions[?(@.type=='Synced')].status", "Whether it is as asked for."),
        Column("Host", ".status.atProvider.host", "Where the primary is reached."),
        Column("Port", ".status.atProvider.port", "And at which port.", "integer"),
        Column("Primary", ".status.atProvider.primary", "Which of its servers that is.", "integer", priority=1),
        Column("Version", ".status.atProvider.version", "Of redis-server.", priority=1),
        Column("Message", ".status.conditions[?(@.type=='Ready')].message", "What is going on.", priority=1),
        model.AGE,
    ),
)


def definition() -> Object:
    return crd.definition(KIND)
