"""The files of a seed. The one with bootstrap data is followed by one without, under the same instance id: cloud-init
takes a machine with another id for a new one and would do everything again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from steelyard.providers.kvm.seed import iso9660

LABEL: Final = "CIDATA"
NOTHING: Final = b"#cloud-config\n{}\n"


def seed(uuid: str, host_name: str, *, user_data: bytes, vendor_data: str, network: bytes, at_least: int = 0) -> bytes:
    """The disk image."""
    # JSON is YAML, and nothing that it holds is taken for markup.
    about = {"instance-id": uuid, "local-hostname": host_name, "hostname": host_name}
    files = {
        "meta-data": json.dumps(about).encode() + b"\n",
        "user-data": user_data,
        "vendor-data": vendor_data.encode(),
        "network-config": network,
    }
    return iso9660.image(LABEL, files, at_least=at_least)


def network(mac: str, dns_servers: Sequence[str]) -> bytes:
    interface: dict[str, Any] = {"match": {"macaddress": mac}, "set-name": "eth0", "dhcp4": True}
    if dns_servers:
        interface["dhcp4-overrides"] = {"use-dns": False}
        interface["nameservers"] = {"addresses": list(dns_servers)}
    return json.dumps({"version": 2, "ethernets": {"eth0": interface}}).encode() + b"\n"
