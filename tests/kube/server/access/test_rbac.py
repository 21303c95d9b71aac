"""What roles and bindings grant, through the same door as requests: the authorizer of a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, NODES, Resource
from steelyard.kube.server.call import AUTHENTICATED, Call, User, Verb
from steelyard.kube.server.rights import authn, authz
from steelyard.kube.server.rights.authz import Attributes
from steelyard.kube.server.rights.policy import GROUP
from steelyard.kube.store.store import Store
from tests.kube.server.bench import ADMIN, WIDGETS, Bench, eventually, make, widget

ROLES = Resource(GROUP, "v1", "roles", "Role")
CLUSTER_ROLES = Resource(GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = Resource(GROUP, "v1", "rolebindings", "RoleBinding")
CLUSTER_BINDINGS = Resource(GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
JANE = User("jane", ("team", AUTHENTICATED))


def rule(verbs: str, resources: str = "", *, groups: str = "", names: Sequence[str] = (), urls: str = "") -> Object:
    if urls:
        return {"verbs": verbs.split(), "nonResourceURLs": urls.split()}
    made: Object = {"verbs": verbs.split(), "apiGroups": groups.split() or [""], "resources": resources.split()}
    return {**made, "resourceNames": list(names)} if names else made


def role(name: str, *rules: Object, labels: dict[str, str] | None = None) -> Object:
    return {"metadata": {"name": name, **({"labels": labels} if labels else {})}, "rules": list(rules)}


def binding(name: str, role_name: str, *subjects: tuple[str, str], kind: str = "ClusterRole") -> Object:
    return {
        "metadata": {"name": name},
        "roleRef": {"kind": kind, "name": role_name},
        "subjects": [{"kind": subject, "name": who} for subject, who in subjects],
    }


async def grant(bench: Bench, *rules: Object, namespace: str = "", user: str = "jane", name: str = "granted") -> None:
    await bench.create(CLUSTER_ROLES, role(name, *rules), namespace="")
    if namespace:
        await bench.create(BINDINGS, binding(name, name, ("User", user)), namespace=namespace)
    else:
        await bench.create(CLUSTER_BINDINGS, binding(name, name, ("User", user)), namespace="")


def may(
    bench: Bench, verb: str, plural: str = "", *, user: User = JANE, group: str = "", namespace: str = "default",
    name: str = "", subresource: str = "", path: str = "",
) -> bool:  # fmt: skip
    asked = Attributes(user, verb, path, group, plural, subresource, "" if path else namespace, name)
    return bench.api.access.rbac.decide(asked).allowed


async def settled(bench: Bench) -> None:
    """Until what the server does on its own is done."""
    revision = 0
    while revision != bench.store.revision:
        revision = bench.store.revision
        await asyncio.sleep(0.03)


async def test_a_binding_grants_in_its_namespace_and_nowhere_else(bench: Bench) -> None:
    await grant(bench, rule("get list watch", "secrets"), namespace="default")
    assert may(bench, "list", "secrets")
    assert not may(bench, "list", "secrets", namespace="kube-system")
    assert not may(bench, "list", "secrets", namespace=""), "a list across namespaces needs a cluster-wide right"
    assert not may(bench, "watch", "secrets", namespace="")
    assert not may(bench, "delete", "secrets")
    assert not may(bench, "deletecollection", "secrets")
    assert not may(bench, "list", "configmaps")
    assert not may(bench, "list", "secrets", group="apps")
    assert not may(bench, "list", "secrets", user=User("joe", ("team", AUTHENTICATED)))


async def test_a_role_of_a_namespace(bench: Bench) -> None:
    await bench.create(ROLES, role("reader", rule("get", "secrets")))
    await bench.create(BINDINGS, binding("reader", "reader", ("Group", "team"), kind="Role"))
    assert may(bench, "get", "secrets")
    asked = Attributes(JANE, "get", plural="secrets", namespace="default")
    decided = bench.api.access.rbac.decide(asked)
    assert decided.reason == 'RBAC: allowed by RoleBinding "reader/default" of Role "reader" to Group "team"'


@pytest.mark.parametrize(
    ("rules", "allowed", "refused"),
    [
        (rule("get", "pods/log"), [("get", "pods", "log")], [("get", "pods", ""), ("get", "pods", "exec")]),
        (rule("update", "*/scale"), [("update", "deployments", "scale")], [("update", "deployments", "")]),
        (rule("*", "*"), [("update", "pods", "status"), ("x", "y", "")], []),
        (rule("create", "serviceaccounts"), [], [("create", "serviceaccounts", "token")]),
        (rule("patch", "pods"), [("patch", "pods", "")], [("patch", "pods", "status"), ("update", "pods", "")]),
    ],
)
async def test_subresources_are_granted_by_themselves(
    bench: Bench, rules: Object, allowed: list[tuple[str, str, str]], refused: list[tuple[str, str, str]]
) -> None:
    await grant(bench, rules)
    for verb, plural, subresource in allowed:
        assert may(bench, verb, plural, subresource=subresource)
    for verb, plural, subresource in refused:
        assert not may(bench, verb, plural, subresource=subresource)


async def test_a_rule_for_single_objects(bench: Bench) -> None:
    everything = rule("get list watch deletecollection", "secrets", names=["mine"])
    await grant(bench, everything, namespace="default")
    assert may(bench, "get", "secrets", name="mine")
    assert not may(bench, "get", "secrets", name="other")
    assert not may(bench, "list", "secrets")
    authorizer = bench.api.access.rbac

    def listed(verb: Verb, selector: str) -> Call:
        return Call(verb, "", "v1", "secrets", JANE, "default", options={"fieldSelector": selector})

    for verb in ("list", "watch"):
        authz.authorize_call(authorizer, listed(verb, "metadata.name=mine"))
        for selector in ("metadata.name=other", "metadata.name!=mine", "type=mine", "metadata.name", ""):
            with pytest.raises(errors.Forbidden):
                authz.authorize_call(authorizer, listed(verb, selector))
    with pytest.raises(errors.Forbidden):
        authz.authorize_call(authorizer, listed("deletecollection", "metadata.name=mine"))


async def test_paths_with_and_without_a_star(bench: Bench) -> None:
    await grant(bench, rule("get", urls="/metrics /logs/*"))
    for path, allowed in (("/metrics", True), ("/metrics/x", False), ("/logs/", True), ("/logs/a/b", True)):
        assert may(bench, "get", path=path) is allowed
    assert not may(bench, "get", path="/logs")
    assert not may(bench, "post", path="/metrics")


async def test_a_withdrawn_right_is_gone_with_the_answer(bench: Bench) -> None:
    await grant(bench, rule("get", "secrets"), namespace="default")
    assert may(bench, "get", "secrets")
    await bench.call("delete", BINDINGS, "granted")
    assert not may(bench, "get", "secrets")
    await bench.create(BINDINGS, binding("granted", "granted", ("User", "jane")))
    assert may(bench, "get", "secrets")
    await bench.patch(CLUSTER_ROLES, "granted", {"rules": []}, namespace="")
    assert not may(bench, "get", "secrets")


async def test_bindings_without_subjects_come_and_go(bench: Bench) -> None:
    await grant(bench, rule("get", "secrets"), namespace="default")
    await bench.create(BINDINGS, binding("nobody", "granted"))
    await bench.create(BINDINGS, binding("nobody-else", "granted"))
    for name in ("granted", "nobody", "nobody-else"):
        await bench.call("delete", BINDINGS, name)
    assert not may(bench, "get", "secrets")


async def test_a_refusal_tells_of_roles_that_are_missing(bench: Bench) -> None:
    await bench.create(BINDINGS, binding("dangling", "nowhere", ("User", "jane")))
    with pytest.raises(errors.Forbidden) as caught:
        authz.authorize_call(bench.api.access.rbac, Call("list", "", "v1", "secrets", JANE, "default"))
    assert caught.value.message == (
        'secrets is forbidden: User "jane" cannot list resource "secrets" in API group "" in the namespace "default": '
        'RBAC: clusterrole.rbac.authorization.k8s.io "nowhere" not found'
    )


async def test_a_service_account_is_meant_by_its_namespace_and_name(bench: Bench) -> None:
    await bench.create(CLUSTER_ROLES, role("r", rule("get", "pods")), namespace="")
    made = binding("b", "r")
    made["subjects"] = [{"kind": "ServiceAccount", "name": "robot", "namespace": "kube-system"}]
    await bench.create(CLUSTER_BINDINGS, made, namespace="")
    assert may(bench, "get", "pods", user=User("system:serviceaccount:kube-system:robot"))
    assert not may(bench, "get", "pods", user=User("system:serviceaccount:default:robot"))


async def test_the_default_roles_are_there_as_soon_as_anyone_looks(bench: Bench) -> None:
    before = bench.store.revision
    assert may(bench, "get", path="/apis")
    assert not may(bench, "get", path="/apis", user=authn.ANONYMOUS)
    assert may(bench, "create", "selfsubjectaccessreviews", group="authorization.k8s.io")
    assert bench.store.revision == before, "deciding writes nothing"
    names = set(await bench.names(CLUSTER_ROLES, namespace=""))
    assert {"cluster-admin", "admin", "edit", "view", "system:discovery", "system:node", "system:basic-user"} <= names
    bindings = set(await bench.names(CLUSTER_BINDINGS, namespace=""))
    assert {"cluster-admin", "system:discovery", "system:public-info-viewer"} <= bindings
    view = await bench.get(CLUSTER_ROLES, "view", namespace="")
    assert any("configmaps" in each["resources"] for each in view["rules"])
    assert not any("secrets" in each["resources"] for each in view["rules"])
    managers = {entry["manager"] for entry in objects.metadata(view)["managedFields"]}
    assert managers == {"kube-apiserver", "clusterrole-aggregation-controller"}
    await settled(bench)
    written = bench.store.revision
    await bench.names(CLUSTER_ROLES, namespace="")
    await settled(bench)
    assert bench.store.revision == written


async def test_defaults_decide_alike_before_and_after_they_are_stored(bench: Bench) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "team"), namespace="")
    asked = [
        Attributes(user, verb, group=group, plural=plural, namespace=namespace)
        for user in (JANE, User("system:kube-scheduler"), User("x", ("system:monitoring",)), authn.ANONYMOUS)
        for verb in ("get", "list", "create", "update")
        for group, plural in (("", "pods"), ("", "nodes"), ("coordination.k8s.io", "leases"), ("", "bindings"))
        for namespace in ("", "kube-system", "team")
    ]
    before = [bench.api.access.rbac.decide(each) for each in asked]
    await bench.api.access.activate()
    assert [bench.api.access.rbac.decide(each) for each in asked] == before
    assert any(each.allowed for each in before)


async def test_a_start_puts_back_what_is_missing_of_the_defaults(store: Store, bench: Bench) -> None:
    await bench.api.access.activate()
    await bench.call("delete", CLUSTER_ROLES, "system:discovery", namespace="")
    await bench.patch(CLUSTER_ROLES, "system:basic-user", {"rules": [rule("get", "x")]}, namespace="")
    kept: Object = {
        "metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}},
        "subjects": [],
    }
    await bench.patch(CLUSTER_BINDINGS, "system:public-info-viewer", kept, namespace="")
    await bench.patch(CLUSTER_BINDINGS, "system:discovery", {"subjects": []}, namespace="")
    assert not may(bench, "get", path="/apis")
    await bench.api.close()
    again = await Bench.start(store, define=False)
    try:
        assert may(again, "get", path="/apis")
        basic = await again.get(CLUSTER_ROLES, "system:basic-user", namespace="")
        assert basic["rules"][0] == rule("get", "x")
        assert may(again, "create", "selfsubjectreviews", group="authentication.k8s.io")
        assert not may(again, "get", path="/healthz", user=authn.ANONYMOUS)
        revision = store.revision
    finally:
        await again.api.close()
    third = await Bench.start(store, define=False)
    assert store.revision == revision, "a start that finds everything writes nothing"
    await third.api.close()


async def test_aggregated_roles_gather_and_let_go(bench: Bench) -> None:
    gathers = {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]}
    await bench.create(CLUSTER_ROLES, {**role("all"), "aggregationRule": gathers}, namespace="")
    await bench.create(CLUSTER_ROLES, role("b", rule("get", "b"), labels={"to": "all"}), namespace="")
    await bench.create(CLUSTER_ROLES, role("a", rule("get", "a"), rule("get", "b"), labels={"to": "all"}), namespace="")
    await settled(bench)
    gathered = await bench.get(CLUSTER_ROLES, "all", namespace="")
    assert gathered["rules"] == [rule("get", "a"), rule("get", "b")]
    await bench.call("delete", CLUSTER_ROLES, "a", namespace="")
    await bench.patch(CLUSTER_ROLES, "b", {"rules": [rule("list", "b")]}, namespace="")
    await settled(bench)
    assert (await bench.get(CLUSTER_ROLES, "all", namespace=""))["rules"] == [rule("list", "b")]


async def test_nobody_grants_what_they_do_not_hold(bench: Bench) -> None:
    await grant(bench, rule("get list", "pods"), rule("create update patch", "roles clusterroles", groups=GROUP))
    await bench.create(ROLES, role("ok", rule("get", "pods")), user=JANE)
    with pytest.raises(errors.Forbidden) as caught:
        await bench.create(ROLES, role("more", rule("get delete create", "pods"), rule("get", "secrets")), user=JANE)
    assert caught.value.message == (
        'roles.rbac.authorization.k8s.io "more" is forbidden: user "jane" (groups=["team" "system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete" "create"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
    )
    with pytest.raises(errors.Forbidden):
        await bench.patch(ROLES, "ok", {"rules": [rule("delete", "pods")]}, user=JANE)
    applied = {**role("ok", rule("delete", "pods")), "apiVersion": ROLES.api_version, "kind": ROLES.kind}
    with pytest.raises(errors.Forbidden):
        await bench.patch(ROLES, "ok", applied, "apply", user=JANE, fieldManager="jane", force="true")
    await bench.patch(ROLES, "ok", {"metadata": {"finalizers": ["a.b/c"]}}, user=JANE)
    gathers = {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}
    with pytest.raises(errors.Forbidden, match="must have cluster-admin privileges to use the aggregationRule"):
        await bench.create(CLUSTER_ROLES, {**role("all"), "aggregationRule": gathers}, namespace="", user=JANE)


async def test_nobody_binds_what_they_do_not_hold(bench: Bench) -> None:
    await grant(bench, rule("get", "pods"), rule("create", "rolebindings", groups=GROUP))
    await bench.create(CLUSTER_ROLES, role("pods", rule("get", "pods")), namespace="")
    await bench.create(BINDINGS, binding("mine", "pods", ("User", "jane")), user=JANE)
    with pytest.raises(errors.Forbidden, match="attempting to grant RBAC permissions not currently held"):
        await bench.create(BINDINGS, binding("all", "cluster-admin", ("User", "jane")), user=JANE)
    with pytest.raises(errors.NotFound):
        await bench.create(BINDINGS, binding("none", "nowhere", ("User", "jane")), user=JANE)


async def test_the_rights_to_escalate_and_to_bind(bench: Bench) -> None:
    await grant(
        bench, rule("create escalate", "roles", groups=GROUP), rule("create", "rolebindings", groups=GROUP),
        rule("bind", "clusterroles", groups=GROUP, names=["edit"]),
    )  # fmt: skip
    await bench.create(ROLES, role("any", rule("*", "*", groups="*")), user=JANE)
    await bench.create(BINDINGS, binding("edit", "edit", ("User", "joe")), user=JANE)
    with pytest.raises(errors.Forbidden):
        await bench.create(BINDINGS, binding("admin", "admin", ("User", "joe")), user=JANE)


async def test_an_apply_that_creates_needs_the_right_to_create(bench: Bench) -> None:
    await grant(bench, rule("patch get", "widgets", groups="example.com"))
    applied = widget("new", {"replicas": 1})
    with pytest.raises(errors.Forbidden) as caught:
        await bench.patch(WIDGETS, "new", applied, "apply", user=JANE, fieldManager="jane")
    assert caught.value.message == (
        'widgets.example.com "new" is forbidden: User "jane" cannot create resource "widgets" in API group '
        '"example.com" in the namespace "default"'
    )
    await bench.create(WIDGETS, applied)
    changed = widget("new", {"replicas": 1, "size": 2})
    await bench.patch(WIDGETS, "new", changed, "apply", user=JANE, fieldManager="jane")


async def test_a_right_in_a_namespace_does_not_reach_what_lives_in_none(bench: Bench) -> None:
    await bench.create(NODES, make(NODES, "n"), namespace="")
    await grant(bench, rule("*", "*", groups="*"), namespace="default")
    verbs: tuple[Verb, ...] = ("get", "list", "create", "update", "patch", "delete", "deletecollection")
    for plural, group in (("nodes", ""), ("clusterroles", GROUP), ("clusterrolebindings", GROUP)):
        for verb in verbs:
            with pytest.raises(errors.NotFound, match="could not find the requested resource"):
                await bench.api.call(Call(verb, group, "v1", plural, JANE, "default", "n", body={}))
        with pytest.raises(errors.NotFound):
            await bench.api.watch(Call("watch", group, "v1", plural, JANE, "default"))
    for verb in verbs:
        with pytest.raises(errors.NotFound, match="could not find the requested resource"):
            await bench.api.call(Call(verb, "", "v1", "secrets", ADMIN, "", "n", body={}))


async def test_an_empty_list_of_rules_is_its_writers_and_shown_as_null(bench: Bench) -> None:
    written = await bench.create(CLUSTER_ROLES, role("empty"), namespace="", fieldManager="me")
    assert written["rules"] is None
    assert [entry["fieldsV1"] for entry in written["metadata"]["managedFields"]] == [{"f:rules": {}}]


async def test_rules_that_nobody_aggregated_stay_until_something_is(bench: Bench) -> None:
    selectors = {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]}
    own = role("all", rule("get", "nodes"))
    await bench.create(CLUSTER_ROLES, {**own, "aggregationRule": selectors}, namespace="")
    await bench.create(CLUSTER_ROLES, role("other"), namespace="")
    assert (await bench.get(CLUSTER_ROLES, "all", namespace=""))["rules"] == own["rules"]
    await bench.create(CLUSTER_ROLES, role("part", rule("get", "pods"), labels={"to": "all"}), namespace="")

    async def rules_of_all() -> Any:
        return (await bench.get(CLUSTER_ROLES, "all", namespace=""))["rules"]

    async def has_gathered() -> bool:
        return await rules_of_all() == [rule("get", "pods")]

    async def has_none() -> bool:
        return await rules_of_all() is None

    await eventually(has_gathered)
    await bench.delete(CLUSTER_ROLES, "part", namespace="")
    await eventually(has_none)


async def test_names_that_no_rule_names_are_not_remembered(bench: Bench) -> None:
    await grant(bench, rule("get", "pods", names=("mine", "")), rule("get", "secrets"), namespace="default")
    policy = bench.api.access.rbac.policy
    for number in range(500):
        assert may(bench, "get", "secrets", name=f"{'x' * 100_000}{number}")
        assert not may(bench, "get", "pods", name=f"{'x' * 100_000}{number}")
        assert not may(bench, "get", "secrets", namespace=f"{'y' * 100_000}{number}")
        assert not may(bench, "get", f"{'z' * 100_000}{number}")
    assert may(bench, "get", "pods", name="mine")
    assert policy.remembered < 1_000_000


async def test_a_rule_that_names_something_counts_from_when_it_is_there_until_it_is_gone(bench: Bench) -> None:
    assert not may(bench, "get", "pods", name="mine")
    await grant(bench, rule("get", "pods", names=("mine",)))
    assert may(bench, "get", "pods", name="mine")
    assert not may(bench, "get", "pods", name="yours")
    assert not may(bench, "get", "pods")
    await bench.delete(CLUSTER_ROLES, "granted", namespace="")
    assert not may(bench, "get", "pods", name="mine")


async def test_a_short_rule_that_stands_for_millions_of_rights_is_refused_in_time(bench: Bench) -> None:
    await grant(bench, rule("create", "clusterroles", groups=GROUP), rule("get", "pods"))
    many = " ".join(f"x{number}" for number in range(400))
    began = time.thread_time()
    with pytest.raises((errors.Forbidden, errors.TooLarge)):
        await bench.create(CLUSTER_ROLES, role("all", rule(many, many, groups=many)), namespace="", user=JANE)
    assert time.thread_time() - began < 1, "sixty-four million rights were not gone through"


async def test_gathering_many_rules_takes_as_long_as_they_are_many(bench: Bench) -> None:
    labels = {"all": "1"}
    rules = [rule("get", f"r{number}") for number in range(3000)]
    selector: Object = {"clusterRoleSelectors": [{"matchLabels": labels}]}
    await bench.create(CLUSTER_ROLES, {**role("all"), "aggregationRule": selector}, namespace="")
    began = time.thread_time()
    await bench.create(CLUSTER_ROLES, role("part", *rules, labels=labels), namespace="")

    async def has_gathered() -> bool:
        return (await bench.get(CLUSTER_ROLES, "all", namespace=""))["rules"] == rules

    await eventually(has_gathered)
    assert time.thread_time() - began < 4
    await bench.create(CLUSTER_ROLES, role("q", *[rule("get", "x" * 200 + str(n)) for n in range(3000)], labels=labels))
    await asyncio.sleep(0.1)
    assert await has_gathered(), "what would be too much is left alone"
