"""What a machine is to be, from the specs of its KVMMachine, KVMCluster and KVMHost. Pure, but for following links."""

from __future__ import annotations

import posixpath
import zlib
from typing import Final

from steelyard.api.kvm import KVMClusterSpec, KVMMachineSpec
from steelyard.api.kvmhost import KVMHostSpec
from steelyard.api.machineterms import MACHINE_NAME
from steelyard.frozen import frozen
from steelyard.providers.kvm import addresses, allowed, identity, sizes
from steelyard.providers.kvm.addresses import Layout
from steelyard.providers.kvm.documents import domains as domain_documents
from steelyard.providers.kvm.documents.domains import Disk, Guest, Limits, Owner, Share
from steelyard.providers.kvm.documents.storage import Volume
from steelyard.providers.kvm.images import Base
from steelyard.providers.kvm.machineplan import Place
from steelyard.providers.kvm.refusals import Refused
from steelyard.providers.kvm.seed.vendordata import Mounted, Router, Told

_LOWEST_PRIORITY: Final = 100
_PRIORITIES: Final = 50
OWN_ROUTER: Final = 51
"""In a network of the cluster's own, where there is no other."""


@frozen
class Subject:
    """A machine with all that is said of it."""

    namespace: str
    name: str
    cluster_name: str
    uuid: str
    spec: KVMMachineSpec
    cluster: KVMClusterSpec
    host: KVMHostSpec
    is_control_plane: bool

    @property
    def mac(self) -> str:
        return identity.mac(self.uuid)

    @property
    def bridge(self) -> str:
        return (self.cluster.network.bridge or "") if self.cluster.network is not None else ""

    @property
    def layout(self) -> Layout | None:
        return Layout.of(self.cluster.range) if self.cluster.range and not self.bridge else None

    @property
    def network(self) -> str:
        if self.bridge or not self.cluster.range:
            return ""
        return identity.network_name(self.namespace, self.cluster_name, self.cluster.range)


def places(subject: Subject, base: Base | None = None) -> tuple[Place, ...]:
    """Where its disks are. Raises Refused where it may not have them there."""
    spec = subject.spec
    root = allowed.storage_root(subject.host, spec.storage_root)
    size = sizes.of_disks(spec)
    if base is not None and size.root < base.size:
        raise Refused(
            "DiskTooSmall",
            f"spec.resources.disk {spec.resources.disk} is smaller than the image, which is "
            f"{base.size / (1 << 30):.1f} GiB",
        )
    volumes = [
        Volume(identity.ROOT, size.root, base=base.path if base else "", base_format=base.format if base else "")
    ]
    if size.containers is not None:
        volumes.append(Volume(identity.CONTAINERS, size.containers))
    if size.kubelet is not None:
        volumes.append(Volume(identity.KUBELET, size.kubelet))
    apart = spec.etcd_volume.host_path if spec.etcd_volume is not None else None
    if size.etcd is not None and apart is None:
        volumes.append(Volume(identity.ETCD, size.etcd))
    own = Place(subject.uuid, subject.uuid, identity.folder_path(root, subject.uuid), tuple(volumes))
    if size.etcd is None or apart is None:
        return (own,)
    # Raw: who can write to the directory could make a file of another format point anywhere.
    volume = Volume(identity.ETCD_RAW, size.etcd, "raw")
    directory = allowed.directory(subject.host, subject.namespace, apart, allowed.resolver(subject.host))
    return (own, _etcd_place(subject.uuid, identity.folder_path(directory, subject.uuid), volume))


def places_to_clear(uuid: str, spec: KVMMachineSpec, host: KVMHostSpec, namespace: str) -> tuple[Place, ...]:
    """Those of a machine that goes. Where its host no longer allows a directory, or never did, only what libvirt knows
    as the machine's is cleared: a spec can name any path."""
    root = spec.storage_root or host.storage_roots[0]
    own = Place(uuid, uuid, identity.folder_path(root, uuid) if root in host.storage_roots else "", ())
    if spec.etcd_volume is None or spec.etcd_volume.host_path is None:
        return (own, _etcd_place(uuid, ""))
    try:
        directory = allowed.directory(host, namespace, spec.etcd_volume.host_path, allowed.resolver(host))
    except Refused:
        return (own, _etcd_place(uuid, ""))
    return (own, _etcd_place(uuid, identity.folder_path(directory, uuid)))


def _etcd_place(uuid: str, path: str, *volumes: Volume) -> Place:
    return Place(uuid, identity.derived_uuid(f"etcd/{uuid}"), path, volumes)


