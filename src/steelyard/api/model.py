"""The base of every kind's model, and what a kind is made of besides its fields.

A kind is declared once, as a `Kind`: pydantic models for spec and status, names, printer columns. `crd.py` turns that
into the CRD, `tools/reference.py` into the reference page, and controllers parse claims with the same models. Python
names are snake_case; the API's camelCase comes from the alias generator.

Modules of models do without `from __future__ import annotations`: pydantic would have to evaluate every annotation by
itself, which takes a quarter as long again.
"""

from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource


def camel_case(name: str) -> str:
    """`disk_gb` as `diskGb`. Pydantic's own takes ten times as long, for each of a thousand fields at each start."""
    first, *rest = name.split("_")
    return first + "".join([each.capitalize() for each in rest])


class ApiModel(BaseModel):
    """Fields the server would prune are ignored here too: what reaches a controller has been validated already."""

    model_config = ConfigDict(
        alias_generator=camel_case,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="ignore",
        frozen=True,
        defer_build=True,
    )

    def to_json(self) -> Object:
        """As it is written in the API: camelCase, without what is not set."""
        return self.model_dump(mode="json", exclude_none=True)


Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Condition(ApiModel):
    """One aspect of the object's state, in the form all of Kubernetes uses."""

    type: str = Field(max_length=316, description="Which aspect, e.g. Ready.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: str = Field(max_length=1024, description="One word for programs: why the status is what it is.")
    message: str = Field(max_length=32768, description="For people: what is going on and what to do about it.")
    last_transition_time: Timestamp = Field(description="When the status last changed.")
    observed_generation: int | None = Field(
        default=None,
        ge=0,
        description="The metadata.generation this was computed from; older than the object's means stale.",
    )


Conditions = Annotated[
    list[Condition],
    Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]


class Initialization(ApiModel):
    """What Cluster API waits for once in the life of an infrastructure object."""

    provisioned: bool | None = Field(
        default=None, description="True once the infrastructure exists; it never turns false again."
    )


@frozen
class Column:
    """One column of `kubectl get`. Priority 0 is always shown, 1 only with `-o wide`."""

    name: str
    json_path: str
    description: str
    type: Literal["string", "integer", "number", "boolean", "date"] = "string"
    priority: int = 0

    def to_json(self) -> Object:
        column: Object = {
            "name": self.name,
            "type": self.type,
            "jsonPath": self.json_path,
            "description": self.description,
        }
        if self.priority:
            column["priority"] = self.priority
        return column


AGE = Column("Age", ".metadata.creationTimestamp", "Time since it was created.", "date")


@frozen
class Scale:
    """Where `kubectl scale` finds its number."""

    spec_replicas_path: str
    status_replicas_path: str

    def to_json(self) -> Object:
        return {"specReplicasPath": self.spec_replicas_path, "statusReplicasPath": self.status_replicas_path}


@frozen
class Kind:
    resource: Resource
    singular: str
    description: str
    spec: type[ApiModel]
    status: type[ApiModel] | None = None
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = (AGE,)
    scale: Scale | None = None
    labels: dict[str, str] = field(default_factory=dict[str, str])
    """Labels of the CRD itself; Cluster API finds the served contract version by them."""
    name_schema: dict[str, Any] = field(default_factory=dict[str, Any])
    """Bounds on metadata.name, where what is derived from the name must fit into a label value."""
    rules: dict[str, tuple[dict[str, Any], ...]] = field(default_factory=dict[str, tuple[dict[str, Any], ...]])
    """CEL rules besides those of the fields, by the place where they stand: `spec.parameters`, or empty for the whole
    object."""
