"""Who reaches the machines of a cluster, and what they reach: policies judged as Kubernetes judges them.

A small model of the management cluster: packets with a source, a destination and a port, and the rule that a pod which
a policy selects is reached, or reaches, only what some policy lets through.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import pytest

from steelyard.compose import names
from steelyard.compose.composed import Composed
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from tests.compose.integrations.clusters import claim, compose

OURS, THEIRS = names.external("team-a", "shop"), names.external("team-b", "shop")
SHARED = "integrations: {sharedServices: {enabled: true, openTo: [192.168.0.0/24]}}"
CLOSED = "kubevirt: {networkPolicies: {closedNetworks: [10.16.0.0/16, 10.96.0.0/12, fd00::/8]}}"


@frozen
class Place:
    """Of a pod, or outside."""

    address: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


MACHINE = Place("10.16.0.5", OURS, {"kubevirt.io": "virt-launcher"})
SISTER = Place("10.16.0.6", OURS, {"kubevirt.io": "virt-launcher"})
CLOUD_CONTROLLER = Place("10.16.0.7", OURS, {"k8s-app": "kubevirt-cloud-controller-manager"})
POD_INSIDE = Place("10.243.1.5")
HOSTILE = Place("10.16.9.9", THEIRS, {"kubevirt.io": "virt-launcher"})
PROVIDER = Place("10.16.1.1", "capk-system")
ARGO_CD = Place("10.16.1.2", "argocd")
TENANT_POD = Place("10.16.1.3", "team-b")
DNS = Place("10.16.2.2", "kube-system")
POSTGRES = Place("10.16.3.3", "shared-services")
PROVIDER_SQL = Place("10.16.1.4", "crossplane-system")
HOST = Place("192.168.0.10")
INTERNET = Place("203.0.113.7")


def lets_through(composed: Composed, source: Place, target: Place, port: int, protocol: str = "TCP") -> bool:
    policies = [part.object for part in composed.desired.values() if part.resource.kind == "NetworkPolicy"]
    spaces = {
        objects.name(part.object): objects.labels(part.object)
        for part in composed.desired.values()
        if part.resource.kind == "Namespace"
    }
    spaces[THEIRS] = objects.labels(compose(claim(namespace="team-b")).desired["namespace"].object)
    return all(
        _is_open(policies, direction, pod, other, port, protocol, spaces)
        for direction, pod, other in (("ingress", target, source), ("egress", source, target))
    )


def _is_open(
    policies: list[Object],
    direction: str,
    pod: Place,
    other: Place,
    port: int,
    protocol: str,
    spaces: Mapping[str, Any],
) -> bool:
    selecting = [
        each["spec"]
        for each in policies
        if objects.namespace(each) == pod.namespace
        and direction.capitalize() in each["spec"]["policyTypes"]
        and _labelled(each["spec"]["podSelector"], pod.labels)
    ]
    peers = "from" if direction == "ingress" else "to"
    return not selecting or any(
        (peers not in rule or any(_is(peer, other, pod, spaces) for peer in rule[peers]))
        and ("ports" not in rule or any(_has(each, port, protocol) for each in rule["ports"]))
        for spec in selecting
        for rule in spec[direction]
    )


def _is(peer: Object, place: Place, pod: Place, spaces: Mapping[str, Any]) -> bool:
    if "ipBlock" in peer:
        block, address = peer["ipBlock"], ipaddress.ip_address(place.address)
        return address in ipaddress.ip_network(block["cidr"]) and not any(
            address in ipaddress.ip_network(each) for each in block.get("except", ())
        )
    if not place.namespace:
        return False
    labels = {"kubernetes.io/metadata.name": place.namespace, **spaces.get(place.namespace, {})}
    is_there = (
        _labelled(peer["namespaceSelector"], labels)
        if "namespaceSelector" in peer
        else place.namespace == pod.namespace
    )
    return is_there and _labelled(peer.get("podSelector", {}), place.labels)


def _labelled(selector: Object, labels: Mapping[str, str]) -> bool:
    assert selector.keys() <= {"matchLabels", "matchExpressions"}
    if not all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for each in selector.get("matchExpressions", ()):
        match each["operator"]:
            case "In":
                if labels.get(each["key"]) not in each["values"]:
                    return False
            case "DoesNotExist":
                if each["key"] in labels:
                    return False
            case other:
                raise NotImplementedError(other)
    return True


def _has(said: Object, port: int, protocol: str) -> bool:
    return said["protocol"] == protocol and said["port"] <= port <= said.get("endPort", said["port"])


@pytest.mark.parametrize(
    ("source", "port", "is_open"),
    [
        pytest.param(SISTER, 2379, True, id="etcd, from a machine of the cluster"),
        pytest.param(POD_INSIDE, 10250, True, id="a kubelet, from a pod of the cluster that a plugin routes"),
        pytest.param(CLOUD_CONTROLLER, 6443, True, id="the API, from its cloud controller manager"),
        pytest.param(PROVIDER, 22, True, id="ssh, from the provider that waits for it"),
        pytest.param(ARGO_CD, 6443, True, id="the API, from Argo CD"),
        pytest.param(INTERNET, 6443, True, id="the API, from outside"),
        pytest.param(HOST, 6443, True, id="the API, from a load balancer that shows its own address"),
        pytest.param(INTERNET, 31080, True, id="a Service, from outside"),
        pytest.param(HOSTILE, 22, False, id="ssh, from another tenant's machine"),
        pytest.param(HOSTILE, 2379, False, id="etcd, from another tenant's machine"),
        pytest.param(HOSTILE, 10250, False, id="a kubelet, from another tenant's machine"),
        pytest.param(TENANT_POD, 2379, False, id="etcd, from a pod of another tenant's"),
        pytest.param(ARGO_CD, 22, False, id="ssh, from who does not need it"),
        pytest.param(INTERNET, 22, False, id="ssh, from outside"),
    ],
)
def test_who_reaches_a_machine(source: Place, port: int, is_open: bool) -> None:
    assert lets_through(compose(claim()), source, MACHINE, port) is is_open


def test_ports_of_services_are_open_only_where_something_leads_there() -> None:
    without = "kubevirt: {cloudControllerManager: {enabled: false}}"

    assert not lets_through(compose(claim(), without), INTERNET, MACHINE, 31080)
    assert lets_through(compose(claim(), without), INTERNET, MACHINE, 6443)


def test_policies_can_be_turned_off() -> None:
    composed = compose(claim(), "kubevirt: {networkPolicies: {enabled: false}}")

    assert not [part for part in composed.desired.values() if part.resource.kind == "NetworkPolicy"]


@pytest.mark.parametrize(
    ("source", "target", "port", "is_open"),
    [
        pytest.param(MACHINE, SISTER, 2379, True, id="a machine of the cluster"),
        pytest.param(MACHINE, POD_INSIDE, 8080, True, id="a pod of the cluster"),
        pytest.param(MACHINE, DNS, 53, True, id="names"),
        pytest.param(MACHINE, INTERNET, 443, True, id="images"),
        pytest.param(MACHINE, HOST, 6443, True, id="a load balancer"),
        pytest.param(MACHINE, POSTGRES, 5432, True, id="a shared service"),
        pytest.param(MACHINE, POSTGRES, 22, False, id="another port beside it"),
        pytest.param(MACHINE, ARGO_CD, 8080, False, id="programs of the platform"),
        pytest.param(MACHINE, DNS, 10250, False, id="another port beside names"),
        pytest.param(MACHINE, Place("fd00::1"), 443, False, id="a closed network of the other kind of addresses"),
        pytest.param(CLOUD_CONTROLLER, Place("10.96.0.1"), 443, True, id="the platform's API, for its own program"),
    ],
)
def test_what_a_machine_reaches_where_networks_are_closed(
    source: Place, target: Place, port: int, is_open: bool
) -> None:
    assert lets_through(compose(claim(), f"{CLOSED}\n{SHARED}"), source, target, port) is is_open


def test_machines_reach_everything_where_no_network_is_closed() -> None:
    assert lets_through(compose(claim()), MACHINE, ARGO_CD, 8080)


def test_a_cluster_whose_pods_have_addresses_of_a_closed_network_does_not_open_it() -> None:
    composed = compose(claim(), f"{CLOSED}\nclusterNetwork: {{pods: 10.16.0.0/16}}")

    assert not lets_through(composed, MACHINE, ARGO_CD, 8080)
    assert lets_through(composed, MACHINE, SISTER, 2379)


@pytest.mark.parametrize(
    ("source", "port", "is_open"),
    [
        pytest.param(MACHINE, 5432, True, id="a machine of the cluster"),
        pytest.param(MACHINE, 9092, True, id="to another service"),
        pytest.param(MACHINE, 22, False, id="to what is no service"),
        pytest.param(HOSTILE, 5432, False, id="a machine of a cluster that is not let in"),
        pytest.param(PROVIDER_SQL, 5432, True, id="a program of the platform, as before"),
        pytest.param(HOST, 5432, True, id="a network that the platform file opens"),
        pytest.param(INTERNET, 5432, False, id="from outside"),
    ],
)
def test_who_reaches_shared_services(source: Place, port: int, is_open: bool) -> None:
    assert lets_through(compose(claim(), SHARED), source, POSTGRES, port) is is_open
