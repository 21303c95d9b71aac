"""How long the kubelet waits for the programs of a control plane before it takes them for dead.

kubeadm's times are for machines that never stand still. Where they do, because they are emulated or their host is busy,
an API server that answers late is started anew, which keeps the machine busier still. kubeadm has no setting for it,
but changes what it makes by patches that lie in a folder.

It also has them asked every second whether they are ready, by a connection of its own each time: on an emulated machine
that is a good part of all that the machine does.
"""

from __future__ import annotations

from typing import Final

import orjson

from steelyard.api import versions
from steelyard.kube.objects import Object

FOLDER: Final = "/etc/kubernetes/patches"
_API_SERVER: Final = "kube-apiserver"
_PROGRAMS: Final = (_API_SERVER, "kube-controller-manager", "kube-scheduler", "etcd")
_ASKED: Final = frozenset({_API_SERVER, "kube-scheduler", "etcd"})
"""Whether they are ready, by kubeadm of the version below. A probe that it does not make cannot be changed: it would
have nobody to ask, and the pod would be refused."""
_ASKED_SINCE: Final = (1, 34, 0)
_PERIOD: Final = 10
"""Seconds; as often as it is asked whether they live."""


def patches(seconds: int, version: str) -> list[Object]:
    """The files, for a patience of so many seconds with each answer, and a version of Kubernetes.

    >>> patches(30, "v1.34.4")[0]["path"]
    '/etc/kubernetes/patches/kube-apiserver+strategic.json'
    """
    asked = _ASKED if versions.parsed(version) >= _ASKED_SINCE else {_API_SERVER}
    return [_file(program, {"timeoutSeconds": seconds}, is_asked=program in asked) for program in _PROGRAMS]


def _file(program: str, probe: Object, *, is_asked: bool) -> Object:
    container: Object = {"name": program, "livenessProbe": probe, "startupProbe": probe}
    if is_asked:
        container["readinessProbe"] = {**probe, "periodSeconds": _PERIOD}
    content = orjson.dumps({"spec": {"containers": [container]}}).decode()
    path = f"{FOLDER}/{program}+strategic.json"
    return {"path": path, "owner": "root:root", "permissions": "0644", "content": content}
