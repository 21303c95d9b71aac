"""SecretDelivery: connection data of a claim, put into a workload cluster and kept right there.

    apiVersion: data.steelyard.dev/v1alpha1
    kind: SecretDelivery
    metadata: {name: shop-5d41402abc4b2a76}
    spec:
      cluster: {namespace: team-a, name: shop}
      target: {namespace: web, name: db}
      deliveredFor: {kind: PostgreSQLInstance, namespace: team-a, name: orders}
      source: {namespace: crossplane-system, name: delivery.postgresql.team-a.orders}

It is cluster-scoped, so that no tenant writes one: it names a Secret that only the platform may read. One place has one
object, whose name is made of the place: nothing is delivered to the same place twice. `Delivery` is what claims say.
"""

import hashlib
from typing import Annotated, Any, Final

from pydantic import Field

from steelyard.api import crd, model
from steelyard.api.claims import NamespaceName, ObjectName
from steelyard.api.model import ApiModel, Column, Conditions, Kind, Timestamp
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

GROUP: Final = "data.steelyard.dev"
RESOURCE: Final = Resource(GROUP, "v1alpha1", "secretdeliveries", "SecretDelivery", namespaced=False)
EXTERNAL_SECRETS: Final = Resource("external-secrets.io", "v1", "externalsecrets", "ExternalSecret")

FINALIZER: Final = "finalizer.managedresource.crossplane.io"
PAUSED: Final = "crossplane.io/paused"
LET_GO: Final = "data.steelyard.dev/let-go"
"""Annotation of a SecretDelivery that is being deleted: with the value "true" it goes without being removed there."""
DELIVERED_FOR: Final = "data.steelyard.dev/delivered-for"
"""Annotation of what was delivered: whose it is. Nothing without it is ever changed or deleted."""
DELIVERY: Final = "data.steelyard.dev/delivery"
"""Label of what was delivered: the name of its SecretDelivery."""
IS_SOURCE: Final = "data.steelyard.dev/is-delivered"
"""Label of Secrets that are delivered: only those are watched for it."""

RESERVED: Final = ("kube-system", "kube-public", "kube-node-lease")
"""Namespaces of a cluster that nothing is delivered into."""
MOST: Final = 8
"""Places that one claim may name: for each an API server asks what the author may do."""
_DIGITS: Final = 16
_LISTED: Final = ", ".join(f"'{each}'" for each in RESERVED)


class Delivery(ApiModel):
    """A place in a workload cluster that the connection data goes to."""

    cluster: NamespaceName = Field(description="Name of the claim for the cluster.")
    cluster_namespace: NamespaceName | None = Field(
        default=None,
        description="Namespace of that claim. Default: this claim's. For another one the author must be allowed to "
        "read the cluster's kubeconfig there, or the platform file grants it (connectionSecrets.grants).",
    )
    namespace: NamespaceName = Field(
        description="Namespace inside the cluster, which must exist there; not kube-system, kube-public or "
        "kube-node-lease.",
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": f"!(self in [{_LISTED}])",
                    "message": "nothing is delivered into the namespaces of Kubernetes itself; choose another",
                }
            ]
        },
    )
    name: ObjectName = Field(description="Name of the Secret there. One that is somebody else's is never overwritten.")


DeliverTo = Annotated[list[Delivery], Field(max_length=MOST)]
DELIVER_TO: Final = (
    "Where in workload clusters the connection data is put besides, kept right when it changes, and removed with the "
    "claim: as a Secret, or as an ExternalSecret where the platform file enables vault and externalSecrets. Who "
    "changes the list answers for all of it."
)
"""The description of claims' field `deliverTo`."""


class DeliveryReport(ApiModel):
    """How far one delivery is, in the status of its claim."""

    cluster: str
    cluster_namespace: str
    namespace: str
    name: str
    delivery: str = Field(description="The SecretDelivery; empty where there is none.")
    ready: bool = Field(description="Whether it is there as it should be.")
    message: str | None = Field(default=None, description="What is waited for, and what to do.")


class Place(ApiModel):
    namespace: NamespaceName
    name: ObjectName


