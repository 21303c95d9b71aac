"""What a Service must look like, in the order in which upstream looks at it.

`addressing` is judged before everything else, since addresses are given out on the strength of it.
"""

from __future__ import annotations

from typing import Any, Final

from steelyard.kube import fields, namerules, objectmeta, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.strategies import network

EXPOSED: Final = ("NodePort", "LoadBalancer")
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_FAMILIES: Final = ("IPv4", "IPv6")
_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_AFFINITIES: Final = ("ClientIP", "None")
_POLICIES: Final = ("Cluster", "Local")
_DISTRIBUTIONS: Final = ("PreferClose",)
_LONGEST_AFFINITY: Final = 86400
_ONLY_BALANCED: Final = "may only be used when `type` is 'LoadBalancer'"


def ports(target: Object) -> list[Object]:
    return [objects.mapping(port) for port in objects.sequence(target.get("ports"))]


def is_headless(target: Object) -> bool:
    return target.get("clusterIP") == "None" or objects.sequence(target.get("clusterIPs")) == ["None"]


def is_exposed(target: Object) -> bool:
    """Whether it can be reached from outside."""
    is_external = bool(objects.sequence(target.get("externalIPs"))) and target.get("type") == "ClusterIP"
    return target.get("type") in EXPOSED or is_external


def needs_health_check(target: Object) -> bool:
    return target.get("type") == "LoadBalancer" and target.get("externalTrafficPolicy") == "Local"


