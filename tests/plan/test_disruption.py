"""What a change does to any object, whatever kind of claim it belongs to."""

from __future__ import annotations

import pytest

from steelyard.api.clusterapi.resources import CLUSTERS, MACHINE_DEPLOYMENTS
from steelyard.api.crossplane import DATABASES, RELEASES
from steelyard.compose.effects import Disruption, Effect
from steelyard.kube.resources import CONFIG_MAPS, SECRETS, Resource
from steelyard.plan import disruption
from steelyard.plan.fielddiff import FieldChange
from steelyard.plan.inventory import Entry

VIRTUAL_MACHINES = Resource("kubevirt.io", "v1", "virtualmachines", "VirtualMachine")
DATA_VOLUMES = Resource("cdi.kubevirt.io", "v1beta1", "datavolumes", "DataVolume")


def entry(resource: Resource, name: str = "shop") -> Entry:
    return Entry("part", resource.api_version, resource.kind, "team-a", name)


@pytest.mark.parametrize(
    "resource", [CLUSTERS, DATABASES, RELEASES, VIRTUAL_MACHINES, DATA_VOLUMES], ids=lambda r: r.kind
)
def test_what_holds_data_loses_it_when_it_goes_or_is_renamed(resource: Resource) -> None:
    gone = disruption.of_deletion(entry(resource))
    assert gone is not None
    assert gone.disruption is Disruption.DATA_LOSS
    assert disruption.of_replacement(entry(resource), entry(resource, "new")).disruption is Disruption.DATA_LOSS


def test_what_holds_none_is_only_gone_for_a_while() -> None:
    assert disruption.of_deletion(entry(CONFIG_MAPS)) is None
    found = disruption.of_replacement(entry(CONFIG_MAPS), entry(CONFIG_MAPS, "new"))
    assert str(found) == "ConfigMap shop: recreate: it is deleted, and new is made in its place"


@pytest.mark.parametrize(
    ("resource", "path", "expected"),
    [
        (SECRETS, "type", Disruption.RECREATE),
        (SECRETS, "data.type", None),
        (MACHINE_DEPLOYMENTS, 'spec.selector.matchLabels["a"]', Disruption.RECREATE),
        (MACHINE_DEPLOYMENTS, "spec.selectors", None),
        (DATA_VOLUMES, "spec.pvc.storageClassName", Disruption.DATA_LOSS),
        (CONFIG_MAPS, "data.a", None),
    ],
)
def test_fields_that_no_api_changes(resource: Resource, path: str, expected: Disruption | None) -> None:
    found = disruption.of_change(entry(resource), [FieldChange("metadata.labels.x", 1, 2), FieldChange(path, 1, 2)])
    assert (found.disruption if found is not None else None) is expected
    if found is not None:
        assert found.reason.startswith(f"{path} cannot be changed")


def test_what_the_kind_tells_goes_before_what_is_generally_so_unless_that_is_worse() -> None:
    told = [Effect(Disruption.DATA_LOSS, "database x", "dropped", "a"), Effect(Disruption.NONE, "pool", "fewer", "b")]
    general = [Effect(Disruption.RECREATE, "X", "anew", "a"), Effect(Disruption.RECREATE, "Y", "anew", "b")]
    found = disruption.all_of(told, general)
    assert [(each.subject, each.part) for each in found] == [("database x", "a"), ("Y", "b"), ("pool", "b")]
