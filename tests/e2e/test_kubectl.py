"""The real kubectl against the platform's API: each test is what a user types, and what upstream answers to it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.kube.objects import Object
from tests.harness import PlatformProcess
from tests.kubectl import Kubectl

pytestmark = pytest.mark.kubectl

GADGETS = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, shortNames: [gd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Size, type: string, jsonPath: .spec.size}
    - {name: Wheels, type: integer, jsonPath: .spec.wheels, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: A thing with wheels.
        required: [spec]
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: string, enum: [small, large], description: How big it is.}
              wheels: {type: integer, minimum: 0, maximum: 8, default: 4}
              replicas: {type: integer, minimum: 0}
          status:
            type: object
            properties: {replicas: {type: integer}}
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    with PlatformProcess(tmp_path_factory.mktemp("platform")) as process:
        process.start()
        yield process


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def kube(shared: PlatformProcess, kubectl: str, cache: Path, request: pytest.FixtureRequest) -> Kubectl:
    """kubectl in a namespace of the test's own."""
    namespace = f"t-{abs(hash(request.node.name)) % 10**8}"
    made = Kubectl(kubectl, shared.data_dir.kubeconfig, cache, namespace)
    made("create", "namespace", namespace)
    return made


@pytest.fixture(scope="module")
def definition(shared: PlatformProcess, kubectl: str, cache: Path) -> None:
    made = Kubectl(kubectl, shared.data_dir.kubeconfig, cache, "default")
    assert made("create", "-f", "-", stdin=GADGETS) == (
        "customresourcedefinition.apiextensions.k8s.io/gadgets.example.org created\n"
    )
    made("wait", "--for=condition=Established", "crd/gadgets.example.org", "--timeout=90s")


@pytest.fixture
def gadgets(kube: Kubectl, definition: None) -> Kubectl:
    return kube


def gadget(name: str = "one", **spec: Any) -> Object:
    return {
        "apiVersion": "example.org/v1",
        "kind": "Gadget",
        "metadata": {"name": name},
        "spec": {"size": "small", **spec},
    }


def config_map(name: str, **metadata: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"a": "1"}}


def deployment(name: str, **spec: Any) -> Object:
    labels = {"app": name}
    container: Object = {
        "name": "main",
        "image": "example.org/app:1",
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
        "readinessProbe": {"httpGet": {"port": 80}},
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "creationTimestamp": None},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def list_of(*items: Object) -> Object:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def documents(*items: Object) -> str:
    return yaml.safe_dump_all(items)


# Discovery.


def test_api_resources_lists_built_in_and_custom_kinds(gadgets: Kubectl) -> None:
    assert gadgets("api-resources", "--api-group=example.org", "--no-headers").split() == [
        "gadgets", "gd", "example.org/v1", "true", "Gadget",
    ]  # fmt: skip
    everything = gadgets("api-resources", "-o", "name").split()
    assert {"pods", "deployments.apps", "machines.cluster.x-k8s.io"} <= set(everything)
    assert {"v1", "apps/v1", "example.org/v1", "cluster.x-k8s.io/v1beta2"} <= set(gadgets("api-versions").split())


def test_explain_shows_the_schema_of_a_custom_kind(gadgets: Kubectl) -> None:
    told = gadgets("explain", "gadget")
    assert "A thing with wheels." in told
    assert "spec\t<Object> -required-" in told
    field = gadgets("explain", "gadget.spec.size")
    assert "FIELD: size <string>" in field
    assert "How big it is." in field
    assert "small" in field
    assert "FIELD: replicas <integer>" in gadgets("explain", "deployment.spec.replicas")


def test_version_and_health_are_served(kube: Kubectl) -> None:
    assert kube.json("version")["serverVersion"]["gitVersion"].startswith("v1.")
    assert kube("get", "--raw", "/readyz") == "ok"
    assert "is running at https://" in kube("cluster-info")


# Creating what kubectl generates: sent as protobuf.


@pytest.mark.parametrize(
    "arguments",
    [
        "configmap made --from-literal=a=b",
        "cronjob made --image=busybox --schedule=@daily",
        "deployment made --image=nginx --replicas=2",
        "ingress made --rule=example.org/path=made:80",
        "job made --image=busybox",
        "poddisruptionbudget made --selector=app=made --min-available=1",
        "quota made --hard=pods=2",
        "role made --verb=get,list --resource=pods",
        "rolebinding made --role=made --user=alice",
        "service clusterip made --tcp=80:8080",
        "service nodeport made --tcp=80:8080",
        "serviceaccount made",
    ],
    ids=lambda arguments: arguments.partition(" made")[0],
)
def test_create_accepts_the_kind(kube: Kubectl, arguments: str) -> None:
    kind = arguments.split()[0]
    assert kube("create", *arguments.split()).endswith("/made created\n")
    assert kube.json("get", kind, "made")["metadata"]["uid"]


