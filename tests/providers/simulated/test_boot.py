from __future__ import annotations

import base64
import datetime

import pytest
import yaml

from steelyard.kube import pki
from steelyard.kube.objects import Object
from steelyard.providers.simulated import boot

AUTHORITY = pki.new_authority("kubernetes", now=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))
INIT = """\
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.32.1
networking: {serviceSubnet: 10.95.0.0/16}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
nodeRegistration: {name: "{{ ds.meta_data.local_hostname }}"}
"""
JOIN = """\
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken: {token: abcdef.0123456789abcdef, apiServerEndpoint: "127.0.0.1:6443", caCertHashes: ["sha256:00"]}
"""
PKI = {
    "/etc/kubernetes/pki/ca.crt": AUTHORITY.certificate.decode(),
    "/etc/kubernetes/pki/ca.key": AUTHORITY.key.decode(),
}


def _cloud_config(files: dict[str, str]) -> bytes:
    written = [{"path": path, "content": content} for path, content in files.items()]
    return f"#cloud-config\n{yaml.safe_dump({'write_files': written})}".encode()


def test_the_first_machine_brings_the_authority() -> None:
    data = _cloud_config({"/run/kubeadm/kubeadm.yaml": INIT, **PKI})
    node = boot.read(data, default_node_name="machine-a")
    told: Object = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "kubernetesVersion": "v1.32.1",
        "networking": {"serviceSubnet": "10.95.0.0/16"},
    }
    assert node == boot.Init("machine-a", AUTHORITY, "v1.32.1", "10.95.0.0/16", configuration=told)


def test_a_node_name_that_is_written_out_is_used() -> None:
    data = _cloud_config({"/run/kubeadm/kubeadm.yaml": INIT.replace("{{ ds.meta_data.local_hostname }}", "own"), **PKI})
    assert boot.read(data, default_node_name="machine-a").node_name == "own"


def test_a_worker_joins_with_a_token() -> None:
    node = boot.read(_cloud_config({"/run/kubeadm/kubeadm-join-config.yaml": JOIN}), default_node_name="w")
    assert node == boot.Join("w", "abcdef.0123456789abcdef", ("sha256:00",), "127.0.0.1:6443", None)
    assert isinstance(node, boot.Join)
    assert not node.joins_control_plane


def test_a_joining_control_plane_machine_has_the_authority_too() -> None:
    files = {"/run/kubeadm/kubeadm-join-config.yaml": JOIN + "controlPlane: {}\n", **PKI}
    node = boot.read(_cloud_config(files), default_node_name="c")
    assert isinstance(node, boot.Join)
    assert node.joins_control_plane


@pytest.mark.parametrize(
    ("subnet", "expected"),
    [
        pytest.param('"10.96.0.0/12,fd00::/108"', "10.96.0.0/12,fd00::/108", id="one of each family"),
        pytest.param('"fd00::/108, 10.96.0.0/12"', "fd00::/108,10.96.0.0/12", id="the other way around"),
        pytest.param('""', "", id="kubeadm's own"),
    ],
)
def test_services_may_have_two_networks(subnet: str, expected: str) -> None:
    data = _cloud_config({"/run/kubeadm/kubeadm.yaml": INIT.replace("10.95.0.0/16", subnet), **PKI})
    node = boot.read(data, default_node_name="machine-a")
    assert isinstance(node, boot.Init)
    assert node.service_cidr == expected


def test_files_may_be_base64() -> None:
    encoded = base64.b64encode(JOIN.encode()).decode()
    entry = {"path": "/run/kubeadm/kubeadm-join-config.yaml", "encoding": "base64", "content": encoded}
    node = boot.read(f"#cloud-config\n{yaml.safe_dump({'write_files': [entry]})}".encode(), default_node_name="w")
    assert isinstance(node, boot.Join)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        pytest.param(b"#cloud-config\n", "writes neither /run/kubeadm/kubeadm.yaml", id="no kubeadm configuration"),
        pytest.param(b"a: [", "not valid YAML", id="broken YAML"),
        pytest.param(
            _cloud_config({"/run/kubeadm/kubeadm.yaml": INIT}), "needs /etc/kubernetes/pki/ca.crt", id="no authority"
        ),
        pytest.param(
            _cloud_config({"/run/kubeadm/kubeadm-join-config.yaml": "kind: JoinConfiguration\n"}),
            "no discovery.bootstrapToken.token",
            id="no token",
        ),
        pytest.param(b"a: &a {b: 1}\nc: {<<: [*a, *a]}", "aliases", id="aliases"),
        pytest.param(b"[" * 500, "nested deeper", id="too deep"),
        pytest.param(
            b"write_files: [{path: /run/kubeadm/kubeadm.yaml, content: 'a', encoding: b64}]",
            "/run/kubeadm/kubeadm.yaml is not base64",
            id="no base64",
        ),
        pytest.param(
            _cloud_config({"/run/kubeadm/kubeadm.yaml": INIT.replace("10.95.0.0/16", "ten"), **PKI}),
            "serviceSubnet in /run/kubeadm/kubeadm.yaml is no network",
            id="no network",
        ),
        pytest.param(
            _cloud_config({"/run/kubeadm/kubeadm.yaml": INIT, **dict.fromkeys(PKI, "x")}),
            "/etc/kubernetes/pki/ca.crt is no certificate",
            id="no certificate",
        ),
    ],
)
def test_bootstrap_data_that_cannot_work_is_refused_by_name(data: bytes, complaint: str) -> None:
    with pytest.raises(boot.BadBootstrapData, match=complaint):
        boot.read(data, default_node_name="x")
