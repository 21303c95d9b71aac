"""The definition of a domain, and what a definition says of whose it is."""

from __future__ import annotations

from typing import Final, Literal

from steelyard.frozen import frozen
from steelyard.providers.kvm.documents import markup
from steelyard.providers.kvm.documents.markup import Element, element

Seed = Literal["bootstrap", "spent"]
"""What the seed holds: bootstrap data, or none any more."""
_OWNER: Final = "machine"
_PERIOD: Final = 100_000
"""Microseconds in which limits of processor time hold."""
_BYTEWISE: Final = ("erms", "fsrm")
"""Of processors, the features by which memory is moved with instructions that go byte by byte."""
_EMULATED: Final = "emulated"
"""What SMBIOS calls the family of a machine without hardware virtualisation. GRUB of our images looks for it, and has
the kernel wake nobody between its ticks: programs in Go sleep for microseconds, and waking costs hundreds there."""
_TRANSLATED: Final = 2 << 30
"""Bytes that an emulator may keep of what it has translated, which is the most that it takes. A control plane alone
fills a third; each time it is full, everything is translated anew, and nothing else goes on meanwhile."""
_LITTLE_TRANSLATED: Final = 32 << 20
_EMULATOR_ITSELF: Final = 256 << 20
"""Bytes that it needs besides the guest's memory and translations."""


@frozen
class Owner:
    """Whose a domain is, as it is written into its metadata."""

    namespace: str
    name: str
    cluster: str = ""
    seed: Seed = "bootstrap"


@frozen
class Disk:
    path: str
    format: Literal["qcow2", "raw"]
    serial: str
    """By which the guest finds it, as /dev/disk/by-id/virtio-<serial>."""
    base: str = ""
    """The image that it lies over."""
    base_format: str = ""
    is_read_only: bool = False


@frozen
class Share:
    """A directory of the host inside the guest, by 9p."""

    path: str
    tag: str
    is_read_only: bool = False


@frozen
class Limits:
    guest_cpu: float | None = None
    process_cpu: float | None = None
    """Cores' worth of time."""
    process_memory: int | None = None
    """Bytes."""


@frozen
class Guest:
    uuid: str
    name: str
    owner: Owner
    is_emulated: bool
    cpus: int
    memory: int
    """Bytes."""
    disks: tuple[Disk, ...]
    mac: str
    network: str = ""
    """A network of libvirt's; or:"""
    bridge: str = ""
    console: str = ""
    """The file that its console is written to."""
    shares: tuple[Share, ...] = ()
    limits: Limits = Limits()


def definition(guest: Guest) -> str:
    return markup.shown(
        element(
            "domain",
            element("name", guest.name),
            element("uuid", guest.uuid),
            element("metadata", _owner(guest.owner)),
            element("memory", str(guest.memory >> 10), unit="KiB"),
            element("vcpu", str(guest.cpus)),
            _processor_time(guest),
            _memory_limit(guest.limits),
            _machine_kind(is_emulated=guest.is_emulated),
            element(
                "os",
                element("type", "hvm", arch="x86_64", machine="q35"),
                element("boot", dev="hd"),
                element("smbios", mode="sysinfo") if guest.is_emulated else None,
            ),
            element("features", element("acpi"), element("apic"), _translation(guest)),
            _processor(is_emulated=guest.is_emulated),
            element("clock", offset="utc"),
            element("on_poweroff", "destroy"),
            element("on_reboot", "restart"),
            element("on_crash", "restart"),
            element(
                "devices",
                element("controller", type="usb", model="none"),
                *(_disk(disk, number) for number, disk in enumerate(guest.disks)),
                *(_share(share) for share in guest.shares),
                _interface(guest),
                element(
                    "serial", element("log", file=guest.console, append="on") if guest.console else None, type="pty"
                ),
                element("channel", element("target", type="virtio", name="org.qemu.guest_agent.0"), type="unix"),
                element("rng", element("backend", "/dev/urandom", model="random"), model="virtio"),
                element("video", element("model", type="none")),
                element("memballoon", model="none"),
            ),
            type="qemu" if guest.is_emulated else "kvm",
        )
    )


def _machine_kind(*, is_emulated: bool) -> Element | None:
    """What the guest may know of itself before its kernel runs."""
    if not is_emulated:
        return None
    return element("sysinfo", element("system", element("entry", _EMULATED, name="family")), type="smbios")


def _translation(guest: Guest) -> Element | None:
    """No more than the guest has memory, and than the limit of its process leaves: the host ends what goes beyond."""
    if not guest.is_emulated:
        return None
    kept = min(_TRANSLATED, guest.memory)
    if guest.limits.process_memory is not None:
        kept = min(kept, guest.limits.process_memory - guest.memory - _EMULATOR_ITSELF)
    return element("tcg", element("tb-cache", str(max(kept, _LITTLE_TRANSLATED) >> 20), unit="MiB"))


