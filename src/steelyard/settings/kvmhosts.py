"""The KVM hosts of the platform file: each becomes a KVMHost, which says what of it machines may have.

    kvm:
      hosts:
        local: {}
        rack-1:
          uri: qemu+ssh://steelyard@rack-1.example.org/system
          networks: {ranges: [10.201.0.0/16]}
          namespaces: [team-a]

What a host leaves out are the defaults of one that is this machine.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from steelyard.api.machineterms import URI_PATTERN, HostPath, InterfaceName, NamespaceName
from steelyard.settings.base import SettingsModel
from steelyard.settings.networks import Network, overlap

LOCAL: Final = "local"
LOCAL_URI: Final = "qemu:///system"
STORAGE_ROOT: Final = "/var/lib/steelyard/machines"
IMAGE_ROOT: Final = "/var/lib/steelyard/images"
RANGE: Final = "10.200.0.0/16"
LEAST_PREFIX: Final = 24
"""How large the network of one cluster is."""

Uri = Annotated[str, Field(max_length=300, pattern=URI_PATTERN)]
Namespaces = Annotated[tuple[NamespaceName, ...], Field(min_length=1, max_length=256, strict=False)]
Paths = Annotated[tuple[HostPath, ...], Field(min_length=1, max_length=16, strict=False)]


def _has_room(value: str) -> str:
    network = ipaddress.ip_network(value)
    if network.version != 4 or network.prefixlen > LEAST_PREFIX:
        raise ValueError(f"must be an IPv4 network of /{LEAST_PREFIX} or more, which one cluster takes, not {value}")
    return value


class Capacity(SettingsModel):
    """What machines may use of the host, all together."""

    cpu: Annotated[int, Field(ge=1, le=4096)] | None = Field(default=None, description="Cores. Unset: all.")
    memory_gi: Annotated[int, Field(ge=1, le=65536)] | None = Field(
        default=None, description="Memory in GiB. Unset: all."
    )
    disk_gi: Annotated[int, Field(ge=1, le=1_048_576)] | None = Field(
        default=None, description="Space in the storageRoots, in GiB. Unset: all."
    )


class Overcommit(SettingsModel):
    """How often what there is may be promised."""

    cpu: Annotated[float, Field(ge=1, le=32)] | None = Field(
        default=None, description="For cores, which machines seldom use at once. Unset: 1."
    )
    memory: Annotated[float, Field(ge=1, le=2)] | None = Field(
        default=None, description="For memory. Above 1, the host ends machines when they all use theirs. Unset: 1."
    )


class HostVolumeRoot(SettingsModel):
    """A directory of the host for machines of some namespaces."""

    path: HostPath = Field(description="The directory; what is under it is allowed, and itself.")
    namespaces: Namespaces = Field(description="Namespaces whose machines may have what is there; * is any.")


class Bridge(SettingsModel):
    """A bridge of the host for clusters of some namespaces."""

    name: InterfaceName = Field(description="Its name on the host.")
    namespaces: Namespaces = Field(description="Namespaces whose clusters may be on it; * is any.")


class HostNetworks(SettingsModel):
    """What clusters may be connected by."""

    ranges: tuple[Annotated[Network, AfterValidator(_has_room)], ...] = Field(
        default=(RANGE,),
        max_length=16,
        strict=False,
        description="Ranges that networks of clusters' own are cut from, a /24 each. Nothing else that the host or "
        "its machines reach may be there.",
    )
    bridges: tuple[Bridge, ...] = Field(
        default=(),
        max_length=64,
        strict=False,
        description="Bridges that the host has, for clusters on it: [{name: br0, namespaces: [team-a]}].",
    )


class KvmHost(SettingsModel):
    """A machine with libvirt, and what of it clusters may have."""

    uri: Uri = Field(
        default=LOCAL_URI,
        description="How libvirt is reached: qemu:///system on this machine, qemu+ssh://user@host/system or "
        "qemu+tls://host/system elsewhere.",
    )
    namespaces: Namespaces | None = Field(
        default=None, description="Namespaces whose machines may be on it; * is any. Unset: any."
    )
    capacity: Capacity | None = Field(default=None, description="What machines may use. Unset: all that libvirt sees.")
    overcommit: Overcommit | None = Field(default=None, description="How often that may be promised. Unset: once.")
    storage_roots: Paths = Field(
        default=(STORAGE_ROOT,), description="Directories for disks of machines; the first where nothing else is said."
    )
    image_roots: Paths = Field(
        default=(IMAGE_ROOT,),
        description="Directories with the images that machines are made from; `steelyard image build` puts them into "
        "the first.",
    )
    host_volume_roots: tuple[HostVolumeRoot, ...] = Field(
        default=(),
        max_length=16,
        strict=False,
        description="Directories that machines may have inside them: [{path: /srv/data, namespaces: [team-a]}].",
    )
    networks: HostNetworks = Field(default=HostNetworks.known(), description="What clusters may be connected by.")

    @model_validator(mode="after")
    def _apart(self) -> Self:
        for volume in self.host_volume_roots:
            for root in (*self.storage_roots, *self.image_roots):
                if f"{volume.path}/".startswith(f"{root}/") or f"{root}/".startswith(f"{volume.path}/"):
                    raise ValueError(
                        f"hostVolumeRoots: {volume.path} and {root} must not contain each other: a machine could "
                        "change other machines' disks"
                    )
        ranges = self.networks.ranges
        for index, one in enumerate(ranges):
            if other := next((each for each in ranges[:index] if overlap(one, each)), ""):
                raise ValueError(f"networks.ranges: {one} overlaps with {other}; leave one of them out")
        return self


STANDARD: Final = {LOCAL: KvmHost.known()}
"""What there is where the platform's machines are of kvm and its file names no hosts: this machine."""


def keep_apart(hosts: Mapping[str, KvmHost], taken: Mapping[str, Sequence[str]]) -> None:
    """`taken` are ranges of pods and Services, by where the platform file has them."""
    for name, host in hosts.items():
        for one in host.networks.ranges:
            for place, ranges in taken.items():
                if other := next((each for each in ranges if overlap(one, each)), ""):
                    raise ValueError(
                        f"hosts.{name}.networks.ranges: {one} overlaps with {place}, {other}: an address would be both "
                        "a machine's and a pod's or Service's; change one of them"
                    )
