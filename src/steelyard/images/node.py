"""Makes a node of a machine: programs of Kubernetes, what they are run by, and the configuration of what they call."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from steelyard.images import inside, machine

FILES: Final = Path(__file__).parent / "files" / "node"
CNI: Final = "opt/cni/bin"
_BIN: Final = "usr/bin"
_HOST_PROGRAMS: Final = ("kubeadm", "kubectl", "kubelet")
_ENABLED: Final = ("containerd.service", "kubelet.service", "steelyard-pod-network.path")
_DISABLED: Final = ("keepalived.service", "nftables.service")


def install(root: Path, programs: Mapping[str, Path], plug_ins: Mapping[str, Path], values: Mapping[str, str]) -> None:
    """`values` take the place of `@NAME@` in files of the image."""
    for name in _HOST_PROGRAMS:
        _put(programs[name], root / _BIN / name)
    for name, source in plug_ins.items():
        _put(source, root / CNI / name)
    machine.put_files(FILES, root, values)
    for name in ("etc/containerd/certs.d", "etc/cni/net.d", "etc/kubernetes/manifests"):
        (root / name).mkdir(parents=True, exist_ok=True)
    inside.run(root, ["systemctl", "--quiet", "disable", *_DISABLED])
    inside.run(root, ["systemctl", "--quiet", "enable", *_ENABLED])


def _put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)
