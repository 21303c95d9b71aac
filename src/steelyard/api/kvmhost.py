"""KVMHost: a machine that runs virtual machines, and what of it those may have.

Everything that a machine can ask of its host is here by name, and what is not here is not to be had: directories, so
that no guest gets hold of another's disk or of the host's own files; bridges, so that none is put on a network of other
people's; a URI without parameters, since with some of them libvirt's client runs a program.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from steelyard.api import model
from steelyard.api.machineterms import URI_PATTERN, HostPath, InterfaceName, NamespaceName
from steelyard.api.model import ApiModel, Column, Conditions

Namespaces = Annotated[
    list[NamespaceName], Field(min_length=1, max_length=256, json_schema_extra={"x-kubernetes-list-type": "set"})
]
Range = Annotated[str, Field(max_length=43, pattern=r"^[0-9a-fA-F.:]+/[0-9]{1,3}$")]
Paths = Annotated[
    list[HostPath], Field(min_length=1, max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"})
]
Bytes = Annotated[int, Field(ge=0, le=2**53)]


class Capacity(ApiModel):
    """What machines may use of the host, all together."""

    cpu: int | None = Field(default=None, ge=1, le=4096, description="Cores.")
    memory_gi: int | None = Field(default=None, ge=1, le=65536, description="Memory in GiB.")
    disk_gi: int | None = Field(default=None, ge=1, le=1_048_576, description="Space in the storageRoots, in GiB.")


class Overcommit(ApiModel):
    """How often what there is may be promised."""

    cpu: float | None = Field(
        default=None, ge=1, le=32, description="For cores, which machines seldom use at once. Without: 8 times."
    )
    memory: float | None = Field(
        default=None,
        ge=1,
        le=2,
        description="For memory. Above 1, the host ends machines when they all use theirs. Without: once.",
    )


class HostVolumeRoot(ApiModel):
    """A directory of the host for machines of some namespaces."""

    path: HostPath = Field(description="The directory; what is under it is allowed, and itself.")
    namespaces: Namespaces = Field(description="Namespaces whose machines may have what is there; * is any.")


class Bridge(ApiModel):
    """A bridge of the host for clusters of some namespaces."""

    name: InterfaceName = Field(description="Its name on the host.")
    namespaces: Namespaces = Field(description="Namespaces whose clusters may be on it; * is any.")


class HostNetworks(ApiModel):
    """What clusters may be connected by."""

    ranges: Annotated[list[Range], Field(max_length=16)] | None = Field(
        default=None,
        description="Ranges of addresses, such as 10.200.0.0/16, that networks of clusters' own are cut from. None: "
        "there are no such networks, only bridges.",
    )
    bridges: (
        Annotated[
            list[Bridge],
            Field(
                max_length=64,
                json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
            ),
        ]
        | None
    ) = Field(default=None, description="Bridges that the host has. None: clusters have networks of their own.")


class KVMHostSpec(ApiModel):
    uri: str = Field(
        max_length=300,
        pattern=URI_PATTERN,
        description="How libvirt is reached: qemu:///system on this machine, qemu+ssh://user@host/system or "
        "qemu+tls://host/system elsewhere. Without parameters: with some, libvirt's client would run programs.",
    )
    namespaces: Namespaces | None = Field(
        default=None, description="Namespaces whose machines may be on it; * is any. Without: any."
    )
    capacity: Capacity | None = Field(
        default=None,
        description="What machines may use. Without: all cores and memory that libvirt sees, and as much space as "
        "their disks come to need.",
    )
    overcommit: Overcommit | None = Field(default=None, description="How often that may be promised.")
    storage_roots: Paths = Field(
        description="Directories for disks of machines; the first is used where a machine names none."
    )
    image_roots: Paths = Field(description="Directories with the images that machines are made from; only read.")
    host_volume_roots: (
        Annotated[
            list[HostVolumeRoot],
            Field(
                max_length=16,
                json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["path"]},
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="Directories that machines may have inside them. None: no machine has any. They and the "
        "directories of disks and images keep apart, as a machine could change other machines' otherwise.",
    )
    networks: HostNetworks = Field(description="What clusters may be connected by.")


class Used(ApiModel):
    """What is promised to machines."""

    cpu: int | None = Field(default=None, ge=0, description="Cores.")
    memory_bytes: Bytes | None = Field(default=None, description="Memory in bytes.")
    disk_bytes: Bytes | None = Field(default=None, description="Sizes of disks in bytes, as their machines see them.")
    machines: int | None = Field(default=None, ge=0, description="How many machines there are.")


class There(ApiModel):
    """What the host has, as libvirt sees it."""

    cpu: int | None = Field(default=None, ge=0, description="Cores.")
    memory_bytes: Bytes | None = Field(default=None, description="Memory in bytes.")


class KVMHostStatus(ApiModel):
    virtualization: Literal["hardware", "emulated"] | None = Field(
        default=None, description="hardware where a guest was started with it; emulated machines are many times slower."
    )
    there: There | None = None
    used: Used | None = None
    conditions: Conditions | None = None


_APART: Final = (
    "!has(self.hostVolumeRoots) || self.hostVolumeRoots.all(volume, self.{roots}.all(root, "
    "!(volume.path + '/').startsWith(root + '/') && !(root + '/').startsWith(volume.path + '/')))"
)
RULES: Final = tuple(
    {
        "rule": _APART.replace("{roots}", roots),
        "message": f"hostVolumeRoots and {roots} must not contain each other: a machine could change other machines'",
    }
    for roots in ("storageRoots", "imageRoots")
)
COLUMNS: Final = (
    Column("URI", ".spec.uri", "How libvirt is reached."),
    Column("Ready", ".status.conditions[?(@.type=='Ready')].status", "Whether machines can be made on it."),
    Column("Virtualization", ".status.virtualization", "By hardware, or emulated."),
    Column("Machines", ".status.used.machines", "How many machines are on it.", "integer"),
    model.AGE,
)
