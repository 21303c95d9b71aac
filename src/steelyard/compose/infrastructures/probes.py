"""How long the kubelet waits for the programs of a control plane before it takes them for dead.

kubeadm's times are for machines that never stand still. Where they do, because they are emulated or their host is busy,
an API server that answers late is started anew, which keeps the machine busier still. kubeadm has no setting for it,
but changes what it makes by patches that lie in a folder.
"""

from __future__ import annotations

from typing import Final

import orjson

from steelyard.kube.objects import Object

FOLDER: Final = "/etc/kubernetes/patches"
_PROGRAMS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")


def patches(seconds: int) -> list[Object]:
    """The files, for a patience of so many seconds with each answer.

    >>> patches(30)[0]["path"]
    '/etc/kubernetes/patches/kube-apiserver+strategic.json'
    """
    return [_file(program, {"timeoutSeconds": seconds}) for program in _PROGRAMS]


def _file(program: str, probe: Object) -> Object:
    container: Object = {"name": program, "livenessProbe": probe, "startupProbe": probe}
    content = orjson.dumps({"spec": {"containers": [container]}}).decode()
    path = f"{FOLDER}/{program}+strategic.json"
    return {"path": path, "owner": "root:root", "permissions": "0644", "content": content}
