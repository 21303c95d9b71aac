"""Strategic merge patches of built-in kinds: the patches kubectl sends, each directive, and what is refused."""

import time
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.kube import errors, objects
from steelyard.kube.builtin import tables
from steelyard.kube.objects import Object
from steelyard.kube.server.patch import strategic

_DEPLOYMENT: Final = tables.schema("apps", "v1", "Deployment")


_WITHOUT_MOUNTS: Final[Object] = {"name": "n", "volumeMounts": []}


def deployment(pod: Object, **spec: Any) -> Object:
    return {"spec": {"template": {"spec": pod}, **spec}}


def patched_pod(pod: Object, patch: Object) -> Any:
    doc, given_patch = deployment(pod), deployment(patch)
    before = objects.copy({"doc": doc, "patch": given_patch})
    result = strategic.apply(_DEPLOYMENT, doc, given_patch)
    assert {"doc": doc, "patch": given_patch} == before, "the arguments are left as they were"
    return objects.at(result, "spec", "template", "spec")


def containers(*names: str) -> list[Object]:
    return [{"name": name, "image": f"{name}:1"} for name in names]


@pytest.mark.parametrize(
    "pod, patch, expected",
    [
        pytest.param(
            {"containers": containers("a", "b")},
            {"containers": [{"name": "b", "image": "b:2"}]},
            {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]},
            id="items merge by their key",
        ),
        pytest.param(
            {"containers": containers("a")},
            {"containers": [{"name": "c", "image": None, "args": ["x"]}]},
            {"containers": [{"name": "c", "args": ["x"]}, {"name": "a", "image": "a:1"}]},
            id="new items come first and without nulls",
        ),
        pytest.param(
            {"containers": containers("a", "b")},
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": containers("b")},
            id="an item is deleted by its key",
        ),
        pytest.param(
            {"containers": containers("a", "b")},
            {"containers": [{"$patch": "replace"}, {"name": "c"}]},
            {"containers": [{"name": "c"}]},
            id="a list is replaced",
        ),
        pytest.param(
            {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "x"}]}]},
            {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "y"}, {"containerPort": 9}]}]},
            {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "y"}, {"containerPort": 9}]}]},
            id="lists inside items merge too",
        ),
        pytest.param(
            {"containers": [{"name": "a", "args": ["x", "y"]}]},
            {"containers": [{"name": "a", "args": ["z"]}]},
            {"containers": [{"name": "a", "args": ["z"]}]},
            id="a list without strategy is replaced",
        ),
        pytest.param(
            {"tolerations": [{"key": "x"}]},
            {"tolerations": [{"key": "y"}]},
            {"tolerations": [{"key": "y"}]},
            id="so is one of maps",
        ),
        pytest.param(
            {"nodeSelector": {"a": "1", "b": "1"}},
            {"nodeSelector": {"a": None, "c": "1"}},
            {"nodeSelector": {"b": "1", "c": "1"}},
            id="maps merge and null removes",
        ),
        pytest.param(
            {"nodeSelector": {"a": "1"}, "hostNetwork": True},
            {"nodeSelector": {"$patch": "replace", "c": "1"}},
            {"nodeSelector": {"c": "1"}, "hostNetwork": True},
            id="a map is replaced",
        ),
        pytest.param(
            {"nodeSelector": {"a": "1"}},
            {"nodeSelector": {"$patch": "delete"}},
            {"nodeSelector": {}},
            id="a map is emptied",
        ),
        pytest.param(
            {},
            {"nodeSelector": {"$patch": "delete"}, "hostNetwork": True},
            {"hostNetwork": True},
            id="what is not there need not be emptied",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]},
            {"volumes": [{"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/x"}}]},
            {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]},
            id="only the retained keys stay",
        ),
        pytest.param(
            {"containers": containers("a", "b", "c")},
            {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]},
            {"containers": containers("c", "a", "b")},
            id="items are put in order",
        ),
        pytest.param(
            {"containers": containers("a", "side", "b")},
            {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "n"}, {"name": "a"}],
                "containers": [{"name": "n"}, {"name": "a", "image": "a:2"}],
            },
            {
                "containers": [
                    *containers("side", "b"),
                    {"name": "n"},
                    {"name": "a", "image": "a:2"},
                ]
            },
            id="others keep their place among the ordered",
        ),
        pytest.param(
            {"containers": [{"name": "a"}]},
            {
                "$setElementOrder/imagePullSecrets": [{"name": "s"}],
                "imagePullSecrets": [{"name": "s"}, {"name": "t", "$patch": "delete"}],
            },
            {"containers": [{"name": "a"}], "imagePullSecrets": [{"name": "s"}]},
            id="a list that was not there",
        ),
        pytest.param(
            {"containers": [{"name": "a"}]},
            {"$setElementOrder/volumes": [{"name": "v"}]},
            {"containers": [{"name": "a"}]},
            id="an order of nothing",
        ),
        pytest.param(
            {"containers": containers("a")},
            {"containers": [{"name": "n", "volumeMounts": [{"mountPath": "/x", "$patch": "delete"}]}]},
            {"containers": [_WITHOUT_MOUNTS, *containers("a")]},
            id="a new item does not get what it says to delete",
        ),
    ],
)
def test_patching_a_pod_template(pod: Object, patch: Object, expected: Object) -> None:
    assert patched_pod(pod, patch) == expected


