"""What moves and in which order, what is rewritten, what refuses: tables."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.api.authors import AUTHOR, GROUPS, Author
from steelyard.api.claims import CREATED, PROTECTED
from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.api.crossplane import DATABASES, ROLES
from steelyard.api.databases import BACKUPS
from steelyard.api.redisserver import RESOURCE as REDIS_SERVERS
from steelyard.api.resources import KVM_HOSTS, KVM_MACHINES, SIMULATED_CLUSTERS, workload_clusters
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS, Resource
from steelyard.moving import belongings, kinds, obstacles, rewriting
from steelyard.moving.belongings import Belongings, Thing

CLAIMS = workload_clusters("steelyard.dev")
MOVER = Author("ann", ("admins",))
APPLICATIONS = Resource("argoproj.io", "v1alpha1", "applications", "Application")
VIRTUAL_MACHINES = Resource("kubevirt.io", "v1", "virtualmachines", "VirtualMachine")


def thing(
    resource: Resource, name: str, owner: Thing | None = None, *, namespace: str = "team-a", **content: Any
) -> Thing:
    metadata: Object = {"name": name, "uid": f"uid-{resource.kind}-{namespace}-{name}", "resourceVersion": "7"}
    if resource.namespaced:
        metadata["namespace"] = namespace
    if owner is not None:
        metadata["ownerReferences"] = [objects.owner_reference(owner.object, controller=True)]
    metadata |= content.pop("metadata", {})
    obj: Object = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}
    return Thing(resource, obj, is_claim=resource == CLAIMS)


def claim(*parts: Thing, name: str = "shop", **content: Any) -> Thing:
    listed = [
        {
            "resourceName": objects.name(each.object),
            "apiVersion": each.resource.api_version,
            "kind": each.resource.kind,
            "namespace": objects.namespace(each.object),
            "name": objects.name(each.object),
        }
        for each in parts
    ]
    ready = [
        {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"},
        {"type": "Ready", "status": "True", "reason": "Available"},
    ]
    return thing(CLAIMS, name, status={"inventory": listed, "conditions": ready}, **content)


def part(resource: Resource, name: str, of: str = "shop", **content: Any) -> Thing:
    labels = {
        "steelyard.dev/claim-kind": CLAIMS.kind,
        "steelyard.dev/claim-namespace": "team-a",
        "steelyard.dev/claim-name": of,
    }
    metadata: Object = {"labels": labels, "annotations": {"steelyard.dev/resource-name": name}}
    return thing(resource, name, metadata=metadata, **content)


def names(found: Belongings) -> list[str]:
    return [f"{each.resource.kind}/{objects.name(each.object)}" for each in found.moving]


def test_owners_come_before_what_they_own_whatever_order_they_are_found_in() -> None:
    cluster = part(capi.CLUSTERS, "shop")
    asked = claim(cluster)
    control_plane = thing(capi.KUBEADM_CONTROL_PLANES, "shop-cp", cluster)
    machine = thing(capi.MACHINES, "shop-cp-1", control_plane)
    config = thing(capi.KUBEADM_CONFIGS, "shop-cp-1", machine)
    secret = thing(SECRETS, "shop-cp-1", config)
    found = belongings.select([secret, config, machine, control_plane, cluster, asked], ["team-a"])
    assert names(found) == [
        "WorkloadCluster/shop",
        "Cluster/shop",
        "KubeadmControlPlane/shop-cp",
        "Machine/shop-cp-1",
        "KubeadmConfig/shop-cp-1",
        "Secret/shop-cp-1",
    ]


def test_what_belongs_by_inventory_or_name_comes_after_what_it_belongs_to() -> None:
    cluster = part(capi.CLUSTERS, "shop")
    authority = thing(SECRETS, "shop-ca")
    database = part(DATABASES, "a-shop")
    asked = claim(cluster, database)
    cluster.object["metadata"]["ownerReferences"] = [objects.owner_reference(asked.object, controller=True)]
    found = [authority, database, cluster, asked]
    chosen = belongings.select(found, ["team-a"])
    assert names(chosen) == ["WorkloadCluster/shop", "Cluster/shop", "Database/a-shop", "Secret/shop-ca"]
    roots = belongings.tops(chosen.moving)
    assert roots == (objects.uid(asked.object),)
    assert belongings.belonging_to([*found, OTHER, thing(capi.CLUSTERS, "new")], roots) == chosen


def test_a_circle_of_owners_is_no_obstacle() -> None:
    one = thing(capi.MACHINE_SETS, "one")
    two = thing(capi.MACHINE_SETS, "two", one)
    one.object["metadata"]["ownerReferences"] = [objects.owner_reference(two.object)]
    chosen = belongings.select([one, two], None)
    assert sorted(names(chosen)) == ["MachineSet/one", "MachineSet/two"]
    assert len(belongings.tops(chosen.moving)) == 2


OTHER = thing(capi.CLUSTERS, "other", namespace="team-b")
DATABASE = part(DATABASES, "team-a-shop")
STRANGE = thing(DATABASES, "team-b-shop")
CA = thing(SECRETS, "own-ca")
OWN = thing(capi.CLUSTERS, "own")
LABELLED = thing(SECRETS, "own-tls", metadata={"labels": {wellknown.CLUSTER_NAME_LABEL: "own"}})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param([OTHER], [], id="what is in another namespace stays"),
        pytest.param(
            [claim(DATABASE), DATABASE], ["WorkloadCluster/shop", "Database/team-a-shop"], id="a part nowhere"
        ),
        pytest.param([DATABASE], [], id="what is in no namespace moves for a claim only"),
        pytest.param(
            [claim(STRANGE), STRANGE], ["WorkloadCluster/shop"], id="an inventory cannot name what is others'"
        ),
        pytest.param([OWN], ["Cluster/own"], id="a cluster that nobody claimed"),
        pytest.param([OWN, CA], ["Cluster/own", "Secret/own-ca"], id="an authority that somebody brought along"),
        pytest.param([OWN, LABELLED], ["Cluster/own", "Secret/own-tls"], id="a Secret with the cluster's label"),
        pytest.param([thing(SECRETS, "mine")], [], id="a Secret of somebody's stays"),
        pytest.param(
            [OWN, thing(CONFIG_MAPS, "lock", OWN)], ["Cluster/own", "ConfigMap/lock"], id="any kind, if owned"
        ),
    ],
)
def test_what_moves_with_a_namespace(found: list[Thing], expected: list[str]) -> None:
    assert names(belongings.select(found, ["team-a"])) == expected


def test_what_is_referred_to_is_copied_and_stays() -> None:
    login = thing(SECRETS, "host-login", namespace="kvm")
    host = thing(KVM_HOSTS, "rack-1", spec={"credentials": {"secretRef": {"name": "host-login", "namespace": "kvm"}}})
    files = thing(SECRETS, "files")
    config = thing(
        capi.KUBEADM_CONFIGS, "x", spec={"files": [{"contentFrom": {"secret": {"name": "files", "key": "a"}}}]}
    )
    machine = thing(KVM_MACHINES, "m", spec={"host": "rack-1"})
    found = belongings.select([login, host, files, config, machine], ["team-a"])
    assert names(found) == ["KubeadmConfig/x", "KVMMachine/m"]
    assert [str(each) for each in found.copied] == ["Secret team-a/files", "KVMHost rack-1", "Secret kvm/host-login"]
    assert found.namespaces == ("team-a", "kvm")


def test_nobody_has_secrets_of_other_namespaces_copied() -> None:
    theirs = thing(SECRETS, "database", namespace="team-b")
    reference = {"secretRef": {"name": "database", "namespace": "team-b"}}
    role = part(ROLES, "role", spec={"forProvider": {"passwordSecretRef": {"name": "database", "namespace": "team-b"}}})
    naming = thing(capi.KUBEADM_CONFIGS, "x", spec={"files": [reference]})
    nowhere = thing(Resource("example.com", "v1", "widgets", "Widget", namespaced=False), "w", OWN, spec=reference)
    assert belongings.select([theirs, OWN, naming, nowhere], ["team-a"]).copied == ()
    assert belongings.select([theirs, claim(role), role], ["team-a"]).copied == (theirs,), "as the platform made it"


def test_what_a_topology_holds_is_no_reference() -> None:
    mine = thing(SECRETS, "mine")
    value = {"secretRef": {"name": "mine"}}
    cluster = thing(capi.CLUSTERS, "x", spec={"topology": {"variables": [{"name": "v", "value": value}]}})
    assert belongings.select([mine, cluster], ["team-a"]).copied == ()


def test_a_claim_is_left_behind_with_all_that_is_its_own() -> None:
    cluster, server = part(capi.CLUSTERS, "shop"), part(REDIS_SERVERS, "cache", of="cache")
    found = [claim(cluster), cluster, claim(server, name="cache"), server, thing(SECRETS, "s", cluster)]
    chosen = belongings.select(found, None)
    stays = obstacles.immovable(chosen)
    ((stuck, (reason,)),) = stays
    assert str(stuck) == "WorkloadCluster team-a/cache"
    assert reason.startswith("RedisServer cache: its servers are processes with files")
    left = belongings.select(found, None, [("WorkloadCluster", "team-a", "cache")])
    assert names(left) == ["WorkloadCluster/shop", "Cluster/shop", "Secret/s"]


def test_namespaces_that_were_made_for_a_claim_are_only_needed_at_the_target() -> None:
    made = part(NAMESPACES, "team-a-shop-6b3e35")
    found = belongings.select([claim(made), made], None)
    assert names(found) == ["WorkloadCluster/shop"]
    assert set(found.namespaces) == {"team-a", "team-a-shop-6b3e35"}


@pytest.mark.parametrize(
    ("resource", "annotation"),
    [
        (capi.MACHINES, "cluster.x-k8s.io/paused"),
        (SIMULATED_CLUSTERS, "cluster.x-k8s.io/paused"),
        (DATABASES, "crossplane.io/paused"),
        (BACKUPS, "crossplane.io/paused"),
        (APPLICATIONS, "argocd.argoproj.io/skip-reconcile"),
        (SECRETS, ""),
    ],
    ids=lambda each: each.kind if isinstance(each, Resource) else "",
)
def test_by_what_a_kind_is_paused(resource: Resource, annotation: str) -> None:
    found = kinds.pause(resource)
    assert (found.annotation if found else "") == annotation


@pytest.mark.parametrize("resource", [REDIS_SERVERS, BACKUPS, VIRTUAL_MACHINES], ids=lambda each: each.kind)
def test_what_runs_in_one_place_stays_there(resource: Resource) -> None:
    assert kinds.why_it_stays(resource)


def chosen(*things: Thing) -> Belongings:
    return Belongings(things, (), ())


SETTLED: Object = {"initialization": {"infrastructureProvisioned": True, "controlPlaneInitialized": True}}


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        pytest.param(claim(), "", id="a claim that is ready"),
        pytest.param(thing(CLAIMS, "new"), "is Pending (no controller has reported on it yet): wait", id="a new claim"),
        pytest.param(
            thing(capi.CLUSTERS, "x", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            "is being deleted: wait until it is gone",
            id="deletion",
        ),
        pytest.param(thing(capi.CLUSTERS, "x"), "has no infrastructure yet", id="a cluster that is being made"),
        pytest.param(thing(capi.CLUSTERS, "x", status=SETTLED), "", id="a cluster that is there"),
        pytest.param(thing(capi.MACHINES, "x", status={"phase": "Provisioning"}), "has no Node yet", id="a machine"),
        pytest.param(thing(capi.MACHINES, "x", status={"nodeRef": {"name": "x"}}), "", id="a machine with a Node"),
        pytest.param(
            thing(capi.MACHINE_DEPLOYMENTS, "x", spec={"replicas": 3}, status={"replicas": 2}),
            "has 2 of 3 machines",
            id="scaling",
        ),
        pytest.param(
            thing(
                capi.KUBEADM_CONTROL_PLANES,
                "x",
                spec={"replicas": 3},
                status={"replicas": 3, "upToDateReplicas": 1},
            ),
            "is replacing machines, 1 of 3 are new",
            id="rolling",
        ),
        pytest.param(
            thing(capi.MACHINE_SETS, "x", metadata={"generation": 2}, status={"observedGeneration": 1}),
            "nobody has looked at it since",
            id="changed a moment ago",
        ),
        pytest.param(
            thing(SECRETS, "x", metadata={"annotations": {obstacles.BLOCK: ""}}), "block-move", id="a provider's wish"
        ),
    ],
)
def test_what_is_not_settled_is_refused_and_says_what_to_do(found: Thing, problem: str) -> None:
    told = obstacles.unsettled(chosen(found))
    assert bool(told) == bool(problem)
    assert problem in " ".join(told)


@pytest.mark.parametrize(("reason", "is_refused"), [("ReconcilePaused", True), ("ReconcileSuccess", False)])
def test_a_paused_claim_gets_no_rights_that_nobody_judged(reason: str, is_refused: bool) -> None:
    asked = claim(metadata={"annotations": {AUTHOR: "bob", GROUPS: "devs"}})
    asked.object["status"]["conditions"][0] |= {"reason": reason, "status": str(not is_refused)}
    told = obstacles.unsettled(chosen(asked))
    assert ["with its author's rights, which nobody has judged since" in each for each in told] == [True] * is_refused


def test_what_belongs_to_something_that_stays_is_refused() -> None:
    owner = thing(CONFIG_MAPS, "owner")
    owned = thing(capi.CLUSTERS, "x", owner)
    by_uid: dict[str, Thing] = {objects.uid(owner.object): owner}
    (told,) = obstacles.orphaned(chosen(owned), by_uid)
    assert told.startswith("Cluster team-a/x belongs to ConfigMap team-a/owner, which does not move")
    assert obstacles.orphaned(chosen(owned), {}) == []


def test_a_copy_has_everything_but_what_a_server_gives_and_leads_to_the_copies_of_its_owners() -> None:
    owner = thing(capi.CLUSTERS, "shop")
    machine = thing(
        capi.MACHINES,
        "m",
        owner,
        metadata={
            "generation": 4,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["f"],
            "labels": {"a": "b"},
            "managedFields": [],
            "ownerReferences": [
                objects.owner_reference(owner.object, controller=True),
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "uid-gone"},
            ],
        },
        spec={"providerID": "kvm://1"},
        status={"phase": "Running"},
    )
    made = rewriting.copy(machine, "1", {"uid-Cluster-team-a-shop": "new"}, MOVER)
    assert made["spec"] == {"providerID": "kvm://1"}
    assert made["status"] == {"phase": "Running"}
    assert made["metadata"] == {
        "name": "m",
        "namespace": "team-a",
        "finalizers": ["f"],
        "labels": {"a": "b", rewriting.MOVE: "1"},
        "annotations": {
            rewriting.SOURCE: "uid-Machine-team-a-m",
            rewriting.CONTENT: rewriting.content(machine.object),
            wellknown.PAUSED_ANNOTATION: "true",
        },
        "ownerReferences": [
            {
                "apiVersion": "cluster.x-k8s.io/v1beta2",
                "kind": "Cluster",
                "name": "shop",
                "uid": "new",
                "controller": True,
            }
        ],
    }


def test_a_copy_of_a_claim_acts_for_the_mover_and_counts_its_life_from_the_first_day() -> None:
    asked = claim(
        metadata={"creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {AUTHOR: "bob", GROUPS: "devs\nops"}}
    )
    made = objects.annotations(rewriting.copy(asked, "1", {}, MOVER))
    assert (made[AUTHOR], made[GROUPS]) == ("ann", "admins")
    assert made[CREATED] == "2026-01-01T00:00:00Z"
    again = claim(
        metadata={"creationTimestamp": "2026-06-01T00:00:00Z", "annotations": {CREATED: "2026-01-01T00:00:00Z"}}
    )
    assert objects.annotations(rewriting.copy(again, "2", {}, MOVER))[CREATED] == "2026-01-01T00:00:00Z"


PAUSES = [
    pytest.param(thing(capi.CLUSTERS, "x", spec={}), id="Cluster"),
    pytest.param(thing(capi.CLUSTERS, "x", spec={"paused": True}), id="Cluster, paused by somebody"),
    pytest.param(thing(capi.CLUSTER_RESOURCE_SETS, "x", spec={}), id="ClusterResourceSet"),
    pytest.param(
        thing(capi.MACHINES, "x", metadata={"annotations": {wellknown.PAUSED_ANNOTATION: ""}}),
        id="Machine, paused by somebody",
    ),
    pytest.param(thing(capi.MACHINES, "x"), id="Machine"),
    pytest.param(claim(), id="claim"),
    pytest.param(claim(metadata={"annotations": {"crossplane.io/paused": "true"}}), id="claim, paused by somebody"),
    pytest.param(claim(metadata={"annotations": {"crossplane.io/paused": "false"}}), id="claim that says it is not"),
    pytest.param(claim(metadata={"annotations": {rewriting.WAS_PAUSED: "true"}}), id="claim with a mark of the move's"),
    pytest.param(
        thing(APPLICATIONS, "x", metadata={"annotations": {"argocd.argoproj.io/skip-reconcile": "false"}}),
        id="Application that says it is not",
    ),
    pytest.param(thing(SECRETS, "x"), id="Secret"),
]


@pytest.mark.parametrize("before", PAUSES)
def test_what_was_paused_stays_paused_and_what_was_not_goes_on(before: Thing) -> None:
    patch = rewriting.paused(before, "1")
    here = Thing(before.resource, merged(before.object, patch or {}), is_claim=before.is_claim)
    if patch is not None:
        assert rewriting.paused(here, "1") is None, "it is paused once"
    there = Thing(before.resource, rewriting.copy(here, "1", {}, MOVER), is_claim=before.is_claim)
    after = merged(there.object, rewriting.resumed(there))
    was, now = (_pauses(each) for each in (before.object, after))
    assert now == was
    assert before.pause is None or rewriting.is_paused(there)
    left = {key for key in (*objects.annotations(after), *objects.labels(after)) if key.startswith("steelyard.dev/mov")}
    assert not left
    if patch is not None:
        assert _pauses(merged(here.object, rewriting.resumed(here))) == was, "a move that is cancelled leaves no trace"


def test_what_somebody_let_go_on_is_paused_again() -> None:
    before = claim()
    here = merged(before.object, rewriting.paused(before, "1") or {})
    freed = Thing(CLAIMS, merged(here, {"metadata": {"annotations": {"crossplane.io/paused": None}}}), is_claim=True)
    assert merged(freed.object, rewriting.paused(freed, "1") or {}) == here


def _pauses(obj: Object) -> list[str]:
    said = objects.annotations(obj)
    found = [f"{key}={said[key]}" for key in said if key.endswith(("/paused", "/skip-reconcile"))]
    return [*found, *(["spec.paused"] if objects.at(obj, "spec", "paused") else [])]


def merged(obj: Object, patch: Object) -> Object:
    result = dict(obj)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(objects.mapping(result.get(key)), objects.mapping(value))
        else:
            result[key] = value
    return result


def test_an_original_goes_without_finalizers_and_protection_and_its_copy_keeps_both() -> None:
    asked = claim(
        metadata={"finalizers": ["steelyard.dev/claim"], "annotations": {PROTECTED: "true"}},
        spec={"parameters": {"deletionProtection": True}},
    )
    patch = rewriting.let_go(asked, "1")
    assert patch["metadata"]["finalizers"] is None
    assert patch["metadata"]["resourceVersion"] == "7"
    assert patch["metadata"]["annotations"] == {rewriting.LET_GO: "1", PROTECTED: None}
    assert patch["spec"] == {"parameters": {"deletionProtection": False}}
    made = rewriting.copy(asked, "1", {}, MOVER)
    assert made["metadata"]["finalizers"] == ["steelyard.dev/claim"]
    assert objects.annotations(made)[PROTECTED] == "true"
    assert made["spec"]["parameters"]["deletionProtection"] is True


def test_an_original_that_was_let_go_is_known_by_what_its_copy_says() -> None:
    asked = claim(
        metadata={"finalizers": ["steelyard.dev/claim"], "annotations": {PROTECTED: "true"}},
        spec={"parameters": {"deletionProtection": True, "workers": 3}},
    )
    copied = rewriting.copy(asked, "1", {}, MOVER)
    said = objects.annotations(copied)[rewriting.CONTENT]
    left = merged(asked.object, rewriting.let_go(asked, "1"))
    assert rewriting.was_let_go(left, "1", said)
    assert not rewriting.was_let_go(left, "2", said), "for another move"
    assert not rewriting.was_let_go(merged(asked.object, {"metadata": {"annotations": MARK}}), "1", said), "by its word"
    changed = Thing(CLAIMS, merged(left, {"spec": {"parameters": {"workers": 4}}}), is_claim=True)
    assert not rewriting.was_let_go(changed.object, "1", said), "somebody has changed it since"
    again = rewriting.restored(changed, "1", copied)
    assert again.object["spec"]["parameters"] == {"deletionProtection": True, "workers": 4}
    assert objects.finalizers(again.object) == ["steelyard.dev/claim"]
    assert objects.annotations(again.object)[PROTECTED] == "true"
    said = rewriting.content(again.object)
    assert rewriting.was_let_go(merged(changed.object, rewriting.let_go(changed, "1")), "1", said)


MARK = {rewriting.LET_GO: "1"}


def test_who_manages_which_field_comes_along_with_the_new_owners() -> None:
    owner = thing(capi.CLUSTERS, "shop")
    fields: Object = {"f:metadata": {"f:ownerReferences": {'k:{"uid":"uid-Cluster-team-a-shop"}': {}}}}
    entries: list[Object] = [
        {"manager": "steelyard-claims", "operation": "Apply", "fieldsV1": fields},
        {"manager": rewriting.FIELD_MANAGER, "operation": "Update", "fieldsV1": {}},
    ]
    machine = thing(capi.MACHINES, "m", owner)
    machine.object["metadata"]["managedFields"] = entries
    (found,) = rewriting.managed(machine.object, {"uid-Cluster-team-a-shop": "new"})
    assert found["fieldsV1"] == {"f:metadata": {"f:ownerReferences": {'k:{"uid":"new"}': {}}}}


@pytest.mark.parametrize(
    ("change", "is_another"),
    [
        ({"metadata": {"resourceVersion": "8"}}, False),
        ({"metadata": {"annotations": {rewriting.MOVE: "1"}}}, False),
        ({"metadata": {"labels": {"x": "y"}}}, True),
        ({"spec": {"x": 1}}, True),
        ({"status": {"x": 1}}, True),
    ],
    ids=["a revision", "a mark of the move", "a label", "the spec", "the status"],
)
def test_what_counts_as_changed_since_it_was_copied(change: Object, is_another: bool) -> None:
    before = thing(capi.MACHINES, "m", metadata={"annotations": {}}).object
    assert (rewriting.content(merged(before, change)) != rewriting.content(before)) == is_another
