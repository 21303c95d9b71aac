"""The KVMHosts of the platform file, as the embedded platform puts them into its own API at every start (`app.py`).

They carry a label, so that those which the file no longer names are found and taken away; others, which somebody made
by hand, stay as they are.
"""

from __future__ import annotations

from typing import Final

from steelyard.api import resources
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.settings import Platform
from steelyard.settings.kvmhosts import KvmHost

MARK: Final = ("steelyard.dev/standing", "kvm")
"""The label by which they are known, and its value."""
KINDS: Final[tuple[Resource, ...]] = (resources.KVM_HOSTS,)


def standing(platform: Platform) -> list[tuple[Resource, Object]]:
    label, value = MARK
    return [
        (
            resources.KVM_HOSTS,
            {
                "apiVersion": resources.KVM_HOSTS.api_version,
                "kind": resources.KVM_HOSTS.kind,
                "metadata": {"name": name, "labels": {label: value}},
                "spec": spec(host),
            },
        )
        for name, host in platform.kvm_hosts().items()
    ]


def spec(host: KvmHost) -> Object:
    """Of its KVMHost, whose fields are called as those of the platform file, and which says nothing where there is
    nothing."""
    said = host.model_dump(mode="json", exclude_none=True)
    networks = {name: value for name, value in said["networks"].items() if value}
    return {**{name: value for name, value in said.items() if value}, "networks": networks}
