"""flannel, the network plugin that needs no download: the images of machines have its program.

flanneld runs on every Node, takes the Node's range of pods from the API, carries packets between Nodes by VXLAN and
writes what it found out into /run/flannel; the image makes the configuration of the bridge plug-in of that. Delivered
by a ClusterResourceSet as soon as the cluster's API answers, since no Node is ready before.
"""

from __future__ import annotations

from typing import Final

import orjson

from steelyard.compose.integrations import inside
from steelyard.compose.integrations.subject import Integrated, Subject
from steelyard.kube.objects import Object
from steelyard.settings.networkplugins import FLANNEL

IMAGE: Final = "registry.steelyard.local/flannel:v0.27.4"
"""No registry of that name is asked: it is imported where images of machines are built."""
NAMESPACE: Final = "kube-flannel"
INTERFACE: Final = "eth0"
_WHAT: Final = "network-plugin"
_NAME: Final = "kube-flannel"
_ACCOUNT: Final = "flannel"
_CONFIG: Final = "kube-flannel-cfg"
_LABELS: Final = {"app": FLANNEL}
_RIGHTS: Final = "rbac.authorization.k8s.io"
_EVERYTHING: Final[list[Object]] = [{"operator": "Exists"}]
"""What it tolerates: a Node that nothing may run on yet waits for the network."""


def of(subject: Subject) -> Integrated:
    parts = inside.delivered(subject.shape, _WHAT, inside.manifests(manifests(subject.shape.network.pods)))
    waiting = inside.waiting_for(subject.shape, _WHAT, subject.observed)
    return Integrated(parts, waiting_for=f"waiting for {FLANNEL} to be installed: {waiting}" if waiting else "")


def manifests(pods: str) -> list[Object]:
    """For a cluster whose pods have addresses of that range."""
    return [_namespace(), _account(), _role(), _binding(), _configuration(pods), _daemon_set()]


def _namespace() -> Object:
    # It changes the network of the machine itself, which other levels of pod security do not allow.
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def _account() -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _ACCOUNT, "namespace": NAMESPACE}}


def _role() -> Object:
    return {
        "apiVersion": f"{_RIGHTS}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": _ACCOUNT},
        "rules": [
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
            # Where others reach the Node's pods is told in annotations, which it writes together with a condition.
            {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
        ],
    }


def _binding() -> Object:
    return {
        "apiVersion": f"{_RIGHTS}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": _ACCOUNT},
        "roleRef": {"apiGroup": _RIGHTS, "kind": "ClusterRole", "name": _ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": NAMESPACE}],
    }


def _configuration(pods: str) -> Object:
    network: Object = {"Network": pods, "Backend": {"Type": "vxlan"}}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _CONFIG, "namespace": NAMESPACE, "labels": dict(_LABELS)},
        "data": {"net-conf.json": orjson.dumps(network).decode()},
    }


def _daemon_set() -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": _NAME, "namespace": NAMESPACE, "labels": dict(_LABELS)},
        "spec": {
            "selector": {"matchLabels": dict(_LABELS)},
            "template": {"metadata": {"labels": dict(_LABELS)}, "spec": _pod()},
        },
    }


def _pod() -> Object:
    return {
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "serviceAccountName": _ACCOUNT,
        "tolerations": [dict(each) for each in _EVERYTHING],
        "containers": [_container()],
        "volumes": [
            {"name": "run", "hostPath": {"path": "/run/flannel", "type": "DirectoryOrCreate"}},
            {"name": "config", "configMap": {"name": _CONFIG}},
            {"name": "xtables-lock", "hostPath": {"path": "/run/xtables.lock", "type": "FileOrCreate"}},
        ],
    }


def _container() -> Object:
    return {
        "name": _NAME,
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/opt/bin/flanneld"],
        # Its rules are looked after once a minute: each look starts a dozen programs.
        "args": ["--ip-masq", "--kube-subnet-mgr", f"--iface={INTERFACE}", "--iptables-resync=60"],
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "resources": {"requests": {"cpu": "50m", "memory": "50Mi"}},
        "securityContext": {
            "privileged": False,
            "capabilities": {"add": ["NET_ADMIN", "NET_RAW"]},
        },
        "volumeMounts": [
            {"name": "run", "mountPath": "/run/flannel"},
            {"name": "config", "mountPath": "/etc/kube-flannel"},
            # Rules of others on this machine, such as kube-proxy's, are not changed in the same moment.
            {"name": "xtables-lock", "mountPath": "/run/xtables.lock"},
        ],
    }
