"""Settings of machines on KVM hosts: what goes into files on machines and into paths on hosts is held to what it is."""

from __future__ import annotations

import pytest

from steelyard import settings
from steelyard.settings import SettingsError


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("storageRoot: /srv/../etc", "kvm.storageRoot"),
        ("storageRoot: /", "kvm.storageRoot"),
        ("containerVolumeGb: 0", "kvm.containerVolumeGb"),
        ("network: {mode: bridge}", "mode bridge needs the name of a bridge"),
        ("network: {bridge: br0}", "mode bridge needs the name of a bridge"),
        ("network: {mode: bridge, bridge: a-name-that-is-too-long}", "kvm.network.bridge"),
        ("dnsServers: [dns.example.org]", "must be an address such as 10.0.0.53"),
        ("dnsServers: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4]", "kvm.dnsServers"),
        ("ntpServers: ['a b']", "kvm.ntpServers"),
        ("proxy: {http: 'http://name:password@proxy:3128'}", "kvm.proxy.http"),
        ("proxy: {http: 'http://{{ ds }}:3128'}", "kvm.proxy.http"),
        ("proxy: {https: 'http://proxy:3128', exceptions: ['a\"b']}", "kvm.proxy.exceptions"),
        ("proxy: {exceptions: [.example.org]}", "exceptions are those of a proxy"),
        ("registryMirrors: {docker.io: []}", "kvm.registryMirrors.docker.io"),
        ("registryMirrors: {../etc: [https://mirror]}", "kvm.registryMirrors"),
        ("registryMirrors: {docker.io: [mirror.example.org]}", "kvm.registryMirrors.docker.io"),
        ("registryMirrors: {docker.io: ['https://a\"]']}", "kvm.registryMirrors.docker.io"),
        ("users: {Thomas: [ssh-rsa AAA]}", "kvm.users"),
        ("users: {thomas: [AAA]}", "kvm.users.thomas"),
        ("image: node.qcow2", "kvm.image"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_setting_that_cannot_be_meant_is_refused(given: str, told: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings.parse(f"kvm: {{{given}}}")
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("catalogue", "told"),
    [
        ("{image: 'quay.io/capk/node:{version}', offered: {v1.34: {}}}", "kvm.image: quay.io/capk/node:v1.34.0 is"),
        ("{offered: {v1.34.0: {image: 'https://a/b.qcow2'}}}", "kvm.offered.v1.34.0.image: https://a/b.qcow2 is"),
        ("{offered: {v1.34.0: {image: '/srv/../etc/shadow'}}}", "kvm.offered.v1.34.0.image: /srv/../etc/shadow is"),
    ],
    ids=["a container image", "a URL", "a step upwards"],
)
def test_the_catalogue_names_images_as_hosts_have_them(catalogue: str, told: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings.parse(f"versions: {{infrastructures: {{kvm: {catalogue}}}}}")
    assert told in str(refused.value)


def test_a_platform_file_for_kvm_is_refused_by_a_platform_and_not_by_what_only_composes() -> None:
    with pytest.raises(SettingsError, match="cannot make machines of kvm"):
        settings.parse("infrastructure: kvm")
    assert settings.parse("infrastructure: kvm", infrastructures=("simulated", "kvm")).infrastructure == "kvm"
