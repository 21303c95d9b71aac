"""Whether a host runs guests, and whether with the help of its processors: found out by running one.

That there is a /dev/kvm proves nothing: it can take guests and let them hang. The guest is a program of a few bytes
that switches itself off; one that is gone again has run.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Final, Literal

from steelyard.api.kvmhost import KVMHostSpec
from steelyard.frozen import frozen
from steelyard.providers.kvm import allowed, carrying, identity
from steelyard.providers.kvm.documents import domains as domain_documents
from steelyard.providers.kvm.documents import markup, storage
from steelyard.providers.kvm.documents.storage import Volume
from steelyard.providers.kvm.libvirt import domains, folders
from steelyard.providers.kvm.libvirt.connection import Connection
from steelyard.providers.kvm.libvirt.hosts import Facts
from steelyard.providers.kvm.libvirt.problems import Away, Exists, Problem
from steelyard.providers.kvm.machineplan import Place

_FILE: Final = "probe.img"
_SIZE: Final = 1 << 20
_PROGRAM: Final = bytes.fromhex(
    "b80153 31db cd15"  # connect to the BIOS's power management
    "b80e53 31db b90201 cd15"  # of version 1.2
    "b80753 bb0100 b90300 cd15"  # and have it switch off
    "f4 ebfd"  # else stop here for ever
)
_BOOT: Final = _PROGRAM.ljust(510, b"\0") + b"\x55\xaa"
_PATIENCE: Final = 30.0
_STEP: Final = 0.1
_CPUS: Final = Path("/proc/cpuinfo")

Virtualization = Literal["hardware", "emulated"]


@frozen
class Found:
    virtualization: Virtualization | None
    """None where no guest runs at all."""
    problem: str = ""
    """Why not by hardware, or why not at all."""


async def probe(connection: Connection, facts: Facts, spec: KVMHostSpec, *, token: str) -> Found:
    """`token` makes the names of what is made here, which is removed again; also that of a probe which was cut short.

    Raises Away.
    """
    problem = obstacle(facts, spec)
    if not problem:
        problem = await _run(connection, spec, token, is_emulated=False)
        if not problem:
            return Found("hardware")
    failure = await _run(connection, spec, token, is_emulated=True)
    return Found(None, failure) if failure else Found("emulated", problem)


def obstacle(facts: Facts, spec: KVMHostSpec) -> str:
    """What rules hardware out without trying."""
    if allowed.is_local(spec) and not _has_flag():
        return (
            "the processor does not show vmx or svm: switch virtualisation on in the firmware, or nested "
            "virtualisation on the machine below"
        )
    guests = markup.read(facts.capabilities).iterfind("guest/arch/domain")
    if not any(each.get("type") == "kvm" for each in guests):
        return "libvirt sees no usable /dev/kvm: load the module kvm_intel or kvm_amd, and let QEMU's user open it"
    return ""


def _has_flag() -> bool:
    try:
        lines = _CPUS.read_text().splitlines()
    except OSError:
        return True
    flags = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
    return bool({"vmx", "svm"} & set(flags.split()))


async def _run(connection: Connection, spec: KVMHostSpec, token: str, *, is_emulated: bool) -> str:
    """Why the guest did not run; empty where it did."""
    uuid = identity.derived_uuid(f"probe/{token}")
    place = Place(uuid, uuid, identity.folder_path(spec.storage_roots[0], uuid), (Volume(_FILE, _SIZE, "raw"),))
    domain = await domains.look(connection, uuid)
    owner = domain_documents.owner_of(domain.xml) if domain is not None else None
    if owner is not None:
        return (
            f"KVMMachine {owner.namespace}/{owner.name} has the UUID {uuid}, which is set aside for trying the host "
            "out: delete that machine"
        )
    try:
        await _clean(connection, place)
        await _prepare(connection, place)
        xml = domain_documents.bare(
            uuid, f"steelyard-probe-{uuid[:8]}", f"{place.path}/{_FILE}", is_emulated=is_emulated
        )
        await domains.create(connection, uuid, xml)
        has_ended = await _ended(connection, uuid)
    except Away:
        raise
    except Problem as problem:
        return str(problem)
    finally:
        await _clean(connection, place)
    return "" if has_ended else f"a guest was started, and had done nothing after {_PATIENCE:g} seconds"


async def _prepare(connection: Connection, place: Place) -> None:
    xml = storage.folder(identity.folder_name(place.uuid), place.uuid, place.path)
    with contextlib.suppress(Exists):
        await folders.define(connection, place.uuid, xml)
    await folders.build(connection, place.uuid)
    await folders.make(connection, place.uuid, storage.volume(place.volumes[0]))
    await folders.write(connection, place.uuid, _FILE, _BOOT)


async def _ended(connection: Connection, uuid: str) -> bool:
    for _ in range(int(_PATIENCE / _STEP)):
        if await domains.look(connection, uuid) is None:
            return True
        await asyncio.sleep(_STEP)
    return False


async def _clean(connection: Connection, place: Place) -> None:
    await domains.stop(connection, place.machine)
    folder = await folders.look(connection, place.uuid)
    if folder is not None and folder.is_missing:
        # Of a try that was cut short. Unlike a machine's it may be forgotten: on a disk that is away it is found by its
        # path once that is back.
        await folders.undefine(connection, place.uuid)
    await carrying.clear(connection, (place,))
