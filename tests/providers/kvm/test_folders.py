"""What is written into a machine's directory is there, or it is said why not: a host that says yes is not believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from steelyard.providers.kvm.libvirt import folders
from steelyard.providers.kvm.libvirt.connection import Connection
from steelyard.providers.kvm.libvirt.problems import Failed, NoSpace


class Host:
    """As libvirt's binding shows a pool with one volume; keeps only so many bytes of what it is sent."""

    host = "metal"

    def __init__(self, *, keeps: int, available: int) -> None:
        self._keeps = keeps
        self._available = available
        self._content = b""
        self._length = 0

    async def call(self, what: str, work: Callable[[Any, Any], Any], **_: object) -> Any:
        return work(self, Binding)

    def storagePoolLookupByUUIDString(self, _: str) -> Host:  # noqa: N802 - as the binding has it
        return self

    def storageVolLookupByName(self, _: str) -> Host:  # noqa: N802 - as the binding has it
        return self

    def newStream(self, _: int) -> Host:  # noqa: N802 - as the binding has it
        return self

    def refresh(self, _: int) -> None: ...

    def finish(self) -> None: ...

    def info(self) -> list[int]:
        return [2, 1 << 20, 1 << 20, self._available]

    def upload(self, _stream: object, _start: int, length: int, _flags: int) -> None:
        self._length = length

    def sendAll(self, give: Callable[[object, int, object], bytes], _: object) -> None:  # noqa: N802 - as above
        self._content = give(self, self._length, None)[: self._keeps].ljust(self._length, b"\0")

    def download(self, _stream: object, start: int, length: int, _flags: int) -> None:
        assert (start, length) == (0, self._length)

    def recvAll(self, keep: Callable[[object, bytes, object], int], _: object) -> None:  # noqa: N802 - as above
        keep(self, self._content, None)


class Binding:
    class libvirtError(Exception): ...  # noqa: N801 - as the binding has it


async def write(host: Host) -> None:
    await folders.write(cast(Connection, host), "uuid", "seed.iso", b"bootstrap data")


async def test_what_the_host_has_kept_is_written() -> None:
    await write(Host(keeps=100, available=0))


async def test_a_disk_that_filled_up_without_a_word_is_no_success() -> None:
    with pytest.raises(NoSpace, match=r"metal: write seed\.iso: No space left on device"):
        await write(Host(keeps=4, available=0))


async def test_what_was_lost_with_space_left_is_no_success_either() -> None:
    with pytest.raises(Failed, match="has something else: look at its disk"):
        await write(Host(keeps=4, available=1 << 20))
