"""VaultEntry: something that Vault is configured with, at a path of its API: an engine, a policy, a role, a connection.

Cluster-scoped, so that nobody but the platform writes them: what is at those paths decides who may read what. Secrets
that such a thing needs stay in Secrets, and only their names are here.

    path: auth/kubernetes-shop/role/vcluster-dev
    data: {bound_service_account_names: [external-secrets-sa], token_policies: [steelyard-cluster-shop]}
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from steelyard.api import model
from steelyard.api.claims import NamespaceName, ObjectName
from steelyard.api.model import ApiModel, Column, Conditions, Kind, Timestamp
from steelyard.api.resources import VAULT_ENTRIES

VaultPath = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[A-Za-z0-9_.:@~-]+(/[A-Za-z0-9_.:@~-]+)*$")]
FieldName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_.-]+$")]


class StoreReference(ApiModel):
    name: ObjectName = Field(description="Of the ClusterSecretStore that says which Vault it is, and how to log in.")


class SecretField(ApiModel):
    """A field whose value is in a Secret."""

    field: FieldName = Field(description="Of what is written to Vault.")
    namespace: NamespaceName = Field(description="Where the Secret is.")
    name: ObjectName = Field(description="What it is called.")
    key: Annotated[str, Field(min_length=1, max_length=253)] = Field(description="Which of its values.")


class VaultEntrySpec(ApiModel):
    store_ref: StoreReference = Field(description="Which Vault.")
    path: VaultPath = Field(description="Of Vault's API, without /v1: sys/policies/acl/x, database/roles/y.")
    data: (
        Annotated[
            dict[str, Any], Field(json_schema_extra={"type": "object", "x-kubernetes-preserve-unknown-fields": True})
        ]
        | None
    ) = Field(default=None, description="What is written there.")
    secret_data: Annotated[list[SecretField], Field(max_length=16)] | None = Field(
        default=None, description="Fields besides, whose values are in Secrets."
    )
    compare: Annotated[list[FieldName], Field(max_length=64)] | None = Field(
        default=None,
        description="Which fields are compared with what Vault says is there; where one differs, everything is written "
        "again. Unset: all of data that Vault shows.",
    )
    only_if_absent: bool | None = Field(
        default=None,
        description="Whether what is there is left as it is, whatever it says: for what can be made only once.",
    )
    read_path: VaultPath | None = Field(
        default=None, description="Where to see whether it is there, where that is another path."
    )
    refresh_interval: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,5}[smh]$")] | None = Field(
        default=None, description="How often it is looked at, though nothing changed here. Unset: every ten minutes."
    )
    revoke_leases: VaultPath | None = Field(
        default=None,
        description="What is revoked before it is deleted in Vault: all that was given out below this path, such as "
        "logins of a role.",
    )
    deletion_policy: Literal["Delete", "Orphan"] | None = Field(
        default=None, description="Whether it is deleted in Vault with this object. Unset: Delete."
    )


class SecretVersion(ApiModel):
    name: str = Field(description="As namespace/name.")
    version: str = Field(description="Its resourceVersion.")


class VaultEntryStatus(ApiModel):
    path: str | None = Field(
        default=None, description="Recorded before anything is written there; deleted when the path changes."
    )
    store: str | None = Field(default=None, description="By which store that was.")
    written_at: Timestamp | None = Field(default=None, description="When it was last written.")
    written_generation: int | None = Field(default=None, description="What of the spec was.")
    secrets: list[SecretVersion] | None = Field(
        default=None, description="Which versions of the Secrets were written: Vault shows their values to nobody."
    )
    conditions: Conditions | None = None


KIND: Final = Kind(
    resource=VAULT_ENTRIES,
    singular="vaultentry",
    description="Something that Vault is configured with: an engine, a policy, a role.",
    spec=VaultEntrySpec,
    status=VaultEntryStatus,
    categories=("steelyard",),
    columns=(
        Column("Path", ".spec.path", "Where in Vault."),
        Column("Ready", ".status.conditions[?(@.type=='Ready')].status", "Whether it is there as it should be."),
        Column("Written", ".status.writtenAt", "When it was last written.", "date"),
        model.AGE,
    ),
)
