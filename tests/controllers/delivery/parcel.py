"""The smallest claim that delivers: a text, which goes into clusters."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from steelyard.api import claims
from steelyard.api.claims import ClaimSpec, ClaimStatus
from steelyard.api.model import ApiModel, Kind
from steelyard.api.secretdelivery import DELIVER_TO, DeliverTo, DeliveryReport
from steelyard.compose import delivery
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.composed import Composed, Condition, Observed
from steelyard.compose.delivery import InVault
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.settings import Platform

PARCELS = Resource("office.steelyard.dev", "v1alpha1", "parcels", "Parcel")
CREDENTIALS = "crossplane-system"


class Parameters(ApiModel):
    """What is to be delivered."""

    text: Annotated[str, Field(max_length=1000)] | None = Field(default=None, description="Unset: not known yet.")
    deliver_to: DeliverTo | None = Field(default=None, description=DELIVER_TO)


class ParcelSpec(ClaimSpec):
    """The parcel asked for."""

    parameters: Parameters = Field(description="What is to be delivered.")


class ParcelStatus(ClaimStatus):
    deliveries: list[DeliveryReport] | None = None


def definition(_domain: str) -> Kind:
    return Kind(
        resource=PARCELS,
        singular="parcel",
        description="Something to deliver.",
        spec=ParcelSpec,
        status=ParcelStatus,
        categories=claims.CATEGORIES,
    )


def compose(claim: Object, observed: Observed, platform: Platform) -> Composed:
    spec = ParcelSpec.model_validate(claim["spec"])
    text = spec.parameters.text
    delivered = delivery.compose(
        claim,
        spec.parameters.deliver_to,
        observed,
        platform,
        credentials_namespace=CREDENTIALS,
        data=delivery.environment({"text": text} if text is not None else None, {"TEXT": "text"}),
        in_vault=InVault(f"secret/apps/dev/{objects.name(claim)}", {"text": "text", "TEXT": "text"}),
    )
    own = [Condition("Ready", "True", "Available"), Condition("UpToDate", "True", "AsAskedFor")]
    return Composed(
        desired=delivered.desired,
        requirements=delivered.requirements,
        conditions=delivered.conditions(own),
        status=delivered.status,
        retained=delivered.retained,
        waits_untold=delivered.waits_untold,
    )


PARCEL = ClaimKind(
    noun="parcel",
    nouns="parcels",
    definition=definition,
    parameters=Parameters,
    compose=compose,
    makes=delivery.MAKES,
    left=delivery.left,
)
