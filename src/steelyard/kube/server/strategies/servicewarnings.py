"""What kube-apiserver warns of in a Service that it takes: fields that do nothing, addresses that can be misread."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from steelyard.kube import objects
from steelyard.kube.fields import quote
from steelyard.kube.objects import Object
from steelyard.kube.server.strategies import network
from steelyard.kube.server.strategies.base import spec

_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_MODE: Final = "service.kubernetes.io/topology-mode"
_LATER: Final = "will be considered invalid in a future Kubernetes release"


def of_service(obj: Object) -> Iterator[str]:
    target = spec(obj)
    if _HINTS in objects.annotations(obj):
        yield f"annotation {_HINTS} is deprecated, please use {_MODE} instead"
    type_, address = target.get("type"), target.get("clusterIP")
    balanced, outside = target.get("loadBalancerIP"), objects.sequence(target.get("externalIPs"))
    if address and address != "None":
        yield from _addresses("spec.clusterIPs", objects.sequence(target.get("clusterIPs")))
    elif address and type_ == "ClusterIP":
        if balanced:
            yield "spec.loadBalancerIP is ignored for headless services"
        if outside:
            yield "spec.externalIPs is ignored for headless services"
        if target.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    yield from _addresses("spec.externalIPs", outside)
    if balanced:
        yield from _address("spec.loadBalancerIP", str(balanced))
    for index, given in enumerate(objects.sequence(target.get("loadBalancerSourceRanges"))):
        yield from _network(f"spec.loadBalancerSourceRanges[{index}]", str(given))
    if type_ == "ExternalName" and outside:
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if type_ != "ExternalName" and target.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'


def _addresses(path: str, values: list[object]) -> Iterator[str]:
    for index, value in enumerate(values):
        yield from _address(f"{path}[{index}]", str(value))


def _address(path: str, value: str) -> Iterator[str]:
    try:
        read = ipaddress.ip_address(network.decimal(value))
    except ValueError:
        return
    plain = getattr(read, "ipv4_mapped", None) or read
    if plain is not read or network.decimal(value) != value:
        yield f"{path}: non-standard IP address {quote(value)} {_LATER}: use {quote(str(plain))}"
    elif str(read) != value:
        yield f"{path}: IPv6 address {quote(value)} should be in RFC 5952 canonical format ({quote(str(read))})"


def _network(path: str, value: str) -> Iterator[str]:
    text = value.strip()
    try:
        read = ipaddress.ip_interface(network.decimal(text))
    except ValueError:
        return
    is_ambiguous, is_odd = read.ip != read.network.network_address, network.decimal(text) != text
    if is_ambiguous:
        alone = f"{read.ip}/{read.max_prefixlen}"
        yield (
            f"{path}: CIDR value {quote(text)} is ambiguous in this context "
            f"(should be {quote(str(read.network))} or {quote(alone)}?)"
        )
    if is_odd:
        yield f"{path}: non-standard CIDR value {quote(text)} {_LATER}: use {quote(str(read.network))}"
    if not is_ambiguous and not is_odd and str(read) != text:
        yield f"{path}: IPv6 CIDR value {quote(text)} should be in RFC 5952 canonical format ({quote(str(read))})"