def _processor(*, is_emulated: bool) -> Element:
    """With all features; emulated, without those for which each byte of a page is a round of its own: Linux and Go move
    eight at a time then, and a first control plane was Ready a sixth sooner."""
    if not is_emulated:
        return element("cpu", mode="host-passthrough")
    return element("cpu", *(element("feature", policy="disable", name=name) for name in _BYTEWISE), mode="maximum")


def bare(uuid: str, name: str, disk: str, *, is_emulated: bool) -> str:
    """The smallest that runs a program from a disk."""
    return markup.shown(
        element(
            "domain",
            element("name", name),
            element("uuid", uuid),
            element("memory", "64", unit="MiB"),
            element("vcpu", "1"),
            element("os", element("type", "hvm", arch="x86_64", machine="q35"), element("boot", dev="hd")),
            element("features", element("acpi"), element("apic")),
            element("on_poweroff", "destroy"),
            element("on_reboot", "destroy"),
            element("on_crash", "destroy"),
            element(
                "devices",
                element("controller", type="usb", model="none"),
                _disk(Disk(disk, "raw", "probe"), 0),
                element("video", element("model", type="none")),
                element("memballoon", model="none"),
            ),
            type="qemu" if is_emulated else "kvm",
        )
    )


def _owner(owner: Owner) -> Element:
    return markup.ours(_OWNER, namespace=owner.namespace, name=owner.name, cluster=owner.cluster, seed=owner.seed)


def owner_element(owner: Owner) -> str:
    """As libvirt takes it to replace the one that is there: it adds our namespace itself."""
    return markup.shown(
        element(_OWNER, namespace=owner.namespace, name=owner.name, cluster=owner.cluster, seed=owner.seed)
    )


def owner_of(definition: str) -> Owner | None:
    """None for a domain that is none of ours."""
    found = markup.our_attributes(markup.read(definition), _OWNER)
    if not found:
        return None
    return Owner(
        found.get("namespace", ""),
        found.get("name", ""),
        found.get("cluster", ""),
        "spent" if found.get("seed") == "spent" else "bootstrap",
    )


@frozen
class Sources:
    """What of the host a definition gives its domain."""

    directories: tuple[str, ...]
    files: tuple[str, ...]
    bridges: tuple[str, ...]


def sources_of(definition: str) -> Sources:
    root = markup.read(definition)

    def named(path: str, attribute: str) -> tuple[str, ...]:
        return tuple(found for each in markup.each(root, path) if (found := each.get(attribute)))

    return Sources(
        named("devices/filesystem/source", "dir"),
        named("devices/disk/source", "file"),
        named("devices/interface[@type='bridge']/source", "bridge"),
    )


def _disk(disk: Disk, number: int) -> Element:
    """With the whole chain of files below it: libvirt looks for none in what a guest has written."""
    below = (
        element(
            "backingStore",
            element("format", type=disk.base_format),
            # It stays whose it is: a guest that got out of its QEMU must not change what others start from.
            element("source", element("seclabel", model="dac", relabel="no"), file=disk.base),
            element("backingStore"),
            type="file",
        )
        if disk.base
        else element("backingStore")
    )
    return element(
        "disk",
        element("driver", name="qemu", type=disk.format, discard=None if disk.is_read_only else "unmap"),
        element("source", file=disk.path),
        below,
        element("target", dev=f"vd{chr(ord('a') + number)}", bus="virtio"),
        element("readonly") if disk.is_read_only else None,
        element("serial", disk.serial),
        type="file",
        device="disk",
    )


def _share(share: Share) -> Element:
    """Mapped: links and owners that a guest makes there are its own business, and none of the host's."""
    return element(
        "filesystem",
        element("driver", type="path"),
        element("source", dir=share.path),
        element("target", dir=share.tag),
        element("readonly") if share.is_read_only else None,
        type="mount",
        accessmode="mapped",
    )


def _interface(guest: Guest) -> Element:
    source = element("source", bridge=guest.bridge) if guest.bridge else element("source", network=guest.network)
    return element(
        "interface",
        element("mac", address=guest.mac),
        source,
        element("model", type="virtio"),
        type="bridge" if guest.bridge else "network",
    )


def _processor_time(guest: Guest) -> Element | None:
    limits = guest.limits
    children: list[Element] = []
    if limits.guest_cpu is not None:
        # libvirt's limit is that of each core.
        children.append(element("period", str(_PERIOD)))
        children.append(element("quota", str(max(1000, int(limits.guest_cpu * _PERIOD / guest.cpus)))))
    if limits.process_cpu is not None:
        children.append(element("global_period", str(_PERIOD)))
        children.append(element("global_quota", str(max(1000, int(limits.process_cpu * _PERIOD)))))
    return element("cputune", *children) if children else None


def _memory_limit(limits: Limits) -> Element | None:
    if limits.process_memory is None:
        return None
    return element("memtune", element("hard_limit", str(limits.process_memory >> 10), unit="KiB"))
