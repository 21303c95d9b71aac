"""What things of a machine or cluster are called on the host. Nothing comes from an object's UID, which is another one
after a move or a restore; a machine's names come from its UUID, which its spec keeps."""

from __future__ import annotations

import hashlib
import uuid as uuids
from typing import Final

SCHEME: Final = "kvm://"
ROOT: Final = "root.qcow2"
CONTAINERS: Final = "containers.qcow2"
KUBELET: Final = "kubelet.qcow2"
ETCD: Final = "etcd.qcow2"
ETCD_RAW: Final = "etcd.raw"
SEED: Final = "seed.iso"
CONSOLE: Final = "console.log"
_LONGEST_NAME: Final = 50


def new_uuid() -> str:
    return str(uuids.uuid4())


def uuid_of(provider_id: str) -> str:
    """
    >>> uuid_of("kvm://0b1e4b4c-6c7e-4f0e-9a53-3d4b8d1f2a60")
    '0b1e4b4c-6c7e-4f0e-9a53-3d4b8d1f2a60'
    """
    return provider_id.removeprefix(SCHEME)


def provider_id(uuid: str) -> str:
    return f"{SCHEME}{uuid}"


def mac(uuid: str) -> str:
    """From QEMU's own range."""
    digest = hashlib.sha256(uuid.encode()).digest()
    return f"52:54:00:{digest[0]:02x}:{digest[1]:02x}:{digest[2]:02x}"


def domain_name(namespace: str, name: str, uuid: str) -> str:
    """For people who list domains; short enough for every file that libvirt names after it."""
    return f"{namespace}.{name}"[:_LONGEST_NAME].rstrip(".-") + f"-{uuid[:8]}"


def folder_name(uuid: str) -> str:
    return f"sy-{uuid}"


def folder_path(root: str, uuid: str) -> str:
    return f"{root}/{uuid}"


def network_name(namespace: str, name: str, range_: str) -> str:
    """Also that of its bridge, for which Linux has 15 characters."""
    return f"sy-{hashlib.sha256(f'{namespace}/{name}/{range_}'.encode()).hexdigest()[:10]}"


def network_uuid(network: str) -> str:
    return derived_uuid(f"network/{network}")


def derived_uuid(of: str) -> str:
    """Of version 5, which no machine's is: nobody can have what is made under it."""
    return str(uuids.uuid5(uuids.NAMESPACE_URL, f"https://steelyard.dev/kvm/{of}"))
