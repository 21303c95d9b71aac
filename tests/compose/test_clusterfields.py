"""What becomes of the parameters that all kinds of clusters have: pools, ranges, endpoint, add-ons."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import settings
from steelyard.compose import comparing
from steelyard.compose.cluster import effects
from steelyard.compose.composed import NOTHING, Composed, Condition, Observed
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from steelyard.settings.networks import overlap
from tests.compose import cases

PLATFORM = Platform()
WITH_ARGOCD = settings.parse("integrations: {argocd: {enabled: true}}")
WITH_POOLS = settings.parse(
    "networks: {pods: {pools: [10.128.0.0/12]}, services: {pools: [172.20.0.0/16]}, reserved: [10.130.0.0/16]}"
)
MIN = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
MAX = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
OURS = "steelyard.dev/replicas"


def claim(
    kind: str = "WorkloadCluster",
    name: str = "shop",
    *,
    revision: str = "",
    parameters: Object | None = None,
    **more: Any,
) -> Object:
    made: Object = {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"parameters": {"environment": "dev", **(parameters or {}), **more}},
    }
    if revision:
        made["status"] = {"compositionRevision": revision}
    return made


def compose(obj: Object, observed: Observed = NOTHING, platform: Platform = PLATFORM) -> Composed:
    return cases.compose(obj, observed, platform)


def condition(composed: Composed, type_: str) -> Condition | None:
    return next((each for each in composed.conditions if each.type == type_), None)


def refusal(composed: Composed) -> tuple[str, str]:
    assert composed.refusal is not None
    return composed.refusal.reason, composed.refusal.message


def seen(composed: Composed, **changed: Object) -> Observed:
    """What was composed is there, some of it otherwise by now."""
    return Observed(resources={name: part.object for name, part in composed.desired.items()} | changed)


@pytest.mark.parametrize(
    "parameters",
    [
        {"nodePools": [{"name": "gpu"}]},
        {"podCidr": "10.200.0.0/16"},
        {"serviceCidr": "10.200.0.0/16"},
        {"deletionProtection": True},
        {"ttl": "168h"},
        {"addOns": ["metrics-server"]},
    ],
    ids=lambda each: next(iter(each)),
)
def test_a_claim_of_the_first_revision_that_uses_a_newer_field_is_told_how_to_move_on(parameters: Object) -> None:
    reason, message = refusal(compose(claim(revision="v1", **parameters)))

    assert reason == "NeedsNewerRevision"
    assert next(iter(parameters)) in message
    assert "steelyard revise shop -n team-a --to v2" in message
    assert compose(claim(**parameters)).refusal is None


def test_a_pool_has_a_deployment_templates_labels_and_taints_of_its_own() -> None:
    pool: Object = {
        "name": "gpu",
        "replicas": 2,
        "cpuCores": 32,
        "labels": {"example.com/gpu": "true", "a": "b"},
        "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
    }
    with_pool, without = compose(claim(nodePools=[pool])), compose(claim())

    more = with_pool.desired.keys() - without.desired.keys()
    assert more == {"worker-machines-gpu", "worker-bootstrap-gpu", "workers-gpu"}
    assert {name: with_pool.desired[name].object for name in without.desired} == {
        name: part.object for name, part in without.desired.items()
    }, "the first workers are not touched by a second pool"
    deployment = with_pool.desired["workers-gpu"].object
    assert (objects.name(deployment), deployment["spec"]["replicas"]) == ("shop-md-gpu", 2)
    machine = with_pool.desired["worker-machines-gpu"].object["spec"]["template"]["spec"]
    assert machine == {"cpuCores": 32, "memoryGi": 32, "diskGb": 100}, "what it leaves out is the first workers'"
    registration = with_pool.desired["worker-bootstrap-gpu"].object["spec"]["template"]["spec"]["joinConfiguration"][
        "nodeRegistration"
    ]
    assert registration["kubeletExtraArgs"] == [{"name": "node-labels", "value": "a=b,example.com/gpu=true"}]
    assert registration["taints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    assert with_pool.status["workers"]["desired"] == 4
    assert with_pool.status["parameters"]["nodePools"] == [
        {"name": "gpu", "replicas": 2, "cpuCores": 32, "memoryGi": 32, "diskGb": 100}
    ]


def test_another_size_of_a_pool_changes_that_pool_alone() -> None:
    pools = [{"name": "a", "cpuCores": 2}, {"name": "b", "cpuCores": 2}]
    before = compose(claim(nodePools=pools))
    after = compose(claim(nodePools=[pools[0], {"name": "b", "cpuCores": 4}]))

    changed = {name for name, part in before.desired.items() if after.desired[name].object != part.object}
    assert changed == {"worker-machines-b", "workers-b"}


def scaled(composed: Composed, replicas: int, *, by_autoscaler: bool = True) -> Observed:
    """The pool's deployment as it is after somebody has set its number."""
    deployment = objects.copy(composed.desired["workers-burst"].object)
    deployment["spec"]["replicas"] = replicas
    if not by_autoscaler:
        deployment["metadata"]["annotations"][OURS] = str(replicas)
    return seen(composed, **{"workers-burst": deployment})


