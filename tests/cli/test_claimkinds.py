"""Claims are what the API lists in the category `claim`: a second kind goes through every verb."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import Literal

import pytest
import yaml
from pydantic import Field

from steelyard.api.model import ApiModel, Kind
from steelyard.cli import main, offered
from steelyard.cli.exits import Exit
from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Resource
from tests.cli.terminal import Terminal
from tests.harness import PlatformProcess
from tools import cli_reference

GARDENS = Resource("things.example.org", "v1", "gardens", "Garden")
DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gardens.things.example.org"},
    "spec": {
        "group": GARDENS.group,
        "scope": "Namespaced",
        "names": {"plural": "gardens", "singular": "garden", "kind": "Garden", "categories": ["claim"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "parameters": {
                                        "type": "object",
                                        "required": ["soil"],
                                        "properties": {
                                            "soil": {"type": "string", "enum": ["sandy", "loamy", "chalky"]},
                                            "beds": {"type": "integer", "minimum": 1},
                                        },
                                    }
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}
CONDITIONS = [
    {"type": "Synced", "status": "True", "reason": "ReconcileSuccess", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    {
        "type": "Ready", "status": "False", "reason": "Degraded", "message": "the fence is open",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    },
]  # fmt: skip


def garden(name: str, namespace: str = "green") -> Object:
    return {
        "apiVersion": GARDENS.api_version,
        "kind": "Garden",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"parameters": {"soil": "loamy", "beds": 3}},
        "status": {
            "conditions": CONDITIONS,
            "parameters": {"soil": "loamy", "beds": 3},
            "inventory": [
                {"resourceName": "ns", "apiVersion": "v1", "kind": "Namespace", "namespace": "", "name": namespace},
                {"resourceName": "x", "apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": "gone"},
            ],
        },
    }


@pytest.fixture(scope="module")
def gardens(shared: PlatformProcess) -> None:
    async def define() -> None:
        client = shared.client()
        try:
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "green"}})
            deadline = time.monotonic() + 60
            while True:
                try:
                    await client.create(GARDENS, garden("rose"))
                    break
                except errors.NotFound:
                    assert time.monotonic() < deadline
                    await asyncio.sleep(0.05)
            await client.create(GARDENS, garden("ready"))
        finally:
            await client.close()

    asyncio.run(define())


@pytest.mark.usefixtures("gardens")
def test_a_second_kind_is_listed_found_described_and_deleted(terminal: Terminal, ready_claim: str) -> None:
    listed = terminal.quick("get").out
    assert f"workloadcluster/{ready_claim}" in listed
    assert "garden/rose" in listed
    assert set(terminal.quick("get", "claims", "-o", "name").out.splitlines()) >= {
        "workloadcluster.compute.steelyard.dev/ready",
        "garden.things.example.org/rose",
        "garden.things.example.org/ready",
    }
    assert terminal.quick("get", "rose", "-o", "name").out == "garden.things.example.org/rose\n"
    assert terminal.quick("get", "gardens").out.splitlines()[0].split() == ["NAMESPACE", "NAME", "AGE"]

    told = terminal.quick("describe", "rose").out
    assert told.startswith("Garden green/rose: Degraded for ")
    for words in (
        "the fence is open",
        "soil: loamy",
        "beds: 3",
        "Namespace",
        "ConfigMap",
        "steelyard wait rose -n green",
    ):
        assert words in told
    assert "machines" not in told

    assert "claim green/rose: Degraded: the fence is open" in terminal.quick("doctor").out

    clash = terminal.quick("describe", "ready")
    assert clash.code == Exit.USAGE
    assert "say which one: garden/ready, workloadcluster/ready" in clash.err
    assert terminal.quick("describe", "garden/ready").out.startswith("Garden green/ready")
    assert "Deleted" not in terminal.quick("delete", "garden/ready", "--yes").out
    assert terminal.quick("describe", "ready").out.startswith("WorkloadCluster reading/ready")


@pytest.mark.usefixtures("gardens")
def test_all_mistakes_of_any_kind_are_told_at_once(terminal: Terminal) -> None:
    bad = garden("bad")
    bad["spec"] = {"parameters": {"soil": "sany", "beds": 0, "bets": 4}}
    bad.pop("status")
    done = terminal.quick("apply", "-f", "-", given=yaml.safe_dump(bad))
    assert (done.code, done.out) == (Exit.FAILED, "")
    head, *mistakes, tail = done.err.splitlines()
    assert (head, tail) == ("error: standard input: Garden green/bad has 3 mistakes:", "Nothing was done.")
    listed = 'supported values: "sandy", "loamy", "chalky"'
    assert sorted(mistakes) == [
        "  spec.parameters.beds: Invalid value: 0: spec.parameters.beds in body should be greater than or equal to 1",
        "  spec.parameters.bets: unknown field; did you mean beds?",
        f'  spec.parameters.soil: Unsupported value: "sany": {listed}; did you mean sandy?',
    ]


class GardenParameters(ApiModel):
    soil: Literal["sandy", "loamy", "chalky"] = Field(description="What it grows in.")
    beds: int | None = Field(default=None, description="How many.")


class GardenSpec(ApiModel):
    parameters: GardenParameters


def _kind(_domain: str) -> Kind:
    return Kind(GARDENS, "garden", "A garden of one's own.", GardenSpec, categories=("claim",))


@pytest.mark.usefixtures("gardens")
def test_a_kind_that_is_offered_gets_a_create_command_of_its_own(terminal: Terminal) -> None:
    cluster = offered.current().kinds[0]
    garden_kind = dataclasses.replace(
        cluster, noun="garden", nouns="gardens", parameters=GardenParameters, definition=_kind
    )
    offering = dataclasses.replace(offered.current(), kinds=(cluster, garden_kind))
    program = main.application(offering)
    names = [command.name for command in cli_reference.commands(program)]
    assert {"create cluster", "create garden"} <= set(names)

    made = terminal.quick(
        "create", "garden", "herbs", "-n", "green", "--soil", "chalky", "--beds", "2", program=program
    )
    assert made.out == "garden.things.example.org/herbs created in namespace green\n"
    claim = yaml.safe_load(terminal.quick("get", "gardens", "herbs", "-o", "yaml", program=program).out)
    assert claim["spec"] == {"parameters": {"soil": "chalky", "beds": 2}}
    wrong = terminal.quick("create", "garden", "x", "--soil", "chlky", "--beds", "many", program=program)
    assert "did you mean chalky?" in wrong.err
    assert 'spec.parameters.beds: must be of type integer, not "many"' in wrong.err
