"""What of a host somebody's machines and clusters may have: its KVMHost says so, and nothing else is to be had.

Links are followed before anything is judged, since what a machine gets is what they lead to. That can be seen of the
host that the platform runs on; of a host elsewhere, paths are judged as they are written.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Sequence

from steelyard.api.kvm import HostVolume
from steelyard.api.kvmhost import KVMHostSpec
from steelyard.providers.kvm.refusals import Refused

Resolve = Callable[[str], str]
"""Where a path leads. Raises OSError where that cannot be found out."""


def is_local(host: KVMHostSpec) -> bool:
    return host.uri.startswith("qemu:///")


def resolver(host: KVMHostSpec) -> Resolve:
    return os.path.realpath if is_local(host) else posixpath.normpath


def serves(host: KVMHostSpec, namespace: str) -> bool:
    return host.namespaces is None or _names(host.namespaces, namespace)


def storage_root(host: KVMHostSpec, wanted: str | None) -> str:
    if wanted is None:
        return host.storage_roots[0]
    if wanted not in host.storage_roots:
        raise Refused(
            "StorageRootNotAllowed",
            f"spec.storageRoot {wanted} is none of the host's storageRoots ({', '.join(host.storage_roots)})",
        )
    return wanted


def images(host: KVMHostSpec, image: str) -> list[str]:
    """Where an image may be, the likeliest first. Nobody has looked yet whether it is there, and where it leads."""
    path = image.partition("@")[0]
    if not path.startswith("/"):
        return [f"{root}/{path}" for root in host.image_roots]
    if not any(_is_below(path, root) for root in host.image_roots):
        raise _image_refused(host, path, path)
    return [path]


def judged_image(host: KVMHostSpec, path: str, resolve: Resolve) -> str:
    """Where it leads. Raises Refused where that is outside the roots."""
    real = resolve(path)
    if not any(_is_below(real, resolve(root)) for root in host.image_roots):
        raise _image_refused(host, path, real)
    return real


def _image_refused(host: KVMHostSpec, path: str, real: str) -> Refused:
    leads = f", which leads to {real}" if real != path else ""
    return Refused(
        "ImageNotAllowed",
        f"spec.image {path}{leads} is under none of the host's imageRoots ({', '.join(host.image_roots)})",
    )


def directory(host: KVMHostSpec, namespace: str, path: str, resolve: Resolve) -> str:
    """Of the host, for a machine of this namespace: where it leads. Raises Refused.

    What disks and images are in is refused as well, should the roots come to contain each other by links.
    """
    real = resolve(path)
    leads = f", which leads to {real}" if real != path else ""
    roots = [root.path for root in host.host_volume_roots or () if _names(root.namespaces, namespace)]
    if not any(_is_below(real, resolve(root)) for root in roots):
        known = ", ".join(roots) or "it has none"
        raise Refused(
            "HostPathNotAllowed",
            f"hostPath {path}{leads} is under none of the host's hostVolumeRoots for namespace {namespace} ({known})",
        )
    for root in (*host.storage_roots, *host.image_roots):
        if _is_below(real, resolve(root)) or _is_below(resolve(root), real):
            raise Refused(
                "HostPathNotAllowed",
                f"hostPath {path}{leads} and {root}, where disks or images are, contain each other: no machine may "
                "change another's",
            )
    return real


def shared(host: KVMHostSpec, namespace: str, volumes: Sequence[HostVolume], resolve: Resolve) -> list[str]:
    """Where each of the directories leads."""
    return [directory(host, namespace, each.host_path, resolve) for each in volumes]


def bridge(host: KVMHostSpec, namespace: str, name: str) -> bool:
    return any(each.name == name and _names(each.namespaces, namespace) for each in host.networks.bridges or ())


def _names(namespaces: Sequence[str], namespace: str) -> bool:
    return "*" in namespaces or namespace in namespaces


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