def test_a_secret_arrives_as_it_was_sent(kube: Kubectl) -> None:
    kube("create", "secret", "generic", "database", "--from-literal=password=hunter2")
    secret = kube.json("get", "secret", "database")
    assert secret["data"] == {"password": "aHVudGVyMg=="}
    assert secret["type"] == "Opaque"
    assert "hunter2" not in kube("describe", "secret", "database")


def test_run_and_expose_make_a_pod_and_its_service(kube: Kubectl) -> None:
    kube("run", "web", "--image=nginx", "--port=80")
    kube("expose", "pod", "web", "--port=80")
    service = kube.json("get", "service", "web")
    assert service["spec"]["selector"] == {"run": "web"}
    assert service["spec"]["clusterIP"] not in ("", "None")
    assert "Pending" in kube("get", "pod", "web")


def test_creating_twice_and_with_a_bad_name_is_refused(kube: Kubectl) -> None:
    kube("create", "configmap", "twice")
    assert 'configmaps "twice" already exists' in kube.refused("create", "configmap", "twice")
    assert "metadata.name: Invalid value" in kube.refused("create", "configmap", "Bad_Name")


def test_a_name_is_generated_from_its_prefix(kube: Kubectl) -> None:
    obj = config_map("")
    obj["metadata"] = {"generateName": "made-"}
    assert kube("create", "-f", "-", "-o", "name", stdin=obj).startswith("configmap/made-")


def test_a_built_in_kind_is_validated_by_field(kube: Kubectl) -> None:
    template = {"metadata": {"labels": {"app": "b"}}, "spec": {"containers": [{"name": "x"}]}}
    deployment: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "bad"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template},
    }
    told = kube.refused("create", "-f", "-", stdin=deployment)
    assert 'The Deployment "bad" is invalid' in told
    assert "spec.template.metadata.labels: Invalid value" in told
    assert "spec.template.spec.containers[0].image: Required value" in told
    unknown: Object = {**config_map("bad"), "dta": {}}
    assert 'unknown field "dta"' in kube.refused("create", "-f", "-", stdin=unknown)
    assert kube.names("configmaps,deployments") == []


# Reading.


