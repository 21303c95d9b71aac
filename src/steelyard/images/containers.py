"""The container images of a node, put together from its programs and from files of its operating system.

Those that change packet filters bring the programs for it: Debian's iptables, which speaks to nftables, and nft.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from steelyard.frozen import frozen
from steelyard.images import inside, layers, modules
from steelyard.images.failing import BuildFailed
from steelyard.images.layers import Entry
from steelyard.images.oci import ContainerImage

FLANNEL: Final = "registry.steelyard.local/flannel"
_CONTROL_PLANE: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_NOBODY: Final = "65532:65532"
_ACCOUNTS: Final = (
    Entry("/etc/passwd", b"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532::/:/sbin/nologin\n", mode=0o644),
    Entry("/etc/group", b"root:x:0:\nnonroot:x:65532:\n", mode=0o644),
    Entry("/tmp", is_directory=True, mode=0o1777),  # noqa: S108 (the one of a container)
)
_TABLES: Final = ("iptables", "iptables-nft", "ip6tables", "ip6tables-nft")
_FILTERS: Final = (
    *(f"/usr/sbin/{name}{verb}" for name in _TABLES for verb in ("", "-save", "-restore")),
    "/usr/sbin/conntrack",
    "/usr/sbin/ipset",
    "/usr/sbin/nft",
)
_PLUG_INS: Final = "usr/lib/x86_64-linux-gnu/xtables"
"""What iptables loads for its matches and targets."""
_LIBRARY: Final = re.compile(r"(/\S+) \(0x[0-9a-f]+\)$")


@frozen
class Wanted:
    """Names of the images that kubeadm asks for, by the program in each."""

    names: Mapping[str, str]

    def tag(self, program: str) -> str:
        return self.names[program].rpartition(":")[2]


def wanted(listed: str) -> Wanted:
    """From what `kubeadm config images list` prints."""
    names: dict[str, str] = {}
    for line in listed.split():
        program = line.rpartition(":")[0].rpartition("/")[2]
        names[program] = line
    absent = {*_CONTROL_PLANE, "kube-proxy", "etcd", "coredns", "pause"} - names.keys()
    if absent:
        raise BuildFailed(f"kubeadm names no image of {', '.join(sorted(absent))}: {listed.strip()!r}")
    return Wanted(names)


def images(
    wanted_: Wanted, programs: Mapping[str, Path], filters: Sequence[Entry], flannel: str
) -> list[ContainerImage]:
    """`filters` are files of the operating system; `flannel` is the version of the pod network."""
    made = [
        ContainerImage(wanted_.names[name], (*_ACCOUNTS, _program(programs[name], f"/usr/local/bin/{name}")))
        for name in _CONTROL_PLANE
    ]
    etcd = [_program(programs[name], f"/usr/local/bin/{name}") for name in modules.ETCD]
    made.append(ContainerImage(wanted_.names["etcd"], (*_ACCOUNTS, *etcd)))
    coredns = Entry("/coredns", source=programs["coredns"], binds_ports=True)
    made.append(ContainerImage(wanted_.names["coredns"], (*_ACCOUNTS, coredns), ("/coredns",), _NOBODY))
    pause = _program(programs["pause"], "/pause")
    made.append(ContainerImage(wanted_.names["pause"], (*_ACCOUNTS, pause), ("/pause",), "65535:65535"))
    proxy = _program(programs["kube-proxy"], "/usr/local/bin/kube-proxy")
    made.append(ContainerImage(wanted_.names["kube-proxy"], (*_ACCOUNTS, *filters, proxy)))
    flanneld = _program(programs["flanneld"], "/opt/bin/flanneld")
    made.append(ContainerImage(f"{FLANNEL}:{flannel}", (*_ACCOUNTS, *filters, flanneld), ("/opt/bin/flanneld",)))
    return sorted(made, key=lambda image: image.name)


def filters(root: Path) -> list[Entry]:
    """The programs for packet filters of a tree, with the libraries that they load."""
    plug_ins = [f"/{path.relative_to(root)}" for path in (root / _PLUG_INS).glob("*.so")]
    programs = [*_FILTERS, *plug_ins]
    return layers.from_tree(root, sorted({*programs, *libraries(root, programs)}))


def libraries(root: Path, programs: Sequence[str]) -> list[str]:
    """What the dynamic linker of the tree would load for them, and itself."""
    script = 'for each in "$@"; do ldd "$each" 2>/dev/null || true; done'
    listed = inside.run(root, ["sh", "-c", script, "sh", *programs])
    return sorted({found[1] for line in listed.splitlines() if (found := _LIBRARY.search(line))})


def _program(source: Path, path: str) -> Entry:
    return Entry(path, source=source)