class ClaimPlace(Place):
    kind: Annotated[str, Field(min_length=1, max_length=63)]


class Source(Place):
    keys: Annotated[list[Annotated[str, Field(min_length=1, max_length=253)]], Field(max_length=100)] | None = Field(
        default=None, description="Which of its keys. Unset: all."
    )


class Person(ApiModel):
    user: Annotated[str, Field(min_length=1, max_length=1024)]
    groups: Annotated[list[Annotated[str, Field(max_length=1024)]], Field(max_length=1000)] | None = None


class SecretDeliverySpec(ApiModel):
    """Connection data, and where it goes: either a Secret, or an ExternalSecret that fetches it there."""

    cluster: Place = Field(
        description="Namespace and name of the claim for the cluster. Its Cluster is there, or in a namespace of its "
        "own. It stays what it is."
    )
    target: Place = Field(description="Namespace and name inside the cluster. It stays what it is.")
    delivered_for: ClaimPlace = Field(description="Whose connection data it is.")
    source: Source | None = Field(default=None, description="The Secret that is copied.")
    manifest: dict[str, Any] | None = Field(
        default=None,
        description="Instead of a Secret: an ExternalSecret of external-secrets.io/v1, without metadata.",
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )
    on_behalf_of: Person | None = Field(
        default=None,
        description="Who must be allowed to read the cluster's kubeconfig, asked before each use. Unset: nobody needs "
        "a right.",
    )
    suspended: Annotated[str, Field(max_length=4096)] | None = Field(
        default=None, description="Why nothing is written at present; what is there stays as it is."
    )


class Delivered(ApiModel):
    kind: str = Field(description="Secret or ExternalSecret.")
    digest: str = Field(description="Of what was written.")
    at: Timestamp = Field(description="When it was last written.")


class SecretDeliveryStatus(ApiModel):
    begun_at: Timestamp | None = Field(
        default=None, description="When it was first about to be written. Before that there is nothing to remove."
    )
    delivered: Delivered | None = Field(default=None, description="What is there.")
    conditions: Conditions | None = None


_RULES: Final = (
    {"rule": "has(self.source) != has(self.manifest)", "message": "must have either source or manifest"},
    {"rule": "self.cluster == oldSelf.cluster", "message": "it stays in its cluster", "fieldPath": ".cluster"},
    {"rule": "self.target == oldSelf.target", "message": "it stays at its place", "fieldPath": ".target"},
    {
        "rule": f"!(self.target.__namespace__ in [{_LISTED}])",
        "message": "nothing is delivered into the namespaces of Kubernetes itself",
        "fieldPath": ".target.namespace",
    },
)

SECRET_DELIVERY: Final = Kind(
    resource=RESOURCE,
    singular="secretdelivery",
    description="Connection data of a claim that is put into a workload cluster and kept right there.",
    spec=SecretDeliverySpec,
    status=SecretDeliveryStatus,
    categories=("steelyard",),
    columns=(
        Column("Cluster", ".spec.cluster.name", "Where it goes."),
        Column("Namespace", ".spec.target.namespace", "Inside the cluster."),
        Column("Secret", ".spec.target.name", "What it is called there."),
        Column("Ready", ".status.conditions[?(@.type=='Ready')].status", "Whether it is there as it should be."),
        Column("Synced", ".status.conditions[?(@.type=='Synced')].status", "Whether the last try succeeded."),
        Column("Delivered", ".status.delivered.at", "When it was last written.", "date", priority=1),
        model.AGE,
    ),
    rules={"spec": _RULES},
)


def definitions() -> tuple[Object, ...]:
    return (crd.definition(SECRET_DELIVERY),)


def name_of(cluster_namespace: str, cluster: str, namespace: str, name: str) -> str:
    """`shop-5d41402abc4b2a76`: one place, one name. None of the parts can have a slash in it."""
    digest = hashlib.sha256(f"{cluster_namespace}/{cluster}/{namespace}/{name}".encode()).hexdigest()[:_DIGITS]
    return f"{cluster}-{digest}"
