"""A user's week with the real kubectl: one namespace, one application, from the first apply to the last delete.

The days build on each other, so it is one test; `test_kubectl.py` has the commands one by one, with their refusals.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Final

import pytest

from tests.harness import PlatformProcess
from tests.kubectl import Kubectl

pytestmark = pytest.mark.kubectl

SHOP: Final = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: shop}}
data: {color: blue, size: small}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, labels: {app: shop}}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - {name: web, image: "example.org/shop:1", ports: [{containerPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: shop, labels: {app: shop}}
spec:
  selector: {app: shop}
  ports: [{port: 80, targetPort: 8080}]
"""
ORDERS: Final = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: orders.shop.example.org}
spec:
  group: shop.example.org
  scope: Namespaced
  names: {plural: orders, singular: order, kind: Order, shortNames: [ord]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns: [{name: Item, type: string, jsonPath: .spec.item}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [item]
            x-kubernetes-validations:
            - {rule: "self.count <= 10 || self.item == 'pin'", message: only pins come in more than tens}
            properties:
              item: {type: string, description: What is ordered.}
              count: {type: integer, minimum: 1, default: 1}
          status: {type: object, properties: {phase: {type: string}}}
"""
ORDER: Final = """\
apiVersion: shop.example.org/v1
kind: Order
metadata: {name: first}
spec: {item: lamp}
"""


def test_a_week(platform: PlatformProcess, kubectl: str, tmp_path: Path) -> None:
    kube = Kubectl(kubectl, platform.data_dir.kubeconfig, tmp_path / "cache", "week")
    kube("create", "namespace", "week")
    monday_it_is_applied_and_looked_at(kube)
    tuesday_it_is_changed(kube, tmp_path)
    wednesday_two_people_work_on_it(kube)
    thursday_a_kind_of_ones_own(kube)
    friday_somebody_else_gets_access(kube, tmp_path)
    saturday_it_goes(kube)


def monday_it_is_applied_and_looked_at(kube: Kubectl) -> None:
    done = kube.try_("diff", "-f", "-", stdin=SHOP)
    assert done.code == 1, done
    assert "+  color: blue" in done.out
    assert kube("apply", "-f", "-", stdin=SHOP).splitlines() == [
        "configmap/settings created",
        "deployment.apps/shop created",
        "service/shop created",
    ]
    assert kube("apply", "-f", "-", stdin=SHOP).count("unchanged") == 3
    assert kube.try_("diff", "-f", "-", stdin=SHOP).code == 0

    plain = kube("get", "deployments").splitlines()
    assert plain[0].split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert plain[1].split()[:2] == ["shop", "0/2"]
    wide = kube("get", "deployments", "-o", "wide").splitlines()
    assert wide[0].split()[5:] == ["CONTAINERS", "IMAGES", "SELECTOR"]
    assert wide[1].split()[5:] == ["web", "example.org/shop:1", "app=shop"]
    assert kube("get", "all,cm", "-l", "app=shop", "-o", "name").split() == [
        "service/shop",
        "deployment.apps/shop",
        "configmap/settings",
    ]
    assert kube("get", "cm", "settings", "-o", "jsonpath={.data.color}") == "blue"
    assert kube("get", "cm", "settings", "-o", "go-template={{.data.size}}") == "small"
    assert kube("get", "cm", "settings", "-o", "custom-columns=C:.data.color", "--no-headers") == "blue\n"
    assert "color: blue" in kube("get", "cm", "settings", "-o", "yaml")
    assert kube.json("get", "cm", "settings")["data"] == {"color": "blue", "size": "small"}
    assert kube("get", "cm", "settings", "--show-labels").splitlines()[1].endswith("app=shop")
    described = kube("describe", "service", "shop")
    assert "Selector:                 app=shop" in described
    assert "80/TCP" in described
    assert "FIELD: ports <[]ServicePort>" in kube("explain", "service.spec.ports")


def tuesday_it_is_changed(kube: Kubectl, folder: Path) -> None:
    watching = kube.start("get", "configmaps", "--watch-only", "--output-watch-events", "--no-headers")
    seen: list[str] = []
    assert watching.stdout is not None
    out = watching.stdout
    reader = threading.Thread(target=lambda: seen.extend(iter(out.readline, "")))
    reader.start()
    try:
        # The watch is there once it tells of a change.
        tries = 0
        while not any("probe" in line for line in seen):
            tries += 1
            assert tries < 50, seen
            kube("create", "configmap", f"probe-{tries}")
        kube("label", "configmap", "settings", "season=winter")
        kube("annotate", "configmap", "settings", "note=by hand")
        kube("delete", "configmap", "probe-1")
        kube("wait", "--for=delete", "configmap/probe-1", "--timeout=90s")
        deadline = time.monotonic() + 60
        while not any(line.startswith("DELETED") for line in seen):
            assert time.monotonic() < deadline, seen
            time.sleep(0.05)
    finally:
        watching.terminate()
        watching.wait()
        reader.join()
        out.close()
    told = [line.split()[:2] for line in seen if "settings" in line]
    assert told == [["MODIFIED", "settings"], ["MODIFIED", "settings"]]
    assert "season=winter" in kube("get", "cm", "settings", "--show-labels")
    assert "already has a value" in kube.refused("label", "configmap", "settings", "season=summer")
    kube("label", "configmap", "settings", "season=summer", "--overwrite")
    kube("label", "configmap", "settings", "season-")
    assert kube.json("get", "cm", "settings")["metadata"]["labels"] == {"app": "shop"}

    editor = folder / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/color: blue/color: red/" "$1"\n')
    editor.chmod(0o755)
    assert kube("edit", "configmap", "settings", editor=editor) == "configmap/settings edited\n"
    assert kube("get", "cm", "settings", "-o", "jsonpath={.data.color}") == "red"
    kube("scale", "deployment", "shop", "--replicas=3")
    assert "3 desired" in kube("describe", "deployment", "shop")
    refused = kube.refused("scale", "deployment", "shop", "--replicas=5", "--current-replicas=2")
    assert "Expected replicas to be 2, was 3" in refused
    kube("set", "image", "deployment/shop", "web=example.org/shop:2")
    assert kube("get", "deployment", "shop", "-o", "jsonpath={..image}") == "example.org/shop:2"


def wednesday_two_people_work_on_it(kube: Kubectl) -> None:
    """One of them moves to server-side apply, the other keeps to the client's."""
    conflict = kube.refused("apply", "--server-side", "-f", "-", stdin=SHOP)
    assert 'conflict with "kubectl-edit" using v1: .data.color' in conflict
    assert 'conflicts with "kubectl" with subresource "scale" using apps/v1' in conflict
    assert kube("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=SHOP).count("applied") == 3
    mine = SHOP.replace("color: blue", "color: green")
    conflict = kube.refused("apply", "--server-side", "--field-manager=jane", "-f", "-", stdin=mine)
    assert 'conflict with "kubectl"' in conflict
    assert ".data.color" in conflict
    kube("apply", "--server-side", "--field-manager=jane", "--force-conflicts", "-f", "-", stdin=mine)
    assert kube("get", "cm", "settings", "-o", "jsonpath={.data.color}") == "green"
    managers = kube(
        "get", "cm", "settings", "--show-managed-fields", "-o", "jsonpath={.metadata.managedFields[*].manager}"
    )
    assert "jane" in managers.split()

    stored = kube("get", "cm", "settings", "-o", "yaml")
    kube("replace", "-f", "-", stdin=stored.replace("size: small", "size: large"))
    assert kube("get", "cm", "settings", "-o", "jsonpath={.data.size}") == "large"
    assert "the object has been modified" in kube.refused("replace", "-f", "-", stdin=stored)

    wrong = mine.replace("replicas: 2", "replicaz: 2")
    assert 'unknown field "spec.replicaz"' in kube.refused("apply", "-f", "-", stdin=wrong)
    dry = kube("apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", "-", stdin=SHOP)
    assert dry.count("serverside-applied (server dry run)") == 3
    assert kube("get", "cm", "settings", "-o", "jsonpath={.data.color}") == "green"


def thursday_a_kind_of_ones_own(kube: Kubectl) -> None:
    kube("apply", "-f", "-", stdin=ORDERS)
    kube("wait", "--for=condition=Established", "crd/orders.shop.example.org", "--timeout=90s")
    assert "What is ordered." in kube("explain", "order.spec.item")
    kube("apply", "-f", "-", stdin=ORDER)
    assert kube("get", "ord").splitlines()[1].split()[:2] == ["first", "lamp"]
    assert kube("get", "ord", "first", "-o", "jsonpath={.spec.count}") == "1"
    refused = kube.refused("patch", "order", "first", "--type=merge", "-p", '{"spec": {"count": 11}}')
    assert "only pins come in more than tens" in refused
    waiting = kube.start("wait", "order/first", "--for=jsonpath={.status.phase}=Sent", "--timeout=90s")
    kube("patch", "order", "first", "--subresource=status", "--type=merge", "-p", '{"status": {"phase": "Sent"}}')
    out, _ = waiting.communicate(timeout=120)
    assert out == "order.shop.example.org/first condition met\n"


def friday_somebody_else_gets_access(kube: Kubectl, folder: Path) -> None:
    kube("create", "serviceaccount", "robot")
    kube("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    kube("create", "rolebinding", "robots", "--role=reader", "--serviceaccount=week:robot")
    robot = kube.with_token(kube("create", "token", "robot").strip(), folder)
    assert robot("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}") == "system:serviceaccount:week:robot"
    assert robot("auth", "can-i", "list", "configmaps") == "yes\n"
    assert robot.try_("auth", "can-i", "delete", "configmaps").out == "no\n"
    assert "settings" in robot("get", "configmaps")
    assert "cannot list resource" in robot.refused("get", "secrets")


def saturday_it_goes(kube: Kubectl) -> None:
    uid = kube("get", "deployment", "shop", "-o", "jsonpath={.metadata.uid}")
    for name in ("child", "orphan"):
        owner = f"[{{apiVersion: apps/v1, kind: Deployment, name: shop, uid: {uid}}}]"
        child = f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, ownerReferences: {owner}}}}}"
        kube("create", "-f", "-", stdin=child)
    kube("delete", "deployment", "shop", "--cascade=orphan")
    kube("wait", "--for=delete", "deployment/shop", "--timeout=90s")
    assert set(kube.names("configmaps")) >= {"child", "orphan"}
    kube("apply", "-f", "-", stdin=SHOP.replace("color: blue", "color: green"))
    kube("delete", "deployment", "shop", "--cascade=foreground", "--timeout=90s")
    kube("delete", "order", "first", "--cascade=background")
    assert kube("get", "orders", "-o", "name") == ""
    kube("delete", "crd", "orders.shop.example.org", "--timeout=90s")
    assert "the server could not find the requested resource" in kube.refused("get", "orders")
    kube("delete", "namespace", "week", "--timeout=90s")
    assert 'namespaces "week" not found' in kube.refused("get", "namespace", "week")
