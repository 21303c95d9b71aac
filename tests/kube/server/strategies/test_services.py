import asyncio
import ipaddress
from typing import Any

import pytest

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.strategies import lookup, services
from tests.kube.server.bench import Bench, make

SERVICES = Resource("", "v1", "services", "Service")
STRATEGY = lookup.of(SERVICES)


class Held:
    """What other services hold, of which addresses."""

    def __init__(self, *addresses: str, ports: tuple[int, ...] = (), network: str = "10.96.0.0/12") -> None:
        self._addresses, self._ports = addresses, ports
        self.range = ipaddress.IPv4Network(network)

    def address(self, address: str) -> bool:
        return address in self._addresses

    def port(self, port: int) -> bool:
        return port in self._ports


def service(**spec: Any) -> Object:
    obj: Object = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"ports": [{"port": 80}], **spec}}
    STRATEGY.prepare_create(obj)
    STRATEGY.complete_create(obj)
    return obj


def complaints(obj: Object) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in STRATEGY.validate_create(obj)]


def test_defaults() -> None:
    obj = service()
    assert complaints(obj) == []
    assert obj["spec"] == {
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
    }
    assert obj["status"] == {"loadBalancer": {}}


@pytest.mark.parametrize(
    ("changes", "policy", "families"),
    [
        ({"clusterIP": "None"}, "RequireDualStack", ["IPv4", "IPv6"]),
        ({"clusterIP": "None", "ipFamilies": ["IPv6"]}, "RequireDualStack", ["IPv6", "IPv4"]),
        ({"clusterIP": "None", "ipFamilyPolicy": "SingleStack"}, "SingleStack", ["IPv4"]),
        ({"clusterIP": "None", "selector": {"a": "b"}}, "SingleStack", ["IPv4"]),
    ],
)
def test_a_headless_service_without_a_selector_is_for_both_families(
    changes: dict[str, Any], policy: str, families: list[str]
) -> None:
    target = service(**changes)["spec"]
    assert (target["ipFamilyPolicy"], target["ipFamilies"], target["clusterIPs"]) == (policy, families, ["None"])


def test_an_address_is_allocated_out_of_the_range_and_stays_the_same() -> None:
    first, second = service(), service()
    assert STRATEGY.allocate(first, Held()) == STRATEGY.allocate(second, Held()) == []
    address = first["spec"]["clusterIP"]
    assert address == second["spec"]["clusterIP"]
    assert ipaddress.ip_address(address) in ipaddress.IPv4Network("10.96.0.0/12")
    assert first["spec"]["clusterIPs"] == [address]


@pytest.mark.parametrize(
    ("network", "expected"),
    [("10.0.0.0/29", "10.0.0."), ("10.0.0.0/30", "10.0.0.2"), ("10.0.0.0/31", None), ("10.0.0.0/24", "10.0.0.")],
)
def test_a_small_range_gives_what_it_has(network: str, expected: str | None) -> None:
    obj = service()
    found = STRATEGY.allocate(obj, Held(network=network))

    assert [cause.message for cause in found] == (
        [] if expected else ["Invalid value: []: failed to allocate IP: range is full"]
    )
    assert str(obj["spec"].get("clusterIP", "")).startswith(expected or "")


def test_a_taken_address_is_passed_over() -> None:
    first, second = service(), service()
    STRATEGY.allocate(first, Held())
    STRATEGY.allocate(second, Held(first["spec"]["clusterIP"]))
    assert second["spec"]["clusterIP"] != first["spec"]["clusterIP"]


ASKED: list[tuple[str, str, Held, list[str]]] = [
    ("a free address", "10.96.0.10", Held(), []),
    (
        "a taken address",
        "10.96.0.10",
        Held("10.96.0.10"),
        [
            'spec.clusterIPs: Invalid value: ["10.96.0.10"]: failed to allocate IP 10.96.0.10: provided IP is already '
            "allocated"
        ],
    ),
    (
        "an address outside the range",
        "10.0.0.1",
        Held(),
        [
            'spec.clusterIPs: Invalid value: ["10.0.0.1"]: failed to allocate IP 10.0.0.1: the provided network '
            "does not match the current range"
        ],
    ),
    ("no address", "None", Held(), []),
]


