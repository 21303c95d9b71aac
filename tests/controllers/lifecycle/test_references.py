"""What a KubeadmConfig takes from Secrets, and the kubeconfig that a machine may find its cluster with."""

from __future__ import annotations

import base64
import gzip
from typing import Any, cast

import pytest
import yaml

from steelyard.controllers.lifecycle.kubeadmconfig import references
from steelyard.kube import errors
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

CLUSTER: Object = {
    "metadata": {"name": "c", "namespace": "team"},
    "spec": {"controlPlaneEndpoint": {"host": "10.0.0.10", "port": 6443}},
}


class Secrets:
    def __init__(self, **values: dict[str, bytes]) -> None:
        self._values = {name.replace("_", "-"): data for name, data in values.items()}

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        if name not in self._values:
            raise errors.not_found(resource.group_resource, name)
        assert namespace == "team"
        return {"data": {key: base64.b64encode(value).decode() for key, value in self._values[name].items()}}


def client(**values: dict[str, bytes]) -> Client:
    return cast(Client, Secrets(**values))


def config(**spec: Any) -> Object:
    return {"metadata": {"name": "m", "namespace": "team"}, "spec": spec}


def taken(path: str, name: str = "s", key: str = "k", **fields: Any) -> Object:
    return {"path": path, "contentFrom": {"secret": {"name": name, "key": key}}, **fields}


PACKED = gzip.compress(b"text")


@pytest.mark.parametrize(
    ("value", "encoding", "content", "expected"),
    [
        pytest.param(b"text", "", "text", "", id="text"),
        pytest.param(b"\x00\xff", "", "AP8=", "base64", id="no text"),
        pytest.param(b"dGV4dA==", "base64", "dGV4dA==", "base64", id="encoded already"),
        pytest.param(PACKED, "gzip", base64.b64encode(PACKED).decode(), "gzip+base64", id="compressed"),
        pytest.param(
            base64.b64encode(PACKED), "gzip+base64", base64.b64encode(PACKED).decode(), "gzip+base64", id="both"
        ),
    ],
)
async def test_a_file_goes_as_text_whatever_its_secret_holds(
    value: bytes, encoding: str, content: str, expected: str
) -> None:
    [file] = await references.files(client(s={"k": value}), config(files=[taken("/a", encoding=encoding)]))
    assert (file.content, file.encoding) == (content, expected)


async def test_a_file_of_a_user_waits_until_there_is_the_user() -> None:
    files = [{"path": "/a", "owner": "admin:admin"}, {"path": "/b", "owner": "root:root"}, {"path": "/c"}]
    made = await references.files(client(), config(files=files, users=[{"name": "admin"}]))
    assert [(each.path, each.defer) for each in made] == [("/a", True), ("/b", False), ("/c", False)]


@pytest.mark.parametrize(
    ("name", "key", "told"),
    [
        pytest.param("other", "k", "Secret other that the config refers to does not exist", id="no Secret"),
        pytest.param("s", "other", "Secret s that the config refers to has no key other", id="no key"),
    ],
)
async def test_what_is_missing_is_named(name: str, key: str, told: str) -> None:
    with pytest.raises(references.NotThere, match=told):
        await references.files(client(s={"k": b""}), config(files=[taken("/a", name, key)]))


async def test_a_password_comes_without_the_end_of_its_line() -> None:
    users = [{"name": "a", "passwdFrom": {"secret": {"name": "s", "key": "k"}}}, {"name": "b", "passwd": "x"}]
    spec = await references.spec_with_passwords(client(s={"k": b"$6$hash\n"}), config(users=users))
    assert [user["passwd"] for user in spec["users"]] == ["$6$hash", "x"]


async def test_a_password_that_is_no_text_is_refused() -> None:
    users = [{"name": "a", "passwdFrom": {"secret": {"name": "s", "key": "k"}}}]
    with pytest.raises(references.NotThere, match="Key k of Secret s that the config refers to is not text"):
        await references.spec_with_passwords(client(s={"k": b"\xff"}), config(users=users))


async def test_a_machine_finds_its_cluster_by_a_kubeconfig_that_is_filled_in() -> None:
    program = {"command": "/bin/login", "args": ["-x"], "env": [{"name": "A", "value": "b"}]}
    file = {"kubeConfigPath": "/etc/kubernetes/find.conf", "kubeConfig": {"user": {"exec": program}}}
    made = await references.discovery_file(
        client(c_ca={"tls.crt": b"authority"}), config(joinConfiguration={"discovery": {"file": file}}), CLUSTER
    )
    assert made is not None
    assert (made.path, made.permissions, made.owner) == ("/etc/kubernetes/find.conf", "0640", "root:root")
    written: Any = yaml.safe_load(made.content)
    assert written["current-context"] == "default"
    assert written["clusters"][0]["cluster"] == {
        "server": "https://10.0.0.10:6443",
        "certificate-authority-data": base64.b64encode(b"authority").decode(),
    }
    assert written["users"][0]["user"]["exec"] == {
        **program,
        "apiVersion": "client.authentication.k8s.io/v1",
        "provideClusterInfo": False,
        "interactiveMode": "Never",
    }


async def test_a_kubeconfig_that_a_file_brings_is_left_to_it() -> None:
    file = {"kubeConfigPath": "/etc/kubernetes/find.conf"}
    assert (
        await references.discovery_file(client(), config(joinConfiguration={"discovery": {"file": file}}), CLUSTER)
        is None
    )
    assert await references.discovery_file(client(), config(), CLUSTER) is None