@pytest.mark.parametrize(
    "finalizers, patch, expected",
    [
        pytest.param(["a", "b"], {"finalizers": ["c", "a"]}, ["c", "a", "b"], id="texts are added once"),
        pytest.param(["a", "b", "c"], {"$deleteFromPrimitiveList/finalizers": ["b", "x"]}, ["a", "c"], id="deleted"),
        pytest.param(
            ["a", "b", "c"],
            {"$setElementOrder/finalizers": ["c", "a"], "$deleteFromPrimitiveList/finalizers": ["b"]},
            ["c", "a"],
            id="ordered",
        ),
    ],
)
def test_lists_of_texts_merge(finalizers: list[str], patch: Object, expected: list[str]) -> None:
    doc: Object = {"metadata": {"finalizers": finalizers}}
    assert strategic.apply(_DEPLOYMENT, doc, {"metadata": patch}) == {"metadata": {"finalizers": expected}}


@pytest.mark.parametrize("is_there", [False, True], ids=["new", "there"])
def test_long_lists_take_no_longer_for_each_item(*, is_there: bool) -> None:
    names = [f"example.com/{number}" for number in range(20_000)]
    references = [{"uid": name} for name in names]
    doc: Object = {"metadata": {"finalizers": names, "ownerReferences": references} if is_there else {}}
    merging: Object = {"finalizers": names, "ownerReferences": references}
    ordering = {"$setElementOrder/finalizers": names, "$setElementOrder/ownerReferences": references}
    deleting: Object = {
        "$deleteFromPrimitiveList/finalizers": names,
        "ownerReferences": [{**reference, "$patch": "delete"} for reference in references],
    }
    started = time.thread_time()
    merged = strategic.apply(_DEPLOYMENT, doc, {"metadata": {**merging, **ordering}})
    assert merged == {"metadata": merging}
    left = strategic.apply(_DEPLOYMENT, merged, {"metadata": deleting})
    assert left == {"metadata": {"finalizers": [], "ownerReferences": []}}
    assert time.thread_time() - started < 5


def test_changing_the_strategy_drops_what_belongs_to_the_old_one() -> None:
    doc: Object = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}, "replicas": 1}}
    patch: Object = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic.apply(_DEPLOYMENT, doc, patch) == {"spec": {"strategy": {"type": "Recreate"}, "replicas": 1}}


def test_a_field_that_replaces_is_not_merged() -> None:
    budget = tables.schema("policy", "v1", "PodDisruptionBudget")
    doc: Object = {"spec": {"selector": {"matchLabels": {"a": "1"}}}}
    patch: Object = {"spec": {"selector": {"matchLabels": {"b": "1"}}}}
    assert strategic.apply(budget, doc, patch) == patch


@pytest.mark.parametrize(
    "patch, message",
    [
        pytest.param({"metadata": {"$patch": "explode"}}, "unknown patch type: explode", id="unknown directive"),
        pytest.param({"metadata": {"$retainKeys": "a"}}, "invalid patch format of retainKeys", id="retainKeys no list"),
        pytest.param(
            {"metadata": {"$retainKeys": ["name"], "labels": {"a": "b"}}},
            "invalid patch format of retainKeys",
            id="a field that is set and not retained",
        ),
        pytest.param(
            {"metadata": {"$deleteFromPrimitiveList": ["a"]}}, "invalid patch format of primitive list", id="no field"
        ),
        pytest.param(
            {"metadata": {"$setElementOrder/finalizers": "a"}},
            "expected a []interface {}, but received a string",
            id="an order that is no list",
        ),
        pytest.param(
            {"metadata": {"$setElementOrder/finalizers": ["a", "b"], "finalizers": ["b", "a"]}},
            "doesn't match $setElementOrder list",
            id="items against their own order",
        ),
        pytest.param(
            deployment({"containers": [{"image": "x"}]}),
            "does not contain declared merge key: name",
            id="an item without its key",
        ),
        pytest.param(
            deployment({"containers": [{"name": "a", "$patch": "merge"}]}),
            "merging lists cannot yet be specified in the patch",
            id="merge in an item",
        ),
        pytest.param(
            deployment({"containers": [{"name": "a", "$patch": "x"}]}), "unknown patch type: x", id="unknown in an item"
        ),
        pytest.param(deployment({"containers": ["a"]}), "list element types are not identical", id="mixed items"),
    ],
)
def test_a_patch_that_makes_no_sense_is_refused(patch: Any, message: str) -> None:
    doc: Object = {
        "metadata": {"finalizers": ["a", "b"], "labels": {"x": "y"}},
        **deployment({"containers": containers("a")}),
    }
    with pytest.raises((errors.BadRequest, errors.Unclassified)) as raised:
        strategic.apply(_DEPLOYMENT, doc, patch)
    assert message in raised.value.message


def test_lists_of_lists_are_not_supported() -> None:
    with pytest.raises(errors.Invalid):
        patched_pod({"containers": containers("a")}, {"containers": [["a"]]})


_NAMES: Final = st.lists(st.sampled_from("abcdef"), unique=True, max_size=5)


@given(_NAMES, _NAMES, st.data())
def test_the_wanted_order_is_kept_and_nothing_is_lost(live: list[str], wanted: list[str], data: st.DataObject) -> None:
    changed = [name for name in wanted if data.draw(st.booleans())]
    merged = patched_pod(
        {"containers": [{"name": name} for name in live]},
        {
            "$setElementOrder/containers": [{"name": name} for name in wanted],
            "containers": [{"name": name, "image": "new"} for name in changed],
        },
    )
    names = [container["name"] for container in merged["containers"]]
    assert set(names) == {*live, *changed}
    assert len(names) == len(set(names))
    assert [name for name in names if name in wanted] == [name for name in wanted if name in names]
    assert {container["name"] for container in merged["containers"] if "image" in container} == set(changed)
    assert "$" not in str(merged)
