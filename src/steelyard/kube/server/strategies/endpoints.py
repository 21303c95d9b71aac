"""Strategies of Endpoints and EndpointSlices: where a service leads to."""

from __future__ import annotations

from typing import Any, Final

from steelyard.kube import fields, namerules, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.strategies import network
from steelyard.kube.server.strategies.base import Strategy, default, immutable

_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_MOST_ENDPOINTS: Final = 1000
_MOST_ADDRESSES: Final = 100
_MOST_PORTS: Final = 20000


class EndpointsStrategy(Strategy):
    is_judged_by_schema = False
    creates_on_update = True

    def prepare_create(self, obj: Object) -> None:
        for subset in map(objects.mapping, objects.sequence(obj.get("subsets"))):
            for port in map(objects.mapping, objects.sequence(subset.get("ports"))):
                default(port, "protocol", "TCP")

    def validate_create(self, obj: Object) -> list[Cause]:
        found: list[Cause] = []
        for index, subset in enumerate(map(objects.mapping, objects.sequence(obj.get("subsets")))):
            place = f"subsets[{index}]"
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                found.append(fields.required(place, "must specify `addresses` or `notReadyAddresses`"))
            for key in ("addresses", "notReadyAddresses"):
                for number, address in enumerate(map(objects.mapping, objects.sequence(subset.get(key)))):
                    found += _validate_address(address, f"{place}.{key}[{number}]")
            ports = [objects.mapping(port) for port in objects.sequence(subset.get("ports"))]
            for number, port in enumerate(ports):
                found += _validate_port(port, f"{place}.ports[{number}]", is_named=len(ports) > 1)
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return [] if obj.get("subsets") == old.get("subsets") else self.validate_create(obj)


def _validate_address(address: Object, place: str) -> list[Cause]:
    text = address.get("ip") or ""
    found = network.address(text, f"{place}.ip")
    if host := str(address.get("hostname") or ""):
        found += [fields.invalid(f"{place}.hostname", host, wrong) for wrong in namerules.dns_label(host)]
    if (node := address.get("nodeName")) is not None:
        found += [fields.invalid(f"{place}.nodeName", node, wrong) for wrong in namerules.dns_subdomain(str(node))]
    return found + network.endpoint_address(text, f"{place}.ip", is_local_fine=True)


def _validate_port(port: Object, place: str, *, is_named: bool) -> list[Cause]:
    found: list[Cause] = []
    name, number = str(port.get("name") or ""), port.get("port") or 0
    if name:
        found += [fields.invalid(f"{place}.name", name, text) for text in namerules.dns_label(name)]
    elif is_named:
        found.append(fields.required(f"{place}.name"))
    found += [fields.invalid(f"{place}.port", number, text) for text in namerules.port_number(number)]
    return found + _validate_protocols(port, place)


def _validate_protocols(port: Object, place: str) -> list[Cause]:
    found: list[Cause] = []
    if port.get("protocol") not in network.PROTOCOLS:
        found.append(fields.not_supported(f"{place}.protocol", port.get("protocol"), network.PROTOCOLS))
    if application := port.get("appProtocol"):
        wrong = namerules.qualified_name(str(application))
        found += [fields.invalid(f"{place}.appProtocol", application, text) for text in wrong]
    return found


class EndpointSliceStrategy(Strategy):
    tracks_generation = True
    is_judged_by_schema = False

    def prepare_create(self, obj: Object) -> None:
        for port in map(objects.mapping, objects.sequence(obj.get("ports"))):
            port.setdefault("name", "")
            default(port, "protocol", "TCP")

    def validate_create(self, obj: Object) -> list[Cause]:
        return self._validate_shape(obj) + _validate_endpoints(obj)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found = self._validate_shape(obj)
        if obj.get("endpoints") != old.get("endpoints"):
            found += _validate_endpoints(obj)
        return found + immutable(obj, old, ("addressType",))

    def _validate_shape(self, obj: Object) -> list[Cause]:
        found: list[Cause] = []
        type_ = obj.get("addressType") or ""
        if not type_:
            found.append(fields.required("addressType"))
        elif type_ not in _TYPES:
            found.append(fields.not_supported("addressType", type_, _TYPES))
        ports = [objects.mapping(port) for port in objects.sequence(obj.get("ports"))]
        if len(ports) > _MOST_PORTS:
            return [*found, fields.too_many("ports", len(ports), _MOST_PORTS)]
        used: set[str] = set()
        for index, port in enumerate(ports):
            place, name = f"ports[{index}]", str(port.get("name") or "")
            if name:
                found += [fields.invalid(f"{place}.name", name, text) for text in namerules.dns_label(name)]
            if name in used:
                found.append(fields.duplicate(f"{place}.name", name))
            used.add(name)
            found += _validate_protocols(port, place)
        return found


def _validate_endpoints(obj: Object) -> list[Cause]:
    endpoints = [objects.mapping(each) for each in objects.sequence(obj.get("endpoints"))]
    if len(endpoints) > _MOST_ENDPOINTS:
        return [fields.too_many("endpoints", len(endpoints), _MOST_ENDPOINTS)]
    found: list[Cause] = []
    for index, endpoint in enumerate(endpoints):
        place = f"endpoints[{index}]"
        addresses = objects.sequence(endpoint.get("addresses"))
        if not addresses:
            found.append(fields.required(f"{place}.addresses", "must contain at least 1 address"))
        elif len(addresses) > _MOST_ADDRESSES:
            found.append(fields.too_many(f"{place}.addresses", len(addresses), _MOST_ADDRESSES))
        for number, text in enumerate(addresses):
            found += _validate_typed(text, obj.get("addressType"), f"{place}.addresses", number)
        if (node := endpoint.get("nodeName")) is not None:
            found += [fields.invalid(f"{place}.nodeName", node, text) for text in namerules.dns_subdomain(str(node))]
        if (host := endpoint.get("hostname")) is not None:
            found += [fields.invalid(f"{place}.hostname", host, text) for text in namerules.dns_label(str(host))]
    return found


def _validate_typed(text: Any, type_: Any, place: str, number: int) -> list[Cause]:
    here = f"{place}[{number}]"
    if type_ == "FQDN":
        return [fields.invalid(here, text, wrong) for wrong in namerules.dns_subdomain(str(text).removesuffix("."))]
    if type_ not in ("IPv4", "IPv6"):
        return []
    found = network.address(text, here)
    if found:
        return found
    parsed = network.parsed(text)
    if parsed is not None and f"IPv{parsed.version}" != type_:
        found.append(fields.invalid(place, text, f"must be an {type_} address"))
    return found + network.endpoint_address(text, here, is_local_fine=True)
