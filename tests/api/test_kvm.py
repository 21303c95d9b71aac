"""The kinds of plain KVM hosts: what is accepted, and what points where nobody may."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from steelyard.api import crd, kvm
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.schema import parse, prune, validate
from steelyard.kube.schema.model import Schema
from tests import inprocess

# As printed in the mission's document on KVM.
PRINTED = """
kind: KVMCluster
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha4
metadata:
  name: example
spec:
  controlPlaneEndpoint:
    host: example.k8s.geckon.gridscale.kvm.gigantic.io
    port: 6443
---
kind: KVMMachineTemplate
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha4
metadata:
  name: example-control-plane
spec:
  template:
    spec:
      resources:
        cpu: 1
        memory: 1Gi
        disk: 20Gi
        dockerVolumeSize: 5Gi
"""
SIZES: Object = {"cpu": 4, "memory": "8GB", "disk": "40Gi"}
DOMAIN = "kvm://0b1e4b4c-6c7e-4f0e-9a53-3d4b8d1f2a60"
OTHER_DOMAIN = "kvm://1b1e4b4c-6c7e-4f0e-9a53-3d4b8d1f2a60"
HOST: Object = {
    "uri": "qemu:///system",
    "storageRoots": ["/var/lib/steelyard/disks"],
    "imageRoots": ["/var/lib/steelyard/images"],
    "networks": {"ranges": ["10.200.0.0/16"], "bridges": [{"name": "br0", "namespaces": ["team-a"]}]},
}
EVERYTHING: Object = {
    "providerID": DOMAIN,
    "host": "metal-1.example.org",
    "resources": {**SIZES, "dockerVolumeSize": "40Gi", "kubeletVolumeSize": "20Gi"},
    "image": f"/srv/images/node.qcow2@sha256:{'0' * 64}",
    "storageRoot": "/var/lib/steelyard/disks",
    "etcdVolume": {"size": "10Gi"},
    "hostVolumes": [{"name": "data", "hostPath": "/srv/data/a", "mountPath": "/data", "readOnly": True}],
    "dnsServers": ["10.0.0.53", "fd00::53"],
    "ntpServers": ["ntp.example.org", "10.0.0.123"],
    "iscsiInitiatorName": "iqn.2026-01.org.example:{machine}",
    "limits": {"guest": {"cpu": "1.5"}, "process": {"cpu": "2500m", "memory": "9Gi"}},
}
KINDS = {each.resource.kind: each for each in kvm.KINDS}


@functools.cache
def schema_of(kind: str) -> Schema:
    return parse.from_openapi(crd.object_schema(KINDS[kind]))


def made(kind: str, spec: Object, **more: Any) -> Object:
    version = KINDS[kind].resource.api_version
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec, **more}


def template(**spec: Any) -> Object:
    return made("KVMMachineTemplate", {"template": {"spec": {"resources": SIZES, **spec}}})


def complaints(obj: Object, old: Object | None = None) -> list[str]:
    found = validate.validate(schema_of(str(obj["kind"])), obj, old=validate.MISSING if old is None else old)
    told = [f"{cause.field}: {cause.message}" for cause in found]
    return [each for each in told if "some validation rules were not checked" not in each]


def is_whole(obj: Object) -> bool:
    """Whether nothing of it is pruned."""
    return prune.prune(schema_of(str(obj["kind"])), objects.copy(obj)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_schema_is_structural_and_says_what_each_field_is_for(kind: str) -> None:
    def check(node: Object, path: str) -> None:
        assert node.get("type"), f"{path} has no type"
        assert not {"$ref", "anyOf", "oneOf", "allOf", "default"} & set(node), path
        if path.startswith("spec.") and not path.endswith(("[]", ".metadata", ".spec")):
            assert node.get("description"), f"{path} has no description"
        for name, child in objects.mapping(node.get("properties")).items():
            check(child, f"{path}.{name}".lstrip("."))
        for keyword in ("items", "additionalProperties"):
            if isinstance(node.get(keyword), dict):
                check(node[keyword], f"{path}[]")

    check(crd.object_schema(KINDS[kind]), "")


@pytest.mark.parametrize("kind", KINDS)
def test_clusterctl_finds_the_provider_and_cluster_api_the_version_with_its_contract(kind: str) -> None:
    definition = crd.definition(KINDS[kind])
    labels = objects.labels(definition)
    (version,) = definition["spec"]["versions"]

    assert labels["cluster.x-k8s.io/provider"] == "infrastructure-kvm"
    assert labels.get("cluster.x-k8s.io/v1beta2") == (None if kind == "KVMHost" else version["name"])
    assert definition["spec"]["scope"] == ("Cluster" if kind == "KVMHost" else "Namespaced")
    assert objects.name(definition) == f"{kind.lower()}s.infrastructure.cluster.x-k8s.io", "as Cluster API looks for it"


async def test_the_definitions_are_accepted_with_their_rules(tmp_path: Path) -> None:
    """Rules that could cost too much are refused, as by kube-apiserver."""
    async with inprocess.platform(tmp_path) as client:
        for kind in kvm.KINDS:
            definition = crd.definition(kind)
            name = objects.name(definition)
            found = await client.apply(CUSTOM_RESOURCE_DEFINITIONS, definition, field_manager="tests")
            established = {each["type"]: each["status"] for each in found["status"]["conditions"]}
            assert established["Established"] == "True", name


@pytest.mark.parametrize("printed", [*yaml.safe_load_all(PRINTED)], ids=lambda each: each["kind"])
def test_the_printed_manifests_are_accepted_as_they_stand(printed: Object) -> None:
    assert complaints(printed) == []
    assert is_whole(printed)


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(made("KVMMachine", EVERYTHING), id="a machine with everything"),
        pytest.param(
            made(
                "KVMMachine",
                {"resources": SIZES},
                status={
                    "initialization": {"provisioned": True},
                    "phase": "Running",
                    "addresses": [{"type": "InternalIP", "address": "10.200.0.10"}],
                },
            ),
            id="a machine that runs",
        ),
        pytest.param(template(etcdVolume={"hostPath": "/srv/etcd"}), id="etcd in a directory of the host"),
        pytest.param(template(etcdVolume={"size": "4Gi", "hostPath": "/srv/etcd"}), id="how much of it"),
        pytest.param(made("KVMCluster", {"network": {"mode": "Bridge", "bridge": "br0"}}), id="a cluster on a bridge"),
        pytest.param(made("KVMCluster", {}), id="a cluster with nothing said"),
        pytest.param(made("KVMHost", HOST), id="a host"),
        pytest.param(
            made(
                "KVMHost",
                {
                    **HOST,
                    "uri": "qemu+ssh://virt@metal-1.example.org:2222/system",
                    "namespaces": ["team-a"],
                    "capacity": {"cpu": 64, "memoryGi": 512, "diskGi": 4000},
                    "overcommit": {"cpu": 4, "memory": 1.2},
                    "hostVolumeRoots": [{"path": "/srv/data", "namespaces": ["*"]}],
                },
                status={"virtualization": "emulated", "used": {"cpu": 8, "memoryBytes": 17179869184, "machines": 2}},
            ),
            id="a host far away",
        ),
    ],
)
def test_what_may_be_said_is_accepted(obj: Object) -> None:
    assert complaints(obj) == []
    assert is_whole(obj)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"resources": {**SIZES, "cpu": 0}}, "resources.cpu"),
        ({"resources": {**SIZES, "memory": "8"}}, "resources.memory"),
        ({"resources": {**SIZES, "memory": "64Mi"}}, "resources.memory"),
        ({"resources": {**SIZES, "memory": "100Ti"}}, "resources.memory"),
        ({"resources": {**SIZES, "disk": "-1Gi"}}, "resources.disk"),
        ({"resources": {**SIZES, "disk": "1000Ti"}}, "resources.disk"),
        ({"providerID": "kvm://a"}, "providerID"),
        ({"providerID": "kvm://0b1e4b4c-6c7e-5f0e-9a53-3d4b8d1f2a60"}, "providerID"),
        ({"image": "https://example.org/node.qcow2"}, "image"),
        ({"image": "../secret.qcow2"}, "image"),
        ({"image": "node.qcow2@sha256:abc"}, "image"),
        ({"storageRoot": "/"}, "storageRoot"),
        ({"storageRoot": "/var/lib/../../etc"}, "storageRoot"),
        ({"storageRoot": "disks"}, "storageRoot"),
        ({"etcdVolume": {}}, "etcdVolume"),
        ({"etcdVolume": {"hostPath": "/srv/../etc"}}, "etcdVolume.hostPath"),
        ({"hostVolumes": [{"name": "a", "hostPath": "/srv/../etc", "mountPath": "/a"}]}, "hostVolumes[0].hostPath"),
        ({"hostVolumes": [{"name": "a", "hostPath": "/srv/a", "mountPath": "a"}]}, "hostVolumes[0].mountPath"),
        ({"hostVolumes": [{"name": "a", "hostPath": "/a", "mountPath": "/a"}] * 2}, "hostVolumes[1]"),
        ({"dnsServers": ["dns.example.org"]}, "dnsServers[0]"),
        ({"dnsServers": ["10.0.0.1"] * 4}, "dnsServers"),
        ({"ntpServers": ["ntp.example.org; reboot"]}, "ntpServers[0]"),
        ({"iscsiInitiatorName": "example"}, "iscsiInitiatorName"),
        ({"limits": {"process": {"cpu": "0"}}}, "limits.process.cpu"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value)[:50],
)
def test_a_machine_with_something_wrong_is_refused_at_its_field(spec: Object, field: str) -> None:
    found = complaints(made("KVMMachine", {"resources": SIZES, **spec}))

    assert len(found) == 1, found
    assert found[0].startswith(f"spec.{field}: ")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"uri": "qemu+ssh://host/system?command=/tmp/x"}, "uri", id="a URI that runs a program"),
        pytest.param({"uri": "qemu+ext:///system"}, "uri", id="a URI of a program"),
        pytest.param({"uri": "test:///default"}, "uri", id="another hypervisor"),
        pytest.param({"storageRoots": []}, "storageRoots", id="nowhere for disks"),
        pytest.param({"storageRoots": ["/"]}, "storageRoots[0]", id="everything"),
        pytest.param({"hostVolumeRoots": [{"path": "/srv"}]}, "hostVolumeRoots[0].namespaces", id="for nobody"),
        pytest.param(
            {"hostVolumeRoots": [{"path": "/var/lib", "namespaces": ["*"]}]}, "", id="host volumes around disks"
        ),
        pytest.param(
            {"hostVolumeRoots": [{"path": "/var/lib/steelyard/disks/a", "namespaces": ["*"]}]}, "", id="within disks"
        ),
        pytest.param(
            {"hostVolumeRoots": [{"path": "/var/lib/steelyard/images", "namespaces": ["*"]}]}, "", id="of images"
        ),
        pytest.param(
            {"networks": {"bridges": [{"name": "a/b", "namespaces": ["*"]}]}}, "networks.bridges[0].name", id="a path"
        ),
    ],
)
def test_a_host_that_would_give_away_too_much_is_refused(spec: Object, field: str) -> None:
    found = complaints(made("KVMHost", {**HOST, **spec}))

    assert found
    assert all(each.startswith(f"spec.{field}: " if field else "spec: ") for each in found), found


def test_directories_whose_names_begin_alike_are_apart() -> None:
    roots = [{"path": "/var/lib/steelyard/disks-of-others", "namespaces": ["*"]}]

    assert complaints(made("KVMHost", {**HOST, "hostVolumeRoots": roots})) == []


@pytest.mark.parametrize(
    ("network", "is_complete"),
    [
        ({"mode": "NAT"}, True),
        ({"mode": "NAT", "bridge": "br0"}, False),
        ({"mode": "Bridge"}, False),
        ({"mode": "Bridge", "bridge": "br0"}, True),
    ],
    ids=str,
)
def test_a_bridge_belongs_to_mode_bridge(network: Object, is_complete: bool) -> None:
    assert (complaints(made("KVMCluster", {"network": network})) == []) is is_complete


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"providerID": DOMAIN}, "belong to one machine"),
        ({"host": "metal-1"}, "belong to one machine"),
        ({"iscsiInitiatorName": "iqn.2026-01.org.example:one"}, "put {machine} into it"),
    ],
    ids=["providerID", "host", "initiator name"],
)
def test_a_template_has_nothing_that_only_one_machine_can_have(spec: Object, said: str) -> None:
    (found,) = complaints(template(**spec))

    assert said in found


def test_a_template_is_never_changed_but_for_its_labels() -> None:
    old = template()
    labelled = objects.copy(old)
    labelled["metadata"]["labels"] = {"a": "b"}
    (found,) = complaints(template(image="node.qcow2"), old)

    assert "a template is never changed" in found
    assert complaints(labelled, old) == []


@pytest.mark.parametrize(
    ("old", "new", "is_kept"),
    [
        pytest.param({}, {"providerID": DOMAIN, "host": "metal-1"}, True, id="filled in"),
        pytest.param({"providerID": DOMAIN}, {"providerID": DOMAIN}, True, id="the same"),
        pytest.param({"providerID": DOMAIN}, {"providerID": OTHER_DOMAIN}, False, id="another domain"),
        pytest.param({"providerID": DOMAIN}, {}, False, id="no domain any more"),
        pytest.param({"host": "metal-1"}, {"host": "metal-2"}, False, id="another host"),
        pytest.param({"host": "metal-1"}, {}, False, id="no host any more"),
        pytest.param({}, {"storageRoot": "/a"}, True, id="disks somewhere"),
        pytest.param({"storageRoot": "/a"}, {"storageRoot": "/b"}, False, id="disks somewhere else"),
        pytest.param({"storageRoot": "/a"}, {}, False, id="disks nowhere any more"),
    ],
)
def test_a_machine_stays_the_domain_that_it_is(old: Object, new: Object, is_kept: bool) -> None:
    before, after = (made("KVMMachine", {"resources": SIZES, **each}) for each in (old, new))

    assert (complaints(after, before) == []) is is_kept


@pytest.mark.parametrize(
    ("field", "value", "another"),
    [
        ("image", "node.qcow2", "other.qcow2"),
        ("etcdVolume", {"size": "10Gi"}, {"size": "20Gi"}),
        ("hostVolumes", [{"name": "a", "hostPath": "/a", "mountPath": "/a"}], []),
        ("limits", {"guest": {"cpu": "1"}}, {"guest": {"cpu": "2"}}),
    ],
)
def test_a_machine_stays_as_it_was_made(field: str, value: object, another: object) -> None:
    before = made("KVMMachine", {"resources": SIZES, field: value})

    assert complaints(made("KVMMachine", {"resources": SIZES, field: value, "dnsServers": ["10.0.0.1"]}), before) == []
    assert complaints(made("KVMMachine", {"resources": SIZES, field: another}), before) != []
    assert complaints(made("KVMMachine", {"resources": SIZES}), before) != []
    assert complaints(before, made("KVMMachine", {"resources": SIZES})) != []
    assert complaints(made("KVMMachine", {"resources": {**SIZES, "memory": "200M"}, field: value}), before) != []


@pytest.mark.parametrize("new", [{"network": {"mode": "Isolated"}}, {}], ids=["another", "none said"])
def test_a_cluster_stays_on_its_network(new: Object) -> None:
    old = made("KVMCluster", {"network": {"mode": "NAT"}})
    endpoint = {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}}
    (found,) = complaints(made("KVMCluster", new), old)

    assert "stays on the network" in found
    assert complaints(made("KVMCluster", {**cast(Object, old["spec"]), **endpoint}), old) == []


@pytest.mark.parametrize(
    ("field", "value", "another"),
    [
        ("host", "metal-1", "metal-2"),
        ("range", "10.200.3.0/24", "10.200.4.0/24"),
        ("virtualRouterID", 51, 52),
    ],
)
def test_what_was_filled_in_for_a_cluster_stays(field: str, value: object, another: object) -> None:
    filled_in = made("KVMCluster", {field: value})

    assert complaints(filled_in, old=made("KVMCluster", {})) == []
    assert complaints(made("KVMCluster", {field: another}), old=filled_in) != []
    assert complaints(made("KVMCluster", {}), old=filled_in) != []


def test_a_template_of_clusters_leaves_open_what_the_provider_fills_in() -> None:
    template = {"template": {"spec": {"network": {"mode": "Isolated"}, "dnsName": "shop.k8s.example.org"}}}

    assert complaints(made("KVMClusterTemplate", template)) == []
    for field, value in (("host", "metal-1"), ("range", "10.200.3.0/24"), ("virtualRouterID", 51)):
        assert complaints(made("KVMClusterTemplate", {"template": {"spec": {field: value}}})) != []
