"""What the server's own housekeeping leaves in managedFields and conditions."""

from __future__ import annotations

from typing import Any

from steelyard.kube import objects
from steelyard.kube.resources import CONFIG_MAPS, NAMESPACES
from steelyard.kube.server.housekeeping.upkeep import MANAGER
from tests.kube.server.bench import Bench, eventually, make

OWNER = "f:ownerReferences"


async def test_an_orphan_s_former_owner_is_no_longer_managed(bench: Bench) -> None:
    owner = await bench.create(CONFIG_MAPS, make(CONFIG_MAPS, "o"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": objects.uid(owner)}
    owned = await bench.create(CONFIG_MAPS, make(CONFIG_MAPS, "d", ownerReferences=[reference]))
    assert OWNER in str(objects.metadata(owned)["managedFields"])
    await bench.delete(CONFIG_MAPS, "o", propagationPolicy="Orphan")

    async def is_orphaned() -> bool:
        return not await bench.exists(CONFIG_MAPS, "o")

    await eventually(is_orphaned)
    orphan = await bench.get(CONFIG_MAPS, "d")
    assert not objects.owner_references(orphan)
    assert objects.uid(owner) not in str(orphan)


async def test_a_terminating_namespace_reports_what_is_well_too(bench: Bench) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "n"))
    await bench.create(CONFIG_MAPS, make(CONFIG_MAPS, "c", finalizers=["example.com/hold"]), namespace="n")
    await bench.delete(NAMESPACES, "n")

    async def conditions() -> list[Any]:
        return list(objects.sequence(objects.at(await bench.get(NAMESPACES, "n"), "status", "conditions")))

    await eventually(conditions)
    assert [(each["type"], each["status"]) for each in await conditions()] == [
        ("NamespaceDeletionDiscoveryFailure", "False"),
        ("NamespaceDeletionGroupVersionParsingFailure", "False"),
        ("NamespaceDeletionContentFailure", "False"),
        ("NamespaceContentRemaining", "True"),
        ("NamespaceFinalizersRemaining", "True"),
    ]
    managers = [
        (each["manager"], each.get("subresource", ""))
        for each in objects.metadata(await bench.get(NAMESPACES, "n"))["managedFields"]
    ]
    assert (MANAGER, "status") in managers
