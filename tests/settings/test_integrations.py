"""Settings of other programs that would do harm if they were wrong: refused, with the key."""

from __future__ import annotations

import pytest

from steelyard import settings
from steelyard.settings.problems import SettingsError


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("integrations: {sharedServices: {dns: kube-dns}}", "integrations.sharedServices.dns: must be an IP address"),
        (
            "integrations: {sharedServices: {services: [{name: a, port: 1}, {name: a, port: 1}]}}",
            "integrations.sharedServices.services: a is there twice with TCP port 1",
        ),
        ("integrations: {sharedServices: {services: [{name: a, port: 0}]}}", "integrations.sharedServices.services"),
        ("integrations: {vault: {mount: a/b}}", "integrations.vault.mount"),
        ("integrations: {vault: {caCertificates: /etc/ca.pem}}", "integrations.vault.caCertificates"),
        ("integrations: {vault: {clusterAddress: vault}}", "integrations.vault.clusterAddress"),
        ("integrations: {backstage: {owner: two words}}", "integrations.backstage.owner"),
        ("kubevirt: {networkPolicies: {closedNetworks: [10.0.0.1/8]}}", "kubevirt.networkPolicies.closedNetworks"),
        ("kubevirt: {networkManifests: {cilium: [{kind: Pod, name: a}]}}", "kubevirt.networkManifests.cilium"),
    ],
    ids=["a name for an address", "a service twice", "no port", "an engine with a slash", "a file for certificates",
         "an address without scheme", "no reference", "an address for a network", "neither ConfigMap nor Secret"],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(file: str, told: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings.parse(file)
    assert told in str(refused.value)


def test_services_of_one_port_may_be_two() -> None:
    platform = settings.parse(
        "integrations: {sharedServices: {services: [{name: a, port: 5432}, {name: b, port: 5432}]}}"
    )
    assert [each.name for each in platform.integrations.shared_services.services] == ["a", "b"]
