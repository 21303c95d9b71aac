"""Every composed object is one that its API accepts: upstream's definitions for kinds of others, our own tables for
those that are built in. Structure, bounds and CEL rules, and no field that the kind does not have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.api.clusterapi import definitions
from steelyard.compose import comparing
from steelyard.compose.cluster import integrating
from steelyard.compose.composed import Desired
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES
from tests import inprocess
from tests.compose import cases, upstream


@upstream.needed
@pytest.mark.parametrize("case", cases.CASES)
def test_what_is_composed_passes_upstreams_schemas(case: str) -> None:
    for part in composed(case):
        if part.resource.group not in upstream.BUILT_IN and not upstream.is_ours(part.resource):
            schema = upstream.schema_of(part.resource.group_resource, part.resource.version)
            assert upstream.problems(schema, part.object) == []


@upstream.needed
@pytest.mark.parametrize("case", [case for case in cases.CASES if "kubevirt" in case])
def test_machine_templates_hold_virtual_machines_that_kubevirt_accepts(case: str) -> None:
    """The provider's definition leaves parts of the virtual machine open; KubeVirt's own does not."""
    schema = upstream.schema_of("virtualmachines.kubevirt.io", "v1")
    disks = upstream.schema_of("datavolumes.cdi.kubevirt.io", "v1beta1")
    templates = [part.object for part in composed(case) if part.resource.kind == "KubevirtMachineTemplate"]

    assert templates
    for template in templates:
        spec = objects.copy(template)["spec"]["template"]["spec"]["virtualMachineTemplate"]["spec"]
        machine: Object = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "a"}}
        assert upstream.problems(schema, {**machine, "spec": spec}) == []
        for disk in spec["dataVolumeTemplates"]:
            volume: Object = {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", **disk}
            assert upstream.problems(disks, volume) == []


async def test_built_in_kinds_are_accepted_as_they_are_composed(tmp_path: Path) -> None:
    parts = [part for case in cases.CASES for part in composed(case) if part.resource.group in upstream.BUILT_IN]

    assert parts
    async with inprocess.platform(tmp_path) as client:
        for namespace in {objects.namespace(part.object) for part in parts} - {""}:
            await inprocess.namespace(client, namespace)
        for part in parts:
            if part.resource == NAMESPACES or part.is_shared:
                continue
            wanted = _without_owners(part.object)
            stored = await client.create(part.resource, wanted, dry_run=True)
            assert comparing.covers(stored, wanted), "a field that the kind does not have"


def composed(case: str) -> Iterator[Desired]:
    made = cases.compose(cases.load(case, "claim.yaml"), cases.observed(case), cases.platform(case))
    yield from made.desired.values()


def _without_owners(obj: Object) -> Object:
    metadata = {key: value for key, value in objects.metadata(obj).items() if key != "ownerReferences"}
    return {**obj, "metadata": metadata}


def test_the_definitions_of_cluster_api_that_ship_are_those_of_composed_kinds() -> None:
    shipped = {objects.name(each) for each in definitions.crds()}
    made = {
        part.resource.group_resource
        for case in cases.CASES
        for part in composed(case)
        if part.resource.group.endswith("cluster.x-k8s.io")
        and part.resource.version == "v1beta2"
        and not upstream.is_ours(part.resource)
    } - {each.group_resource for each in integrating.OF_OTHERS}
    assert made <= shipped
