"""In which order what was made for a claim goes away."""

from __future__ import annotations

from steelyard.kube.objects import Object
from steelyard.plan import inventory


def entry(resource_name: str, **more: object) -> Object:
    return {
        "resourceName": resource_name,
        "apiVersion": "v1",
        "kind": "X",
        "namespace": "a",
        "name": resource_name,
        **more,
    }


def order(*entries: Object) -> list[list[str]]:
    recorded = inventory.recorded({"status": {"inventory": list(entries)}})
    return [[each.resource_name for each in stage] for stage in inventory.stages(recorded)]


def test_the_lowest_stage_goes_first() -> None:
    assert order(entry("late", deletionStage=5), entry("soon", deletionStage=0), entry("too", deletionStage=5)) == [
        ["soon"],
        ["late", "too"],
    ]


def test_an_inventory_that_says_no_stages_goes_as_all_did_when_it_was_written() -> None:
    assert order(entry("workers"), entry("cluster"), entry("connection")) == [["connection"], ["cluster"], ["workers"]]


def test_what_the_composition_says_now_counts_over_what_was_recorded() -> None:
    [old] = inventory.recorded({"status": {"inventory": [entry("cluster")]}})
    [new] = inventory.recorded({"status": {"inventory": [entry("cluster", deletionStage=7)]}})

    assert [each.deletion_stage for each in inventory.union([old], [new])] == [7]
