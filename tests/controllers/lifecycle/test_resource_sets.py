"""What sets bring into clusters: once or again, in which order, and what they say where it cannot be."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle.clusterresourceset import reconcile
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SECRETS, Resource
from steelyard.kube.runtime import conditions
from tests.controllers.lifecycle import world as worlds
from tests.controllers.lifecycle.world import NAMESPACE, World, until

WIDGETS = Resource("example.com", "v1", "widgets", "Widget", namespaced=False)
SPACE = '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "addon"}}'
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: widgets, kind: Widget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "_FIRST_RETRY", 0.05)
    monkeypatch.setattr(reconcile, "_LOOK_AGAIN", 0.1)


def config(value: str, *, name: str = "settings") -> str:
    return f"""
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, namespace: addon, labels: {{from: set}}}}
data: {{key: {value}}}
"""


def secret(name: str, *texts: str, type_: str = wellknown.RESOURCE_SET_SECRET_TYPE) -> Object:
    data = {f"{index}.yaml": base64.b64encode(text.encode()).decode() for index, text in enumerate(texts)}
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": type_, "data": data}


def resource_set(name: str, *sources: str, strategy: str = "Reconcile", **selector: Any) -> Object:
    return {
        "apiVersion": capi.CLUSTER_RESOURCE_SETS.api_version,
        "kind": capi.CLUSTER_RESOURCE_SETS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "clusterSelector": selector or {"matchLabels": {"addons": "yes"}},
            "resources": [dict(zip(("kind", "name"), each.split("/"), strict=True)) for each in sources],
            "strategy": strategy,
        },
    }


async def cluster(world: World, name: str = "c", **metadata: Any) -> Client:
    made = worlds.cluster_objects(name, workers=0)
    for resource, obj in made:
        if resource == capi.CLUSTERS:
            obj["metadata"] |= {"labels": {"addons": "yes"}, **metadata}
    await worlds.create(world, made)
    return await world.workload(name)


async def applied(world: World, name: str = "set") -> tuple[str, str, str]:
    found = await world.one(capi.CLUSTER_RESOURCE_SETS, name)
    condition = conditions.find(found, "ResourcesApplied") or {}
    return str(condition.get("status")), str(condition.get("reason")), str(condition.get("message"))


async def until_applied(world: World, name: str = "set") -> None:
    async def is_so() -> Any:
        found = await world.one(capi.CLUSTER_RESOURCE_SETS, name)
        return conditions.is_true(found, "ResourcesApplied") or None

    await until(is_so, f"what {name} brings")


async def until_said(world: World, reason: str, text: str, name: str = "set") -> None:
    async def is_said() -> bool:
        _, why, message = await applied(world, name)
        return why == reason and text in message

    await until(is_said, f"{reason}: {text}")


async def value(workload: Client, name: str = "settings") -> str:
    try:
        return str(objects.at(await workload.get(CONFIG_MAPS, name, "addon"), "data", "key"))
    except errors.NotFound:
        return ""


async def entry(world: World, set_name: str = "set", cluster_name: str = "c") -> Object:
    binding = await world.one(capi.CLUSTER_RESOURCE_SET_BINDINGS, cluster_name)
    sets = {each["clusterResourceSetName"]: each["resources"] for each in binding["spec"]["bindings"]}
    return objects.mapping(sets[set_name][0])


async def test_a_set_is_applied_recorded_and_owned_and_an_idle_one_writes_nothing(world: World) -> None:
    async with worlds.running(world) as manager:
        workload = await cluster(world)
        await world.client.create(SECRETS, secret("s", f"[{SPACE}]\n---\n{SPACE}", config("one")))
        await world.client.create(capi.CLUSTER_RESOURCE_SETS, resource_set("set", "Secret/s"))
        await until_applied(world)
        assert await value(workload) == "one"
        assert await applied(world) == ("True", "Applied", "")

        made = await world.one(capi.CLUSTER_RESOURCE_SETS, "set")
        assert objects.finalizers(made) == ["addons.cluster.x-k8s.io"]
        binding = await world.one(capi.CLUSTER_RESOURCE_SET_BINDINGS, "c")
        for owned in (await world.one(SECRETS, "s"), binding):
            assert objects.is_owned_by(owned, made)
            assert objects.controller_of(owned) is None
        assert binding["spec"]["clusterName"] == "c"
        recorded = await entry(world)
        assert (recorded["kind"], recorded["name"], recorded["applied"]) == ("Secret", "s", True)
        assert recorded["hash"].startswith("sha256:")
        assert recorded["lastAppliedTime"]

        await manager.idle()
        revision = world.store.revision
        made = await world.one(capi.CLUSTER_RESOURCE_SETS, "set")
        for controller in manager.controllers:
            controller.enqueue([worlds.Key(NAMESPACE, "set"), worlds.Key(NAMESPACE, "c")])
        await manager.idle()
        assert world.store.revision == revision


async def test_a_change_reaches_clusters_by_reconcile_and_not_by_apply_once(world: World) -> None:
    async with worlds.running(world) as manager:
        workload = await cluster(world)
        texts = (SPACE, config("one"), config("one", name="first"))
        await world.client.create(SECRETS, secret("s", *texts[:2]))
        await world.client.create(SECRETS, secret("once", texts[0], texts[2]))
        await world.client.create(capi.CLUSTER_RESOURCE_SETS, resource_set("set", "Secret/s"))
        await world.client.create(capi.CLUSTER_RESOURCE_SETS, resource_set("b", "Secret/once", strategy="ApplyOnce"))
        await until_applied(world)
        await until_applied(world, "b")
        await workload.patch(CONFIG_MAPS, "settings", {"data": {"theirs": "x"}}, "addon")

        await world.client.patch(SECRETS, "s", {"data": secret("s", SPACE, config("two"))["data"]}, NAMESPACE)
        changed = secret("once", SPACE, config("two", name="first"))["data"]
        await world.client.patch(SECRETS, "once", {"data": changed}, NAMESPACE)

        async def has_changed() -> bool:
            return await value(workload) == "two"

        await until(has_changed, "the change")
        await manager.idle()
        assert await value(workload, "first") == "one"
        there = await workload.get(CONFIG_MAPS, "settings", "addon")
        assert there["data"] == {"key": "two"}
        assert objects.labels(there) == {"from": "set"}


async def test_once_means_that_what_was_there_before_stays(world: World) -> None:
    async with worlds.running(world):
        workload = await cluster(world)
        await workload.create(NAMESPACES, {"metadata": {"name": "addon"}})
        theirs: Object = {"metadata": {"name": "settings", "namespace": "addon"}, "data": {"key": "theirs"}}
        await workload.create(CONFIG_MAPS, theirs)
        await world.client.create(SECRETS, secret("s", SPACE, config("one")))
        await world.client.create(capi.CLUSTER_RESOURCE_SETS, resource_set("set", "Secret/s", strategy="ApplyOnce"))
        await until_applied(world)
        assert await value(workload) == "theirs"


async def test_definitions_and_namespaces_go_first_and_a_config_map_will_do(world: World) -> None:
    async with worlds.running(world):
        workload = await cluster(world)
        widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n"
        text = "\n---\n".join(["# nothing", widget, config("one"), DEFINITION, SPACE])
        made: Object = {"metadata": {"name": "m", "namespace": NAMESPACE}, "data": {"all.yaml": text}}
        await world.client.create(CONFIG_MAPS, made)
        await world.client.create(capi.CLUSTER_RESOURCE_SETS, resource_set("set", "ConfigMap/m"))
        await until_applied(world)
        assert await value(workload) == "one"
        assert objects.name(await workload.get(WIDGETS, "w")) == "w"


async def test_clusters_are_selected_by_label_in_the_namespace_of_the_set(world: World) -> None:
    async with worlds.running(world) as manager:
        workload = await cluster(world)
        other = await cluster(world, "other", labels={"addons": "no"})
        await world.client.create(SECRETS, secret("s", SPACE, config("one")))
        await world.client.create(capi.CLUSTER_RESOURCE_SETS, resource_set("set", "Secret/s"))
        await until_applied(world)
        await until(lambda: worlds.is_settled(world, machines=2, cluster="other"), "both clusters")
        await manager.idle()
        assert (await value(workload), await value(other)) == ("one", "")

        await world.client.patch(capi.CLUSTERS, "other", {"metadata": {"labels": {"addons": "yes"}}}, NAMESPACE)

        async def is_there() -> bool:
            return await value(other) == "one"

        await until(is_there, "the other cluster's")


async def test_it_waits_for_the_cluster_and_leaves_a_paused_one_alone(world: World) -> None:
    async with worlds.running(world) as manager:
        await world.client.create(SECRETS, secret("s", SPACE, config("one")))
        await world.client.create(capi.CLUSTER_RESOURCE_SETS, resource_set("set", "Secret/s"))
        await manager.idle()
        assert await applied(world) == ("None", "None", "None"), "no cluster is selected"

        paused, alone = worlds.cluster_objects("p", workers=0), worlds.cluster_objects("w", workers=0)
        for resource, obj in (*paused, *alone):
            if resource == capi.CLUSTERS:
                obj["metadata"]["labels"] = {"addons": "yes"}
                obj["spec"]["paused"] = objects.name(obj) == "p"
        await worlds.create(world, [each for each in paused if each[0] == capi.CLUSTERS])
        await until_said(world, "NotApplied", "Cluster p is paused")
        await worlds.create(world, [each for each in alone if each[0] == capi.CLUSTERS])
        await until_said(world, "NotApplied", "Cluster w: waiting for its control plane to be initialized")
        await worlds.create(world, [each for each in alone if each[0] != capi.CLUSTERS])

        async def is_there() -> bool:
            return "w" in world.workloads and await value(await world.workload("w")) == "one"

        await until(is_there, "what is brought into the cluster that is not paused")
        assert await world.names(capi.CLUSTER_RESOURCE_SET_BINDINGS) == ["w"]

        async def is_alone() -> bool:
            return await applied(world) == ("False", "NotApplied", "Cluster p is paused")

        await until(is_alone, "nothing else to be told")


@pytest.mark.parametrize(
    ("made", "reason", "told"),
    [
        pytest.param(None, "InternalError", "Secret s does not exist: create it", id="missing"),
        pytest.param(secret("s", SPACE, type_="Opaque"), "WrongSecretType", "is of type Opaque", id="another-type"),
        pytest.param(secret("s"), "NotApplied", "it has no data", id="empty"),
        pytest.param(secret("s", "a: [1"), "NotApplied", "it cannot be read: yaml:", id="no-yaml"),
        pytest.param(secret("s", "[1, 2]"), "NotApplied", "it holds what is no object", id="no-objects"),
        pytest.param(
            secret("s", "kind: Secret"), "NotApplied", "Secret in it has no apiVersion, metadata.name", id="x"
        ),
        pytest.param(secret("s", "a: &a [" * 200), "NotApplied", "it cannot be read", id="deep"),
        pytest.param(
            secret(
                "s", "a: &a {}\n" + "".join(f"b{i}: &b{i} [{f'*b{i - 1}' if i else '*a'}, *a]\n" for i in range(99))
            ),
            "NotApplied",
            "cannot be",
            id="aliases",
        ),
        pytest.param(
            secret("s", "---\n".join([SPACE + "\n"] * 1001)), "NotApplied", "more than 1000 objects", id="many"
        ),
        pytest.param(secret("s", config("x")), "NotApplied", 'namespaces "addon" not found', id="no-namespace-there"),
        pytest.param(
            secret("s", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n"),
            "NotApplied",
            "Widget w: the cluster serves no kind Widget in example.com/v1",
            id="unknown-kind",
        ),
        pytest.param(
            secret("s", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: w}\n"),
            "NotApplied",
            "ConfigMap w: it has no metadata.namespace",
            id="no-namespace",
        ),
        pytest.param(
            secret("s", "apiVersion: ../../api/v1\nkind: Namespace\nmetadata: {name: ../x}\n"),
            "NotApplied",
            "the cluster serves no kind Namespace",
            id="path",
        ),
    ],
)
async def test_what_cannot_be_applied_is_told(world: World, made: Object | None, reason: str, told: str) -> None:
    async with worlds.running(world):
        await cluster(world)
        if made is not None:
            await world.client.create(SECRETS, made)
        await world.client.create(SECRETS, secret("good", SPACE.replace("addon", "good")))
        await world.client.create(capi.CLUSTER_RESOURCE_SETS, resource_set("set", "Secret/s", "Secret/good"))
        await until_said(world, reason, told)
        workload = await world.workload("c")

        async def is_there() -> bool:
            try:
                return bool(await workload.get(NAMESPACES, "good"))
            except errors.NotFound:
                return False

        await until(is_there, "the one that can be applied")
        assert (await applied(world))[0] == "False"


async def test_a_missing_source_and_a_missing_kind_are_mended_by_being_there(world: World) -> None:
    async with worlds.running(world):
        workload = await cluster(world)
        await world.client.create(capi.CLUSTER_RESOURCE_SETS, resource_set("set", "Secret/s"))
        await until_said(world, "InternalError", "Secret s does not exist")
        await world.client.create(
            SECRETS, secret("s", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n")
        )
        await until_said(world, "NotApplied", "the cluster serves no kind Widget")
        assert (await entry(world))["applied"] is False
        definition = worlds.yaml.safe_load(DEFINITION)
        await workload.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        await until_applied(world)
        assert (await entry(world))["applied"] is True


async def test_a_set_that_goes_leaves_what_it_brought_and_is_taken_off_the_record(world: World) -> None:
    async with worlds.running(world):
        workload = await cluster(world)
        for name in ("a", "set"):
            await world.client.create(SECRETS, secret(name, SPACE, config("one", name=name)))
            await world.client.create(capi.CLUSTER_RESOURCE_SETS, resource_set(name, f"Secret/{name}"))
            await until_applied(world, name)
        await world.client.delete(capi.CLUSTER_RESOURCE_SETS, "a", NAMESPACE)

        async def is_off() -> bool:
            binding = await world.one(capi.CLUSTER_RESOURCE_SET_BINDINGS, "c")
            return [each["clusterResourceSetName"] for each in binding["spec"]["bindings"]] == ["set"] and len(
                objects.owner_references(binding)
            ) == 1

        await until(is_off, "the record without it")
        await world.client.delete(capi.CLUSTER_RESOURCE_SETS, "set", NAMESPACE)

        async def is_empty() -> bool:
            kinds = (capi.CLUSTER_RESOURCE_SETS, capi.CLUSTER_RESOURCE_SET_BINDINGS)
            return not any([await world.names(kind) for kind in kinds])

        await until(is_empty, "no set and no record")
        assert await value(workload, "a") == "one"


async def test_the_record_goes_with_its_cluster(world: World) -> None:
    async with worlds.running(world):
        await cluster(world)
        await world.client.create(SECRETS, secret("s", SPACE))
        await world.client.create(capi.CLUSTER_RESOURCE_SETS, resource_set("set", "Secret/s"))
        await until_applied(world)
        await world.client.delete(capi.CLUSTERS, "c", NAMESPACE)

        async def is_gone() -> bool:
            kinds = (capi.CLUSTERS, capi.CLUSTER_RESOURCE_SET_BINDINGS)
            return not any([await world.names(kind) for kind in kinds])

        await until(is_gone, "cluster and record")
        assert await world.names(capi.CLUSTER_RESOURCE_SETS) == ["set"]


async def test_a_paused_set_does_nothing(world: World) -> None:
    async with worlds.running(world) as manager:
        workload = await cluster(world)
        await world.client.create(SECRETS, secret("s", SPACE, config("one")))
        made = resource_set("set", "Secret/s")
        made["metadata"]["annotations"] = {wellknown.PAUSED_ANNOTATION: ""}
        await world.client.create(capi.CLUSTER_RESOURCE_SETS, made)
        await until(lambda: worlds.is_settled(world, machines=1), "the cluster")
        await manager.idle()
        assert await value(workload) == ""
        assert conditions.is_true(await world.one(capi.CLUSTER_RESOURCE_SETS, "set"), "Paused")
        await world.client.patch(
            capi.CLUSTER_RESOURCE_SETS,
            "set",
            {"metadata": {"annotations": {wellknown.PAUSED_ANNOTATION: None}}},
            NAMESPACE,
        )
        await until_applied(world)
