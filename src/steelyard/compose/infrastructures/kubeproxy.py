"""How kube-proxy of a cluster is told how many connections to remember.

Cluster API has no field for its configuration. kubeadm takes it from the file that it makes a cluster with, after the
other documents, and keeps it in the cluster for all machines; so the machine that makes the cluster adds it there.
"""

from __future__ import annotations

from typing import Final

import orjson

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings.kvm import Conntrack

_FILE: Final = "/etc/kubernetes/kube-proxy-config.yaml"
_KUBEADM: Final = "/run/kubeadm/kubeadm.yaml"
"""Where Cluster API puts kubeadm's configuration on the machine that makes a cluster, and on no other."""
_ADD: Final = f"test ! -f {_KUBEADM} || cat {_FILE} >> {_KUBEADM}"


def bootstrap(conntrack: Conntrack, told: Object) -> Object:
    """`told` is what control-plane machines are told already; nothing where kube-proxy is to do as it does."""
    wanted = conntrack.model_dump(exclude_none=True)
    if not wanted:
        return {}
    document = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "conntrack": wanted}
    content = f"\n---\n{orjson.dumps(document).decode()}\n"
    file: Object = {"path": _FILE, "owner": "root:root", "permissions": "0644", "content": content}
    return {
        "files": [*objects.sequence(told.get("files")), file],
        "preKubeadmCommands": [*objects.sequence(told.get("preKubeadmCommands")), _ADD],
    }
