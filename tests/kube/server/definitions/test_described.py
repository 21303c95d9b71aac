"""What is made of the schemas of definitions: large ones do not fill the memory, however many there are."""

from __future__ import annotations

from weakref import WeakSet

import pytest

from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from steelyard.kube.schema import validate
from steelyard.kube.server.definitions import described
from steelyard.kube.server.definitions.described import Described
from tests.kube.server.bench import Bench, make, simple_definition


def wide(properties: int) -> Object:
    spec = {f"p{number}": {"type": "string", "pattern": f"^a{number}$"} for number in range(properties)}
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a while had passed since anything was used, and there were little room. What other tests have left does
    not count: it would go, and make room, at any moment."""
    monkeypatch.setattr(described, "_COUNTED", WeakSet[Described]())
    monkeypatch.setattr(described, "_JUST_NOW", -1.0)
    monkeypatch.setattr(described, "_KEPT_BYTES", 3_000_000)


@pytest.mark.usefixtures("tight")
def test_what_is_made_of_large_schemas_goes_with_those_used_longest_ago() -> None:
    before = described.held()
    small = Described(wide(10))
    large = [Described(wide(1000)) for _ in range(3)]
    for each in (small, *large):
        each.prepare()
    for _ in large:
        described.tidy()
    assert [each.is_whole for each in (small, *large)] == [True, False, False, True]
    assert [each.is_prepared for each in (small, *large)] == [True, False, False, True]
    assert before < described.held() < before + 3_000_000
    assert large[0].document == wide(1000)
    assert [cause.field for cause in validate.validate(large[0].schema, {"spec": {"p7": "a8"}})] == ["spec.p7"]


@pytest.mark.usefixtures("tight")
def test_what_was_used_just_now_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(described, "_JUST_NOW", 60.0)
    large = [Described(wide(1000)) for _ in range(3)]
    for each in large:
        each.prepare()
        described.tidy()
    assert all(each.is_prepared for each in large)


@pytest.mark.usefixtures("tight")
async def test_a_kind_whose_schema_was_let_go_of_is_served_as_before(bench: Bench) -> None:
    kinds = [Resource(f"g{number}.example.com", "v1", "stones", "Stone") for number in range(3)]
    for kind in kinds:
        definition = simple_definition(kind)
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = wide(1000)
        await bench.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        described.tidy()
    for kind in kinds:
        await bench.create(kind, make(kind, "a", {"p7": "a7"}))
        with pytest.raises(errors.Invalid, match="p7"):
            await bench.create(kind, make(kind, "b", {"p7": "a8"}))
        described.tidy()
    assert [await bench.names(kind) for kind in kinds] == [["a"]] * 3


async def test_a_schema_is_made_ready_for_the_first_who_writes_an_object_of_the_kind(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[Object] = []

    def prepare(self: Described) -> None:
        prepared.append(self.document)
        validate.prepare(self.schema)

    monkeypatch.setattr(Described, "prepare", prepare)
    kind = Resource("g.example.com", "v1", "stones", "Stone")
    definition = simple_definition(kind)
    await bench.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    assert await bench.names(kind) == []
    assert prepared == []
    await bench.create(kind, make(kind, "a"))
    assert {str(each) for each in prepared} == {str(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])}
