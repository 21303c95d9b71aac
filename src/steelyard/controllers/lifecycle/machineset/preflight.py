"""What new workers wait for: no kubelet is newer than the API servers, and kubeadm joins its own minor version only.

The checks are Cluster API's, with its names, so that the annotation which skips them means the same here. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from steelyard.kube import objects
from steelyard.kube.objects import Object

SKIP_ANNOTATION: Final = "machineset.cluster.x-k8s.io/skip-preflight-checks"
"""Names of checks separated by commas, or All."""
_ALL: Final = "All"
_STABLE: Final = "ControlPlaneIsStable"
_KUBERNETES: Final = "KubernetesVersionSkew"
_KUBEADM: Final = "KubeadmVersionSkew"
_OLDEST_KUBELET: Final = 3
"""How many minor versions a kubelet may be behind."""
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


def problems(machine_set: Object, control_plane: Object | None) -> list[str]:
    """Why no machine can be made yet. A control plane without a version is somebody else's business."""
    wanted = str(objects.at(control_plane or {}, "spec", "version") or "")
    if control_plane is None or not wanted:
        return []
    skipped = {each.strip() for each in objects.annotations(machine_set).get(SKIP_ANNOTATION, "").split(",")}
    version = str(objects.at(machine_set, "spec", "template", "spec", "version") or "")
    found = {
        _STABLE: _upgrading(control_plane, wanted),
        _KUBERNETES: _skewed(version, wanted),
        _KUBEADM: _of_another_minor(version, wanted) if _joins_by_kubeadm(machine_set) else "",
    }
    return [
        f'{problem} ("{name}" preflight check failed)'
        for name, problem in found.items()
        if problem and not skipped & {name, _ALL}
    ]


def _upgrading(control_plane: Object, wanted: str) -> str:
    current = str(objects.at(control_plane, "status", "version") or wanted)
    if current == wanted:
        return ""
    return f"{control_plane.get('kind')} {objects.name(control_plane)} is being upgraded from {current} to {wanted}"


def _skewed(version: str, wanted: str) -> str:
    machine, plane = _parsed(version), _parsed(wanted)
    if not machine or not plane:
        return ""
    if machine[:2] > plane[:2]:
        return f"machines of {version} would be newer than the control plane, which has {wanted}"
    if machine[0] == plane[0] and plane[1] - machine[1] > _OLDEST_KUBELET:
        return (
            f"machines of {version} are more than {_OLDEST_KUBELET} minor versions behind the control plane's {wanted}"
        )
    return ""


def _of_another_minor(version: str, wanted: str) -> str:
    machine, plane = _parsed(version), _parsed(wanted)
    if not machine or not plane or machine[:2] == plane[:2]:
        return ""
    return f"kubeadm of {version} joins no control plane of another minor version, and this one has {wanted}"


def _joins_by_kubeadm(machine_set: Object) -> bool:
    reference = objects.mapping(objects.at(machine_set, "spec", "template", "spec", "bootstrap", "configRef"))
    return reference.get("kind") == "KubeadmConfigTemplate"


def _parsed(version: str) -> tuple[int, ...]:
    found = _VERSION.match(version)
    return tuple(map(int, found.groups())) if found else ()