@pytest.mark.parametrize("address,held,expected", [case[1:] for case in ASKED], ids=[case[0] for case in ASKED])
def test_an_address_may_be_asked_for(address: str, held: Held, expected: list[str]) -> None:
    obj = service(clusterIP=address)
    assert [f"{cause.field}: {cause.message}" for cause in STRATEGY.allocate(obj, held)] == expected
    assert obj["spec"]["clusterIP"] == address


def test_node_ports_are_allocated_and_kept() -> None:
    obj = service(type="NodePort", ports=[{"name": "a", "port": 80}, {"name": "b", "port": 81}])
    assert STRATEGY.allocate(obj, Held()) == []
    first, second = (port["nodePort"] for port in obj["spec"]["ports"])
    assert first != second
    assert {first, second} <= set(services.NODE_PORTS)
    assert obj["spec"]["externalTrafficPolicy"] == "Cluster"
    again = {**service(type="NodePort", ports=[{"name": "a", "port": 80}])}
    STRATEGY.complete_update(again, obj)
    assert again["spec"]["ports"][0]["nodePort"] == first
    taken = service(type="NodePort", ports=[{"port": 80, "nodePort": first}])
    assert [cause.message for cause in STRATEGY.allocate(taken, Held(ports=(first,)))] == [
        f"Invalid value: {first}: provided port is already allocated"
    ]


def test_an_update_that_leaves_the_address_out_keeps_it() -> None:
    old = service()
    STRATEGY.allocate(old, Held())
    before = objects.copy(old)
    new: Object = {"metadata": old["metadata"], "spec": {"ports": [{"port": 81}]}}
    STRATEGY.prepare_update(new, old)
    STRATEGY.complete_update(new, old)
    assert new["spec"]["clusterIP"] == old["spec"]["clusterIP"]
    assert STRATEGY.validate_update(new, old) == []
    assert old == before


def test_an_address_may_not_change() -> None:
    old = service(clusterIP="10.96.0.10")
    new = service(clusterIP="10.96.0.11")
    assert [f"{cause.field}: {cause.message}" for cause in STRATEGY.validate_update(new, old)] == [
        'spec.clusterIPs[0]: Invalid value: ["10.96.0.11"]: may not change once set'
    ]


RULES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("ports are needed", {"ports": []}, ["spec.ports: Required value"]),
    ("not by a headless service", {"ports": [], "clusterIP": "None"}, []),
    (
        "several ports have names",
        {"ports": [{"port": 80, "name": "a"}, {"port": 81}]},
        ["spec.ports[1].name: Required value"],
    ),
    (
        "a port is a number of sixteen bits",
        {"ports": [{"port": 70000, "targetPort": 1}]},
        ["spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive"],
    ),
    (
        "a target is named like a port",
        {"ports": [{"port": 80, "targetPort": "Web"}]},
        [
            'spec.ports[0].targetPort: Invalid value: "Web": must contain only alpha-numeric characters (a-z, 0-9), '
            "and hyphens (-)"
        ],
    ),
    (
        "an unknown protocol",
        {"ports": [{"port": 80, "protocol": "HTTP"}]},
        ['spec.ports[0].protocol: Unsupported value: "HTTP": supported values: "SCTP", "TCP", "UDP"'],
    ),
    (
        "the same port twice",
        {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]},
        [
            'spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,'
            '"NodePort":0}'
        ],
    ),
    (
        "a node port without a node port service",
        {"ports": [{"port": 80, "nodePort": 30000}]},
        ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    ),
    (
        "an unknown type",
        {"type": "Internal"},
        [
            'spec.type: Unsupported value: "Internal": supported values: "ClusterIP", "ExternalName", "LoadBalancer", '
            '"NodePort"'
        ],
    ),
    ("an external name is needed", {"type": "ExternalName"}, ["spec.externalName: Required value"]),
    ("an external name", {"type": "ExternalName", "externalName": "example.com."}, []),
    (
        "a headless load balancer",
        {"type": "LoadBalancer", "clusterIP": "None"},
        ["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for LoadBalancer services"],
    ),
]


