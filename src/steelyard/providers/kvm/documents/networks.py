"""The definition of a cluster's network, and what definitions say: addresses, DHCP entries, whose it is."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final, Literal

from steelyard.frozen import frozen
from steelyard.providers.kvm.documents import markup
from steelyard.providers.kvm.documents.markup import Element, element

_OWNER: Final = "cluster"
_OPTIONS: Final = "http://libvirt.org/schemas/network/dnsmasq/1.0"


@frozen
class Entry:
    """A DHCP entry: who has which address."""

    mac: str
    address: str
    name: str = ""


@frozen
class Wanted:
    """A network of a cluster's own."""

    name: str
    """Also that of its bridge."""
    uuid: str
    mode: Literal["NAT", "Isolated"]
    host_address: str
    prefix: int
    namespace: str
    cluster: str
    names: Mapping[str, str]
    """DNS names and their addresses."""


def definition(wanted: Wanted) -> str:
    is_isolated = wanted.mode == "Isolated"
    root = element(
        "network",
        element("name", wanted.name),
        element("uuid", wanted.uuid),
        element("metadata", markup.ours(_OWNER, namespace=wanted.namespace, name=wanted.cluster)),
        None if is_isolated else element("forward", mode="nat"),
        element("bridge", name=wanted.name, stp="off", delay="0"),
        element(
            "dns",
            *(element("host", element("hostname", name), ip=address) for name, address in sorted(wanted.names.items())),
        )
        if wanted.names
        else None,
        element("ip", element("dhcp"), address=wanted.host_address, prefix=wanted.prefix),
    )
    if is_isolated:
        # What asks the host's DNS servers by way of this network's reaches something else.
        options = Element(f"{{{_OPTIONS}}}options")
        options.append(Element(f"{{{_OPTIONS}}}option", {"value": "no-resolv"}))
        root.append(options)
    return markup.shown(root)


def owner_of(definition: str) -> tuple[str, str] | None:
    """Namespace and name of the KVMCluster; None for a network that is none of ours."""
    found = markup.our_attributes(markup.read(definition), _OWNER)
    return (found.get("namespace", ""), found.get("name", "")) if found else None


def ranges_of(definition: str) -> list[ipaddress.IPv4Network]:
    found: list[ipaddress.IPv4Network] = []
    for each in markup.each(markup.read(definition), "ip"):
        if each.get("family", "ipv4") != "ipv4" or not each.get("address"):
            continue
        length = each.get("prefix") or each.get("netmask") or "32"
        found.append(ipaddress.IPv4Network(f"{each.get('address')}/{length}", strict=False))
    return found


def entries_of(definition: str) -> list[Entry]:
    return [
        Entry(each.get("mac", "").lower(), each.get("ip", ""), each.get("name", ""))
        for each in markup.each(markup.read(definition), "ip/dhcp/host")
    ]


def entry(of: Entry) -> str:
    return markup.shown(element("host", mac=of.mac, ip=of.address, name=of.name or None))
