"""Which container images a node has, and what is in each."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.compose.integrations import flannel
from steelyard.images import containers, modules, versions
from steelyard.images.failing import BuildFailed
from steelyard.images.layers import Entry

LISTED = """registry.k8s.io/kube-apiserver:v1.34.4
registry.k8s.io/kube-controller-manager:v1.34.4
registry.k8s.io/kube-scheduler:v1.34.4
registry.k8s.io/kube-proxy:v1.34.4
registry.k8s.io/coredns/coredns:v1.12.1
registry.k8s.io/pause:3.10.1
registry.k8s.io/etcd:3.6.5-0
"""
NFT = Entry("/usr/sbin/nft", b"")


def test_kubeadm_says_which_images_there_must_be() -> None:
    wanted = containers.wanted(LISTED)
    assert wanted.names["coredns"] == "registry.k8s.io/coredns/coredns:v1.12.1"
    assert wanted.tag("etcd") == "3.6.5-0"


def test_a_list_that_lacks_one_is_refused() -> None:
    with pytest.raises(BuildFailed, match="names no image of etcd, pause"):
        containers.wanted("\n".join(LISTED.splitlines()[:5]))


def test_each_image_has_its_program_where_its_pod_looks_for_it() -> None:
    wanted = containers.wanted(LISTED)
    programs = {name: Path("/built") / name for name in (*wanted.names, *modules.ETCD, "flanneld")}
    made = {image.name: image for image in containers.images(wanted, programs, [NFT], versions.FLANNEL)}
    assert set(made) == {*LISTED.split(), flannel.IMAGE}
    placed = {name: [entry.path for entry in image.entries if entry.source is not None] for name, image in made.items()}
    assert placed["registry.k8s.io/etcd:3.6.5-0"] == [f"/usr/local/bin/{name}" for name in modules.ETCD]
    assert placed["registry.k8s.io/kube-proxy:v1.34.4"] == ["/usr/local/bin/kube-proxy"]
    assert placed[flannel.IMAGE] == ["/opt/bin/flanneld"]
    with_filters = [name for name, image in made.items() if NFT in image.entries]
    assert sorted(with_filters) == ["registry.k8s.io/kube-proxy:v1.34.4", flannel.IMAGE]


def test_the_name_server_is_not_root_and_binds_its_port_all_the_same() -> None:
    wanted = containers.wanted(LISTED)
    programs = {name: Path("/built") / name for name in (*wanted.names, *modules.ETCD, "flanneld")}
    (coredns,) = [each for each in containers.images(wanted, programs, [], "v1") if "coredns" in each.name]
    assert coredns.user == "65532:65532"
    assert [entry.path for entry in coredns.entries if entry.binds_ports] == ["/coredns"]
