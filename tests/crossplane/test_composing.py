"""What the function answers Crossplane, in both forms."""

from __future__ import annotations

import base64

import pytest

from steelyard.api import xrd
from steelyard.api.xrd import Form
from steelyard.compose import names
from steelyard.crossplane.composites import CONNECTION_COPY
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from steelyard.settings.reading import parse
from tests.crossplane.world import READY, Fatal, World

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "https://10.0.0.1:6443"}}]
users: [{name: a, user: {token: secret}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
"""
FORMS = pytest.mark.parametrize("form", xrd.FORMS)
MANIFEST = ("spec", "forProvider", "manifest")


def cluster(**parameters: object) -> Object:
    return {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": "WorkloadCluster",
        "metadata": {"name": "shop", "namespace": "team-a"},
        "spec": {"parameters": {"environment": "dev", **parameters}},
    }


def database(**spec: object) -> Object:
    return {
        "apiVersion": "database.steelyard.dev/v1alpha1",
        "kind": "PostgreSQLInstance",
        "metadata": {"name": "shop", "namespace": "team-a"},
        "spec": {
            "parameters": {"environment": "dev"},
            "writeConnectionSecretToRef": {"name": "shop-connection"},
            **spec,
        },
    }


def complete(world: World) -> None:
    """What Cluster API reports of a cluster whose machines are all there and up to date."""
    world.provide()
    made = world.find("Cluster")
    made["status"] = {"initialization": {"infrastructureProvisioned": True, "controlPlaneInitialized": True}}
    made["spec"]["controlPlaneEndpoint"] = {"host": "10.0.0.1", "port": 6443}
    owner = objects.owner_reference(made, controller=True)
    metadata: Object = {"name": "shop-kubeconfig", "namespace": "team-a", "ownerReferences": [owner]}
    data = {"value": base64.b64encode(KUBECONFIG.encode()).decode()}
    world.store({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    for obj in (*world.all("MachineDeployment"), *world.all("KubeadmControlPlane")):
        count = obj["spec"]["replicas"]
        counts = dict.fromkeys(("replicas", "readyReplicas", "upToDateReplicas"), count)
        obj["status"] = {**counts, "observedGeneration": objects.generation(obj)}
    world.provide()


@FORMS
def test_a_cluster_becomes_ready_and_says_so_in_its_own_words(form: Form) -> None:
    world = World(cluster(), Platform(), form)
    world.reconcile()
    assert world.composite["status"]["state"] == "Creating"
    assert not [each for each in world.composite["status"]["conditions"] if each["type"] == "Synced"]

    complete(world)
    answer = world.reconcile()

    assert world.composite["status"]["state"] == "Ready"
    assert answer.desired.composite.ready == 1
    assert answer.meta.ttl.seconds == 60
    assert world.find("Cluster")["metadata"]["name"] == "shop", "called after the claim"
    assert objects.labels(world.find("Cluster"))[names.CLAIM_NAME] == "shop"


@FORMS
def test_a_larger_machine_is_a_new_template_and_the_old_one_stays_while_machines_roll(form: Form) -> None:
    world = World(cluster(), Platform(), form)
    world.reconcile()
    complete(world)
    world.reconcile()
    (old,) = [name for name in world.composed() if name.startswith("worker-machines-")]

    world.composite["spec"]["parameters"]["cpuCores"] = 12
    world.reconcile()

    both = [name for name in world.composed() if name.startswith("worker-machines-")]
    assert len(both) == 2
    assert old in both
    assert world.composite["status"]["state"] == "Updating"
    new = next(name for name in both if name != old)
    reference = world.find("MachineDeployment")["spec"]["template"]["spec"]["infrastructureRef"]["name"]
    assert reference == objects.name(world.composed()[new])

    world.reconcile()
    assert old in world.composed(), "machines are still made of it"
    complete(world)
    world.reconcile()
    assert old not in world.composed()
    assert new in world.composed()


@FORMS
def test_a_database_gets_its_parts_and_a_connection_secret(form: Form) -> None:
    world = World(database(), Platform(), form)
    world.settle()

    assert world.composite["status"]["state"] == "Ready", world.composite["status"]
    name = world.composite["status"]["database"]
    assert name.startswith("dev_team_a_shop_")
    group = "postgresql.sql.m.crossplane.io" if form == xrd.NAMESPACED else "postgresql.sql.crossplane.io"
    made = world.find("Database")
    assert made["apiVersion"] == f"{group}/v1alpha1"
    assert objects.annotations(made)["crossplane.io/external-name"] == name
    assert objects.namespace(made) == ("team-a" if form == xrd.NAMESPACED else "")
    if form == xrd.LEGACY:
        assert world.details["password"] == b"s3cret"
        assert "connection" not in world.composed(), "Crossplane writes it"
    else:
        secret = world.find("Secret", "shop-connection")
        assert base64.b64decode(secret["data"]["password"]) == b"s3cret"
        assert made["spec"]["providerConfigRef"] == {"kind": "ClusterProviderConfig", "name": "postgres-provider"}
        assert not world.details
        assert {obj["apiVersion"] for obj in world.all("Role")} == {f"{group}/v1alpha1"}


def test_in_a_namespace_nothing_is_composed_outside_it_and_the_rest_is_wrapped() -> None:
    world = World(database(), Platform(), xrd.NAMESPACED)
    world.settle()

    assert {objects.namespace(obj) for obj in world.composed().values()} == {"team-a"}
    wrapped = {each["spec"]["forProvider"]["manifest"]["kind"] for each in world.all("Object")}
    assert wrapped == {"DatabaseUsage", "DatabaseBackup"}


@FORMS
def test_what_settles_asks_for_nothing_new_and_stays_as_it_is(form: Form) -> None:
    world = World(database(), Platform(), form)
    world.settle()
    before = {name: dict(obj) for name, obj in world.composed().items()}

    world.reconcile()

    assert world.composed() == before
    assert not [name for name in world.answer.requirements.resources if name.startswith("namesake-of-")]
    assert world.deleted == []


@FORMS
def test_somebody_elses_object_of_that_name_is_not_taken_over(form: Form) -> None:
    foreign: Object = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "SimulatedCluster",
        "metadata": {"name": "shop", "namespace": "team-a"},
        "spec": {},
    }
    world = World(cluster(), Platform(), form, foreign)

    with pytest.raises(Fatal, match="SimulatedCluster team-a/shop exists and was not made for this claim"):
        world.reconcile()

    assert world.composed() == {}


@FORMS
def test_a_refused_claim_changes_nothing_and_says_what_to_do(form: Form) -> None:
    world = World(cluster(), Platform(), form)
    world.reconcile()
    before = world.composed()

    world.composite["spec"]["parameters"]["environment"] = "nowhere"
    with pytest.raises(Fatal, match="the platform file has no environment nowhere"):
        world.reconcile()

    assert world.composed() == before


def test_a_composite_without_a_claim_is_refused() -> None:
    world = World(cluster(), Platform(), xrd.LEGACY)
    del world.composite["spec"]["claimRef"]

    with pytest.raises(Fatal, match="has no claim"):
        world.reconcile()


def test_a_claim_of_another_domain_is_refused() -> None:
    world = World(cluster(), parse("domain: example.org"), xrd.NAMESPACED)

    with pytest.raises(Fatal, match=r"compute\.example\.org/v1alpha1; set domain"):
        world.reconcile()


GRANT = "connectionSecrets: {grants: [{claimsIn: [team-a], secretsTo: [argocd]}]}"


def test_in_a_namespace_a_secret_elsewhere_needs_a_grant() -> None:
    asked = database(writeConnectionSecretToRef={"name": "shop", "namespace": "argocd"})
    world = World(asked, Platform(), xrd.NAMESPACED)
    world.settle()

    assert not [obj for obj in world.all("Secret") if objects.namespace(obj) == "argocd"]
    assert world.composite["status"]["state"] == "Refused"
    assert "connectionSecrets.grants" in world.composite["status"]["message"]
    assert [each.reason for each in world.answer.results] == ["ConnectionSecretForbidden"]


def test_in_a_namespace_a_granted_secret_elsewhere_is_wrapped_and_seen_though_its_provider_says_nothing_of_it() -> None:
    asked = database(writeConnectionSecretToRef={"name": "shop", "namespace": "argocd"})
    world = World(asked, parse(GRANT), xrd.NAMESPACED)
    world.settle()

    (secret,) = [obj for obj in world.all("Secret") if objects.namespace(obj) == "argocd"]
    assert base64.b64decode(secret["data"]["password"]) == b"s3cret"
    assert world.composite["status"]["state"] == "Ready", world.composite["status"]["message"]
    (wrapped,) = [each for each in world.all("Object") if each["spec"]["forProvider"]["manifest"]["kind"] == "Secret"]
    assert wrapped["status"]["atProvider"]["manifest"]["data"] == {"redacted": None}
    world.reconcile()
    assert world.deleted == []


def test_a_legacy_claims_secret_is_copied_elsewhere_where_it_is_granted() -> None:
    asked = database()
    asked["metadata"]["annotations"] = {CONNECTION_COPY: "argocd/shop"}
    world = World(asked, parse(GRANT), xrd.LEGACY)
    world.settle()

    copied = world.composed()["connection-copy"]
    assert (objects.namespace(copied), objects.name(copied)) == ("argocd", "shop")
    assert base64.b64decode(copied["data"]["password"]) == b"s3cret"
    assert world.details["password"] == b"s3cret", "the claim's own has it too"


VICTIM: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "argocd-secret", "namespace": "argocd"},
    "data": {"password": base64.b64encode(b"of argocd").decode()},
}


def elsewhere(world: World) -> dict[str, bytes]:
    """Names of Secrets in another namespace, and the passwords in them."""
    return {
        objects.name(obj): base64.b64decode(obj["data"]["password"])
        for obj in world.all("Secret")
        if objects.namespace(obj) == "argocd"
    }


def test_a_secret_elsewhere_that_gets_another_name_takes_nobodys_place() -> None:
    asked = database(writeConnectionSecretToRef={"name": "mine", "namespace": "argocd"})
    world = World(asked, parse(GRANT), xrd.NAMESPACED, VICTIM)
    world.settle()
    assert elsewhere(world) == {"mine": b"s3cret", "argocd-secret": b"of argocd"}

    world.composite["spec"]["writeConnectionSecretToRef"]["name"] = "argocd-secret"
    with pytest.raises(Fatal, match="Secret argocd/argocd-secret exists and was not made for this claim"):
        world.settle()

    assert elsewhere(world) == {"mine": b"s3cret", "argocd-secret": b"of argocd"}


def test_a_secret_elsewhere_that_gets_another_name_is_held_by_another_object_and_the_old_one_goes() -> None:
    asked = database(writeConnectionSecretToRef={"name": "mine", "namespace": "argocd"})
    world = World(asked, parse(GRANT), xrd.NAMESPACED)
    world.settle()
    for name in ("yours", "mine", "theirs"):
        before = set(world.composed())
        world.composite["spec"]["writeConnectionSecretToRef"]["name"] = name
        world.settle()

        (gone,) = before - set(world.composed())
        assert world.deleted[-1:] == [gone]
        (holding,) = [each for each in world.all("Object") if objects.at(each, *MANIFEST, "kind") == "Secret"]
        assert objects.at(holding, *MANIFEST, "metadata", "name") == name
        assert elsewhere(world)[name] == b"s3cret"
        assert world.composite["status"]["state"] == "Ready", world.composite["status"]["message"]
    settled = len(world.deleted)
    world.settle()
    assert len(world.deleted) == settled


def test_a_legacy_claims_copy_that_goes_elsewhere_takes_nobodys_place_and_is_another_object() -> None:
    asked = database()
    asked["metadata"]["annotations"] = {CONNECTION_COPY: "apps/argocd-secret"}
    grants = "connectionSecrets: {grants: [{claimsIn: [team-a], secretsTo: [argocd, apps]}]}"
    world = World(asked, parse(grants), xrd.LEGACY, VICTIM)
    world.settle()

    world.claim["metadata"]["annotations"][CONNECTION_COPY] = "argocd/argocd-secret"
    world.store(world.claim)
    world.composite["metadata"]["annotations"][CONNECTION_COPY] = "argocd/argocd-secret"
    with pytest.raises(Fatal, match="Secret argocd/argocd-secret exists and was not made for this claim"):
        world.reconcile()
    assert elsewhere(world) == {"argocd-secret": b"of argocd"}

    world.claim["metadata"]["annotations"][CONNECTION_COPY] = "argocd/shop"
    world.store(world.claim)
    world.composite["metadata"]["annotations"][CONNECTION_COPY] = "argocd/shop"
    world.settle()
    assert elsewhere(world) == {"shop": b"s3cret", "argocd-secret": b"of argocd"}
    assert world.deleted == ["connection-copy"]


def test_a_legacy_claims_secret_is_not_copied_without_a_grant() -> None:
    asked = database()
    asked["metadata"]["annotations"] = {CONNECTION_COPY: "argocd/shop"}
    world = World(asked, Platform(), xrd.LEGACY)
    world.settle()

    assert "connection-copy" not in world.composed()
    (told,) = [each for each in world.answer.conditions if each.type == "InForce"]
    assert "have no grant for namespace argocd" in told.message


def test_a_claim_without_a_reference_has_no_connection_details() -> None:
    asked = database()
    del asked["spec"]["writeConnectionSecretToRef"]
    world = World(asked, Platform(), xrd.LEGACY)
    world.settle()

    assert world.composite["status"]["state"] == "Ready"
    assert world.details == {}


@FORMS
def test_a_grant_goes_before_its_database_and_that_before_its_roles(form: Form) -> None:
    world = World(database(), Platform(), form)
    world.settle()

    found = [obj for name, obj in world.composed().items() if name.startswith("usage-of-")]
    kinds = {(each["spec"]["of"]["kind"], each["spec"]["by"]["kind"]) for each in found}
    assert ("Database", "Grant") in kinds
    assert ("Role", "Database") in kinds
    assert {each["kind"] for each in found} == {"Usage" if form == xrd.NAMESPACED else "ClusterUsage"}
    for each in found:
        for side in ("of", "by"):
            reference = each["spec"][side]
            name = reference["resourceRef"]["name"]
            assert (reference["apiVersion"], reference["kind"], objects.namespace(each), name) in world.stored


@FORMS
def test_a_clusters_infrastructure_outlives_its_machines_and_nothing_is_kept_from_who_deletes_the_cluster(
    form: Form,
) -> None:
    """Cluster API deletes machines, control plane and infrastructure itself before a Cluster goes: were one of them in
    use by the Cluster, each would wait for the other for ever."""
    world = World(cluster(), Platform(), form)
    world.reconcile()
    assert not [name for name in world.composed() if name.startswith("usage-of-")], "not before both are there"
    world.reconcile()

    found = [name for name in world.composed() if name.startswith("usage-of-")]
    assert found == ["usage-of-infrastructure-by-control-plane"]


@FORMS
def test_what_cluster_api_controls_crossplane_does_not(form: Form) -> None:
    """An object has one controller: of its control plane and infrastructure a Cluster makes itself that."""
    world = World(cluster(), Platform(), form)
    world.reconcile()
    kinds = {obj["kind"] for obj in world.composed().values()}
    assert {"Cluster", "MachineDeployment", "SimulatedMachineTemplate", "Object"} <= kinds
    assert not kinds & {"SimulatedCluster", "KubeadmControlPlane"}
    world.provide()

    for kind in ("SimulatedCluster", "KubeadmControlPlane"):
        assert objects.controller_of(world.find(kind)) is None
        assert objects.name(world.find(kind)).startswith("shop")


@FORMS
def test_a_condition_that_is_no_longer_reported_is_told_to_be(form: Form) -> None:
    asked = database(parameters={"environment": "dev", "vaultPath": "secret/apps/dev/team-a/shop"})
    world = World(asked, Platform(), form)
    world.settle()
    said = {each["type"]: each["status"] for each in world.composite["status"]["conditions"]}
    assert said["InForce"] == "False"

    del world.composite["spec"]["parameters"]["vaultPath"]
    world.reconcile()

    said = {each["type"]: each["status"] for each in world.composite["status"]["conditions"]}
    assert said["InForce"] == "Unknown"


def test_a_ttl_is_told_to_have_no_effect() -> None:
    world = World(database(parameters={"environment": "dev", "ttl": "24h"}), Platform(), xrd.NAMESPACED)
    world.settle()

    (told,) = [each for each in world.answer.conditions if each.type == "InForce"]
    assert "nothing deletes a claim" in told.message


@FORMS
def test_a_login_is_rotated_and_the_old_one_goes_in_time(form: Form) -> None:
    asked = database()
    world = World(asked, Platform(), form)
    world.settle()
    assert world.composite["status"]["login"]["generation"] == 1

    world.composite["metadata"]["annotations"] = {"steelyard.dev/rotate": "now"}
    world.settle()

    assert world.composite["status"]["login"]["generation"] == 2, world.composite["status"]["login"]
    assert {"login", "login-r2"} <= set(world.composed())
    world.moment += 7 * 86400
    world.settle()
    assert "login" not in world.composed()
    assert world.composite["status"]["state"] == "Ready"


@FORMS
def test_a_claim_that_was_ready_and_loses_a_part_is_degraded(form: Form) -> None:
    world = World(database(), Platform(), form)
    world.settle()

    made = world.find("Database")
    made["status"] = {"conditions": [{"type": "Ready", "status": "False", "message": "connection refused"}]}
    world.reconcile()
    assert world.composite["status"]["state"] == "Degraded", world.composite["status"]
    world.reconcile()
    assert world.composite["status"]["state"] == "Degraded", "it stays so, though Crossplane has another word"
    world.find("Database")["status"] = READY
    world.reconcile()
    assert world.composite["status"]["state"] == "Ready"


TEMPLATE = ("spec", "template", "spec", "infrastructureRef", "name")


def drifted(form: Form) -> World:
    """A cluster whose workers somebody has pointed at another template."""
    world = World(cluster(), Platform(), form)
    world.reconcile()
    complete(world)
    world.reconcile()
    world.edit(world.find("MachineDeployment"), "larger", *TEMPLATE)
    complete(world)
    return world


@FORMS
def test_a_change_by_hand_that_could_only_be_put_back_by_replacing_machines_stays_and_is_told(form: Form) -> None:
    world = drifted(form)

    for _ in range(3):
        world.reconcile()
        assert objects.at(world.find("MachineDeployment"), *TEMPLATE) == "larger"

    assert [each.reason for each in world.answer.results] == ["Drifted"]
    assert world.composite["status"]["state"] == "Drifted"
    assert "steelyard.dev/correct-drift=workers." in world.composite["status"]["message"]
    assert world.find("MachineDeployment")["spec"]["replicas"] == 2, "the rest is as the claim says"


@FORMS
def test_who_agrees_has_it_put_back(form: Form) -> None:
    world = drifted(form)
    world.reconcile()
    token = world.composite["status"]["message"].rpartition("=")[2]

    world.composite["metadata"]["annotations"] = {"steelyard.dev/correct-drift": token}
    world.reconcile()

    assert objects.at(world.find("MachineDeployment"), *TEMPLATE) != "larger"
    assert not world.answer.results


@FORMS
def test_a_cluster_that_was_ready_is_not_new_when_a_change_by_hand_is_put_back(form: Form) -> None:
    world = drifted(form)
    world.reconcile()
    assert world.composite["status"]["state"] == "Drifted"
    token = world.composite["status"]["message"].rpartition("=")[2]

    world.composite["metadata"]["annotations"] = {"steelyard.dev/correct-drift": token}
    world.reconcile()
    workers = world.find("MachineDeployment")
    workers["status"] |= {"upToDateReplicas": 0, "observedGeneration": objects.generation(workers)}
    answer = world.reconcile()

    assert world.composite["status"]["state"] == "Updating"
    assert answer.desired.composite.ready == 1, "it can be used meanwhile"


@FORMS
def test_what_the_claim_itself_asks_for_is_no_drift(form: Form) -> None:
    world = World(cluster(), Platform(), form)
    world.reconcile()
    complete(world)
    world.reconcile()

    world.composite["spec"]["parameters"]["cpuCores"] = 12
    answer = world.reconcile()

    assert not answer.results
    assert world.composite["status"]["state"] == "Updating"


@FORMS
def test_a_change_by_hand_that_disrupts_nothing_is_put_back(form: Form) -> None:
    world = World(cluster(), Platform(), form)
    world.reconcile()
    complete(world)
    world.reconcile()

    world.edit(world.find("MachineDeployment"), 7, "spec", "replicas")
    world.reconcile()

    assert world.find("MachineDeployment")["spec"]["replicas"] == 2
