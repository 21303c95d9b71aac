"""The client in the same process may do what its user may, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from steelyard.kube import errors
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS, Resource
from steelyard.kube.server.api import Api
from steelyard.kube.server.call import AUTHENTICATED, User
from steelyard.kube.store.store import Store

JANE = User("jane", (AUTHENTICATED,))
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
SECRET: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    store = await Store.open(tmp_path / "store.db", fsync=False)
    api = await Api.start(store)
    await LocalClient(api).create(SECRETS, SECRET)
    yield api
    await api.close()
    await store.close()


async def first_event(client: LocalClient) -> None:
    async for _ in client.watch(SECRETS, "default", resource_version="0"):
        return


async def rules_of_others(client: LocalClient) -> None:
    binding: Object = {
        "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "jane"}],
    }
    await client.create(CLUSTER_ROLE_BINDINGS, binding)


Attempt = Callable[[LocalClient], Awaitable[object]]
ATTEMPTS: dict[str, Attempt] = {
    "get": lambda jane: jane.get(SECRETS, "s", "default"),
    "list": lambda jane: jane.list(SECRETS, "default"),
    "list everywhere": lambda jane: jane.list(SECRETS),
    "watch": first_event,
    "create": lambda jane: jane.create(SECRETS, {**SECRET, "metadata": {"name": "t", "namespace": "default"}}),
    "dry run": lambda jane: jane.create(SECRETS, SECRET, dry_run=True),
    "update": lambda jane: jane.update(SECRETS, SECRET),
    "patch": lambda jane: jane.patch(SECRETS, "s", {"data": {}}, "default"),
    "apply": lambda jane: jane.apply(SECRETS, SECRET, field_manager="jane"),
    "delete": lambda jane: jane.delete(SECRETS, "s", "default"),
    "delete all": lambda jane: jane.delete_collection(SECRETS, "default"),
    "status": lambda jane: jane.patch(NAMESPACES, "default", {"status": {}}, subresource="status"),
    "scale": lambda jane: jane.patch(DEPLOYMENTS, "d", {"spec": {}}, "default", subresource="scale"),
    "a token of somebody else": lambda jane: jane.request(
        "POST", SERVICE_ACCOUNTS.path("default", "default", "token"), body={}
    ),
    "a raw path": lambda jane: jane.request("GET", SECRETS.path("default", "s")),
    "metadata alone": lambda jane: jane.request(
        "GET",
        SECRETS.path("default", "s"),
        accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    ),
    "what is not served": lambda jane: jane.request("GET", "/apis/nothing.example/v1/things"),
    "rights over all": rules_of_others,
}


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)
async def test_a_user_without_rights_is_refused(api: Api, attempt: Attempt) -> None:
    with pytest.raises(errors.Forbidden, match='User "jane" cannot'):
        await attempt(LocalClient(api, JANE))


async def test_a_path_that_names_no_resource_needs_a_right_too(api: Api) -> None:
    stranger = LocalClient(api, User("joe"))
    with pytest.raises(errors.Forbidden, match='User "joe" cannot get path "/apis"'):
        await stranger.request("GET", "/apis")
    assert await LocalClient(api, JANE).discover()


async def test_a_user_may_do_what_a_role_grants_until_it_is_taken_away(api: Api) -> None:
    admin, jane = LocalClient(api), LocalClient(api, JANE)
    role: Object = {
        "metadata": {"name": "reader", "namespace": "default"},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}],
    }
    binding: Object = {
        "metadata": {"name": "reader", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "User", "name": "jane"}],
    }
    await admin.create(ROLES, role)
    await admin.create(ROLE_BINDINGS, binding)
    assert (await jane.get(SECRETS, "s", "default"))["kind"] == "Secret"
    with pytest.raises(errors.Forbidden):
        await jane.get(CONFIG_MAPS, "s", "default")
    await admin.delete(ROLE_BINDINGS, "reader", "default")
    with pytest.raises(errors.Forbidden):
        await jane.get(SECRETS, "s", "default")
