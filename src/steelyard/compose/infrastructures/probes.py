"""How often the kubelet asks the programs of a control plane how they are, and how long it waits for an answer.

kubeadm's times are for machines that never stand still. Where they do, because they are emulated or their host is busy,
an API server that answers late is started anew, which keeps the machine busier still. Each question is a connection of
its own, and whether they are ready is asked every second: on an emulated machine that is a good part of all it does.
kubeadm has no setting for either, but changes what it makes by patches that lie in a folder.
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


def patches(patience: int | None, period: int | None, version: str) -> list[Object]:
    """The files, for a patience of so many seconds with each answer and a question every so many seconds; None leaves
    either to kubeadm of that version.

    >>> patches(30, None, "v1.34.4")[0]["path"]
    '/etc/kubernetes/patches/kube-apiserver+strategic.json'
    >>> patches(None, None, "v1.34.4")
    []
    """
    if patience is None and period is None:
        return []
    asked = _ASKED if versions.parsed(version) >= _ASKED_SINCE else {_API_SERVER}
    return [_file(program, patience, period, is_asked=program in asked) for program in _PROGRAMS]


def _file(program: str, patience: int | None, period: int | None, *, is_asked: bool) -> Object:
    waits: Object = {"timeoutSeconds": patience} if patience is not None else {}
    repeats: Object = {"periodSeconds": period} if period is not None else {}
    container: Object = {"name": program, "livenessProbe": {**waits, **repeats}, "startupProbe": waits}
    if repeats and is_asked:
        container["readinessProbe"] = {**waits, **repeats}
    content = orjson.dumps(
        {"spec": {"containers": [{name: each for name, each in container.items() if each}]}}
    ).decode()
    path = f"{FOLDER}/{program}+strategic.json"
    return {"path": path, "owner": "root:root", "permissions": "0644", "content": content}
