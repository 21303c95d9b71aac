"""Strategy of Service: defaults, what an update means to keep, and the cluster IP and node ports it gets.

Addresses derive from namespace and name, so that the same service gets the same address wherever it is free; the search
goes on from there when it is taken.
"""

from __future__ import annotations

import ipaddress
import zlib
from typing import Final

from steelyard.kube import fields, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.strategies import network, servicerules, servicewarnings
from steelyard.kube.server.strategies.base import Strategy, Taken, default, spec
from steelyard.kube.server.strategies.servicerules import EXPOSED, ports

NODE_PORTS: Final = range(30000, 32768)
_FIRST_FREE: Final = 10
"""The first addresses are left for services that ask for theirs by number: the API server, DNS."""
_AFFINITY_SECONDS: Final = 10800
_GIVEN: Final = ("clusterIP", "clusterIPs")


class ServiceStrategy(Strategy):
    is_judged_by_schema = False
    creates_on_update = True

    def prepare_create(self, obj: Object) -> None:
        target = spec(obj)
        default(target, "sessionAffinity", "None")
        if target["sessionAffinity"] == "None":
            target.pop("sessionAffinityConfig", None)
        lasts = objects.at(target, "sessionAffinityConfig", "clientIP", "timeoutSeconds")
        if target["sessionAffinity"] == "ClientIP" and lasts is None:
            target["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
        default(target, "type", "ClusterIP")
        for port in ports(target):
            default(port, "protocol", "TCP")
            if port.get("targetPort") in (None, "", 0):
                port["targetPort"] = port.get("port") or 0
        if servicerules.is_exposed(target):
            default(target, "externalTrafficPolicy", "Cluster")
        if target["type"] in ("ClusterIP", *EXPOSED):
            default(target, "internalTrafficPolicy", "Cluster")
        if target["type"] == "LoadBalancer":
            default(target, "allocateLoadBalancerNodePorts", True)

    def warnings(self, obj: Object, old: Object | None = None) -> tuple[str, ...]:
        return tuple(servicewarnings.of_service(obj))

    def complete_create(self, obj: Object) -> None:
        target = spec(obj)
        if target.get("clusterIP") and not target.get("clusterIPs"):
            target["clusterIPs"] = [target["clusterIP"]]
        _infer_families(target)
        obj["status"] = {"loadBalancer": {}}

    def complete_update(self, obj: Object, old: Object) -> None:
        """A client that leaves out what was given to the service means to keep it, unless its type needs it no more."""
        target, before = spec(obj), objects.mapping(old.get("spec"))
        _drop_unneeded(target, before)
        if "ExternalName" not in (target.get("type"), before.get("type")):
            target |= {key: before[key] for key in _GIVEN if key in before and not target.get(key)}
            _follow_address(target, before)
            if not target.get("ipFamilyPolicy") and before.get("ipFamilyPolicy"):
                target["ipFamilyPolicy"] = before["ipFamilyPolicy"]
        elif target.get("clusterIP") and not target.get("clusterIPs"):
            target["clusterIPs"] = [target["clusterIP"]]
        _keep_node_ports(target, before)
        _infer_families(target)
        status = objects.mapping(old.get("status"))
        obj["status"] = status if target.get("type") == "LoadBalancer" else {**status, "loadBalancer": {}}

    def prepare_part(self, obj: Object, old: Object, subresource: str) -> None:
        for ingress in map(objects.mapping, objects.sequence(objects.at(obj, "status", "loadBalancer", "ingress"))):
            if ingress.get("ip") and objects.at(obj, "spec", "type") == "LoadBalancer":
                default(ingress, "ipMode", "VIP")

    def validate_create(self, obj: Object) -> list[Cause]:
        target = objects.mapping(obj.get("spec"))
        return servicerules.addressing(target) or servicerules.validate(target)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        target, before = objects.mapping(obj.get("spec")), objects.mapping(old.get("spec"))
        return servicerules.addressing(target) or (
            servicerules.validate_change(target, before) + servicerules.validate(target)
        )

    def validate_part(self, obj: Object, old: Object, subresource: str) -> list[Cause]:
        place = "status.loadBalancer.ingress"
        found: list[Cause] = []
        for index, ingress in enumerate(objects.sequence(objects.at(obj, "status", "loadBalancer", "ingress"))):
            if address := objects.mapping(ingress).get("ip"):
                found += network.address(address, f"{place}[{index}].ip")
        return found

    def allocate(self, obj: Object, taken: Taken) -> list[Cause]:
        target = spec(obj)
        if target.get("type") == "ExternalName":
            return []
        found = _allocate_address(obj, target, taken)
        if not found and target.get("type") in EXPOSED and target.get("allocateLoadBalancerNodePorts") is not False:
            found += _allocate_ports(obj, target, taken)
        if not found and servicerules.needs_health_check(target) and not target.get("healthCheckNodePort"):
            target["healthCheckNodePort"] = _free_port(obj, {port.get("nodePort") for port in ports(target)}, taken)
        return found


def _drop_unneeded(target: Object, before: Object) -> None:
    """Takes away what the new type has no use for, if the client did not change it."""
    type_, was = target.get("type"), before.get("type")
    if type_ == "ExternalName" and was != "ExternalName":
        for key in (*_GIVEN, "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
            if target.get(key) == before.get(key):
                target.pop(key, None)
    given = {port.get("nodePort") for port in ports(target)}
    if was in EXPOSED and type_ not in EXPOSED and given <= {port.get("nodePort") for port in ports(before)} | {None}:
        for port in ports(target):
            port.pop("nodePort", None)
    unneeded: list[str] = []
    if servicerules.needs_health_check(before) and not servicerules.needs_health_check(target):
        unneeded.append("healthCheckNodePort")
    if was == "LoadBalancer" and type_ != "LoadBalancer":
        unneeded += ("allocateLoadBalancerNodePorts", "loadBalancerClass")
    if servicerules.is_exposed(before) and not servicerules.is_exposed(target):
        unneeded.append("externalTrafficPolicy")
    for key in unneeded:
        if target.get(key) == before.get(key):
            target.pop(key, None)


def _follow_address(target: Object, before: Object) -> None:
    """A client that knows of one address only means the whole list."""
    if not target.get("clusterIPs") and target.get("clusterIP") == before.get("clusterIP") and before.get("clusterIPs"):
        target["clusterIPs"] = before["clusterIPs"]
    elif target.get("clusterIP") != before.get("clusterIP") and target.get("clusterIPs") == before.get("clusterIPs"):
        target["clusterIPs"] = [target["clusterIP"]] if target.get("clusterIP") else []


def _infer_families(target: Object) -> None:
    if target.get("type") == "ExternalName":
        return
    has_both = target.get("clusterIP") == "None" and not target.get("selector")
    default(target, "ipFamilyPolicy", "RequireDualStack" if has_both else "SingleStack")
    families = list(objects.sequence(target.get("ipFamilies")))
    for index, text in enumerate(objects.sequence(target.get("clusterIPs"))):
        parsed = network.parsed(text)
        if parsed is not None and index >= len(families):
            families.append(f"IPv{parsed.version}")
    if not families:
        families = ["IPv4"]
    if has_both and len(families) == 1 and target["ipFamilyPolicy"] != "SingleStack":
        families.append("IPv6" if families == ["IPv4"] else "IPv4")
    target["ipFamilies"] = families


def _keep_node_ports(target: Object, before: Object) -> None:
    if target.get("type") not in EXPOSED or before.get("type") not in EXPOSED:
        return
    known = {str(port.get("name") or ""): port.get("nodePort") for port in ports(before)}
    used = {port.get("nodePort") for port in ports(target)} & set(known.values())
    for port in ports(target):
        number = known.get(str(port.get("name") or ""))
        if number and not port.get("nodePort") and number not in used:
            port["nodePort"] = number


def _start(obj: Object, span: int) -> int:
    return zlib.crc32(objects.qualified_name(obj).encode()) % span


def _allocate_address(obj: Object, target: Object, taken: Taken) -> list[Cause]:
    asked = target.get("clusterIP")
    if asked == "None":
        return []
    if asked:
        return _check_asked(str(asked), target, taken)
    # The first of a small range is all that is left for those who ask by number.
    first = _FIRST_FREE if taken.range.num_addresses > 2 * _FIRST_FREE else 2
    span = max(taken.range.num_addresses - first - 1, 0)
    start = _start(obj, span) if span else 0
    for offset in range(span):
        address = str(taken.range[first + (start + offset) % span])
        if not taken.address(address):
            target["clusterIP"], target["clusterIPs"] = address, [address]
            return []
    return [fields.invalid("spec.clusterIPs", [], "failed to allocate IP: range is full")]


def _check_asked(asked: str, target: Object, taken: Taken) -> list[Cause]:
    if ipaddress.ip_address(asked) not in taken.range:
        reason = "the provided network does not match the current range"
    elif taken.address(asked):
        reason = "provided IP is already allocated"
    else:
        return []
    return [fields.invalid("spec.clusterIPs", target.get("clusterIPs"), f"failed to allocate IP {asked}: {reason}")]


def _allocate_ports(obj: Object, target: Object, taken: Taken) -> list[Cause]:
    found: list[Cause] = []
    mine: set[object] = {port["nodePort"] for port in ports(target) if port.get("nodePort")}
    for index, port in enumerate(ports(target)):
        number = port.get("nodePort")
        place = f"spec.ports[{index}].nodePort"
        if not number:
            number = port["nodePort"] = _free_port(obj, mine, taken)
            mine.add(number)
            if not number:
                found.append(fields.invalid(place, 0, "range is full"))
        elif number not in NODE_PORTS:
            text = (
                "provided port is not in the valid range. The range of valid ports is "
                f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
            )
            found.append(fields.invalid(place, number, text))
        elif taken.port(number):
            found.append(fields.invalid(place, number, "provided port is already allocated"))
    return found


def _free_port(obj: Object, mine: set[object], taken: Taken) -> int:
    """0 if there is none."""
    start = _start(obj, len(NODE_PORTS))
    for offset in range(len(NODE_PORTS)):
        candidate = NODE_PORTS[(start + offset) % len(NODE_PORTS)]
        if candidate not in mine and not taken.port(candidate):
            return candidate
    return 0
