"""Two objects compared field by field, and what of it nobody is shown."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.kube.objects import Object
from steelyard.plan import fielddiff

EMPTY: Object = {}


def told(before: Object, after: Object) -> list[tuple[str, Any, Any]]:
    return [(each.path, each.before, each.after) for each in fielddiff.of(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({"spec": {"a": 1}}, {"spec": {"a": 1}}, [], id="nothing differs"),
        pytest.param({"spec": {"a": 1}}, {"spec": {"a": 2}}, [("spec.a", 1, 2)], id="another value"),
        pytest.param({"spec": {}}, {"spec": {"a": 0}}, [("spec.a", None, 0)], id="zero is a value"),
        pytest.param({"spec": {"a": 1}}, {"spec": {"a": True}}, [("spec.a", 1, True)], id="one is not true"),
        pytest.param(
            {"spec": {"a": {"b": 1}}}, {"spec": {}}, [("spec.a.b", 1, None)], id="what goes is told by leaves"
        ),
        pytest.param({"spec": {"a": EMPTY}}, {}, [("spec.a", EMPTY, None)], id="an empty object goes"),
        pytest.param(
            {"spec": {"taints": [{"key": "a", "effect": "x"}, {"key": "b", "effect": "x"}]}},
            {
                "spec": {
                    "taints": [{"key": "new", "effect": "x"}, {"key": "a", "effect": "y"}, {"key": "b", "effect": "x"}]
                }
            },
            [
                ("spec.taints[a].effect", "x", "y"),
                ("spec.taints[new].key", None, "new"),
                ("spec.taints[new].effect", None, "x"),
            ],
            id="items are told apart by their key, whatever their place",
        ),
        pytest.param(
            {"args": [{"name": "v", "value": "1"}]},
            {"args": [{"name": "v", "value": "2"}]},
            [("args[v].value", "1", "2")],
            id="items with a name",
        ),
        pytest.param(
            {"list": [{"x": 1}, {"x": 2}]}, {"list": [{"x": 1}]}, [("list[1].x", 2, None)], id="items without a name"
        ),
        pytest.param({"list": ["a"]}, {"list": ["a", "b"]}, [("list", ["a"], ["a", "b"])], id="plain lists are values"),
        pytest.param(
            {"metadata": {"labels": {"steelyard.dev/x": "1"}}},
            {"metadata": {"labels": {"steelyard.dev/x": "2"}}},
            [('metadata.labels["steelyard.dev/x"]', "1", "2")],
            id="keys with dots are quoted",
        ),
        pytest.param(
            {"kind": "A", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "n"}},
            {"kind": "A", "apiVersion": "v1", "metadata": {"name": "b", "namespace": "n"}},
            [],
            id="who it is is not compared",
        ),
    ],
)
def test_fields(before: Object, after: Object, expected: list[tuple[str, Any, Any]]) -> None:
    assert told(before, after) == expected


SECRET: Object = {"apiVersion": "v1", "kind": "Secret"}
PLANE: Object = {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane"}
MACHINE: Object = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine"}
ANY: Object = {"apiVersion": "example.org/v1", "kind": "Any"}


@pytest.mark.parametrize(
    ("obj", "fields"),
    [
        pytest.param(SECRET, {"data": {"host": "aHVudGVyMg=="}}, id="data of a Secret"),
        pytest.param(SECRET, {"stringData": {"config": "hunter2"}}, id="stringData of a Secret"),
        pytest.param(ANY, {"spec": {"password": "hunter2"}}, id="a password"),
        pytest.param(ANY, {"spec": {"adminPassword": {"plain": "hunter2"}}}, id="what is below a password"),
        pytest.param(ANY, {"data": {"kubeconfig": "hunter2"}}, id="a kubeconfig"),
        pytest.param(ANY, {"spec": {"apiToken": "hunter2"}}, id="a token"),
        pytest.param(ANY, {"spec": {"env": [{"name": "DB_PASSWORD", "value": "hunter2"}]}}, id="a variable"),
        pytest.param(MACHINE, {"spec": {"cloudInitNoCloud": {"userData": "hunter2"}}}, id="what a machine is told"),
        pytest.param(
            PLANE,
            {"spec": {"kubeadmConfigSpec": {"files": [{"path": "/etc/x", "content": "hunter2"}]}}},
            id="files of machines",
        ),
        pytest.param(ANY, {"spec": {"url": "postgresql://shop:hunter2@db/shop"}}, id="an address with a password"),
        pytest.param(ANY, {"spec": {"args": ["--password=hunter2"]}}, id="an argument"),
        pytest.param(PLANE, {"spec": {"preKubeadmCommands": ["login hunter2"]}}, id="commands of machines"),
        pytest.param(ANY, {"spec": {"pem": "-----BEGIN EC PRIVATE KEY-----\nhunter2"}}, id="a private key"),
    ],
)
def test_secrets_are_said_to_change_and_never_shown(obj: Object, fields: Object) -> None:
    coming = fielddiff.of({}, {**obj, **fields})
    going = fielddiff.of({**obj, **fields}, {})
    for changes in (coming, going):
        assert any(each.is_secret for each in changes)
        text = repr([(each, each.to_json()) for each in changes])
        assert "hunter2" not in text
        assert "aHVudGVyMg==" not in text


@pytest.mark.parametrize(
    "fields",
    [
        {"spec": {"writeConnectionSecretToRef": {"name": "shop", "namespace": "argocd"}}},
        {"spec": {"bootstrap": {"dataSecretName": "shop"}}},
        {"spec": {"secretStoreRefs": [{"name": "vault", "kind": "ClusterSecretStore"}]}},
        {"spec": {"url": "https://example.org/x@y"}},
    ],
    ids=["a reference", "a name", "a store", "an address"],
)
def test_where_a_secret_is_can_be_shown(fields: Object) -> None:
    assert not any(each.is_secret for each in fielddiff.of({}, {**ANY, **fields}))