def test_the_number_of_an_autoscaled_pool_is_applied_once_and_then_the_autoscalers() -> None:
    asked = claim(nodePools=[{"name": "burst", "minReplicas": 1, "maxReplicas": 5, "replicas": 2}])
    first = compose(asked)
    made = first.desired["workers-burst"].object
    assert made["spec"]["replicas"] == 2
    assert {MIN: "1", MAX: "5", OURS: "2"}.items() <= objects.annotations(made).items()

    again = compose(asked, seen(first))
    assert again.desired["workers-burst"].object == made, "nobody else has set it"

    after = compose(asked, scaled(first, 4))
    left = after.desired["workers-burst"].object
    assert "replicas" not in left["spec"]
    assert OURS not in objects.annotations(left)
    assert after.status["workers"]["desired"] == 2 + 4

    back = compose(asked, scaled(after, 2))
    assert "replicas" not in back.desired["workers-burst"].object["spec"], "still the autoscaler's"


def test_a_plan_does_not_take_the_autoscalers_machines_for_removed() -> None:
    asked = claim(nodePools=[{"name": "burst", "minReplicas": 1, "maxReplicas": 5}])
    first = compose(asked)
    there = scaled(first, 4)
    after = {name: part.object for name, part in compose(asked, there).desired.items()}

    assert effects.of(there.resources, after, {}) == []
    without = {name: obj for name, obj in after.items() if name != "workers-burst"}
    assert [each.count for each in effects.of(there.resources, without, {})] == [4]


@pytest.mark.parametrize(("there", "applied"), [(0, 1), (9, 5)], ids=["below", "above"])
def test_a_number_out_of_bounds_is_brought_back_and_stays_applied(there: int, applied: int) -> None:
    asked = claim(nodePools=[{"name": "burst", "minReplicas": 1, "maxReplicas": 5}])
    corrected = compose(asked, scaled(compose(asked), there))
    assert corrected.desired["workers-burst"].object["spec"]["replicas"] == applied

    again = compose(asked, seen(corrected))
    assert again.desired["workers-burst"].object["spec"]["replicas"] == applied, "leaving it out would take it away"


def test_bounds_for_a_pool_that_had_a_number_keep_the_number() -> None:
    fixed = compose(claim(nodePools=[{"name": "burst", "replicas": 3}]))
    bounded = compose(claim(nodePools=[{"name": "burst", "minReplicas": 1, "maxReplicas": 5}]), seen(fixed))

    assert bounded.desired["workers-burst"].object["spec"]["replicas"] == 3


def test_a_claim_with_bounds_says_that_an_autoscaler_must_run() -> None:
    told = condition(compose(claim(nodePools=[{"name": "burst", "minReplicas": 1, "maxReplicas": 5}])), "Autoscaled")

    assert told is not None
    assert (told.status, told.reason) == ("Unknown", "NeedsClusterAutoscaler")
    assert "burst" in told.message
    assert condition(compose(claim(nodePools=[{"name": "gpu"}])), "Autoscaled") is None


def with_endpoint(platform: Platform, **parameters: Any) -> Composed:
    asked = claim(**parameters)
    cluster = objects.copy(compose(asked, platform=platform).desired["cluster"].object)
    cluster["spec"]["controlPlaneEndpoint"] = {"host": "10.0.0.1", "port": 6443}
    return compose(asked, Observed(resources={"cluster": cluster}), platform)


