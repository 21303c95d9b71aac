"""What all claims have in common, whatever they ask for: the fields beside `parameters`, and the report in the status.

A claim kind inherits both and adds its own parameters. Crossplane knows the same fields under the same names, so that a
claim made for it is accepted as it stands.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from steelyard.api.model import ApiModel, Conditions
from steelyard.kube import objects
from steelyard.kube.objects import Object

CATEGORY: Final = "claim"
"""The category of every claim's definition: by it clients find out which kinds are claims."""
CATEGORIES: Final = (CATEGORY, "steelyard")

PROTECTED: Final = "steelyard.dev/protected"
"""Annotation: with the value "true" the claim cannot be deleted."""
COMPOSITION_REVISION: Final = "steelyard.dev/composition-revision"
"""Annotation: the revision of the composition that the claim is to move to."""
CREATED: Final = "steelyard.dev/created-at"
"""Annotation of a claim that was moved: when it was made, which its lifetime counts from."""
DELETION_PROTECTION: Final = "spec.parameters.deletionProtection"
"""The same as a field, of the kinds that have it."""

ObjectName = Annotated[
    str,
    Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
]
NamespaceName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
EnvironmentName = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]
"""Which names there are is the platform file's to say, and admission's to check: previews come and go."""


class SecretReference(ApiModel):
    name: ObjectName = Field(description="Name of the Secret.")
    namespace: NamespaceName | None = Field(default=None, description="Namespace of the Secret. Default: the claim's.")


class NameReference(ApiModel):
    name: ObjectName = Field(description="Name of the object.")


class Selector(ApiModel):
    match_labels: dict[str, str] = Field(description="Labels that the selected object carries.")


class CompositeReference(ApiModel):
    api_version: str = Field(description="API version of the composite.")
    kind: str = Field(description="Kind of the composite.")
    name: ObjectName = Field(description="Name of the composite.")


class ClaimSpec(ApiModel):
    """The fields beside `parameters` are those of a Crossplane claim. Where Crossplane runs, it acts on those about
    compositions; embedded, there is one composition for each kind, and they are kept without effect.
    """

    parameters: Any
    """Each kind says which. A type variable would have pydantic make a model ready for each, whether it is used or
    not."""
    write_connection_secret_to_ref: SecretReference | None = Field(
        default=None, description="A Secret to write what is needed to connect into."
    )
    composition_ref: NameReference | None = Field(default=None, description="Crossplane: the composition to use.")
    composition_selector: Selector | None = Field(
        default=None, description="Crossplane: selects the composition by labels."
    )
    composition_revision_ref: NameReference | None = Field(default=None, description="Crossplane: the revision to use.")
    composition_revision_selector: Selector | None = Field(
        default=None, description="Crossplane: selects the composition revision by labels."
    )
    composition_update_policy: Literal["Automatic", "Manual"] | None = Field(
        default=None, description="Crossplane: whether a new composition revision is taken up without being asked for."
    )
    composite_delete_policy: Literal["Background", "Foreground"] | None = Field(
        default=None, description="Crossplane: how the composite is deleted."
    )
    resource_ref: CompositeReference | None = Field(
        default=None, description="Crossplane: the composite behind the claim."
    )


class ObjectReference(ApiModel):
    name: str
    namespace: str


class InventoryEntry(ApiModel):
    resource_name: str = Field(description="The name of the part within the composition; it never changes.")
    api_version: str
    kind: str
    namespace: str
    name: str
    deletion_stage: int | None = Field(
        default=None,
        ge=0,
        description="When the claim is deleted, parts go stage by stage, the lowest first; each waits until those "
        "before are gone.",
    )


class ClaimStatus(ApiModel):
    conditions: Conditions | None = Field(
        default=None,
        description="Synced: the claim was applied. Ready: what was asked for can be used. UpToDate: it is exactly as "
        "asked for.",
    )
    state: str | None = Field(
        default=None,
        max_length=64,
        description="How it is, in one word: Creating, Ready, Scaling, Updating, Degraded, Recovering, Paused, "
        "Refused, Failing or Deleting.",
    )
    message: str | None = Field(default=None, description="In one line: what is going on.")
    composition_revision: str | None = Field(
        default=None, description="The revision of the composition that the claim is pinned to."
    )
    inventory: list[InventoryEntry] | None = Field(
        default=None,
        description="Every object that was made for this claim. Recorded before it is made, so that none is lost.",
    )
    observed_generation: int | None = Field(
        default=None, description="The metadata.generation that this status is about."
    )


def protected_by(claim: Object) -> str:
    """What keeps the claim from being deleted; empty where nothing does."""
    if objects.annotations(claim).get(PROTECTED) == "true":
        return f"the annotation {PROTECTED}"
    return DELETION_PROTECTION if objects.at(claim, "spec", "parameters", "deletionProtection") is True else ""
