"""Strategy of Service: defaults, the cluster IP and node ports it gets, and the rules for its ports.

Addresses derive from namespace and name, so that the same service gets the same address wherever it is free; the search
goes on from there when it is taken.
"""

from __future__ import annotations

import ipaddress
import zlib
from typing import Any, Final

import orjson

from steelyard.kube import fields, names, objectmeta, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.strategies.base import Strategy, Taken, default, spec

SERVICE_RANGE: Final = ipaddress.IPv4Network("10.96.0.0/12")
NODE_PORTS: Final = range(30000, 32768)
_FIRST_FREE: Final = 10
"""The first addresses are left for services that ask for theirs by number: the API server, DNS."""
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_EXPOSED: Final = ("NodePort", "LoadBalancer")


class ServiceStrategy(Strategy):
    def prepare_create(self, obj: Object) -> None:
        target = spec(obj)
        default(target, "type", "ClusterIP")
        default(target, "sessionAffinity", "None")
        if target["sessionAffinity"] == "None":
            target.pop("sessionAffinityConfig", None)
        elif target["sessionAffinity"] == "ClientIP" and not objects.at(target, "sessionAffinityConfig", "clientIP"):
            target["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
        for port in _ports(target):
            default(port, "protocol", "TCP")
            if port.get("targetPort") in (None, "", 0):
                port["targetPort"] = port.get("port")
        if target["type"] != "ExternalName":
            default(target, "internalTrafficPolicy", "Cluster")
        if target["type"] in _EXPOSED or objects.sequence(target.get("externalIPs")):
            default(target, "externalTrafficPolicy", "Cluster")
        if target["type"] == "LoadBalancer":
            default(target, "allocateLoadBalancerNodePorts", True)
        obj["status"] = {"loadBalancer": {}}

    def complete_create(self, obj: Object) -> None:
        _settle_families(spec(obj))

    def complete_update(self, obj: Object) -> None:
        _settle_families(spec(obj))

    def prepare_update(self, obj: Object, old: Object) -> None:
        """A client that leaves out what was allocated means to keep it."""
        target, before = spec(obj), objects.mapping(old.get("spec"))
        if target.get("type") not in ("ExternalName",) and before.get("type") != "ExternalName":
            for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                if not target.get(key) and before.get(key):
                    target[key] = before[key]
            _keep_node_ports(target, before)
        self.prepare_create(obj)
        if "status" in old:
            obj["status"] = old["status"]

    def validate_create(self, obj: Object) -> list[Cause]:
        target = objects.mapping(obj.get("spec"))
        type_, ports = target.get("type"), _ports(target)
        found: list[Cause] = []
        if not ports and not _is_headless(target) and type_ != "ExternalName":
            found.append(fields.required("spec.ports"))
        if type_ not in _TYPES:
            found.append(fields.not_supported("spec.type", type_, _TYPES))
        if _is_headless(target) and type_ in _EXPOSED:
            text = f"may not be set to 'None' for {type_} services"
            found.append(fields.invalid("spec.clusterIPs[0]", "None", text))
        if type_ == "ExternalName":
            found += _external_name(target)
        found += _validate_ports(ports, str(type_))
        if selector := objects.mapping(target.get("selector")):
            found += objectmeta.validate_labels(selector, "spec.selector")
        if target.get("sessionAffinity") not in ("ClientIP", "None"):
            affinity = target.get("sessionAffinity")
            found.append(fields.not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None")))
        found += _validate_addresses(target)
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        target, before = objects.mapping(obj.get("spec")), objects.mapping(old.get("spec"))
        found: list[Cause] = []
        stays_internal = "ExternalName" not in (target.get("type"), before.get("type"))
        if stays_internal and before.get("clusterIP") and target.get("clusterIP") != before.get("clusterIP"):
            text = "may not change once set"
            found.append(fields.invalid("spec.clusterIPs[0]", target.get("clusterIPs"), text))
        return found + self.validate_create(obj)

    def claim(self, obj: Object, taken: Taken) -> list[Cause]:
        target = spec(obj)
        if target.get("type") == "ExternalName":
            return []
        found = _claim_address(obj, target, taken)
        if target.get("type") in _EXPOSED and target.get("allocateLoadBalancerNodePorts") is not False:
            found += _claim_ports(obj, target, taken)
        return found


def _ports(target: Object) -> list[Object]:
    return [objects.mapping(port) for port in objects.sequence(target.get("ports"))]


def _is_headless(target: Object) -> bool:
    return target.get("clusterIP") == "None" or objects.sequence(target.get("clusterIPs")) == ["None"]


def _settle_families(target: Object) -> None:
    """Addresses and families that the server fills in. A service without address or selector is meant for both."""
    if target.get("type") == "ExternalName":
        return
    address, addresses = target.get("clusterIP"), objects.sequence(target.get("clusterIPs"))
    if address and not addresses:
        target["clusterIPs"] = [address]
    elif addresses and not address:
        target["clusterIP"] = addresses[0]
    is_for_both = _is_headless(target) and not target.get("selector")
    default(target, "ipFamilyPolicy", "RequireDualStack" if is_for_both else "SingleStack")
    families = objects.sequence(target.get("ipFamilies")) or ["IPv4"]
    if is_for_both and len(families) < 2 and target["ipFamilyPolicy"] != "SingleStack":
        families = [*families, "IPv6" if families[0] == "IPv4" else "IPv4"]
    target["ipFamilies"] = families


def _keep_node_ports(target: Object, before: Object) -> None:
    if target.get("type") not in _EXPOSED:
        return
    kept = {(port.get("protocol") or "TCP", port.get("port")): port.get("nodePort") for port in _ports(before)}
    for port in _ports(target):
        number = kept.get((port.get("protocol") or "TCP", port.get("port")))
        if number and not port.get("nodePort"):
            port["nodePort"] = number


def _external_name(target: Object) -> list[Cause]:
    text = "may not be set for ExternalName services"
    keys = ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
    found = [fields.forbidden(f"spec.{key}", text) for key in keys if target.get(key)]
    name = str(target.get("externalName") or "").removesuffix(".")
    if not name:
        found.append(fields.required("spec.externalName"))
    return found + [fields.invalid("spec.externalName", name, text) for text in names.dns_subdomain(name) if name]


def _validate_ports(ports: list[Object], type_: str) -> list[Cause]:
    found: list[Cause] = []
    used_names: set[str] = set()
    used: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        place = f"spec.ports[{index}]"
        name, number, protocol = str(port.get("name") or ""), port.get("port"), port.get("protocol")
        if name:
            found += [fields.invalid(f"{place}.name", name, text) for text in names.dns_label(name)]
            if name in used_names:
                found.append(fields.duplicate(f"{place}.name", name))
            used_names.add(name)
        elif len(ports) > 1:
            found.append(fields.required(f"{place}.name"))
        wrong = names.port_number(number if isinstance(number, int) else 0)
        found += [fields.invalid(f"{place}.port", number or 0, text) for text in wrong]
        if protocol not in _PROTOCOLS:
            found.append(fields.not_supported(f"{place}.protocol", protocol, _PROTOCOLS))
        found += _validate_target(port.get("targetPort"), f"{place}.targetPort")
        if type_ == "ClusterIP" and port.get("nodePort"):
            found.append(fields.forbidden(f"{place}.nodePort", "may not be used when `type` is 'ClusterIP'"))
        if (protocol, number) in used:
            found.append(_duplicate_port(place, protocol, number))
        used.add((protocol, number))
    return found


def _duplicate_port(place: str, protocol: Any, number: Any) -> Cause:
    shown = {
        "Name": "", "Protocol": protocol, "AppProtocol": None, "Port": number, "TargetPort": 0, "NodePort": 0,
    }  # fmt: skip
    return Cause(place, "FieldValueDuplicate", f"Duplicate value: {orjson.dumps(shown).decode()}")


def _validate_target(port: Any, place: str) -> list[Cause]:
    wrong = names.port_number(port) if isinstance(port, int) else names.port_name(str(port or ""))
    return [fields.invalid(place, port, text) for text in wrong]


def _validate_addresses(target: Object) -> list[Cause]:
    found: list[Cause] = []
    for index, text in enumerate(objects.sequence(target.get("clusterIPs"))):
        if text == "None" and index == 0:
            continue
        try:
            ipaddress.ip_address(str(text))
        except ValueError:
            detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            found.append(fields.invalid(f"spec.clusterIPs[{index}]", text, detail))
    addresses = objects.sequence(target.get("clusterIPs"))
    if addresses and target.get("clusterIP") and target["clusterIP"] != addresses[0]:
        text = "first value must match `clusterIP`"
        found.append(fields.invalid("spec.clusterIPs", addresses, text))
    return found


def _start(obj: Object, span: int) -> int:
    return zlib.crc32(objects.qualified_name(obj).encode()) % span


def _claim_address(obj: Object, target: Object, taken: Taken) -> list[Cause]:
    asked = target.get("clusterIP")
    if asked == "None":
        return []
    if asked:
        return _check_asked(str(asked), target, taken)
    span = SERVICE_RANGE.num_addresses - _FIRST_FREE - 1
    start = _start(obj, span)
    for offset in range(span):
        address = str(SERVICE_RANGE[_FIRST_FREE + (start + offset) % span])
        if not taken.address(address):
            target["clusterIP"], target["clusterIPs"] = address, [address]
            return []
    return [fields.invalid("spec.clusterIPs", [], "failed to allocate IP: range is full")]


def _check_asked(asked: str, target: Object, taken: Taken) -> list[Cause]:
    if ipaddress.ip_address(asked) not in SERVICE_RANGE:
        reason = f"the provided IP ({asked}) is not in the valid range. The range of valid IPs is {SERVICE_RANGE}"
    elif taken.address(asked):
        reason = "provided IP is already allocated"
    else:
        return []
    return [fields.invalid("spec.clusterIPs", target.get("clusterIPs"), f"failed to allocate IP {asked}: {reason}")]


def _claim_ports(obj: Object, target: Object, taken: Taken) -> list[Cause]:
    found: list[Cause] = []
    mine = {port["nodePort"] for port in _ports(target) if port.get("nodePort")}
    start = _start(obj, len(NODE_PORTS))
    for index, port in enumerate(_ports(target)):
        number = port.get("nodePort")
        place = f"spec.ports[{index}].nodePort"
        if number:
            if number not in NODE_PORTS:
                text = (
                    "provided port is not in the valid range. The range of valid ports is "
                    f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
                )
                found.append(fields.invalid(place, number, text))
            elif taken.port(number):
                found.append(fields.invalid(place, number, "provided port is already allocated"))
            continue
        for offset in range(len(NODE_PORTS)):
            candidate = NODE_PORTS[(start + offset) % len(NODE_PORTS)]
            if candidate not in mine and not taken.port(candidate):
                port["nodePort"] = candidate
                mine.add(candidate)
                break
        else:
            found.append(fields.invalid(place, 0, "range is full"))
    return found
