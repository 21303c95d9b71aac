"""Strategies of NetworkPolicy, Ingress and PodDisruptionBudget: kept for those who act on them."""

from __future__ import annotations

import re
from typing import Any, Final

from steelyard.kube import fields, namerules, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.strategies import labelselectors, network
from steelyard.kube.server.strategies.base import Strategy, default, spec

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_PARTS: Final = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS: Final = ("/..", "/.")
_EVICTION: Final = ("AlwaysAllow", "IfHealthyBudget")
_PERCENT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


class NetworkPolicyStrategy(Strategy):
    tracks_generation = True
    is_judged_by_schema = False

    def prepare_create(self, obj: Object) -> None:
        target = spec(obj)
        target.setdefault("podSelector", {})
        if not target.get("policyTypes"):
            target["policyTypes"] = ["Ingress", "Egress"] if target.get("egress") else ["Ingress"]
        for direction in ("ingress", "egress"):
            for rule in map(objects.mapping, objects.sequence(target.get(direction))):
                for port in map(objects.mapping, objects.sequence(rule.get("ports"))):
                    default(port, "protocol", "TCP")

    def validate_create(self, obj: Object) -> list[Cause]:
        target = objects.mapping(obj.get("spec"))
        found = list(labelselectors.validate(objects.mapping(target.get("podSelector")), "spec.podSelector"))
        for direction, side in (("ingress", "from"), ("egress", "to")):
            for index, rule in enumerate(map(objects.mapping, objects.sequence(target.get(direction)))):
                place = f"spec.{direction}[{index}]"
                for number, port in enumerate(map(objects.mapping, objects.sequence(rule.get("ports")))):
                    found += _policy_port(port, f"{place}.ports[{number}]")
                for number, peer in enumerate(map(objects.mapping, objects.sequence(rule.get(side)))):
                    found += _peer(peer, f"{place}.{side}[{number}]")
        types = objects.sequence(target.get("policyTypes"))
        if len(types) > 2:
            return [*found, fields.invalid("spec.policyTypes", types, "may not specify more than two policyTypes")]
        return found + [
            fields.not_supported(f"spec.policyTypes[{index}]", type_, ("Ingress", "Egress"))
            for index, type_ in enumerate(types)
            if type_ not in ("Ingress", "Egress")
        ]


def _policy_port(port: Object, place: str) -> list[Cause]:
    found: list[Cause] = []
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in network.PROTOCOLS:
        found.append(fields.not_supported(f"{place}.protocol", protocol, ("TCP", "UDP", "SCTP")))
    if isinstance(number, int):
        found += network.port(number, f"{place}.port")
        if end is not None:
            if end < number:
                found.append(fields.invalid(f"{place}.endPort", number, "must be greater than or equal to `port`"))
            found += [fields.invalid(f"{place}.endPort", end, text) for text in namerules.port_number(end)]
        return found
    if end is not None:
        text = "non-numeric" if number is not None else "not specified"
        found.append(fields.invalid(f"{place}.endPort", end, f"may not be specified when `port` is {text}"))
    return found + network.port(number, f"{place}.port") if number is not None else found


def _peer(peer: Object, place: str) -> list[Cause]:
    found: list[Cause] = []
    given = [key for key in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(key) is not None]
    for key in given:
        value = objects.mapping(peer[key])
        is_block = key == "ipBlock"
        found += _block(value, f"{place}.ipBlock") if is_block else labelselectors.validate(value, f"{place}.{key}")
    if not given:
        found.append(fields.required(place, "must specify a peer"))
    elif len(given) > 1 and "ipBlock" in given:
        found.append(fields.forbidden(place, "may not specify both ipBlock and another peer"))
    return found


def _block(block: Object, place: str) -> list[Cause]:
    if not block.get("cidr"):
        return [fields.required(f"{place}.cidr")]
    found = network.cidr(block["cidr"], f"{place}.cidr")
    whole = network.parsed_range(block["cidr"])
    for index, text in enumerate(objects.sequence(block.get("except"))):
        here = f"{place}.except[{index}]"
        found += network.cidr(text, here)
        part = network.parsed_range(text)
        if whole is None or part is None:
            continue
        is_within = part.version == whole.version and part.network_address in whole
        if not is_within or whole.prefixlen >= part.prefixlen:
            found.append(fields.invalid(here, text, "must be a strict subset of `cidr`"))
    return found


class IngressStrategy(Strategy):
    tracks_generation = True
    is_judged_by_schema = False

    def validate_create(self, obj: Object) -> list[Cause]:
        target = objects.mapping(obj.get("spec"))
        found: list[Cause] = []
        rules, backend = objects.sequence(target.get("rules")), target.get("defaultBackend")
        if not rules and backend is None:
            text = "either `defaultBackend` or `rules` must be specified"
            found.append(fields.invalid("spec", None, text))
        if backend is not None:
            found += _backend(objects.mapping(backend), "spec.defaultBackend")
        for index, rule in enumerate(map(objects.mapping, rules)):
            found += _rule(rule, f"spec.rules[{index}]")
        for index, tls in enumerate(map(objects.mapping, objects.sequence(target.get("tls")))):
            place = f"spec.tls[{index}]"
            for number, host in enumerate(objects.sequence(tls.get("hosts"))):
                found += _host(str(host), f"{place}.hosts[{number}]")
            if secret := tls.get("secretName"):
                found += [
                    fields.invalid(f"{place}.secretName", secret, text) for text in namerules.dns_subdomain(secret)
                ]
        if (class_ := target.get("ingressClassName")) is not None:
            wrong = namerules.dns_subdomain(str(class_))
            found += [fields.invalid("spec.ingressClassName", class_, text) for text in wrong]
        return found