@pytest.mark.parametrize("spec,expected", [case[1:] for case in RULES], ids=[case[0] for case in RULES])
def test_rules(spec: dict[str, Any], expected: list[str]) -> None:
    assert complaints(service(**spec)) == expected


async def test_services_created_at_the_same_time_share_neither_port_nor_address(bench: Bench) -> None:
    """What is not durable yet is taken all the same."""

    def exposed(name: str, port: int, address: str) -> Object:
        spec: Object = {"type": "NodePort", "clusterIP": address, "ports": [{"port": 80, "nodePort": port}]}
        return make(SERVICES, name, spec)

    same_port = [bench.create(SERVICES, exposed(f"p{n}", 30123, f"10.96.1.{n}")) for n in range(1, 9)]
    same_address = [bench.create(SERVICES, exposed(f"a{n}", 30200 + n, "10.96.2.1")) for n in range(1, 9)]
    made = await asyncio.gather(*same_port, *same_address, return_exceptions=True)
    assert sum(isinstance(each, dict) for each in made[:8]) == 1
    assert sum(isinstance(each, dict) for each in made[8:]) == 1
    assert all(isinstance(each, dict | errors.Invalid) for each in made)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"externalName": "a.b"}, ['spec.externalName is ignored when spec.type is not "ExternalName"']),
        (
            {"type": "ExternalName", "externalName": "a.b", "externalIPs": ["10.1.2.3"]},
            ['spec.externalIPs is ignored when spec.type is "ExternalName"'],
        ),
        (
            {
                "clusterIP": "None",
                "sessionAffinity": "ClientIP",
                "externalIPs": ["10.1.2.3"],
                "loadBalancerIP": "10.1.1.1",
            },
            [
                "spec.loadBalancerIP is ignored for headless services",
                "spec.externalIPs is ignored for headless services",
                "spec.SessionAffinity is ignored for headless services",
            ],
        ),
        (
            {"externalIPs": ["010.1.2.3", "::ffff:10.1.2.3", "2001:DB8::"]},
            [
                'spec.externalIPs[0]: non-standard IP address "010.1.2.3" will be considered invalid in a future '
                'Kubernetes release: use "10.1.2.3"',
                'spec.externalIPs[1]: non-standard IP address "::ffff:10.1.2.3" will be considered invalid in a future '
                'Kubernetes release: use "10.1.2.3"',
                'spec.externalIPs[2]: IPv6 address "2001:DB8::" should be in RFC 5952 canonical format ("2001:db8::")',
            ],
        ),
        (
            {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.1.2.3/8", "10.0.0.0/8"]},
            [
                'spec.loadBalancerSourceRanges[0]: CIDR value "10.1.2.3/8" is ambiguous in this context (should be '
                '"10.0.0.0/8" or "10.1.2.3/32"?)'
            ],
        ),
    ],
)
def test_what_is_said_in_vain_is_warned_of(spec: Object, expected: list[str]) -> None:
    assert list(STRATEGY.warnings(service(**spec))) == expected


def test_an_update_that_takes_the_address_away_keeps_it() -> None:
    old = service(clusterIP="None")
    changed = service(clusterIP="None")
    del changed["spec"]["clusterIP"]
    STRATEGY.complete_update(changed, old)
    assert (changed["spec"]["clusterIP"], changed["spec"]["clusterIPs"]) == ("None", ["None"])