def test_get_prints_every_format(kube: Kubectl) -> None:
    kube("create", "deployment", "web", "--image=nginx", "--replicas=2")
    assert kube("get", "deployments").split()[:5] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    wide = kube("get", "deployments", "-o", "wide").split()
    assert wide[5:8] == ["CONTAINERS", "IMAGES", "SELECTOR"]
    assert "app=web" in kube("get", "deployments", "--show-labels")
    assert kube("get", "deployments", "-o", "name") == "deployment.apps/web\n"
    assert kube.json("get", "deployment", "web") == yaml.safe_load(kube("get", "deployment", "web", "-o", "yaml"))
    assert kube("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "2"
    assert "managedFields" in kube("get", "deployment", "web", "-o", "yaml", "--show-managed-fields")
    assert "Replicas:               2 desired" in kube("describe", "deployment", "web")


def test_what_is_not_there_is_named(kube: Kubectl) -> None:
    assert 'configmaps "none" not found' in kube.refused("get", "configmap", "none")
    # A name that no test defines: kubectl remembers for a while what an API served.
    assert 'doesn\'t have a resource type "unheardof"' in kube.refused("get", "unheardof")
    assert "No resources found in" in kube.try_("get", "configmaps").err


def test_labels_and_fields_select(kube: Kubectl) -> None:
    kube(
        "create", "-f", "-", stdin=documents(
            config_map("one", labels={"tier": "front", "stage": "dev"}),
            config_map("two", labels={"tier": "back"}),
            config_map("three"),
        ),
    )  # fmt: skip
    assert kube.names("configmaps", "-l", "tier=front") == ["one"]
    assert kube.names("configmaps", "-l", "tier in (front, back),stage!=dev") == ["two"]
    assert kube.names("configmaps", "-l", "!tier") == ["three"]
    assert kube.names("configmaps", "--field-selector", "metadata.name!=two") == ["one", "three"]
    kube("create", "secret", "generic", "plain")
    assert kube.names("secrets", "--field-selector", "type=Opaque") == ["plain"]
    assert "is not a known field selector" in kube.refused("get", "configmaps", "--field-selector", "spec.x=1")


def test_a_long_list_comes_in_pages(kube: Kubectl) -> None:
    names = [f"page-{number}" for number in range(5)]
    kube("create", "-f", "-", stdin=documents(*map(config_map, names)))
    done = kube.try_("get", "configmaps", "-o", "name", "--chunk-size=2", "-v=6")
    assert [line.partition("/")[2] for line in done.out.split()] == names
    assert done.err.count("limit=2") == 3
    assert done.err.count("continue=") == 2


def test_a_watch_tells_of_each_change(kube: Kubectl) -> None:
    kube("create", "configmap", "watched")
    watching = kube.start("get", "configmap", "watched", "--watch", "--output-watch-events", "--no-headers")
    guard = threading.Timer(30, watching.kill)
    guard.start()
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline().split()[:2] == ["ADDED", "watched"]
        kube("annotate", "configmap", "watched", "note=changed")
        assert watching.stdout.readline().split()[:2] == ["MODIFIED", "watched"]
        kube("delete", "configmap", "watched")
        assert watching.stdout.readline().split()[:2] == ["DELETED", "watched"]
    finally:
        guard.cancel()
        watching.kill()
        watching.communicate()


def test_wait_ends_with_the_change_that_it_waits_for(kube: Kubectl) -> None:
    kube("create", "configmap", "awaited", "--from-literal=state=old")
    waiting = kube.start("wait", "configmap/awaited", "--for=jsonpath={.data.state}=new", "--timeout=90s")
    kube("patch", "configmap", "awaited", "-p", '{"data":{"state":"new"}}')
    told, _ = waiting.communicate(timeout=120)
    assert (waiting.returncode, told) == (0, "configmap/awaited condition met\n")


# Changing.


def test_client_side_apply_creates_changes_and_removes_fields(kube: Kubectl) -> None:
    obj = config_map("applied")
    obj["data"] = {"a": "1", "b": "2"}
    assert kube("apply", "-f", "-", stdin=obj) == "configmap/applied created\n"
    kube("patch", "configmap", "applied", "-p", '{"data":{"c":"3"}}')
    obj["data"] = {"a": "9"}
    assert kube("apply", "-f", "-", stdin=obj) == "configmap/applied configured\n"
    assert kube.json("get", "configmap", "applied")["data"] == {"a": "9", "c": "3"}
    assert kube("apply", "-f", "-", stdin=obj) == "configmap/applied unchanged\n"


def test_a_list_of_objects_is_created_and_applied(gadgets: Kubectl) -> None:
    several = list_of(config_map("one"), deployment("two"), gadget("three", wheels=3))
    assert gadgets("create", "-f", "-", stdin=several).splitlines() == [
        "configmap/one created",
        "deployment.apps/two created",
        "gadget.example.org/three created",
    ]
    changed = list_of(config_map("one", labels={"a": "b"}), deployment("two", replicas=2), gadget("three", wheels=5))
    assert gadgets("apply", "-f", "-", stdin=changed).splitlines() == [
        "configmap/one configured",
        "deployment.apps/two configured",
        "gadget.example.org/three configured",
    ]
    assert gadgets.json("get", "deployment", "two")["spec"]["replicas"] == 2
    assert gadgets.json("get", "gadget", "three")["spec"]["wheels"] == 5
    unchanged = gadgets("apply", "-f", "-", stdin=gadgets("get", "configmaps,gadgets", "-o", "yaml"))
    assert unchanged.splitlines() == ["configmap/one configured", "gadget.example.org/three configured"]


def test_the_items_of_a_list_are_checked_before_they_are_sent(gadgets: Kubectl) -> None:
    wrong = deployment("two")
    wrong["spec"]["replica"] = 2
    told = gadgets.refused("create", "-f", "-", stdin=list_of(config_map("one"), wrong))
    assert 'unknown field "replica" in io.k8s.api.apps.v1.DeploymentSpec' in told
    told = gadgets.refused("apply", "-f", "-", stdin=list_of(gadget("three", weels=3), gadget("four", size=["small"])))
    assert 'unknown field "weels" in org.example.v1.Gadget.spec' in told
    assert 'invalid type for org.example.v1.Gadget.spec.size: got "array", expected "string"' in told
    assert gadgets.names("configmaps,deployments,gadgets") == []
    gadgets("create", "-f", "-", "--validate=ignore", stdin=list_of(gadget("three", weels=3)))
    assert "weels" not in gadgets.json("get", "gadget", "three")["spec"]


def test_server_side_apply_shows_the_conflict_of_two_managers(gadgets: Kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    assert (
        gadgets(*apply, "--field-manager=first", stdin=gadget(wheels=3))
        == "gadget.example.org/one serverside-applied\n"
    )
    told = gadgets.refused(*apply, "--field-manager=second", stdin=gadget(wheels=5))
    assert 'Apply failed with 1 conflict: conflict with "first": .spec.wheels' in told
    assert gadgets.json("get", "gadget", "one")["spec"]["wheels"] == 3

    gadgets(*apply, "--field-manager=second", "--force-conflicts", stdin=gadget(wheels=5))
    assert gadgets.json("get", "gadget", "one")["spec"]["wheels"] == 5
    gadgets(*apply, "--field-manager=second", stdin=gadget())
    assert gadgets.json("get", "gadget", "one")["spec"] == {"size": "small", "wheels": 4}


def test_server_side_apply_of_a_built_in_kind_merges_lists_by_key(kube: Kubectl) -> None:
    def deployment(container: Object) -> Object:
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
        spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}

    apply = ("apply", "--server-side", "-f", "-")
    kube(*apply, "--field-manager=first", stdin=deployment({"name": "main", "image": "nginx"}))
    kube(*apply, "--field-manager=second", stdin=deployment({"name": "side", "image": "busybox"}))
    containers = "jsonpath={.spec.template.spec.containers[*].name}"
    assert sorted(kube("get", "deployment", "web", "-o", containers).split()) == ["main", "side"]


def test_patches_of_all_three_kinds(kube: Kubectl) -> None:
    kube("create", "deployment", "web", "--image=nginx")
    kube("label", "deployment", "web", "tier=front")
    env = [{"name": "A", "value": "1"}]
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "nginx", "env": env}]}}}}
    kube("patch", "deployment", "web", "-p", json.dumps(patch))
    container = kube.json("get", "deployment", "web")["spec"]["template"]["spec"]["containers"][0]
    assert (container["image"], container["env"]) == ("nginx", env)

    kube("patch", "deployment", "web", "--type=merge", "-p", '{"metadata":{"labels":{"tier":null}}}')
    assert kube.json("get", "deployment", "web")["metadata"]["labels"] == {"app": "web"}

    operation = {"op": "replace", "path": "/spec/replicas", "value": 3}
    kube("patch", "deployment", "web", "--type=json", "-p", json.dumps([operation]))
    check = {"op": "test", "path": "/spec/replicas", "value": 2}
    operation["value"] = 9
    told = kube.refused("patch", "deployment", "web", "--type=json", "-p", json.dumps([check, operation]))
    assert "the server rejected our request due to an error in our request" in told
    assert kube("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "3"


def test_a_custom_kind_takes_no_strategic_patch(gadgets: Kubectl) -> None:
    gadgets("create", "-f", "-", stdin=gadget())
    told = gadgets.refused("patch", "gadget", "one", "--type=strategic", "-p", '{"spec":{"wheels":2}}')
    assert "application/strategic-merge-patch+json is not supported" in told
    gadgets("patch", "gadget", "one", "--type=merge", "-p", '{"spec":{"wheels":2}}')
    assert gadgets.json("get", "gadget", "one")["spec"]["wheels"] == 2


def test_replace_with_an_old_version_is_a_conflict(kube: Kubectl) -> None:
    kube("create", "configmap", "stale")
    old = kube("get", "configmap", "stale", "-o", "json")
    kube("annotate", "configmap", "stale", "note=newer")
    told = kube.refused("replace", "-f", "-", stdin=old)
    assert 'Operation cannot be fulfilled on configmaps "stale"' in told
    assert "the object has been modified" in told
    newest = kube("get", "configmap", "stale", "-o", "json")
    assert kube("replace", "-f", "-", stdin=newest) == "configmap/stale replaced\n"


def test_scale_changes_built_in_and_custom_kinds(gadgets: Kubectl) -> None:
    gadgets("create", "deployment", "web", "--image=nginx")
    assert gadgets("scale", "deployment", "web", "--replicas=5") == "deployment.apps/web scaled\n"
    assert gadgets("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "5"
    gadgets("create", "-f", "-", stdin=gadget(replicas=1))
    assert (
        gadgets("scale", "gadget", "one", "--replicas=3", "--current-replicas=1") == "gadget.example.org/one scaled\n"
    )
    assert gadgets.json("get", "gadget", "one")["spec"]["replicas"] == 3
    assert "Expected replicas to be 1" in gadgets.refused(
        "scale", "gadget", "one", "--replicas=2", "--current-replicas=1"
    )


def test_status_is_changed_through_its_subresource_alone(gadgets: Kubectl) -> None:
    gadgets("create", "-f", "-", stdin={**gadget(), "status": {"replicas": 7}})
    assert "status" not in gadgets.json("get", "gadget", "one")
    patch = '{"spec":{"wheels":1},"status":{"replicas":2}}'
    gadgets("patch", "gadget", "one", "--subresource=status", "--type=merge", "-p", patch)
    found = gadgets.json("get", "gadget", "one")
    assert (found["spec"]["wheels"], found["status"], found["metadata"]["generation"]) == (4, {"replicas": 2}, 1)


def test_a_dry_run_of_the_server_changes_nothing(gadgets: Kubectl) -> None:
    made = gadgets.json("create", "-f", "-", "--dry-run=server", stdin=gadget())
    assert made["spec"] == {"size": "small", "wheels": 4}
    assert gadgets("apply", "-f", "-", "--dry-run=server", stdin=config_map("dry")) == (
        "configmap/dry created (server dry run)\n"
    )
    assert gadgets.names("gadgets,configmaps") == []


def test_diff_shows_what_an_apply_would_change(gadgets: Kubectl) -> None:
    gadgets("apply", "-f", "-", stdin=gadget(wheels=4))
    assert gadgets("diff", "-f", "-", stdin=gadget(wheels=4)) == ""
    done = gadgets.try_("diff", "-f", "-", stdin=gadget(wheels=2))
    assert done.code == 1
    assert "-  wheels: 4\n+  wheels: 2" in done.out
    assert gadgets.json("get", "gadget", "one")["spec"]["wheels"] == 4


# Deleting.


@pytest.fixture
def family(kube: Kubectl) -> Kubectl:
    """An owner, and a child that it owns."""
    owner = kube.json("create", "-f", "-", stdin=config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    child = config_map("child", ownerReferences=[{**reference, "blockOwnerDeletion": True}])
    kube("create", "-f", "-", stdin=child)
    return kube


def test_background_deletion_takes_the_children_after_the_owner(family: Kubectl) -> None:
    family("delete", "configmap", "owner", "--cascade=background")
    family.await_names([], "configmaps")


def test_foreground_deletion_waits_for_the_children(family: Kubectl) -> None:
    hold = '{"metadata":{"finalizers":["example.org/hold"]}}'
    family("patch", "configmap", "child", "--type=merge", "-p", hold)
    family("delete", "configmap", "owner", "--cascade=foreground", "--wait=false")
    owner = family.json("get", "configmap", "owner")
    assert owner["metadata"]["finalizers"] == ["foregroundDeletion"]
    family("wait", "configmap/child", "--for=jsonpath={.metadata.deletionTimestamp}", "--timeout=90s")
    assert family.names("configmaps") == ["child", "owner"]
    family("patch", "configmap", "child", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    family.await_names([], "configmaps")


def test_orphaning_deletion_leaves_the_children_without_an_owner(family: Kubectl) -> None:
    family("delete", "configmap", "owner", "--cascade=orphan")
    family.await_names(["child"], "configmaps")
    assert "ownerReferences" not in family.json("get", "configmap", "child")["metadata"]


def test_a_finalizer_holds_an_object_until_it_is_taken_off(kube: Kubectl) -> None:
    kube("create", "-f", "-", stdin=config_map("held", finalizers=["example.org/hold"]))
    assert "timed out" in kube.refused("delete", "configmap", "held", "--timeout=1s")
    assert kube.json("get", "configmap", "held")["metadata"]["deletionTimestamp"]
    kube("patch", "configmap", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert kube.names("configmaps") == []


def test_delete_by_label_and_of_everything(kube: Kubectl) -> None:
    kube(
        "create",
        "-f",
        "-",
        stdin=documents(config_map("one", labels={"set": "old"}), config_map("two"), config_map("three")),
    )
    kube("delete", "configmaps", "-l", "set=old")
    assert kube.names("configmaps") == ["three", "two"]
    kube("delete", "configmaps", "--all")
    assert kube.names("configmaps") == []


def test_a_namespace_goes_with_its_contents(kube: Kubectl) -> None:
    kube("create", "configmap", "inside")
    kube("create", "deployment", "inside", "--image=nginx")
    held = config_map("held", finalizers=["example.org/hold"])
    kube("create", "-f", "-", stdin=held)
    kube("delete", "namespace", kube.namespace, "--wait=false")
    kube.await_names(["held"], "configmaps,deployments")
    assert kube.json("get", "namespace", kube.namespace)["status"]["phase"] == "Terminating"
    assert "being terminated" in kube.refused("create", "configmap", "late")

    kube("patch", "configmap", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    kube("wait", "--for=delete", f"namespace/{kube.namespace}", "--timeout=90s")
    assert f'namespaces "{kube.namespace}" not found' in kube.refused("create", "configmap", "late")


# Custom kinds.


def test_a_custom_resource_is_defaulted_and_printed_in_its_columns(gadgets: Kubectl) -> None:
    gadgets("create", "-f", "-", stdin=gadget())
    assert gadgets.json("get", "gd", "one")["spec"] == {"size": "small", "wheels": 4}
    assert gadgets("get", "gadgets").split() == ["NAME", "SIZE", "one", "small"]
    assert gadgets("get", "gd", "-o", "wide").split() == ["NAME", "SIZE", "WHEELS", "one", "small", "4"]
    assert "gadget.example.org/one" in gadgets("get", "all")


def test_an_unknown_field_is_refused_warned_of_or_pruned(gadgets: Kubectl) -> None:
    odd = gadget(colour="red")
    assert 'unknown field "spec.colour"' in gadgets.refused("apply", "-f", "-", "--validate=strict", stdin=odd)
    assert gadgets.names("gadgets") == []
    warned = gadgets.try_("apply", "-f", "-", "--validate=warn", stdin=odd)
    assert warned.code == 0
    assert 'Warning: unknown field "spec.colour"' in warned.err
    assert gadgets.json("get", "gadget", "one")["spec"] == {"size": "small", "wheels": 4}
    assert gadgets.try_("apply", "-f", "-", "--validate=ignore", stdin={**odd, "metadata": {"name": "two"}}).err == ""


def test_a_wrong_value_is_refused_by_field(gadgets: Kubectl) -> None:
    told = gadgets.refused("create", "-f", "-", stdin=gadget(size="huge", wheels=9))
    assert 'The Gadget "one" is invalid' in told
    assert 'spec.size: Unsupported value: "huge": supported values: "small", "large"' in told
    assert "spec.wheels: Invalid value: 9: spec.wheels in body should be less than or equal to 8" in told
    missing: Object = {**gadget(), "spec": {"wheels": "many"}}
    told = gadgets.refused("create", "-f", "-", stdin=missing)
    assert "spec.size: Required value" in told
    assert 'spec.wheels: Invalid value: "string": spec.wheels in body must be of type integer: "string"' in told
    assert gadgets.names("gadgets") == []


def test_a_definition_goes_with_its_resources(kube: Kubectl) -> None:
    definition = GADGETS.replace("gadgets", "gizmos").replace("gadget", "gizmo").replace("Gadget", "Gizmo")
    definition = definition.replace("shortNames: [gd], categories: [all]", "")
    kube("create", "-f", "-", stdin=definition)
    kube("wait", "--for=condition=Established", "crd/gizmos.example.org", "--timeout=90s")
    kube("create", "-f", "-", stdin={**gadget(), "kind": "Gizmo"})
    kube("delete", "crd", "gizmos.example.org", "--timeout=90s")
    assert kube.try_("get", "gizmos").code != 0
    broken = definition.replace("type: integer, minimum: 0, maximum: 8, default: 4", "type: number-ish")
    assert "spec.validation.openAPIV3Schema.properties[spec].properties[wheels].type" in kube.refused(
        "create", "-f", "-", stdin=broken
    )


# Who may.


def test_the_administrator_is_known_and_may_do_everything(kube: Kubectl) -> None:
    told = kube("auth", "whoami")
    assert "steelyard-admin" in told
    assert "system:masters" in told
    assert kube("auth", "can-i", "delete", "nodes") == "yes\n"
    assert kube("auth", "can-i", "*", "*", "--all-namespaces") == "yes\n"


def test_a_stranger_is_not_let_in(kube: Kubectl) -> None:
    told = kube.refused("--token=wrong", "get", "secrets")
    assert "Unauthorized" in told or "logged in" in told
