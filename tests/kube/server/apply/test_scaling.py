"""The replicas of an object, managed through its Scale."""

from __future__ import annotations

from typing import Any

from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from tests.kube.server.bench import WIDGETS, Bench, make, widget

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
POD: Object = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": "one"}]}}
SPEC: Object = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": POD}
REPLICAS: Object = {"f:spec": {"f:replicas": {}}}


def entries(obj: Object) -> dict[str, Any]:
    """By manager, operation and subresource."""
    return {
        f"{entry['manager']}:{entry['operation']}:{entry.get('subresource', '')}": entry
        for entry in obj["metadata"]["managedFields"]
    }


async def test_scaling_takes_the_replicas_from_who_had_them(bench: Bench) -> None:
    await bench.create(DEPLOYMENTS, make(DEPLOYMENTS, "d", SPEC), fieldManager="u")
    await bench.patch(DEPLOYMENTS, "d", {"spec": {"replicas": 3}}, subresource="scale", fieldManager="s")
    found = entries(await bench.get(DEPLOYMENTS, "d"))
    assert "f:replicas" not in found["u:Update:"]["fieldsV1"]["f:spec"]
    assert found["s:Update:scale"]["fieldsV1"] == REPLICAS
    assert found["s:Update:scale"]["apiVersion"] == "apps/v1"
    assert "time" not in found["s:Update:scale"], "upstream loses it on the way back from the Scale"


async def test_an_applied_scale_has_its_own_entry(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a", {"replicas": 1}), fieldManager="u")
    scale: Object = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a"},
        "spec": {"replicas": 2},
    }
    applied = {"subresource": "scale", "fieldManager": "s", "force": "true"}
    await bench.patch(WIDGETS, "a", scale, "apply", **applied)
    found = entries(await bench.get(WIDGETS, "a"))
    assert found["s:Apply:scale"]["fieldsV1"] == REPLICAS


async def test_nobody_is_told_who_scales_what_nobody_manages(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a", {"size": 1}), fieldManager="u")
    await bench.patch(WIDGETS, "a", {"spec": {"replicas": 2}}, subresource="scale", fieldManager="s")
    found = await bench.get(WIDGETS, "a")
    assert found["spec"]["replicas"] == 2
    assert list(entries(found)) == ["u:Update:"]
