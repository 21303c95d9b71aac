"""The smallest claim that there is: a note, which becomes a ConfigMap, and whose text can be had as a Secret."""

from __future__ import annotations

import base64
from typing import Annotated

from pydantic import Field

from steelyard.api import claims, model
from steelyard.api.claims import ClaimSpec, ClaimStatus, EnvironmentName
from steelyard.api.model import ApiModel, Column, Kind
from steelyard.compose import connection
from steelyard.compose.claimkind import ClaimKind, Guide, Reported
from steelyard.compose.composed import Composed, Condition, Desired, Observed
from steelyard.compose.connection import CONNECTION
from steelyard.compose.effects import Disruption, Effect, Parts, Required
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from steelyard.settings import Platform

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
_STAGE_OF_COVER = 1
_STAGE_OF_PAGES = 2


class NoteParameters(ApiModel):
    """What is to be kept."""

    environment: EnvironmentName = Field(description="The stage it is for.")
    text: Annotated[str, Field(max_length=1000)] = Field(description="What it says.")
    pages: Annotated[int, Field(ge=1, le=5)] | None = Field(default=None, description="On how many. Default: 1.")


class NoteSpec(ClaimSpec):
    """The note asked for."""

    parameters: NoteParameters = Field(description="What is to be kept.")


class NoteStatus(ClaimStatus):
    pages: int | None = Field(default=None, description="How many there are.")


def definition(domain: str) -> Kind:
    return Kind(
        resource=Resource(f"office.{domain}", "v1alpha1", "notes", "Note"),
        singular="note",
        description="Something to remember.",
        spec=NoteSpec,
        status=NoteStatus,
        categories=claims.CATEGORIES,
        columns=(Column("State", ".status.state", "How it is, in one word."), model.AGE),
    )


def compose(claim: Object, observed: Observed, platform: Platform) -> Composed:
    spec = NoteSpec.model_validate(claim["spec"])
    pages = spec.parameters.pages or 1
    desired = {"cover": _page(claim, "cover", {"for": spec.parameters.environment}, stage=_STAGE_OF_COVER)}
    for number in range(1, pages + 1):
        text = {"text": spec.parameters.text, "in": platform.domain}
        desired[f"page-{number}"] = _page(claim, f"page-{number}", text, stage=_STAGE_OF_PAGES)
    asked = spec.write_connection_secret_to_ref
    if asked is not None:
        text = base64.b64encode(spec.parameters.text.encode()).decode()
        desired[CONNECTION] = connection.secret(claim, asked, {"text": text})
    there = sum(1 for name in desired if name in observed.resources)
    is_complete = there == len(desired)
    return Composed(
        desired=desired,
        conditions=[
            Condition(
                "Ready",
                "True" if is_complete else "False",
                "Available" if is_complete else "Creating",
                f"{there} of {len(desired)} written",
            )
        ],
        status={"pages": pages, "compositionRevision": "v1"},
    )


def _page(claim: Object, name: str, data: dict[str, str], *, stage: int) -> Desired:
    obj: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{objects.name(claim)}-{name}", "namespace": objects.namespace(claim)},
        "data": data,
    }
    return Desired(CONFIG_MAPS, obj, owned="owned", deletion_stage=stage)


def effects(before: Parts, after: Parts, _required: Required) -> list[Effect]:
    """A page that goes takes along what was written on it."""
    lost = [name for name in before if name.startswith("page-") and name not in after]
    return [Effect(Disruption.DATA_LOSS, name, "what is written on it is lost", name) for name in lost]


NOTE = ClaimKind(
    noun="note",
    nouns="notes",
    definition=definition,
    parameters=NoteParameters,
    compose=compose,
    makes=(CONFIG_MAPS, SECRETS),
    effects=effects,
    guide=Guide(
        example={"parameters": {"environment": "dev", "text": "milk"}},
        conditions=(Reported("Ready", "True", "Available", "It is written."),),
        deletion="the cover goes before the pages",
    ),
)
