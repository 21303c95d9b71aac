"""Sizes and processor time as KVMMachines write them, and the sizes of a machine's disks."""

from __future__ import annotations

import re
from typing import Final

from steelyard.api.kvm import KVMMachineSpec
from steelyard.frozen import frozen

_SIZE: Final = re.compile(r"^([0-9]+)([MGT])(i|B)?$")
_POWER: Final = {"M": 2, "G": 3, "T": 4}
_ETCD: Final = "10Gi"


@frozen
class Disks:
    """Bytes; None for what a machine has no disk of its own for."""

    root: int
    containers: int | None
    kubelet: int | None
    etcd: int | None

    @property
    def total(self) -> int:
        return self.root + sum(each or 0 for each in (self.containers, self.kubelet, self.etcd))


def of_disks(spec: KVMMachineSpec) -> Disks:
    """With what is meant where no size is said: whoever makes disks and whoever counts them means the same."""
    size, etcd = spec.resources, spec.etcd_volume
    return Disks(
        root=in_bytes(size.disk),
        containers=in_bytes(size.docker_volume_size) if size.docker_volume_size is not None else None,
        kubelet=in_bytes(size.kubelet_volume_size) if size.kubelet_volume_size is not None else None,
        etcd=in_bytes(etcd.size or _ETCD) if etcd is not None else None,
    )


def in_bytes(size: str) -> int:
    """`GB` is meant as the documents mean it, as 1024 to the third.

    >>> in_bytes("8Gi") == in_bytes("8GB") == 8 << 30
    True
    >>> in_bytes("8G")
    8000000000
    """
    found = _SIZE.match(size)
    if found is None:
        raise ValueError(f'"{size}" is no size such as 8Gi')
    number, unit, binary = found.groups()
    return int(number) * (1024 if binary else 1000) ** _POWER[unit]


def in_cores(time: str) -> float:
    """
    >>> in_cores("1500m"), in_cores("2")
    (1.5, 2.0)
    """
    return float(time[:-1]) / 1000 if time.endswith("m") else float(time)
