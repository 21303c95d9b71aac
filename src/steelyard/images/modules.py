"""The Go modules that the programs of a node are built from, pinned here for one version and made for others.

A module for another version is written anew and tidied by Go, which checks what it fetches against the checksum
database. It is kept beside the built programs, so that happens once for each version.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from steelyard.images import golang, versions
from steelyard.images.golang import Program

PINNED: Final = Path(__file__).parent / "modules"
KUBERNETES: Final = (
    "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubeadm", "kubectl", "kubelet",
)  # fmt: skip
ETCD: Final = ("etcd", "etcdctl", "etcdutl")
PLUG_INS: Final = {
    "bandwidth": "meta", "bridge": "main", "dhcp": "ipam", "firewall": "meta", "host-device": "main",
    "host-local": "ipam", "ipvlan": "main", "loopback": "main", "macvlan": "main", "portmap": "meta", "ptp": "main",
    "sbr": "meta", "static": "ipam", "tuning": "meta", "vlan": "main", "vrf": "meta",
}  # fmt: skip
"""The standard plug-ins of pod networks, and where each is in their module."""
_ETCD: Final = "go.etcd.io/etcd/{part}/v3"
_COREDNS: Final = "github.com/coredns/coredns"
_FLANNEL: Final = "github.com/flannel-io/flannel"
_PLUG_INS: Final = "github.com/containernetworking/plugins/plugins"
_STAGED: Final = re.compile(r"^\s*(k8s\.io/[a-z0-9-]+) => \./staging/", re.MULTILINE)
_GO: Final = re.compile(r"^go \d+\.\d+(?:\.\d+)?$", re.MULTILINE)
# Debugging is what this backend is for, and it is the only part that needs a C compiler.
_WITHOUT_C: Final = {
    "pkg/backend/udp/cproxy_amd64.go": "",
    "pkg/backend/udp/proxy_amd64.c": "",
    "pkg/backend/udp/proxy_amd64.h": "",
    "pkg/backend/udp/udp_network_amd64.go": "",
    "pkg/backend/udp/udp_amd64.go": "package udp\n",
}

Say = Callable[[str], None]


def kubernetes(version: str, say: Say) -> dict[str, Program]:
    module = PINNED / "kubernetes"
    if version != versions.KUBERNETES:
        module = _made("kubernetes", version, lambda folder: _write_kubernetes(folder, version), say)
    flags = golang.kubernetes_link_flags(version.removeprefix("v"))
    return {name: Program(version, module, f"k8s.io/kubernetes/cmd/{name}", module, flags) for name in KUBERNETES}


def etcd(version: str, say: Say) -> dict[str, Program]:
    """The server, and the tools for its members and snapshots."""
    paths = {name: _ETCD.format(part="server" if name == "etcd" else name) for name in ETCD}
    module = _required("etcd", paths.values(), version, say)
    return {name: Program(version, module, "." if name == "etcd" else path, module) for name, path in paths.items()}


def coredns(version: str, say: Say) -> Program:
    module = _required("coredns", (_COREDNS,), version, say)
    return Program(version, module, _COREDNS, module)


def pause() -> Program:
    return Program("1", PINNED / "pause", ".", PINNED / "pause")


def timeless() -> Program:
    """What takes the times out of containerd's databases; it is not part of a node."""
    return Program("1", PINNED / "timeless", ".", PINNED / "timeless")


def flannel() -> Program:
    flags = f"-s -w -X {_FLANNEL}/pkg/version.Version={versions.FLANNEL}"
    module = PINNED / "flannel"
    return Program(versions.FLANNEL, module, _FLANNEL, module, flags, _FLANNEL, _WITHOUT_C)


def plug_ins() -> dict[str, Program]:
    module = PINNED / "cni"
    return {
        name: Program(versions.CNI, module, f"{_PLUG_INS}/{kind}/{name}", module) for name, kind in PLUG_INS.items()
    }


def _required(name: str, paths: Iterable[str], version: str, say: Say) -> Path:
    """The pinned module, or one like it that requires another version."""
    pinned = (PINNED / name / "go.mod").read_text()
    if all(f"{path} {version}\n" in pinned for path in paths):
        return PINNED / name
    return _made(name, version, lambda folder: _write_required(folder, name, paths, version), say)


def _made(name: str, version: str, write: Callable[[Path], None], say: Say) -> Path:
    """A module for another version than the pinned one, complete or not there."""
    target = golang.cache() / "modules" / f"{name}-{version}"
    if target.exists():
        return target
    say(f"resolving what {name} {version} depends on")
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=target.parent))
    try:
        for source in (PINNED / name).glob("*.go"):
            shutil.copyfile(source, unfinished / source.name)
        write(unfinished)
        golang.run([golang.find_go(unfinished), "mod", "tidy"], unfinished, settings={"GOFLAGS": "-mod=mod"})
        unfinished.chmod(0o755)
        try:
            os.rename(unfinished, target)
        except OSError:
            if not target.exists():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


def _write_required(folder: Path, name: str, paths: Iterable[str], version: str) -> None:
    required = "".join(f"require {path} {version}\n" for path in paths)
    (folder / "go.mod").write_text(f"module steelyard.dev/images/{name}\n\ngo 1.24.0\n\n{required}")


def _write_kubernetes(folder: Path, version: str) -> None:
    _write_required(folder, "kubernetes", ("k8s.io/kubernetes",), version)
    fetched: Any = json.loads(
        golang.run(
            [golang.find_go(folder), "mod", "download", "-json", f"k8s.io/kubernetes@{version}"],
            folder,
            settings={"GOFLAGS": "-mod=mod"},
        )
    )
    (folder / "go.mod").write_text(kubernetes_module(Path(str(fetched["GoMod"])).read_text(), version))


def kubernetes_module(published: str, version: str) -> str:
    """A go.mod that takes Kubernetes' own libraries as they were published, instead of from folders beside it."""
    go = _GO.search(published)
    replaced = "".join(
        f"\t{name} => {name} {versions.staging(version)}\n" for name in sorted(_STAGED.findall(published))
    )
    return (
        f"module steelyard.dev/images/kubernetes\n\n{go[0] if go else 'go 1.24.0'}\n\n"
        f"require k8s.io/kubernetes {version}\n\nreplace (\n{replaced})\n"
    )