def addressing(target: Object) -> list[Cause]:
    if target.get("type") == "ExternalName":
        return []
    found: list[Cause] = []
    address, addresses = target.get("clusterIP"), objects.sequence(target.get("clusterIPs"))
    if address and not addresses:
        found.append(fields.required("spec.clusterIPs"))
    elif address and addresses[0] != address:
        found.append(fields.invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`"))
    elif not address and addresses:
        found.append(fields.invalid("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified"))
    families = objects.sequence(target.get("ipFamilies"))
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            found.append(fields.not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if family in families[:index]:
            found.append(fields.duplicate(f"spec.ipFamilies[{index}]", family))
    policy = target.get("ipFamilyPolicy")
    if policy is not None and policy not in _FAMILY_POLICIES:
        found.append(fields.not_supported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES))
    wrong = _validate_addresses(addresses)
    found += wrong
    return found if wrong else found + _validate_pair(target, addresses, families)


def _validate_addresses(addresses: list[Any]) -> list[Cause]:
    found: list[Cause] = []
    for index, text in enumerate(addresses):
        if index == 0 and text == "None":
            if len(addresses) > 1:
                text = "'None' must be the first and only value"
                found.append(fields.invalid("spec.clusterIPs", addresses, text))
            continue
        found += network.address(text, f"spec.clusterIPs[{index}]")
    return found


def _validate_pair(target: Object, addresses: list[Any], families: list[Any]) -> list[Cause]:
    found: list[Cause] = []
    if len(addresses) > 2:
        found.append(fields.invalid("spec.clusterIPs", addresses, "may only hold up to 2 values"))
    versions = [parsed.version for parsed in map(network.parsed, addresses) if parsed is not None]
    if len(addresses) > 1 and sorted(versions) != [4, 6]:
        text = "may specify no more than one IP for each IP family"
        found.append(fields.invalid("spec.clusterIPs", addresses, text))
    if is_headless(target):
        return found
    for index, (version, family) in enumerate(zip(versions, families, strict=False)):
        if family in _FAMILIES and family != f"IPv{version}":
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            found.append(fields.invalid(f"spec.clusterIPs[{index}]", addresses[index], text))
    return found


def validate(target: Object) -> list[Cause]:
    type_, given = target.get("type"), ports(target)
    found: list[Cause] = []
    if not given and not is_headless(target) and type_ != "ExternalName":
        found.append(fields.required("spec.ports"))
    if is_headless(target) and type_ in EXPOSED:
        found.append(fields.invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {type_} services"))
    if type_ == "ExternalName":
        found += _external_name(target)
    found += _validate_ports(given)
    if selector := objects.mapping(target.get("selector")):
        found += objectmeta.validate_labels(selector, "spec.selector")
    found += _validate_affinity(target)
    found += addressing(target)
    for index, text in enumerate(objects.sequence(target.get("externalIPs"))):
        place = f"spec.externalIPs[{index}]"
        found += network.address(text, place) or network.endpoint_address(text, place)
    if type_ not in _TYPES:
        found.append(fields.not_supported("spec.type", type_, _TYPES))
    if type_ == "ClusterIP":
        text = "may not be used when `type` is 'ClusterIP'"
        found += [
            fields.forbidden(f"spec.ports[{index}].nodePort", text)
            for index, port in enumerate(given)
            if port.get("nodePort")
        ]
    found += _duplicate_ports(given)
    return found + _validate_balancing(target) + _validate_traffic(target)


def _external_name(target: Object) -> list[Cause]:
    text = "may not be set for ExternalName services"
    keys = ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
    found = [fields.forbidden(f"spec.{key}", text) for key in keys if target.get(key)]
    name = str(target.get("externalName") or "").removesuffix(".")
    if not name:
        found.append(fields.required("spec.externalName"))
    return found + [fields.invalid("spec.externalName", name, text) for text in namerules.dns_subdomain(name) if name]


def _validate_ports(given: list[Object]) -> list[Cause]:
    found: list[Cause] = []
    used: set[str] = set()
    for index, port in enumerate(given):
        place = f"spec.ports[{index}]"
        name, number, protocol = str(port.get("name") or ""), port.get("port") or 0, port.get("protocol")
        if name:
            found += [fields.invalid(f"{place}.name", name, text) for text in namerules.dns_label(name)]
            if name in used:
                found.append(fields.duplicate(f"{place}.name", name))
            used.add(name)
        elif len(given) > 1:
            found.append(fields.required(f"{place}.name"))
        found += [fields.invalid(f"{place}.port", number, text) for text in namerules.port_number(number)]
        if protocol not in network.PROTOCOLS:
            found.append(fields.not_supported(f"{place}.protocol", protocol, network.PROTOCOLS))
        found += network.port(port.get("targetPort"), f"{place}.targetPort")
        if application := port.get("appProtocol"):
            wrong = namerules.qualified_name(str(application))
            found += [fields.invalid(f"{place}.appProtocol", application, text) for text in wrong]
    return found


def _validate_affinity(target: Object) -> list[Cause]:
    affinity = target.get("sessionAffinity")
    if affinity not in _AFFINITIES:
        return [fields.not_supported("spec.sessionAffinity", affinity, _AFFINITIES)]
    seconds = objects.at(target, "sessionAffinityConfig", "clientIP", "timeoutSeconds")
    if affinity == "ClientIP" and isinstance(seconds, int) and not 0 < seconds <= _LONGEST_AFFINITY:
        text = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
        return [fields.invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, text)]
    return []


def _duplicate_ports(given: list[Object]) -> list[Cause]:
    found: list[Cause] = []
    exposed: set[tuple[Any, Any]] = set()
    for index, port in enumerate(given):
        key = (port.get("protocol"), port.get("nodePort"))
        if port.get("nodePort") and key in exposed:
            found.append(fields.duplicate(f"spec.ports[{index}].nodePort", port["nodePort"]))
        exposed.add(key)
    used: set[tuple[Any, Any]] = set()
    for index, port in enumerate(given):
        protocol, number = key = (port.get("protocol"), port.get("port") or 0)
        if key in used:
            shown: Object = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": number}
            shown |= {"TargetPort": 0, "NodePort": 0}
            found.append(fields.duplicate(f"spec.ports[{index}]", fields.Ordered(shown)))
        used.add(key)
    return found


def _validate_balancing(target: Object) -> list[Cause]:
    found: list[Cause] = []
    is_balanced = target.get("type") == "LoadBalancer"
    ranges = objects.sequence(target.get("loadBalancerSourceRanges"))
    if ranges and not is_balanced:
        found.append(fields.forbidden("spec.LoadBalancerSourceRanges", _ONLY_BALANCED))
    for index, text in enumerate(ranges):
        found += network.cidr(str(text).strip(), f"spec.LoadBalancerSourceRanges[{index}]")
    if target.get("allocateLoadBalancerNodePorts") is not None and not is_balanced:
        found.append(fields.forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCED))
    return found + balancer_class(target)


def balancer_class(target: Object) -> list[Cause]:
    class_ = target.get("loadBalancerClass")
    if class_ is None:
        return []
    if target.get("type") != "LoadBalancer":
        return [fields.forbidden("spec.loadBalancerClass", _ONLY_BALANCED)]
    return [fields.invalid("spec.loadBalancerClass", class_, text) for text in namerules.qualified_name(str(class_))]


def _validate_traffic(target: Object) -> list[Cause]:
    found: list[Cause] = []
    policy, port = target.get("externalTrafficPolicy") or "", target.get("healthCheckNodePort") or 0
    if not is_exposed(target):
        if policy:
            text = "may only be set for externally-accessible services"
            found.append(fields.invalid("spec.externalTrafficPolicy", policy, text))
    elif policy not in _POLICIES:
        found.append(fields.not_supported("spec.externalTrafficPolicy", policy, _POLICIES))
    if port and not needs_health_check(target):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        found.append(fields.invalid("spec.healthCheckNodePort", port, text))
    elif port:
        found += [fields.invalid("spec.healthCheckNodePort", port, text) for text in namerules.port_number(port)]
    internal = target.get("internalTrafficPolicy")
    if internal is not None and internal not in _POLICIES:
        found.append(fields.not_supported("spec.internalTrafficPolicy", internal, _POLICIES))
    distribution = target.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        found.append(fields.not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS))
    return found


def validate_change(target: Object, before: Object) -> list[Cause]:
    """What may not change; both are specs."""
    found: list[Cause] = []
    if "ExternalName" not in (target.get("type"), before.get("type")):
        found += _kept("clusterIPs", target, before, "primary clusterIP can not be unset")
        if is_headless(target) == is_headless(before) and not is_headless(target):
            found += _kept("ipFamilies", target, before, "primary ipFamily can not be unset")
    if target.get("type") == before.get("type") == "LoadBalancer":
        class_ = target.get("loadBalancerClass")
        if class_ != before.get("loadBalancerClass"):
            found.append(fields.invalid("spec.loadBalancerClass", class_, "may not change once set"))
    found += balancer_class(target)
    is_checked = needs_health_check(target) and needs_health_check(before)
    if is_checked and target.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
        found.append(fields.forbidden("spec.healthCheckNodePort", "field is immutable"))
    return found


def _kept(key: str, target: Object, before: Object, unset: str) -> list[Cause]:
    now, then = objects.sequence(target.get(key)), objects.sequence(before.get(key))
    if is_headless(target) and is_headless(before):
        return []
    if not now and then:
        return [fields.invalid(f"spec.{key}[0]", None, unset)]
    pairs = list(zip(now, then, strict=False))[: None if len(now) == len(then) else 1]
    return [
        fields.invalid(f"spec.{key}[{index}]", now, "may not change once set")
        for index, (new, old) in enumerate(pairs)
        if new != old
    ]
