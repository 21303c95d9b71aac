"""The directory of one machine on its host, as a storage pool of libvirt's.

A pool makes files without a shell on the host, lists them and takes them away, on a host far away as on this one. It is
called as the machine is, by its UUID, and everything in the directory is the machine's.
"""

from __future__ import annotations

import errno
import io
from typing import Any, Final

from steelyard.frozen import frozen
from steelyard.providers.kvm.documents import storage
from steelyard.providers.kvm.libvirt import problems
from steelyard.providers.kvm.libvirt.connection import Connection
from steelyard.providers.kvm.libvirt.problems import Failed, Missing, NoSpace

_TRANSFER: Final = 10.0
_LOST: Final = "the host took it, and has something else: look at its disk and its log"


@frozen
class Folder:
    """As it was seen."""

    xml: str
    is_there: bool
    """Whether the directory is: a pool can be defined without it."""
    files: dict[str, int]
    """Names, and sizes in bytes as a machine sees them."""
    trouble: str = ""
    """Why it could not be listed."""
    is_missing: bool = False
    """Whether that is since there is no such path. What it would be in may be away as well, as a disk that is not
    mounted."""


async def look(connection: Connection, uuid: str) -> Folder | None:
    """Afresh: what was put there or taken away by others is seen."""

    def work(opened: Any, libvirt: Any) -> Folder:
        pool = opened.storagePoolLookupByUUIDString(uuid)
        xml = str(pool.XMLDesc(0))
        try:
            if not pool.isActive():
                pool.create(0)
            pool.refresh(0)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_STORAGE_POOL:
                raise
            # A pool whose directory is not there cannot be started.
            return Folder(xml, False, {}, str(error), problems.errno_of(error, libvirt) == errno.ENOENT)
        return Folder(xml, True, {str(each.name()): int(each.info()[1]) for each in pool.listAllVolumes(0)})

    try:
        return await connection.call("look at the disks", work, subject=uuid)
    except Missing:
        return None


async def can_be_seen(connection: Connection, uuid: str, xml: str) -> bool:
    """Whether the directory of this definition is there. Nothing is made: a pool that goes again with this call shows
    it, or one that somebody has there already."""

    def work(opened: Any, libvirt: Any) -> bool:
        try:
            pool = opened.storagePoolLookupByTargetPath(storage.path_of(xml))
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_POOL:
                raise
            pool = None
        try:
            if pool is not None and pool.isActive():
                pool.refresh(0)
            else:
                opened.storagePoolCreateXML(xml, 0).destroy()
        except libvirt.libvirtError as error:
            if problems.errno_of(error, libvirt) == errno.ENOENT:
                return False
            raise
        return True

    return await connection.call("look for the directory of all machines", work, subject=uuid)


async def define(connection: Connection, uuid: str, xml: str) -> None:
    def work(opened: Any, libvirt: Any) -> None:
        opened.storagePoolDefineXML(xml, 0)

    await connection.call("define the directory", work, subject=uuid)


async def build(connection: Connection, uuid: str) -> None:
    """Makes the directory where it is not there yet."""

    def work(opened: Any, libvirt: Any) -> None:
        pool = opened.storagePoolLookupByUUIDString(uuid)
        if not pool.isActive():
            pool.create(libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD)

    await connection.call("make the directory", work, subject=uuid)


async def make(connection: Connection, uuid: str, xml: str) -> None:
    """A disk in it."""

    def work(opened: Any, libvirt: Any) -> None:
        opened.storagePoolLookupByUUIDString(uuid).createXML(xml, 0)

    await connection.call("make a disk", work, subject=uuid, patience=_TRANSFER)


async def write(connection: Connection, uuid: str, name: str, content: bytes) -> None:
    """Over what is there, from the beginning. Read again afterwards: a host whose disk fills up while it writes does
    not always say so."""

    def work(opened: Any, libvirt: Any) -> None:
        pool = opened.storagePoolLookupByUUIDString(uuid)
        volume = pool.storageVolLookupByName(name)
        stream = opened.newStream(0)
        source = io.BytesIO(content)

        def give(_stream: Any, size: int, _: Any) -> bytes:
            return source.read(size)

        try:
            volume.upload(stream, 0, len(content), 0)
            stream.sendAll(give, None)
            stream.finish()
        except libvirt.libvirtError:
            _abort(stream, libvirt)
            raise
        if _content(opened, libvirt, volume, 0, len(content)) != content:
            pool.refresh(0)
            is_full = int(pool.info()[3]) < len(content)
            problem = NoSpace if is_full else Failed
            raise problem(f"{connection.host}: write {name}: {'No space left on device' if is_full else _LOST}")

    await connection.call(f"write {name}", work, subject=uuid, patience=_TRANSFER)


async def read(connection: Connection, uuid: str, name: str, *, last: int) -> bytes:
    """At most the last so many bytes of a file."""

    def work(opened: Any, libvirt: Any) -> bytes:
        pool = opened.storagePoolLookupByUUIDString(uuid)
        if not pool.isActive():
            pool.create(0)
        pool.refresh(0)
        volume = pool.storageVolLookupByName(name)
        size = int(volume.info()[1])
        length = min(size, last)
        if not length:
            return b""
        return _content(opened, libvirt, volume, size - length, length)

    return await connection.call(f"read {name}", work, patience=_TRANSFER)


def _content(opened: Any, libvirt: Any, volume: Any, start: int, length: int) -> bytes:
    stream = opened.newStream(0)
    got = bytearray()

    def keep(_stream: Any, part: bytes, _: Any) -> int:
        got.extend(part)
        return len(part)

    try:
        volume.download(stream, start, length, 0)
        stream.recvAll(keep, None)
        stream.finish()
    except libvirt.libvirtError:
        _abort(stream, libvirt)
        raise
    return bytes(got)


def _abort(stream: Any, libvirt: Any) -> None:
    try:
        stream.abort()
    except libvirt.libvirtError:
        return


async def remove(connection: Connection, uuid: str, name: str) -> None:
    def work(opened: Any, libvirt: Any) -> None:
        opened.storagePoolLookupByUUIDString(uuid).storageVolLookupByName(name).delete(0)

    await _unless_gone(connection.call(f"remove {name}", work, subject=uuid))


async def stop(connection: Connection, uuid: str) -> None:
    def work(opened: Any, libvirt: Any) -> None:
        pool = opened.storagePoolLookupByUUIDString(uuid)
        if pool.isActive():
            pool.destroy()

    await _unless_gone(connection.call("let go of the directory", work, subject=uuid))


async def erase(connection: Connection, uuid: str) -> None:
    """Removes the directory, which must be empty."""

    def work(opened: Any, libvirt: Any) -> None:
        opened.storagePoolLookupByUUIDString(uuid).delete(0)

    await _unless_gone(connection.call("remove the directory", work, subject=uuid))


async def undefine(connection: Connection, uuid: str) -> None:
    def work(opened: Any, libvirt: Any) -> None:
        opened.storagePoolLookupByUUIDString(uuid).undefine()

    await _unless_gone(connection.call("undefine the directory", work, subject=uuid))


async def _unless_gone(call: Any) -> None:
    try:
        await call
    except Missing:
        return