def _host(host: str, place: str) -> list[Cause]:
    rule = namerules.wildcard_subdomain if "*" in host else namerules.dns_subdomain
    return [fields.invalid(place, host, text) for text in rule(host)]


def _rule(rule: Object, place: str) -> list[Cause]:
    found: list[Cause] = []
    if host := str(rule.get("host") or ""):
        if network.parsed(host) is not None:
            found.append(fields.invalid(f"{place}.host", host, "must be a DNS name, not an IP address"))
        found += _host(host, f"{place}.host")
    http = rule.get("http")
    if not isinstance(http, dict):
        return found
    paths = [objects.mapping(path) for path in objects.sequence(objects.mapping(rule["http"]).get("paths"))]
    if not paths:
        found.append(fields.required(f"{place}.http.paths"))
    for index, path in enumerate(paths):
        found += _path(path, f"{place}.http.paths[{index}]")
    return found


def _path(path: Object, place: str) -> list[Cause]:
    type_, text = path.get("pathType"), str(path.get("path") or "")
    if not type_:
        return [fields.required(f"{place}.pathType", "pathType must be specified")]
    found: list[Cause] = []
    if type_ not in _PATH_TYPES:
        found.append(fields.not_supported(f"{place}.pathType", type_, _PATH_TYPES))
    elif not text.startswith("/") and (text or type_ != "ImplementationSpecific"):
        found.append(fields.invalid(f"{place}.path", text, "must be an absolute path"))
    if type_ in ("Exact", "Prefix"):
        wrong = [f"must not contain '{part}'" for part in _BAD_PARTS if part in text]
        wrong += [f"cannot end with '{part}'" for part in _BAD_ENDS if text.endswith(part)]
        found += [fields.invalid(f"{place}.path", text, each) for each in wrong]
    return found + _backend(objects.mapping(path.get("backend")), f"{place}.backend")


def _backend(backend: Object, place: str) -> list[Cause]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [fields.invalid(place, "", "cannot set both resource and service backends")]
    if resource is not None:
        given = objects.mapping(resource)
        return [fields.required(f"{place}.resource.{key}") for key in ("kind", "name") if not given.get(key)]
    if service is None:
        return [fields.invalid(place, "", "resource or service backend is required")]
    given = objects.mapping(service)
    name = str(given.get("name") or "")
    found = [] if name else [fields.required(f"{place}.service.name")]
    found += [fields.invalid(f"{place}.service.name", name, text) for text in namerules.dns1035_label(name) if name]
    port = objects.mapping(given.get("port"))
    if port.get("name") and port.get("number"):
        found.append(fields.invalid(place, "", "cannot set both port name & port number"))
    elif not port.get("name") and not port.get("number"):
        found.append(fields.required(place, "port name or number is required"))
    else:
        key = "name" if port.get("name") else "number"
        found += network.port(port[key], f"{place}.service.port.{key}")
    return found


class BudgetStrategy(Strategy):
    """PodDisruptionBudget."""

    tracks_generation = True
    is_judged_by_schema = False

    def validate_create(self, obj: Object) -> list[Cause]:
        target = objects.mapping(obj.get("spec"))
        found: list[Cause] = []
        least, most = target.get("minAvailable"), target.get("maxUnavailable")
        policy = target.get("unhealthyPodEvictionPolicy")
        if least is not None and most is not None:
            shown: Object = {"MinAvailable": least, "Selector": target.get("selector"), "MaxUnavailable": most}
            shown["UnhealthyPodEvictionPolicy"] = policy
            text = "minAvailable and maxUnavailable cannot be both set"
            found.append(fields.invalid("spec", fields.Ordered(shown), text))
        for key, value in (("minAvailable", least), ("maxUnavailable", most)):
            if value is not None:
                found += share(value, f"spec.{key}") + at_most_all(value, f"spec.{key}")
        if isinstance(target.get("selector"), dict):
            found += labelselectors.validate(objects.mapping(target["selector"]), "spec.selector")
        if policy is not None and policy not in _EVICTION:
            found.append(fields.not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION))
        return found


def share(value: Any, place: str) -> list[Cause]:
    """A number, or a percentage of one."""
    if isinstance(value, int):
        return [fields.invalid(place, value, "must be greater than or equal to 0")] if value < 0 else []
    return [] if re.fullmatch("[0-9]+%", str(value)) else [fields.invalid(place, value, _PERCENT)]


def at_most_all(value: Any, place: str) -> list[Cause]:
    is_more = isinstance(value, str) and re.fullmatch("[0-9]+%", value) and int(value[:-1]) > 100
    return [fields.invalid(place, value, "must not be greater than 100%")] if is_more else []
