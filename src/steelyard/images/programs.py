"""The programs of a node: built from their Go modules, or fetched as the projects released them.

Which etcd, CoreDNS and pause belong to a version of Kubernetes is what its own kubeadm says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from steelyard.frozen import frozen
from steelyard.images import commands, containers, fetching, golang, modules, releases, versions
from steelyard.images.containers import Wanted
from steelyard.images.failing import BuildFailed
from steelyard.images.golang import GoFailed, Program

_REACHABLE_IN: Final = 5.0

Say = Callable[[str], None]


@frozen
class Built:
    version: str
    path: Path
    source: str
    """What it was made by or fetched from."""


@frozen
class Programs:
    programs: Mapping[str, Built]
    plug_ins: Mapping[str, Built]
    wanted: Wanted
    timeless: Built
    """Helps to build the image, and is not in it."""

    def paths(self) -> dict[str, Path]:
        return {name: built.path for name, built in self.programs.items()}

    def plug_in_paths(self) -> dict[str, Path]:
        return {name: built.path for name, built in self.plug_ins.items()}


def from_go(version: str, say: Say) -> Programs:
    """Everything from Go modules: nothing is needed but Go and a proxy of modules."""
    try:
        kubernetes = modules.kubernetes(version, say)
        kubeadm = _built("kubeadm", kubernetes["kubeadm"], say)
        wanted = asked(kubeadm.path, version)
        etcd = modules.etcd(versions.component(wanted.tag("etcd")), say)
        coredns = modules.coredns(versions.component(wanted.tag("coredns")), say)
        sources = kubernetes | etcd | {"coredns": coredns}
        programs = {name: _built(name, program, say) for name, program in sorted(sources.items())}
        plug_ins = {name: _built(name, program, say) for name, program in modules.plug_ins().items()}
        return Programs(programs | _own(say), plug_ins, wanted, _built("timeless", modules.timeless(), say))
    except GoFailed as error:
        raise BuildFailed(str(error)) from None


def from_releases(version: str, mirror: str, cache: Path, say: Say) -> Programs:
    """What the projects released, checked against the checksums beside it. flannel and pause, which nobody releases
    with checksums, are built."""
    fetched = releases.Releases(mirror, cache, say)
    kubernetes = {name: fetched.kubernetes(name, version) for name in modules.KUBERNETES}
    wanted = asked(kubernetes["kubeadm"], version)
    etcd, coredns = versions.component(wanted.tag("etcd")), versions.component(wanted.tag("coredns"))
    released = (
        (version, kubernetes),
        (etcd, fetched.etcd(etcd, modules.ETCD)),
        (coredns, {"coredns": fetched.coredns(coredns)}),
    )
    programs = {name: Built(of, path, "release") for of, paths in released for name, path in sorted(paths.items())}
    plug_ins = {
        name: Built(versions.CNI, path, "release")
        for name, path in fetched.plug_ins(versions.CNI, tuple(modules.PLUG_INS)).items()
    }
    try:
        return Programs(programs | _own(say), plug_ins, wanted, _built("timeless", modules.timeless(), say))
    except GoFailed as error:
        raise BuildFailed(str(error)) from None


def are_released(version: str) -> bool:
    """Whether the official releases can be reached from here."""
    return fetching.answers(releases.official(version), _REACHABLE_IN)


def asked(kubeadm: Path, version: str) -> Wanted:
    return containers.wanted(
        commands.run([str(kubeadm), "config", "images", "list", f"--kubernetes-version={version}"])
    )


def _own(say: Say) -> dict[str, Built]:
    return {"flanneld": _built("flanneld", modules.flannel(), say), "pause": _built("pause", modules.pause(), say)}


def _built(name: str, program: Program, say: Say) -> Built:
    # Programs of two versions of Go differ, and so do the images of them.
    go = "go" + ".".join(map(str, golang.version_of(golang.find_go(program.module))))
    return Built(program.version, golang.build(name, program, say, further=(go,), quiet=True), go)
