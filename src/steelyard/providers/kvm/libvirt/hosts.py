"""What a host is, as libvirt sees it."""

from __future__ import annotations

from typing import Any

from steelyard.frozen import frozen
from steelyard.providers.kvm.libvirt.connection import Connection


@frozen
class Facts:
    cpus: int
    memory: int
    """Bytes."""
    capabilities: str
    """libvirt's document about the host and what guests it can run."""
    libvirt: str
    qemu: str


async def facts(connection: Connection) -> Facts:
    def work(opened: Any, libvirt: Any) -> Facts:
        info = opened.getInfo()
        return Facts(
            cpus=int(info[2]),
            memory=int(info[1]) << 20,
            capabilities=str(opened.getCapabilities()),
            libvirt=_version(opened.getLibVersion()),
            qemu=_version(opened.getVersion()),
        )

    return await connection.call("ask what the host has", work)


def _version(number: int) -> str:
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
