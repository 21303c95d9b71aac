"""Domains: what libvirt calls a virtual machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from steelyard.frozen import frozen
from steelyard.providers.kvm.libvirt.connection import Connection
from steelyard.providers.kvm.libvirt.problems import Missing

State: TypeAlias = Literal["running", "paused", "stopped", "other"]
_START: Final = 6.0
"""Under emulation, with many machines that start at once, QEMU takes its time."""


@frozen
class Domain:
    """As it was seen."""

    uuid: str
    name: str
    state: State
    xml: str
    """The definition, as the next start takes it."""
    is_persistent: bool
    """Whether it is there once it has stopped."""
    is_autostarted: bool
    is_out_of_space: bool = False
    """Whether QEMU paused it since its disk could not be written to."""


async def look(connection: Connection, uuid: str) -> Domain | None:
    def work(opened: Any, libvirt: Any) -> Domain:
        return _seen(opened.lookupByUUIDString(uuid), libvirt)

    try:
        return await connection.call("look at the domain", work, subject=uuid)
    except Missing:
        return None


async def all_of(connection: Connection) -> list[Domain]:
    def work(opened: Any, libvirt: Any) -> list[Domain]:
        found: list[Domain] = []
        for each in opened.listAllDomains(0):
            try:
                found.append(_seen(each, libvirt))
            except libvirt.libvirtError as error:
                # It has gone since it was listed.
                if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                    raise
        return found

    return await connection.call("list the domains", work)


def _seen(domain: Any, libvirt: Any) -> Domain:
    number, reason = domain.state()
    states: dict[int, State] = {
        libvirt.VIR_DOMAIN_RUNNING: "running",
        libvirt.VIR_DOMAIN_BLOCKED: "running",
        libvirt.VIR_DOMAIN_PAUSED: "paused",
        libvirt.VIR_DOMAIN_SHUTOFF: "stopped",
        libvirt.VIR_DOMAIN_CRASHED: "stopped",
        # On its way: it stops or starts by itself in a moment.
        libvirt.VIR_DOMAIN_SHUTDOWN: "other",
    }
    state = states.get(number, "other")
    is_persistent = bool(domain.isPersistent())
    return Domain(
        uuid=str(domain.UUIDString()),
        name=str(domain.name()),
        state=state,
        xml=str(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)),
        is_persistent=is_persistent,
        is_autostarted=is_persistent and bool(domain.autostart()),
        is_out_of_space=state == "paused" and reason == libvirt.VIR_DOMAIN_PAUSED_IOERROR,
    )


async def define(connection: Connection, uuid: str, xml: str) -> None:
    def work(opened: Any, libvirt: Any) -> None:
        opened.defineXMLFlags(xml, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)

    await connection.call("define the domain", work, subject=uuid)


async def autostart(connection: Connection, uuid: str) -> None:
    """A reboot of the host brings it back."""

    def work(opened: Any, libvirt: Any) -> None:
        opened.lookupByUUIDString(uuid).setAutostart(1)

    await connection.call("have the domain start with the host", work, subject=uuid)


async def start(connection: Connection, uuid: str, *, paused: bool = False) -> None:
    def work(opened: Any, libvirt: Any) -> None:
        flags = libvirt.VIR_DOMAIN_START_PAUSED if paused else 0
        opened.lookupByUUIDString(uuid).createWithFlags(flags)

    await connection.call("start the domain", work, subject=uuid, patience=_START)


async def create(connection: Connection, uuid: str, xml: str) -> None:
    """Starts one that is gone when it stops."""

    def work(opened: Any, libvirt: Any) -> None:
        opened.createXML(xml, libvirt.VIR_DOMAIN_START_VALIDATE)

    await connection.call("start a domain", work, subject=uuid, patience=_START)


async def resume(connection: Connection, uuid: str) -> None:
    def work(opened: Any, libvirt: Any) -> None:
        opened.lookupByUUIDString(uuid).resume()

    await connection.call("resume the domain", work, subject=uuid)


async def stop(connection: Connection, uuid: str) -> None:
    """As by pulling its plug. None of that name, or none that runs, is no problem."""

    def work(opened: Any, libvirt: Any) -> None:
        domain = opened.lookupByUUIDString(uuid)
        if domain.isActive():
            domain.destroy()

    await _unless_gone(connection.call("stop the domain", work, subject=uuid, patience=_START))


async def undefine(connection: Connection, uuid: str) -> None:
    def work(opened: Any, libvirt: Any) -> None:
        opened.lookupByUUIDString(uuid).undefineFlags(
            libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
            | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
            | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
            | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
        )

    await _unless_gone(connection.call("undefine the domain", work, subject=uuid))


async def describe(connection: Connection, uuid: str, element: str, *, prefix: str, namespace: str) -> None:
    """Sets our own part of the domain's metadata, of the one that runs and of the definition."""

    def work(opened: Any, libvirt: Any) -> None:
        domain = opened.lookupByUUIDString(uuid)
        flags = libvirt.VIR_DOMAIN_AFFECT_CONFIG
        if domain.isActive():
            flags |= libvirt.VIR_DOMAIN_AFFECT_LIVE
        domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, element, prefix, namespace, flags)

    await connection.call("note what was done in the domain", work, subject=uuid)


async def addresses(connection: Connection, uuid: str, mac: str) -> Sequence[str]:
    """Of the interface, as the guest's agent says, else as the host has seen them; none while neither knows."""

    def work(opened: Any, libvirt: Any) -> list[str]:
        domain = opened.lookupByUUIDString(uuid)
        for source in (
            libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT,
            libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_ARP,
        ):
            try:
                interfaces: dict[str, Any] = domain.interfaceAddresses(source, 0)
            except libvirt.libvirtError:
                continue
            found = [
                str(address["addr"])
                for each in interfaces.values()
                if str(each.get("hwaddr") or "").lower() == mac
                for address in each.get("addrs") or ()
            ]
            if found:
                return found
        return []

    return await connection.call("ask for the addresses of the domain", work, subject=uuid)


async def _unless_gone(call: Any) -> None:
    try:
        await call
    except Missing:
        return
