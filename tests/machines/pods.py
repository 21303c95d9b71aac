"""What runs inside the cluster: pods made of nothing but what every node has on its disk.

No image has to be fetched: the container is the one that every machine has for pausing, with the node's own /usr in it,
and so with the node's Python.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from steelyard.kube.objects import Object
from tests.machines.cluster import Cluster
from tests.machines.story import until

_FOLDERS: Final = ("/usr", "/lib", "/lib64", "/bin", "/etc/ssl")
SERVER: Final = """\
import http.server, os, socket
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (socket.gethostname() + "\\n").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("", 8080), Answer).serve_forever()
"""


def image(cluster: Cluster) -> str:
    """The name under which nodes have the container that does nothing. A new Node tells its images some time later."""

    def found() -> str:
        nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
        names = [name for node in nodes for each in node["status"].get("images", []) for name in each["names"]]
        return next((name for name in names if "/pause:" in name), "")

    return str(until(found, "a Node tells of its image of the pause container", seconds=120 * cluster.patience))


def pod(
    cluster: Cluster,
    name: str,
    program: str,
    *,
    namespace: str = "default",
    node: str = "",
    labels: Mapping[str, str] | None = None,
    secret: str = "",
    is_once: bool = False,
) -> Object:
    """`secret` becomes its environment."""
    container: Object = {
        "name": "main",
        "image": image(cluster),
        "imagePullPolicy": "Never",
        "command": ["/usr/bin/python3", "-c", program],
        "volumeMounts": [
            {"name": f"of-node-{index}", "mountPath": path, "readOnly": True} for index, path in enumerate(_FOLDERS)
        ],
    }
    if secret:
        container["envFrom"] = [{"secretRef": {"name": secret}}]
    spec: Object = {
        "containers": [container],
        "terminationGracePeriodSeconds": 1,
        "restartPolicy": "Never" if is_once else "Always",
        "volumes": [{"name": f"of-node-{index}", "hostPath": {"path": path}} for index, path in enumerate(_FOLDERS)],
    }
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    metadata: Object = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def service(name: str, labels: Mapping[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": dict(labels), "ports": [{"port": 80, "targetPort": 8080}]},
    }


def apply(cluster: Cluster, *objects_: Object) -> None:
    """Without the schema, for which an emulated API server needs longer than kubectl waits."""
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects_)})
    cluster.patiently("apply", "--server-side", "--validate=false", "-f", "-", stdin=body)


def await_running(cluster: Cluster, name: str, seconds: float = 120, *, after: str = "") -> Any:
    """With another container than `after`."""

    def is_ready() -> Any:
        found = json.loads(cluster.kubectl("get", "pod", name, "-o", "json"))
        state = found.get("status", {})
        assert state.get("phase") == "Running", f"pod {name}: {state.get('phase')}, {state.get('containerStatuses')}"
        (container,) = state["containerStatuses"]
        assert container["ready"], f"pod {name}: {container}"
        assert container["containerID"] != after, f"pod {name} still has its container of before"
        return found

    return until(is_ready, f"pod {name} runs", seconds=seconds * cluster.patience)


def answer(
    cluster: Cluster, name: str, program: str, *, namespace: str = "default", secret: str = "", seconds: float = 120
) -> str:
    """What a pod prints that runs once; it must succeed."""
    cluster.patiently("delete", "pod", name, "-n", namespace, "--ignore-not-found", "--wait=true", seconds=300)
    apply(cluster, pod(cluster, name, program, namespace=namespace, secret=secret, is_once=True))

    def has_ended() -> str:
        state = json.loads(cluster.kubectl("get", "pod", name, "-n", namespace, "-o", "json"))["status"]
        assert state.get("phase") in ("Succeeded", "Failed"), f"pod {name}: {state}"
        return str(state["phase"])

    phase = until(has_ended, f"pod {name} ends", seconds=seconds * cluster.patience)
    said = cluster.patiently("logs", name, "-n", namespace)
    assert phase == "Succeeded", f"pod {name} failed: {said}"
    cluster.patiently("delete", "pod", name, "-n", namespace, "--wait=false")
    return said.strip()
