"""An operator of kopf, in a process of its own as its users run it, over a real service account."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
import yaml

from tests.harness import ROOT, PlatformProcess
from tests.kubectl import Kubectl

pytestmark = pytest.mark.kubectl

BAKERIES: Final = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: bakeries.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: bakeries, singular: bakery, kind: Bakery}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {loaves: {type: integer, minimum: 1}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: baker, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: baker}
rules:
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [list, watch]}
- {apiGroups: [""], resources: [namespaces], verbs: [list, watch]}
- {apiGroups: [""], resources: [events], verbs: [create]}
- {apiGroups: [""], resources: [configmaps], verbs: [create, patch]}
- {apiGroups: [example.org], resources: [bakeries], verbs: [list, watch, patch, get]}
- {apiGroups: [example.org], resources: [bakeries/status], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: baker}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: baker}
subjects: [{kind: ServiceAccount, name: baker, namespace: default}]
"""
BAKERY: Final = (
    '{"apiVersion": "example.org/v1", "kind": "Bakery", "metadata": {"name": "corner"}, "spec": {"loaves": 3}}'
)


def eventually(what: Callable[[], object], operator: Operator) -> None:
    """A minute is far more than it takes; on a failure the operator's log tells why."""
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, operator.log.read_text()[-4000:]
        assert operator.process.poll() is None, operator.log.read_text()[-4000:]
        time.sleep(0.3)


class Operator:
    def __init__(self, folder: Path, kubeconfig: Path, token: str) -> None:
        given = cast("dict[str, Any]", yaml.safe_load(kubeconfig.read_text()))
        given["users"] = [{"name": user["name"], "user": {"token": token}} for user in given["users"]]
        own = folder / "baker.kubeconfig"
        own.write_text(yaml.safe_dump(given))
        environment = {
            **os.environ,
            "KUBECONFIG": str(own),
            "BAKERY_SERVER": given["clusters"][0]["cluster"]["server"],
            "BAKERY_TOKEN": base64.b64encode(token.encode()).decode(),
        }
        self.log = folder / "operator.log"
        command = [sys.executable, "-m", "kopf", "run", "--all-namespaces", "--standalone", "--verbose"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, str(ROOT / "tests" / "ecosystem" / "operator.py")],
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def kube(platform: PlatformProcess, kubectl: str, tmp_path: Path) -> Kubectl:
    made = Kubectl(kubectl, platform.data_dir.kubeconfig, tmp_path / "cache")
    made("apply", "-f", "-", stdin=BAKERIES)
    return made


@pytest.fixture
def operator(platform: PlatformProcess, kube: Kubectl, tmp_path: Path) -> Iterator[Operator]:
    started = Operator(tmp_path, platform.data_dir.kubeconfig, kube("create", "token", "baker").strip())
    try:
        yield started
    finally:
        started.end()


def test_an_operator_of_kopf_follows_an_object_from_creation_to_deletion(kube: Kubectl, operator: Operator) -> None:
    kube("create", "-f", "-", stdin=BAKERY)
    eventually(lambda: kube.json("get", "bakery", "corner").get("status", {}).get("ticks") == 3, operator)
    made = kube.json("get", "bakery", "corner")
    assert made["status"]["bake"] == {"loaves": 3}
    assert made["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
    oven = kube.json("get", "configmap", "corner-oven")
    assert oven["data"] == {"loaves": "3"}
    assert oven["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]

    kube("patch", "bakery", "corner", "--type=merge", "-p", '{"spec": {"loaves": 5}}')
    eventually(lambda: kube.json("get", "configmap", "corner-oven")["data"] == {"loaves": "5"}, operator)
    answered = {"from": 3, "to": 5}
    eventually(
        lambda: kube.json("get", "bakery", "corner")["status"].get("bake_again/spec.loaves") == answered, operator
    )

    eventually(lambda: "the oven is hot" in kube("describe", "bakery", "corner"), operator)

    kube("delete", "bakery", "corner", "--timeout=90s")
    names = [each["metadata"]["name"] for each in kube.json("get", "configmaps")["items"]]
    assert "corner-was-closed" in names
    eventually(lambda: "corner-oven" not in kube("get", "configmaps", "-o", "name"), operator)
    assert "Traceback" not in operator.log.read_text()