def refuse_revoked(subject: Subject, definition: str) -> None:
    """Where a definition has what the host no longer allows, whatever the spec says by now. Raises Refused."""
    resolve, sources = allowed.resolver(subject.host), domain_documents.sources_of(definition)
    for path in sources.directories:
        allowed.directory(subject.host, subject.namespace, path, resolve)
    for path in sources.files:
        folder = posixpath.dirname(path)
        root = posixpath.dirname(folder)
        if posixpath.basename(folder) != subject.uuid:
            raise Refused("DiskNotAllowed", f"the domain has a disk {path}, which is none of the machine's own")
        if root not in subject.host.storage_roots:
            allowed.directory(subject.host, subject.namespace, root, resolve)
    for bridge in sources.bridges:
        _refuse_bridge(subject, bridge)


def _refuse_bridge(subject: Subject, bridge: str) -> None:
    if not allowed.bridge(subject.host, subject.namespace, bridge):
        raise Refused(
            "BridgeNotAllowed",
            f"the host's networks.bridges do not allow {bridge} to namespace {subject.namespace}",
        )


def guest(subject: Subject, made: tuple[Place, ...], *, is_emulated: bool) -> Guest:
    """`made` are its places, with the image that they lie over. Raises Refused."""
    spec, size = subject.spec, subject.spec.resources
    disks = [
        Disk(f"{place.path}/{each.name}", each.format, _serial(each.name), each.base, each.base_format)
        for place in made
        for each in place.volumes
    ]
    seed = Disk(f"{made[0].path}/{identity.SEED}", "raw", "seed", is_read_only=True)
    volumes = spec.host_volumes or []
    resolved = allowed.shared(subject.host, subject.namespace, volumes, allowed.resolver(subject.host))
    if subject.bridge:
        _refuse_bridge(subject, subject.bridge)
    return Guest(
        uuid=subject.uuid,
        name=identity.domain_name(subject.namespace, subject.name, subject.uuid),
        owner=Owner(subject.namespace, subject.name, subject.cluster_name),
        is_emulated=is_emulated,
        cpus=size.cpu,
        memory=sizes.in_bytes(size.memory),
        disks=(*disks, seed),
        mac=subject.mac,
        network=subject.network,
        bridge=subject.bridge,
        console=f"{made[0].path}/{identity.CONSOLE}",
        shares=tuple(
            Share(path, _tag(number), bool(volume.read_only))
            for number, (path, volume) in enumerate(zip(resolved, volumes, strict=True))
        ),
        limits=_limits(spec),
    )


def told(subject: Subject, *, is_emulated: bool) -> Told:
    spec = subject.spec
    apart = [
        name
        for name, has in (
            ("containers", spec.resources.docker_volume_size),
            ("kubelet", spec.resources.kubelet_volume_size),
            ("etcd", spec.etcd_volume),
        )
        if has is not None
    ]
    return Told(
        host_name=subject.name,
        mac=subject.mac,
        uuid=subject.uuid,
        disks=tuple(apart),
        shares=tuple(
            Mounted(_tag(number), each.mount_path, bool(each.read_only))
            for number, each in enumerate(spec.host_volumes or ())
        ),
        dns_servers=tuple(spec.dns_servers or ()),
        ntp_servers=tuple(spec.ntp_servers or ()),
        initiator=(spec.iscsi_initiator_name or "").replace(MACHINE_NAME, subject.name),
        router=_router(subject) if subject.is_control_plane else None,
        is_emulated=is_emulated,
    )


def api_address(cluster: KVMClusterSpec) -> str:
    """Where the cluster's API is to be: the endpoint's, if that is an address, else the one that its range sets aside;
    "" where neither is known."""
    endpoint = cluster.control_plane_endpoint
    if endpoint is not None and addresses.is_address(endpoint.host):
        return endpoint.host
    is_own = cluster.network is None or cluster.network.bridge is None
    return Layout.of(cluster.range).api if cluster.range and is_own else ""


def _router(subject: Subject) -> Router | None:
    address, endpoint = api_address(subject.cluster), subject.cluster.control_plane_endpoint
    if not address:
        return None
    return Router(
        address=address,
        port=endpoint.port if endpoint is not None else addresses.API_PORT,
        router_id=subject.cluster.virtual_router_id or OWN_ROUTER,
        priority=_LOWEST_PRIORITY + zlib.crc32(subject.uuid.encode()) % _PRIORITIES,
    )


def _limits(spec: KVMMachineSpec) -> Limits:
    if spec.limits is None:
        return Limits()
    ours, process = spec.limits.guest, spec.limits.process
    return Limits(
        guest_cpu=sizes.in_cores(ours.cpu) if ours is not None and ours.cpu else None,
        process_cpu=sizes.in_cores(process.cpu) if process is not None and process.cpu else None,
        process_memory=sizes.in_bytes(process.memory) if process is not None and process.memory else None,
    )


def _serial(file: str) -> str:
    return file.partition(".")[0]


def _tag(number: int) -> str:
    return f"hostvolume{number}"
