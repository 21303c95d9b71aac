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
        ("networkPlugin: weave", "kvm.networkPlugin"),
        ("clusterDns: dns.example.org", "must be an address such as 10.0.0.53"),
        ("clusterDomain: 'a b'", "kvm.clusterDomain"),
        ("controlPlane: {iscsiInitiatorName: 'iqn.2026-01.org.example:one'}", "put {machine} into it"),
        ("controlPlane: {etcdVolumeGb: 8, etcdHostPath: /srv/etcd}", "set either etcdVolumeGb or etcdHostPath"),
        ("workers: {hostVolumes: [{name: a, hostPath: /srv/../etc, mountPath: /a}]}", "hostPath"),
        ("timeouts: {kubeadmMinutes: 1}", "kvm.timeouts.kubeadmMinutes"),
        ("timeouts: {leaseSeconds: 5}", "kvm.timeouts.leaseSeconds"),
        ("timeouts: {probeSeconds: 5}", "kvm.timeouts.probeSeconds"),
        ("timeouts: {probePeriodSeconds: 0}", "kvm.timeouts.probePeriodSeconds"),
        ("conntrack: {tcpEstablishedTimeout: forever}", "kvm.conntrack.tcpEstablishedTimeout"),
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


def test_a_platform_file_for_kvm_is_taken() -> None:
    assert settings.parse("infrastructure: kvm").infrastructure == "kvm"


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("{uri: 'qemu+ssh://me@host/system?command=/bin/sh'}", "uri"),
        ("{uri: 'test:///default'}", "uri"),
        ("{storageRoots: []}", "storageRoots"),
        ("{storageRoots: [/srv/../etc]}", "storageRoots"),
        ("{imageRoots: [images]}", "imageRoots"),
        ("{networks: {ranges: [10.0.0.1/16]}}", "must be a network such as"),
        ("{networks: {ranges: [10.0.0.0/25]}}", "an IPv4 network of /24 or more"),
        ("{networks: {ranges: ['fd00::/48']}}", "an IPv4 network of /24 or more"),
        ("{networks: {ranges: [10.0.0.0/8, 10.9.0.0/16]}}", "10.9.0.0/16 overlaps with 10.0.0.0/8"),
        ("{networks: {ranges: [10.243.0.0/20]}}", "10.243.0.0/20 overlaps with clusterNetwork.pods, 10.243.0.0/16"),
        ("{networks: {bridges: [{name: br0}]}}", "namespaces"),
        ("{hostVolumeRoots: [{path: /var/lib, namespaces: [a]}]}", "must not contain each other"),
        ("{hostVolumeRoots: [{path: /var/lib/steelyard/images/x, namespaces: [a]}]}", "must not contain each other"),
        ("{overcommit: {memory: 3}}", "overcommit.memory"),
        ("{capacity: {cpu: 0}}", "capacity.cpu"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_host_that_cannot_be_meant_is_refused(host: str, told: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings.parse(f"kvm: {{hosts: {{a: {host}}}}}")
    assert told in str(refused.value)


def test_the_range_of_this_machine_is_held_against_pods_where_machines_are_of_kvm() -> None:
    file = "clusterNetwork: {pods: 10.200.0.0/16}"
    assert settings.parse(file).kvm_hosts() == {}
    with pytest.raises(SettingsError, match="overlaps with clusterNetwork"):
        settings.parse(f"infrastructure: kvm\n{file}")


def test_a_platform_file_with_no_hosts_at_all_is_a_mistake() -> None:
    with pytest.raises(SettingsError, match="hosts"):
        settings.parse("kvm: {hosts: {}}")
