"""What is wrong with a claim that no API server has seen: what one would refuse, judged by the same schema and rules.

The definition of the kind is what decides here as there, so that a claim in Git gets the same answers as one that is
applied. What the shipped policies ask of the platform file is asked of the platform file itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from steelyard.api import catalogue, crd
from steelyard.api.versions import is_offered
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.composed import NOTHING
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.schema import default, parse, prune, validate
from steelyard.settings import Platform
from steelyard.settings.problems import nearest

Check: TypeAlias = Callable[[Object], list[str]]


def of(kind: ClaimKind, platform: Platform) -> Check:
    """A function from a claim of the kind, as a new one, to everything that is wrong with it, each with its field.
    Made once and used for many: it compiles the definition.
    """
    definition = kind.definition(platform.domain)
    served, document = definition.resource.api_version, crd.object_schema(definition)
    schema = parse.from_openapi(document)
    validate.prepare(schema)

    def problems(claim: Object) -> list[str]:
        checked = objects.copy({key: value for key, value in claim.items() if key != "status"})
        found: list[str] = []
        if claim.get("apiVersion") != served:
            found.append(
                f"apiVersion: {claim.get('apiVersion')} is not this platform's; write {served}, or set the domain in "
                "the platform file"
            )
        found += [_unknown(field, _beside(document, field)) for field in prune.prune(schema, checked)]
        default.apply_defaults(schema, checked)
        found += [_told(cause.field, cause.message) for cause in validate.validate(schema, checked)]
        found += _asked_of_platform(kind, checked, platform)
        return found or _refused(kind, checked, platform)

    return problems


def _refused(kind: ClaimKind, claim: Object, platform: Platform) -> list[str]:
    """What composition would say of it, which is what the kind's own policies ask."""
    refusal = kind.compose(claim, NOTHING, platform).refusal
    return [refusal.message] if refusal is not None else []


def _told(field: str, message: str) -> str:
    where = field.removeprefix(".").removeprefix("<nil>")
    return f"{where}: {message}" if where else message


def _unknown(field: str, known: list[str]) -> str:
    meant = nearest(field.rpartition(".")[2], known)
    return f"{field}: unknown field" + (f"; did you mean {meant}?" if meant else "")


def _beside(schema: Object, field: str) -> list[str]:
    """The fields that there are where the unknown one stands."""
    for step in field.split(".")[:-1]:
        schema = objects.mapping(objects.mapping(schema.get("properties")).get(step.partition("[")[0]))
        schema = objects.mapping(schema.get("items")) if "[" in step else schema
    return list(objects.mapping(schema.get("properties")))


def _asked_of_platform(kind: ClaimKind, claim: Object, platform: Platform) -> Iterator[str]:
    """What the policies of `api/policies.py` refuse in a new claim."""
    parameters = objects.mapping(objects.at(claim, "spec", "parameters"))
    name = parameters.get("environment")
    if "environment" in kind.parameters.model_fields and isinstance(name, str):
        usable = platform.environment_names()
        is_preview = platform.environment_name(name) not in ("", *platform.environments)
        if name not in usable and not is_preview:
            meant = nearest(name, usable)
            hint = f"; did you mean {meant}?" if meant else ""
            yield (f"spec.parameters.environment: there is no environment {name}{hint} There are: {', '.join(usable)}")
    for field in kind.parameter_names & catalogue.FIELDS.keys():
        version = parameters.get(field)
        if not isinstance(version, str) or not is_offered(version):
            continue
        infrastructure = str(parameters.get("infrastructure") or platform.infrastructure)
        if problem := platform.versions.problem(infrastructure, version):
            yield f"spec.parameters.{field}: {problem}"
