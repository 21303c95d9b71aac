"""Networks: a bridge of the host with addresses, DHCP and DNS."""

from __future__ import annotations

from typing import Any, Final

from steelyard.frozen import frozen
from steelyard.providers.kvm.libvirt.connection import Connection
from steelyard.providers.kvm.libvirt.problems import Missing

_RULES: Final = 4.0
"""For what makes libvirt write all rules of the host's firewall again."""


@frozen
class Network:
    """As it was seen."""

    name: str
    xml: str
    is_active: bool
    is_autostarted: bool


async def look(connection: Connection, name: str) -> Network | None:
    def work(opened: Any, libvirt: Any) -> Network:
        return _seen(opened.networkLookupByName(name))

    try:
        return await connection.call("look at the network", work, subject=name)
    except Missing:
        return None


async def all_of(connection: Connection) -> list[Network]:
    def work(opened: Any, libvirt: Any) -> list[Network]:
        found: list[Network] = []
        for each in opened.listAllNetworks(0):
            try:
                found.append(_seen(each))
            except libvirt.libvirtError as error:
                # It has gone since it was listed.
                if error.get_error_code() != libvirt.VIR_ERR_NO_NETWORK:
                    raise
        return found

    return await connection.call("list the networks", work)


def _seen(network: Any) -> Network:
    return Network(
        name=str(network.name()),
        xml=str(network.XMLDesc(0)),
        is_active=bool(network.isActive()),
        is_autostarted=bool(network.isPersistent() and network.autostart()),
    )


async def define(connection: Connection, name: str, xml: str) -> None:
    def work(opened: Any, libvirt: Any) -> None:
        opened.networkDefineXML(xml)

    await connection.call("define the network", work, subject=name)


async def autostart(connection: Connection, name: str) -> None:
    def work(opened: Any, libvirt: Any) -> None:
        opened.networkLookupByName(name).setAutostart(1)

    await connection.call("have the network start with the host", work, subject=name)


async def start(connection: Connection, name: str) -> None:
    def work(opened: Any, libvirt: Any) -> None:
        opened.networkLookupByName(name).create()

    await connection.call("start the network", work, subject=name, patience=_RULES)


async def stop(connection: Connection, name: str) -> None:
    def work(opened: Any, libvirt: Any) -> None:
        network = opened.networkLookupByName(name)
        if network.isActive():
            network.destroy()

    await _unless_gone(connection.call("stop the network", work, subject=name, patience=_RULES))


async def undefine(connection: Connection, name: str) -> None:
    def work(opened: Any, libvirt: Any) -> None:
        network = opened.networkLookupByName(name)
        if network.isPersistent():
            network.undefine()

    await _unless_gone(connection.call("undefine the network", work, subject=name))


async def add_host(connection: Connection, name: str, entry: str) -> None:
    """A DHCP entry, in force at once and in the definition."""

    def work(opened: Any, libvirt: Any) -> None:
        _update(opened, libvirt, name, libvirt.VIR_NETWORK_UPDATE_COMMAND_ADD_LAST, entry)

    await connection.call("give the machine its address", work, subject=name, patience=_RULES)


async def remove_host(connection: Connection, name: str, entry: str) -> None:
    def work(opened: Any, libvirt: Any) -> None:
        _update(opened, libvirt, name, libvirt.VIR_NETWORK_UPDATE_COMMAND_DELETE, entry)

    await connection.call("take the machine's address back", work, subject=name, patience=_RULES)


def _update(opened: Any, libvirt: Any, name: str, command: int, entry: str) -> None:
    network = opened.networkLookupByName(name)
    flags = libvirt.VIR_NETWORK_UPDATE_AFFECT_CONFIG
    if network.isActive():
        flags |= libvirt.VIR_NETWORK_UPDATE_AFFECT_LIVE
    network.update(command, libvirt.VIR_NETWORK_SECTION_IP_DHCP_HOST, -1, entry, flags)


async def leases(connection: Connection, name: str) -> dict[str, str]:
    """Addresses that are given out at the moment, and the hardware addresses of those who have them."""

    def work(opened: Any, libvirt: Any) -> dict[str, str]:
        found: list[dict[str, Any]] = opened.networkLookupByName(name).DHCPLeases()
        return {str(each["ipaddr"]): str(each["mac"]).lower() for each in found}

    return await connection.call("list the leases", work, subject=name)


async def _unless_gone(call: Any) -> None:
    try:
        await call
    except Missing:
        return
