"""RedisInstance: the claim for a cache.

    apiVersion: cache.steelyard.dev/v1alpha1
    kind: RedisInstance
    metadata: {name: sessions, namespace: team-a}
    spec:
      parameters: {environment: dev, replicas: 1, memoryGB: 1}

Sizes have no schema default: what a claim leaves out comes from the platform file, and `status.parameters` says what
was used.
"""

from typing import Annotated, Final

from pydantic import Field

from steelyard.api import claims, dataservices, durations, model
from steelyard.api.claims import ClaimSpec, ClaimStatus, EnvironmentName, ObjectReference, SecretReference
from steelyard.api.dataservices import DEFAULT_MEMORY_GB, DEFAULT_REPLICAS, MemoryGB, Replicas
from steelyard.api.model import ApiModel, Column, Kind, Timestamp
from steelyard.api.secretdelivery import DELIVER_TO, DeliverTo, DeliveryReport
from steelyard.kube.resources import Resource

Interval = Annotated[
    str,
    Field(
        max_length=9,
        pattern=durations.PATTERN,
        json_schema_extra=durations.within("1h", "8760h", "720h for thirty days"),
    ),
]

ROTATE: Final = "steelyard.dev/rotate"
"""Annotation by which a new password is asked for: each new value asks once."""


_FROM_PLATFORM: Final = "Default: the platform file's."


class Parameters(ApiModel):
    """What kind of cache."""

    environment: EnvironmentName = Field(description="The stage the cache serves. It stays what it is.")
    replicas: Replicas | None = Field(
        default=None,
        description="1: one server. More: a primary, which takes the writes, and this many replicas that follow it. "
        f"{_FROM_PLATFORM} ({DEFAULT_REPLICAS})",
    )
    memory_gb: MemoryGB | None = Field(
        default=None,
        alias="memoryGB",
        description="Memory of each server, in GiB. Three quarters of it are for data, unless the platform file says "
        "otherwise. A change takes effect at once; as a Helm release, servers are restarted one by one. "
        f"{_FROM_PLATFORM} ({DEFAULT_MEMORY_GB})",
    )
    rotate_every: Interval | None = Field(
        default=None,
        description="How often the password is replaced by a new one. The old one works on for redis.rotationOverlap "
        "of the platform file. Default: only when asked for, by the annotation steelyard.dev/rotate. Not for a Helm "
        "release.",
    )
    deliver_to: DeliverTo | None = Field(default=None, description=DELIVER_TO)


class RedisInstanceSpec(ClaimSpec):
    """The cache asked for. The fields beside `parameters` are those of a Crossplane claim, so that a claim made for
    Crossplane is accepted as it stands; embedded, those about compositions are kept without effect.
    """

    parameters: Parameters = Field(description="What kind of cache.")
    write_connection_secret_to_ref: SecretReference | None = Field(
        default=None,
        description="A Secret to write what is needed to connect into, under the keys host, endpoint, port, username, "
        "password, url and uri; a Helm release has no username. host and endpoint are the same, and so are url and "
        "uri.",
    )


class UsedParameters(ApiModel):
    """Every parameter with the value in use, whether from the claim or from the platform file."""

    environment: EnvironmentName
    replicas: int
    memory_gb: int = Field(alias="memoryGB")
    rotate_every: str | None = None


class RedisInstanceStatus(ClaimStatus):
    parameters: UsedParameters | None = Field(default=None, description="What was used for each parameter.")
    release: str | None = Field(default=None, description="The Helm release in the claim's namespace.")
    server: str | None = Field(default=None, description="The RedisServer, where it is processes of this machine.")
    username: str | None = Field(default=None, description="Whom applications log in as.")
    rotated_at: Timestamp | None = Field(default=None, description="When the password last became another.")
    host: str | None = Field(default=None, description="The primary's name, or its address.")
    port: int | None = Field(default=None, description="Its port.")
    connection_secret: ObjectReference | None = Field(
        default=None, description="The Secret with what is needed to connect, once it is written."
    )
    vault_path: str | None = Field(default=None, description="Where the credentials are in Vault.")
    deliveries: list[DeliveryReport] | None = Field(
        default=None, description="How far the deliveries into workload clusters are."
    )


def group(domain: str) -> str:
    return f"cache.{domain}"


def resource(domain: str) -> Resource:
    return Resource(group(domain), "v1alpha1", "redisinstances", "RedisInstance")


def kind(domain: str) -> Kind:
    return Kind(
        resource=resource(domain),
        singular="redisinstance",
        description="A Redis of one's own, to keep things in memory.",
        spec=RedisInstanceSpec,
        status=RedisInstanceStatus,
        categories=claims.CATEGORIES,
        columns=(
            Column("Environment", ".spec.parameters.environment", "The stage it serves."),
            Column("Replicas", ".status.parameters.replicas", "Servers that follow the primary; 1 is none.", "integer"),
            Column("Memory", ".status.parameters.memoryGB", "Of each server, in GiB.", "integer"),
            Column("State", ".status.state", "How it is, in one word."),
            Column("Ready", ".status.conditions[?(@.type=='Ready')].status", "Whether the cache can be used."),
            Column(
                "Synced", ".status.conditions[?(@.type=='Synced')].status", "Whether the claim was applied.", priority=1
            ),
            Column("Host", ".status.host", "The primary.", priority=1),
            Column("Secret", ".status.connectionSecret.name", "What is needed to connect.", priority=1),
            Column("Message", ".status.message", "What is going on.", priority=1),
            model.AGE,
        ),
        name_schema=dataservices.NAME_SCHEMA,
        rules={"spec.parameters.environment": (dataservices.stays("cache"),)},
    )
