"""Whole claims, composed: compared with what was reviewed, and checked against every schema they must pass."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import cast

import pytest
import yaml

from steelyard import settings
from steelyard.api.clusterapi import definitions
from steelyard.compose import offering
from steelyard.compose.composed import Observed
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.schema import parse, prune, validate
from steelyard.kube.schema.model import Schema
from tests.compose import cases

PLATFORM = settings.parse("domain: pnats.cloud")
UPSTREAM = Path(__file__).parents[3] / "shared" / "crds" / "cluster-api"


@pytest.mark.parametrize("case", cases.CASES)
def test_composed_as_reviewed(case: str) -> None:
    composed = cases.compose(cases.load(case, "claim.yaml"), cases.observed(case), cases.platform(case))
    document = objects.copy(cases.as_document(composed))

    if os.environ.get("UPDATE_GOLDEN"):
        cases.write(case, document)
    assert document == cases.load(case, "desired.yaml")


@pytest.mark.parametrize("case", cases.CASES)
def test_composing_changes_neither_claim_nor_what_was_observed(case: str) -> None:
    claim, observed = cases.load(case, "claim.yaml"), cases.observed(case)

    first = cases.as_document(cases.compose(claim, observed, cases.platform(case)))
    second = cases.as_document(cases.compose(claim, observed, cases.platform(case)))

    assert first == second
    assert claim == cases.load(case, "claim.yaml")
    assert observed == cases.observed(case)


@pytest.mark.parametrize("case", cases.CASES)
def test_composed_objects_pass_the_schemas_that_the_platform_serves(case: str) -> None:
    served = [*offering.STANDARD.definitions("pnats.cloud"), *definitions.crds()]

    _check(case, {str(each["spec"]["names"]["kind"]): _schema(each) for each in served})


@pytest.mark.skipif(not UPSTREAM.is_dir(), reason="upstream's definitions of Cluster API are not here")
@pytest.mark.parametrize("case", cases.CASES)
def test_composed_objects_pass_upstreams_schemas(case: str) -> None:
    upstream = [cast(Object, yaml.load(path.read_bytes(), yaml.CSafeLoader)) for path in _upstream_files()]

    _check(case, {str(each["spec"]["names"]["kind"]): _schema(each) for each in upstream})


@pytest.mark.parametrize("case", cases.CASES)
def test_the_status_fits_the_claims_schema(case: str) -> None:
    claim = cases.load(case, "claim.yaml")
    composed = cases.compose(claim, cases.observed(case), cases.platform(case))
    served = offering.STANDARD.definitions("pnats.cloud")
    schema = _schema(next(each for each in served if each["spec"]["names"]["kind"] == claim["kind"]))
    obj: Object = {**claim, "status": objects.copy(composed.status)}

    complaints = [cause for cause in validate.validate(schema, obj) if cause.field.startswith("status")]
    assert complaints == []
    assert prune.prune(schema, obj) == []


def test_composing_takes_less_than_a_millisecond() -> None:
    claim, observed = cases.load("ready", "claim.yaml"), cases.observed("ready")
    best = min(_seconds(claim, observed) for _ in range(20))

    print(f"compose: {best * 1e6:.0f} us")
    assert best < 0.001


def _seconds(claim: Object, observed: Observed) -> float:
    """Of the processor's time: others may use it meanwhile."""
    started = time.thread_time()
    cases.compose(claim, observed, PLATFORM)
    return time.thread_time() - started


def _check(case: str, schemas: dict[str, Schema]) -> None:
    composed = cases.compose(cases.load(case, "claim.yaml"), cases.observed(case), cases.platform(case))
    for part in composed.desired.values():
        schema = schemas.get(part.resource.kind)
        if schema is not None:
            obj = objects.copy(part.object)
            assert validate.validate(schema, obj) == []
            assert prune.prune(schema, obj) == [], "a field that the kind does not have"


def _schema(definition: Object) -> Schema:
    versions = cast("list[Object]", definition["spec"]["versions"])
    version = next((each for each in versions if each["name"] == "v1beta2"), versions[-1])
    return parse.from_openapi(version["schema"]["openAPIV3Schema"])


def _upstream_files() -> list[Path]:
    plurals = ("clusters", "kubeadmcontrolplanes", "kubeadmconfigtemplates", "machinedeployments")
    return [path for plural in plurals for path in UPSTREAM.glob(f"{plural}.*.yaml")]