def test_add_ons_are_applications_once_the_cluster_has_an_address() -> None:
    early = compose(claim(addOns=["metrics-server"]), platform=WITH_ARGOCD)
    assert "add-on-metrics-server" not in early.desired
    assert "add-on-metrics-server" in early.retained, "one that is there stays"

    composed = with_endpoint(WITH_ARGOCD, addOns=["metrics-server", "node-exporter"])
    application = composed.desired["add-on-metrics-server"].object
    assert application["spec"]["source"]["chart"] == "metrics-server"
    assert application["spec"]["source"]["targetRevision"] == "3.12.2"
    assert application["spec"]["destination"] == {"server": "https://10.0.0.1:6443", "namespace": "kube-system"}
    assert composed.desired["add-on-node-exporter"].object["spec"]["source"]["chart"] == "prometheus-node-exporter"
    assert "add-on-cert-exporter" not in composed.desired
    told = condition(composed, "AddOnsInstalled")
    assert told is not None
    assert told.status == "False"
    assert "metrics-server (Application argocd/" in told.message


def test_add_ons_come_from_where_the_platform_file_says() -> None:
    platform = settings.parse(
        "integrations: {argocd: {enabled: true, addOns: {metricsServer: {repository: oci://r.example.org/c, "
        'version: "9.9.9"}}}}'
    )
    source = (
        with_endpoint(platform, addOns=["metrics-server"]).desired["add-on-metrics-server"].object["spec"]["source"]
    )

    assert (source["repoURL"], source["targetRevision"]) == ("oci://r.example.org/c", "9.9.9")


def test_without_argo_cd_a_claim_says_that_nothing_installs_its_add_ons() -> None:
    composed = with_endpoint(PLATFORM, addOns=["metrics-server"])

    told = condition(composed, "AddOnsInstalled")
    assert told is not None
    assert (told.status, told.reason) == ("Unknown", "NobodyInstallsThem")
    assert "add-on-metrics-server" not in composed.desired


def test_an_endpoint_goes_to_the_infrastructure_that_can_have_one() -> None:
    granted = settings.parse("networks: {apiEndpoints: [{claimsIn: [team-a], hosts: [shop.example.org]}]}")
    asked = claim(infrastructure="kubevirt", apiEndpoint="shop.example.org:6443")
    composed = compose(asked, platform=granted)
    spec = composed.desired["infrastructure"].object["spec"]
    assert spec["controlPlaneEndpoint"] == {"host": "shop.example.org", "port": 6443}

    reason, message = refusal(compose(claim(apiEndpoint="shop.example.org:6443")))
    assert reason == "ParametersNotAvailable"
    assert "cannot be chosen on simulated; leave it out" in message
    assert "shop.example.org is not for claims in team-a to name" in refusal(compose(asked))[1]


def test_a_control_plane_that_kubeadm_would_refuse_is_refused_before() -> None:
    small = settings.parse("environments: {dev: {memoryGi: 1}}")

    assert "kubeadm needs 2" in refusal(compose(claim(infrastructure="kubevirt"), platform=small))[1]
    assert compose(claim(), platform=small).refusal is None, "simulated machines need nothing"


def cluster_of(composed: Composed) -> Object:
    return composed.desired["cluster"].object


def network_of(composed: Composed) -> tuple[str, str]:
    network = cluster_of(composed)["spec"]["clusterNetwork"]
    return network["pods"]["cidrBlocks"][0], network["services"]["cidrBlocks"][0]


def test_ranges_are_those_of_the_claim_and_are_reported() -> None:
    composed = compose(claim(podCidr="10.200.0.0/16", serviceCidr="10.201.0.0/20"))

    assert network_of(composed) == ("10.200.0.0/16", "10.201.0.0/20")
    assert composed.status["parameters"]["podCidr"] == "10.200.0.0/16"
    assert composed.status["parameters"]["serviceCidr"] == "10.201.0.0/20"
    assert not composed.takes_turns


def test_ranges_of_the_platforms_pools_are_free_ones_and_kept() -> None:
    other = cluster_of(compose(claim(name="other"), platform=WITH_POOLS))
    first = compose(claim(), Observed(required={"clusters-of-WorkloadCluster": [other]}), WITH_POOLS)

    assert first.takes_turns
    assert first.requirements.keys() >= {"clusters-of-WorkloadCluster", "clusters-of-KubernetesCluster"}
    running = claim()
    running["status"] = first.status
    again = compose(running, NOTHING, WITH_POOLS)
    assert network_of(again) == network_of(first)
    assert not again.takes_turns
    assert "clusters-of-WorkloadCluster" not in again.requirements


def test_a_cluster_of_the_first_revision_keeps_its_ranges_when_it_moves_on() -> None:
    old = compose(claim(revision="v1"), platform=WITH_POOLS)
    assert network_of(old) == ("10.243.0.0/16", "10.95.0.0/16")
    assert "podCidr" not in old.status["parameters"]

    moved = compose(claim(revision="v2"), seen(old), WITH_POOLS)
    assert network_of(moved) == network_of(old)


