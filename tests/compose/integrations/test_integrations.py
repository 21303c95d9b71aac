"""What a cluster gets from other programs: which parts come of which settings, where they are, and what is told."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.api.crossplane import PUSH_SECRETS
from steelyard.compose import names, offering
from steelyard.compose.cluster import integrating
from steelyard.compose.composed import NOTHING, Composed
from steelyard.compose.integrations import ELSEWHERE, argocd, inside, sharedservices
from steelyard.compose.managed import VAULT
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, Resource
from steelyard.settings.integrations import SharedServices
from tests import inprocess
from tests.compose import upstream
from tests.compose.integrations import clusters
from tests.compose.integrations.clusters import EVERYTHING, claim, compose, up
from tests.compose.integrations.jsonschemas import Schemas

HOME = names.external("team-a", "shop")
RESOURCES = {
    each.kind: each
    for each in (
        NAMESPACES,
        SERVICE_ACCOUNTS,
        CONFIG_MAPS,
        Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    )
}
BACKSTAGE = Path(__file__).parents[4] / "shared" / "schemas" / "backstage"


def condition(composed: Composed, type_: str) -> Any:
    return next((each for each in composed.conditions if each.type == type_), None)


def enabling(*integrations: str) -> str:
    return f"integrations: {{{', '.join(f'{each}: {{enabled: true}}' for each in integrations)}}}"


def added(platform: str, infrastructure: str) -> set[str]:
    """What a platform file makes of a cluster besides what it would be without."""
    asked = claim(infrastructure)
    return set(compose(asked, platform, up(asked)).desired) - set(compose(asked, "", up(asked)).desired)


STORE = {"inside-secret-store", "inside-secret-store-manifests"}
IN_VAULT = {"vault-auth", "vault-auth-config", "vault-auth-policy", "vault-auth-role"}
PUSHED = {"vault-copy", "vault", "vault-kubeconfig"}
ENTRIES = {"istio-postgres", "istio-kafka", "istio-redis", "istio-vault", "istio-temporal"}


@pytest.mark.parametrize(
    ("platform", "simulated", "on_kubevirt"),
    [
        pytest.param("", set[str](), set[str](), id="nothing"),
        pytest.param(enabling("vault"), PUSHED, set[str](), id="vault"),
        pytest.param(enabling("externalSecrets"), set[str](), set[str](), id="no store without vault"),
        pytest.param(
            enabling("vault", "externalSecrets"), PUSHED | STORE | IN_VAULT, set[str](), id="vault and its store"
        ),
        pytest.param(
            enabling("vault", "externalSecrets", "argocd"),
            PUSHED | STORE | IN_VAULT | {"argocd-cluster", "external-secrets"},
            {"network-plugin"},
            id="installed by argo cd",
        ),
        pytest.param(enabling("sharedServices"), set[str](), {"shared-services-access"}, id="shared services"),
        pytest.param(enabling("istio"), set[str](), set[str](), id="no entries without shared services"),
        pytest.param(enabling("istio", "sharedServices"), ENTRIES, {"shared-services-access"}, id="entries"),
        pytest.param(
            "integrations: {sharedServices: {enabled: true, dns: 10.96.0.10}}",
            {"inside-shared-services", "inside-shared-services-manifests"},
            {"shared-services-access"},
            id="names of shared services",
        ),
        pytest.param(enabling("backstage"), {"backstage-entity"}, set[str](), id="backstage"),
    ],
)
def test_parts_come_of_what_is_enabled(platform: str, simulated: set[str], on_kubevirt: set[str]) -> None:
    assert added(platform, "simulated") == simulated
    assert added(platform, "kubevirt") == simulated | on_kubevirt, "the same, and what only machines there need"


def test_a_claim_of_the_first_revision_gets_nothing_and_is_told_so() -> None:
    asked = {**claim("simulated"), "status": {"compositionRevision": "v1"}}

    composed = compose(asked, EVERYTHING, up(asked))

    assert set(composed.desired) == set(compose(asked, "", up(asked)).desired)
    assert (
        "enables argocd, vault, externalSecrets, sharedServices, istio, backstage, for which composition revision v1"
        in condition(composed, "Integrated").message
    )


@pytest.mark.parametrize(
    ("platform", "told"),
    [
        (enabling("kargo", "harbor"), "enables kargo, harbor, for which"),
        (enabling("externalSecrets"), "enables externalSecrets without vault, for which"),
        (enabling("istio", "vault"), "enables istio without sharedServices, for which"),
        (EVERYTHING, None),
    ],
    ids=["of later versions", "store without vault", "mesh without services", "all that there is"],
)
def test_what_is_enabled_and_composed_for_nobody_is_told(platform: str, told: str | None) -> None:
    found = condition(compose(claim(), platform), "Integrated")

    assert (found is None) if told is None else (told in found.message)


@pytest.mark.parametrize("infrastructure", ["simulated", "kubevirt"])
def test_only_what_is_known_to_be_elsewhere_is_outside_of_the_clusters_namespaces(infrastructure: str) -> None:
    """The inventory lets go of nothing in other namespaces but that."""
    asked = claim(infrastructure)
    composed = compose(asked, EVERYTHING, up(asked))

    outside = {
        name for name, part in composed.desired.items() if objects.namespace(part.object) not in ("", "team-a", HOME)
    }
    assert outside <= ELSEWHERE | {VAULT}


@pytest.mark.parametrize("infrastructure", ["simulated", "kubevirt"])
def test_everything_that_is_composed_is_watched_and_can_be_deleted(infrastructure: str) -> None:
    asked = claim(infrastructure)
    kind = offering.STANDARD.kind_of(asked)

    assert kind is not None
    assert {part.resource for part in compose(asked, EVERYTHING, up(asked)).desired.values()} <= set(kind.makes)
    assert {argocd.APPLICATIONS, PUSH_SECRETS, inside.CLUSTER_RESOURCE_SETS} <= kind.foreign.keys()
    assert "its definition" not in kind.foreign.values(), "each says what to install"


def test_two_claims_share_no_object() -> None:
    claims = [claim("simulated", "a"), claim("simulated", "a-postgres"), claim("kubevirt", "b"), claim("kubevirt", "c")]
    identities = [
        (part.resource, objects.namespace(part.object), objects.name(part.object))
        for asked in claims
        for part in compose(asked, EVERYTHING, up(asked)).desired.values()
    ]
    assert len(identities) == len(set(identities))


def test_registrations_and_pushes_go_before_the_cluster_and_what_is_inside_goes_with_it() -> None:
    asked = claim()
    stages = {name: part.deletion_stage for name, part in compose(asked, EVERYTHING, up(asked)).desired.items()}

    before = {"argocd-cluster", "network-plugin", "external-secrets", "vault", "vault-kubeconfig", "backstage-entity",
              "shared-services-access"}  # fmt: skip
    assert all(stages[name] < stages["cluster"] for name in before)
    assert stages["vault"] < stages["vault-copy"], "what is pushed stays until the push is undone"
    assert all(stages[name] > stages["cluster"] for name in STORE)


def test_what_has_been_told_stays_while_the_kubeconfig_cannot_be_passed_on() -> None:
    composed = compose(claim(), EVERYTHING, NOTHING)

    assert PUSHED | {"argocd-cluster", "network-plugin", "external-secrets"} <= composed.retained
    assert not PUSHED & set(composed.desired)


@upstream.needed
def test_what_is_brought_into_a_cluster_passes_upstreams_schemas() -> None:
    asked = claim()
    store = clusters.inside(compose(asked, EVERYTHING, up(asked)), "inside-secret-store-manifests")[-1]
    schema = upstream.schema_of("clustersecretstores.external-secrets.io", "v1")

    assert store["apiVersion"] == "external-secrets.io/v1"
    assert upstream.problems(schema, store) == []


async def test_what_is_brought_into_a_cluster_is_accepted_there(tmp_path: Path) -> None:
    asked = claim()
    composed = compose(asked, EVERYTHING, up(asked))
    made = [
        *clusters.inside(composed, "inside-secret-store-manifests")[:-1],
        *clusters.inside(composed, "inside-shared-services-manifests"),
    ]
    async with inprocess.platform(tmp_path) as client:
        for each in made:
            await client.create(RESOURCES[each["kind"]], each)


def test_the_store_logs_in_where_vault_has_an_engine_for_this_cluster_alone() -> None:
    asked = claim()
    composed = compose(asked, EVERYTHING, up(asked))
    store = clusters.inside(composed, "inside-secret-store-manifests")[-1]

    assert store["spec"]["provider"]["vault"] == {
        "server": "https://vault.example.org:8200",
        "path": "secret",
        "version": "v2",
        "auth": {
            "kubernetes": {
                "mountPath": f"kubernetes-{HOME}",
                "role": "vcluster-dev",
                "serviceAccountRef": {"name": "external-secrets-sa", "namespace": "external-secrets"},
            }
        },
    }
    entries = {name: part.object["spec"] for name, part in composed.desired.items() if name.startswith("vault-auth")}
    assert entries["vault-auth"]["path"] == f"sys/auth/kubernetes-{HOME}"
    assert entries["vault-auth-config"]["path"] == f"auth/kubernetes-{HOME}/config"
    assert entries["vault-auth-role"]["path"] == f"auth/kubernetes-{HOME}/role/vcluster-dev"
    assert entries["vault-auth-role"]["data"]["bound_service_account_names"] == ["external-secrets-sa"]
    assert entries["vault-auth-role"]["data"]["token_policies"] == [f"steelyard-cluster-{HOME}"]
    told = condition(composed, "VaultConfigured")
    assert (told.status, told.reason) == ("False", "Configuring"), "nothing of it is there yet"


def test_where_the_platform_does_not_set_vault_up_it_says_what_there_is_to_do() -> None:
    asked = claim("simulated")
    file = "integrations: {vault: {enabled: true, configure: false}, externalSecrets: {enabled: true}}"
    composed = compose(asked, file, up(asked))

    assert not [name for name in composed.desired if name.startswith("vault-auth")]
    told = condition(composed, "VaultConfigured")
    assert told.status == "Unknown", "nothing here sets it up, and the claim does not claim so"
    assert f"auth/kubernetes-{HOME}" in told.message
    assert "vcluster-dev" in told.message


def applied() -> Object:
    return {"status": {"conditions": [{"type": "ResourcesApplied", "status": "True"}]}}


def pushed() -> Object:
    return {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ((), "waiting for PushSecret vault-"),
        (("vault", "vault-kubeconfig"), "waiting for the store of secrets inside the cluster, where External Secrets"),
        (
            ("vault", "vault-kubeconfig", "inside-secret-store"),
            "waiting for the cluster's DNS to know shared services",
        ),
        (("vault", "vault-kubeconfig", "inside-secret-store", "inside-shared-services"), ""),
    ],
    ids=["nothing", "pushed", "with its store", "everything"],
)
def test_ready_waits_for_what_is_enabled(there: tuple[str, ...], told: str) -> None:
    platform = (
        "integrations: {vault: {enabled: true}, externalSecrets: {enabled: true}, "
        "sharedServices: {enabled: true, dns: 10.96.0.10}}"
    )
    asked = claim("simulated")
    desired = {name: part.object for name, part in compose(asked, platform, up(asked)).desired.items()}
    resources = {name: {**desired[name], **(applied() if name.startswith("inside") else pushed())} for name in there}
    for name in ("control-plane", "workers"):
        counts = dict.fromkeys(("replicas", "readyReplicas", "upToDateReplicas"), desired[name]["spec"]["replicas"])
        resources[name] = {**desired[name], "status": counts}
    resources["control-plane"]["metadata"]["uid"] = clusters.CONTROL_PLANE_UID
    observed = up(asked, resources)
    initialization = {"infrastructureProvisioned": True, "controlPlaneInitialized": True}
    observed.resources["cluster"]["status"] = {"initialization": initialization}

    ready = condition(compose(asked, platform, observed), "Ready")

    assert (ready.status == "True") is (told == "")
    assert told in ready.message


def test_vault_gets_a_copy_that_nobody_beside_the_cluster_can_change() -> None:
    asked = claim("simulated")
    composed = compose(asked, enabling("vault"), up(asked))
    copy, first, second = (composed.desired[name].object for name in ("vault-copy", "vault", "vault-kubeconfig"))

    assert {objects.namespace(each) for each in (copy, first, second)} == {"crossplane-system"}
    assert first["spec"]["selector"]["secret"]["name"] == objects.name(copy)
    remote = {
        each["spec"]["data"][0]["match"]["remoteRef"]["remoteKey"]: [
            data["match"]["remoteRef"]["property"] for data in each["spec"]["data"]
        ]
        for each in (first, second)
    }
    assert composed.status["vaultPath"] == "secret/clusters/dev/team-a/shop"
    assert remote == {
        "clusters/dev/team-a/shop": ["api-url", "kubeconfig"],
        "clusters/dev/team-a/shop/kubeconfig": ["value"],
    }


@pytest.mark.parametrize("ranges", ["{services: 10.96.0.0/16}", "{pods: 10.96.0.0/16}"], ids=["services", "pods"])
def test_a_dns_that_the_cluster_would_look_for_in_itself_is_not_told_to_it(ranges: str) -> None:
    platform = f"integrations: {{sharedServices: {{enabled: true, dns: 10.96.0.10}}}}\nclusterNetwork: {ranges}"

    composed = compose(claim(), platform)

    assert "inside-shared-services" not in composed.desired
    assert "10.96.0.10, is in the range 10.96.0.0/16" in condition(composed, "SharedServices").message


def test_nothing_waits_for_objects_in_a_cluster_that_has_no_door() -> None:
    """A cluster that Cluster API does not know: no set would ever be applied to it."""
    told = dataclasses.replace(clusters.subject(claim("simulated"), EVERYTHING), has_door=False)
    integrated = integrating.of(told)

    assert not [name for name in integrated.parts if name.startswith("inside")]
    assert {each.type: each.reason for each in integrated.conditions} == {
        "VaultConfigured": "NobodyBringsTheStore",
        "SharedServices": "NobodyTellsItsDNS",
    }
    with_door = integrating.of(dataclasses.replace(told, has_door=True))
    assert {"inside-secret-store", "inside-shared-services"} <= with_door.parts.keys()


def test_dns_keeps_what_kubeadm_wrote_and_asks_elsewhere_for_shared_services_only() -> None:
    asked = claim("simulated")
    composed = compose(asked, EVERYTHING, up(asked))
    (made,) = clusters.inside(composed, "inside-shared-services-manifests")
    corefile = made["data"]["Corefile"]

    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("coredns", "kube-system")
    servers = [line for line in corefile.splitlines() if line and not line.startswith((" ", "}"))]
    assert servers == [".:53 {", "shared-services.svc.cluster.local:53 {"]
    assert "kubernetes cluster.local in-addr.arpa ip6.arpa" in corefile
    assert corefile.count("forward . ") == 2
    assert corefile.count("{") == corefile.count("}")


def test_dns_of_k3s_gets_a_server_of_its_own() -> None:
    made = sharedservices.dns_of_k3s(SharedServices(enabled=True, dns="10.96.0.10"))

    assert made["metadata"]["name"] == "coredns-custom"
    (key,) = made["data"]
    assert key.endswith(".server"), "k3s reads no other"
    assert "forward . 10.96.0.10" in made["data"][key]


def test_an_entry_of_the_mesh_is_seen_from_the_clusters_namespace_alone() -> None:
    for infrastructure, namespace in (("simulated", "team-a"), ("kubevirt", HOME)):
        asked = claim(infrastructure)
        entry = compose(asked, EVERYTHING, up(asked)).desired["istio-kafka"].object
        assert objects.namespace(entry) == namespace
        assert entry["spec"]["exportTo"] == ["."]
        assert entry["spec"]["hosts"] == ["kafka.shared-services.svc.cluster.local"]


@pytest.mark.skipif(not BACKSTAGE.is_dir(), reason="Backstage's schemas (../shared/schemas/backstage) are not here")
@pytest.mark.parametrize("infrastructure", ["simulated", "kubevirt"])
def test_backstage_accepts_the_entity(infrastructure: str) -> None:
    asked = claim(infrastructure, name="s" * 49, namespace="t" * 63)
    config = compose(asked, enabling("backstage"), up(asked)).desired["backstage-entity"].object
    entity = yaml.safe_load(config["data"]["catalog-info.yaml"])
    schemas = Schemas(BACKSTAGE)

    assert schemas.problems(entity, "ResourceV1alpha1") == []
    assert schemas.problems({**entity, "spec": {}}, "ResourceV1alpha1"), "the check can fail"
    assert len(entity["metadata"]["name"]) <= 63


def test_the_entity_says_what_the_documents_say_of_a_cluster() -> None:
    asked = claim()
    config = compose(asked, enabling("backstage"), up(asked)).desired["backstage-entity"].object
    entity = yaml.safe_load(config["data"]["catalog-info.yaml"])

    assert entity["metadata"]["annotations"] == {
        "clusterapi.io/cluster-name": "shop",
        "clusterapi.io/namespace": HOME,
        "kubernetes.io/api-server": clusters.SERVER,
    }
    assert entity["spec"] == {
        "type": "kubernetes-cluster",
        "owner": "platform-team",
        "lifecycle": "production",
        "environment": "dev",
        "dependsOn": ["component:clusterapi", "component:kubevirt"],
        "system": "platform",
    }