@pytest.mark.parametrize(
    ("parameters", "because"),
    [
        ({"podCidr": "10.130.4.0/24"}, "10.130.4.0/24 overlaps with 10.130.0.0/16, which the platform file reserves"),
        ({"podCidr": "10.131.0.0/16"}, "which another cluster has; choose another range"),
    ],
    ids=["reserved", "another's"],
)
def test_a_range_that_is_taken_is_refused_to_a_new_cluster(parameters: Object, because: str) -> None:
    taken = cluster_of(compose(claim("KubernetesCluster", "other", podCidr="10.131.0.0/16"), platform=WITH_POOLS))
    there = Observed(required={"clusters-of-KubernetesCluster": [taken]})

    assert because in refusal(compose(claim(**parameters), there, WITH_POOLS))[1]
    running = claim(**parameters)
    running["status"] = {"parameters": {"podCidr": parameters["podCidr"], "serviceCidr": "172.20.0.0/20"}}
    assert compose(running, there, WITH_POOLS).refusal is None, "one that has it keeps it"


NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
BOUNDS: st.SearchStrategy[Object] = st.sampled_from([{}, {"minReplicas": 2, "maxReplicas": 5}])


def fields(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    """Any of them, or none."""
    return st.fixed_dictionaries({}, optional=strategies)


def _pool(parts: tuple[str, Object, Object]) -> Object:
    name, sizes, bounds = parts
    return {"name": name, **sizes, **bounds}


def _name_of(pool: Object) -> str:
    return str(pool["name"])


SIZES = fields(
    replicas=st.integers(2, 5),
    cpuCores=st.integers(1, 64),
    memoryGi=st.integers(1, 64),
    labels=st.dictionaries(NAMES, NAMES, max_size=3),
)
POOLS = st.lists(st.tuples(NAMES, SIZES, BOUNDS).map(_pool), max_size=4, unique_by=_name_of)
SHARED = fields(
    nodePools=POOLS,
    infrastructure=st.sampled_from(["simulated", "kubevirt"]),
    podCidr=st.sampled_from(["10.200.0.0/16", "10.201.0.0/20"]),
    addOns=st.lists(st.sampled_from(["metrics-server", "cert-exporter"]), unique=True),
    ttl=st.just("168h"),
    deletionProtection=st.booleans(),
)
OF_KUBERNETES = fields(
    controlPlaneNodes=st.sampled_from([1, 3, 5]),
    workerNodes=st.integers(1, 10),
    workerCPU=st.sampled_from(["2", "16"]),
    workerMemory=st.sampled_from(["4Gi", "64Gi"]),
    enableLiveMigration=st.booleans(),
    networkPlugin=st.sampled_from(["kube-ovn", "calico", "cilium"]),
)
CLAIMS = st.one_of(
    SHARED.map(lambda shared: claim("WorkloadCluster", parameters=shared)),
    st.tuples(SHARED, OF_KUBERNETES).map(lambda both: claim("KubernetesCluster", parameters={**both[0], **both[1]})),
)


@given(CLAIMS, st.sampled_from([PLATFORM, WITH_ARGOCD, WITH_POOLS]))
def test_composing_again_with_the_output_observed_changes_nothing(asked: Object, platform: Platform) -> None:
    first = compose(asked, platform=platform)
    assert first.refusal is None
    second = compose({**asked, "status": first.status}, seen(first), platform)

    assert {name: part.object for name, part in second.desired.items()} == {
        name: part.object for name, part in first.desired.items()
    }
    assert all(comparing.covers(part.object, second.desired[name].object) for name, part in first.desired.items())
    assert second.status["parameters"] == first.status["parameters"]


@given(st.lists(st.tuples(NAMES, CLAIMS), max_size=8, unique_by=lambda each: each[0]))
def test_the_ranges_of_clusters_never_overlap(asked: list[tuple[str, Object]]) -> None:
    made: dict[str, list[Object]] = {}
    ranges: list[str] = []
    for name, each in asked:
        each["metadata"]["name"] = name
        composed = compose(
            each, Observed(required={f"clusters-of-{kind}": found for kind, found in made.items()}), WITH_POOLS
        )
        if composed.refusal is not None:
            assert "which another cluster has" in composed.refusal.message
            continue
        made.setdefault(each["kind"], []).append(cluster_of(composed))
        ranges += network_of(composed)
    assert not any(overlap(one, other) for one, other in itertools.combinations(ranges, 2))
