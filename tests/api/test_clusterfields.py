"""What claims for clusters may say besides sizes: judged alike by an API server with the shipped policies and by the
command line, and what stays once a cluster was made with it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from steelyard import settings
from steelyard.api import resources
from steelyard.compose import checking, offering
from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.call import AUTHENTICATED, User
from tests.controllers.claims import stage as stages
from tests.controllers.claims.stage import NAMESPACE, Stage

PLATFORM = """
networks: {reserved: [10.16.0.0/16], apiEndpoints: [{claimsIn: [team-a], hosts: [shop.example.org, "*.team-a.org"]}]}
"""
WORKLOAD, KUBERNETES = "WorkloadCluster", "KubernetesCluster"
RBAC = "rbac.authorization.k8s.io"


def claim(kind: str, name: str = "shop", **parameters: Any) -> Object:
    return {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"parameters": {"environment": "dev", **parameters}},
    }


def resource_of(kind: str) -> Resource:
    find = resources.workload_clusters if kind == WORKLOAD else resources.kubernetes_clusters
    return find("steelyard.dev")


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[Stage]:
    """The API alone: no controller says what becomes of a claim."""
    async with stages.opened(folder, PLATFORM) as stage:
        await stage.crash()
        yield stage


def on_the_command_line(asked: Object) -> list[str]:
    kind = offering.STANDARD.kind_of(asked)
    assert kind is not None
    return checking.of(kind, settings.parse(PLATFORM))(asked)


def pool(**fields: Any) -> Object:
    return {"nodePools": [{"name": "gpu", **fields}]}


def nodes(**fields: Any) -> Object:
    return {"infrastructure": "kvm", "nodeSettings": fields}


ACCEPTED: list[Any] = [
    pytest.param(
        pool(
            replicas=2,
            cpuCores=16,
            memoryGi=64,
            diskGb=100,
            labels={"example.com/gpu": "true", "node.kubernetes.io/kind": "x"},
            taints=[{"key": "gpu", "effect": "NoSchedule"}, {"key": "a/b", "value": "c", "effect": "NoExecute"}],
        ),
        id="pool with everything",
    ),
    pytest.param(pool(minReplicas=0, maxReplicas=5, replicas=3), id="pool with bounds"),
    pytest.param({"podCidr": "10.200.0.0/16", "serviceCidr": "10.201.0.0/20"}, id="ranges"),
    pytest.param({"infrastructure": "kubevirt", "apiEndpoint": "shop.example.org:6443"}, id="endpoint on kubevirt"),
    pytest.param({"infrastructure": "kubevirt", "apiEndpoint": "api.team-a.org:6443"}, id="endpoint of a domain"),
    pytest.param({"deletionProtection": True, "ttl": "168h"}, id="protected for a week"),
    pytest.param({"ttl": "1h30m"}, id="hours and minutes"),
    pytest.param({"addOns": ["metrics-server", "cert-exporter"]}, id="add-ons"),
    pytest.param(
        nodes(
            containerVolumeGb=40,
            etcdVolumeGb=8,
            hostVolumes=[{"name": "data", "hostPath": "/srv/data", "mountPath": "/data"}],
            dnsServers=["10.0.0.53", "fd00::53"],
            registryMirrors=[{"registry": "*", "urls": ["http://10.0.0.5:5000"]}],
            proxy={"http": "http://proxy:3128", "exceptions": [".example.org"]},
            clusterDomain="k8s.internal",
            conntrack={"min": 100, "tcpEstablishedTimeout": "24h"},
        ),
        id="settings of machines on kvm",
    ),
]
REFUSED: list[Any] = [
    pytest.param(pool(minReplicas=1), "give both, or neither", id="half of the bounds"),
    pytest.param(pool(minReplicas=3, maxReplicas=2), "must not be more than maxReplicas", id="bounds upside down"),
    pytest.param(pool(minReplicas=1, maxReplicas=2, replicas=3), "must lie between", id="out of bounds"),
    pytest.param({"nodePools": [{"name": "a"}, {"name": "a"}]}, "Duplicate value", id="two of one name"),
    pytest.param({"nodePools": [{"name": "md-0"}]}, "choose another name", id="name of the first workers"),
    pytest.param({"nodePools": [{"name": "control-plane"}]}, "choose another name", id="name of the control plane"),
    pytest.param({"nodePools": [{"name": "Gpu"}]}, "nodePools[0].name", id="no name"),
    pytest.param(pool(labels={"node-role.kubernetes.io/x": ""}), "use a domain of your own", id="Kubernetes' label"),
    pytest.param(pool(labels={"a,b=c": "d"}), "write a label as in", id="no label"),
    pytest.param(pool(labels={"a": "b,c=d"}), "nodePools[0].labels", id="smuggled label"),
    pytest.param(pool(taints=[{"key": "a", "effect": "Never"}]), "NoSchedule", id="unknown effect"),
    pytest.param({"podCidr": "10.200.0.1/16"}, "by its first address", id="address in a range"),
    pytest.param({"podCidr": "10.200.0.0/25"}, "/8 to /24", id="no room for a node"),
    pytest.param({"podCidr": "fd00::/48"}, "IPv4", id="IPv6"),
    pytest.param({"serviceCidr": "10.0.0.0/8"}, "/12 to /28", id="too many Services"),
    pytest.param({"podCidr": "10.200.0.0/16", "serviceCidr": "10.200.4.0/24"}, "overlap", id="Services among pods"),
    pytest.param({"podCidr": "10.200.4.0/24", "serviceCidr": "10.200.0.0/16"}, "overlap", id="pods among Services"),
    pytest.param({"podCidr": "10.95.0.0/16"}, "which the Services of the cluster have", id="the Services' by default"),
    pytest.param({"serviceCidr": "10.243.7.0/24"}, "which the pods of the cluster have", id="the pods' by default"),
    pytest.param({"podCidr": "10.16.0.0/20"}, "which the platform file reserves", id="reserved"),
    pytest.param({"apiEndpoint": "shop.example.org:6443"}, "cannot be chosen on simulated", id="endpoint on simulated"),
    pytest.param(
        {"infrastructure": "kubevirt", "apiEndpoint": "other.example.org:6443"},
        "other.example.org is not for claims in team-a to name",
        id="endpoint of somebody else",
    ),
    pytest.param(
        {"infrastructure": "kubevirt", "apiEndpoint": "evil-team-a.org:6443"}, "is not for claims in", id="no domain"
    ),
    pytest.param({"apiEndpoint": "shop.example.org"}, "apiEndpoint", id="endpoint without a port"),
    pytest.param({"apiEndpoint": "shop.example.org:70000"}, "at most 65535", id="no port"),
    pytest.param({"ttl": "5m"}, "from 10m to 8760h", id="too short"),
    pytest.param({"ttl": "9000h"}, "from 10m to 8760h", id="too long"),
    pytest.param({"ttl": "a week"}, "ttl", id="no duration"),
    pytest.param({"addOns": ["metrics-server", "istio"]}, "cert-exporter", id="unknown add-on"),
    pytest.param({"addOns": ["metrics-server", "metrics-server"]}, "Duplicate value", id="add-on twice"),
    pytest.param(
        {"nodeSettings": {"containerVolumeGb": 40}}, "machines of simulated have no such settings", id="no settings"
    ),
    pytest.param(nodes(dnsServers=["dns.example.org"]), "write an address such as", id="no address"),
    pytest.param(
        nodes(registryMirrors=[{"registry": "../etc", "urls": ["https://a"]}]), "registry", id="a step upwards"
    ),
    pytest.param(
        nodes(registryMirrors=[{"registry": "a", "urls": ['https://a"]']}]), "urls[0]", id="smuggled into TOML"
    ),
    pytest.param(nodes(proxy={"http": "http://{{ ds }}:1"}), "proxy.http", id="smuggled into a template"),
    pytest.param(nodes(proxy={"http": "http://me:secret@proxy:1"}), "proxy.http", id="a password"),
    pytest.param(
        nodes(hostVolumes=[{"name": "a", "hostPath": "/srv/../etc", "mountPath": "/a"}]), "hostPath", id="out of a root"
    ),
]
OF_WORKLOAD: list[Any] = [
    pytest.param({"infrastructure": "kubevirt", "memoryGi": 1}, "kubeadm needs 2", id="too little memory"),
]
OF_KUBERNETES: list[Any] = [
    pytest.param({"controlPlaneNodes": 2}, "choose 1, 3 or 5", id="two"),
    pytest.param({"controlPlaneNodes": 4}, "choose 1, 3 or 5", id="four"),
    pytest.param({"controlPlaneNodes": 7}, "less than or equal to 5", id="seven"),
    pytest.param({"workerNodes": 0}, "greater than or equal to 1", id="no worker"),
    pytest.param({"workerNodes": 11}, "less than or equal to 10", id="too many workers"),
    pytest.param({"workerCPU": "0"}, "whole cores", id="no core"),
    pytest.param({"controlPlaneCPU": "1.5"}, "whole cores", id="half a core"),
    pytest.param({"controlPlaneCPU": "600"}, "whole cores", id="too many cores"),
    pytest.param({"workerMemory": "8"}, "whole GiB", id="bytes"),
    pytest.param({"workerMemory": "8G"}, "whole GiB", id="another unit"),
    pytest.param({"workerStorage": "70000Gi"}, "1Gi to 65536Gi", id="too large a disk"),
    pytest.param({"networkPlugin": "weave"}, "kube-ovn", id="unknown plugin"),
    pytest.param(
        {"infrastructure": "kubevirt", "networkPlugin": "flannel"}, "do not have flannel", id="plugin of other machines"
    ),
    pytest.param({"vaultPath": "secret/clusters/production"}, "other paths are other people's", id="another's path"),
    pytest.param({"vaultPath": "kv/clusters/dev"}, "it must be secret/clusters/", id="another engine"),
    pytest.param({"infrastructure": "kubevirt", "controlPlaneMemory": "1Gi"}, "kubeadm needs 2", id="little memory"),
]


@pytest.mark.parametrize("kind", [WORKLOAD, KUBERNETES])
async def test_what_may_be_asked_for_is_accepted_and_kept(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path) as stage:
        for number, each in enumerate(ACCEPTED):
            asked = claim(kind, f"shop-{number}", **each.values[0])
            created = await stage.client.create(resource_of(kind), asked)
            assert created["spec"] == asked["spec"], each.id
            assert on_the_command_line(asked) == [], each.id


@pytest.mark.parametrize(
    ("kind", "cases"),
    [
        pytest.param(WORKLOAD, [*REFUSED, *OF_WORKLOAD], id=WORKLOAD),
        pytest.param(KUBERNETES, [*REFUSED, *OF_KUBERNETES], id=KUBERNETES),
    ],
)
async def test_what_cannot_be_is_refused_by_the_api_and_on_the_command_line(
    tmp_path: Path, kind: str, cases: list[Any]
) -> None:
    async with opened(tmp_path) as stage:
        for each in cases:
            parameters, because = each.values
            asked = claim(kind, **parameters)
            with pytest.raises((errors.Invalid, errors.Forbidden)) as refused:
                await stage.client.create(resource_of(kind), asked, dry_run=True)
            assert because in refused.value.message, each.id
            told = on_the_command_line(asked)
            assert any(because in problem for problem in told), f"{each.id}: {told}"


async def test_the_domain_of_a_cluster_stays(tmp_path: Path) -> None:
    async with opened(tmp_path) as stage:
        asked = claim(WORKLOAD, **nodes(clusterDomain="k8s.internal", containerVolumeGb=40))
        await stage.client.create(resource_of(WORKLOAD), asked)
        change: Object = {"spec": {"parameters": {"nodeSettings": {"clusterDomain": "other.internal"}}}}
        assert await stage.client.patch(resource_of(WORKLOAD), "shop", change, NAMESPACE), "nothing is made yet"
        status: Object = {"clusterRef": {"name": "shop", "namespace": NAMESPACE}}
        await stage.client.patch(resource_of(WORKLOAD), "shop", {"status": status}, NAMESPACE, subresource="status")
        for settings_ in ({"clusterDomain": "k8s.internal"}, {"clusterDomain": None}, None):
            change = {"spec": {"parameters": {"nodeSettings": settings_}}}
            with pytest.raises(errors.Invalid, match="the domain of a cluster is in its certificates"):
                await stage.client.patch(resource_of(WORKLOAD), "shop", change, NAMESPACE)
        change = {"spec": {"parameters": {"nodeSettings": {"containerVolumeGb": 50}}}}
        assert await stage.client.patch(resource_of(WORKLOAD), "shop", change, NAMESPACE)


async def test_ranges_in_which_machines_have_their_addresses_are_refused_on_kvm_alone(tmp_path: Path) -> None:
    async with stages.opened(tmp_path, "kvm: {hosts: {local: {}}}") as stage:
        await stage.crash()
        asked = claim(WORKLOAD, podCidr="10.200.0.0/16")
        assert await stage.client.create(resource_of(WORKLOAD), asked, dry_run=True)
        asked["spec"]["parameters"]["infrastructure"] = "kvm"
        with pytest.raises(errors.Invalid, match="where the machines of such clusters have their addresses"):
            await stage.client.create(resource_of(WORKLOAD), asked, dry_run=True)


async def test_everything_that_the_platform_refuses_is_told_at_once() -> None:
    asked = claim(
        WORKLOAD, podCidr="10.16.0.0/20", apiEndpoint="shop.example.org:6443", **pool(labels={"k8s.io/a": "b"})
    )

    told = "; ".join(on_the_command_line(asked))

    for field in ("spec.parameters.podCidr: ", "spec.parameters.apiEndpoint: ", "spec.parameters.nodePools: "):
        assert field in told


async def test_names_of_pools_and_of_their_cluster_fit_into_a_label(tmp_path: Path) -> None:
    fits, too_long = (claim(WORKLOAD, "b" * 20, nodePools=[{"name": "a" * length}]) for length in (39, 40))
    async with opened(tmp_path) as stage:
        assert await stage.client.create(resource_of(WORKLOAD), fits, dry_run=True)
        with pytest.raises(errors.Invalid, match="shorten the names of pools"):
            await stage.client.create(resource_of(WORKLOAD), too_long, dry_run=True)
    assert on_the_command_line(fits) == []
    assert len(on_the_command_line(too_long)) == 1


USED: dict[str, Object] = {
    WORKLOAD: {
        "environment": "dev", "infrastructure": "kubevirt", "controlPlaneReplicas": 1, "workerReplicas": 2,
        "cpuCores": 8, "memoryGi": 32, "diskGb": 100, "kubernetesVersion": "v1.32.1",
        "podCidr": "10.200.0.0/16", "serviceCidr": "10.201.0.0/16",
    },
    KUBERNETES: {
        "environment": "dev", "infrastructure": "kubevirt", "controlPlaneNodes": 1, "workerNodes": 2,
        "controlPlaneCPU": "8", "controlPlaneMemory": "32Gi", "workerCPU": "8", "workerMemory": "32Gi",
        "workerStorage": "100Gi", "kubernetesVersion": "v1.32.1",
        "podCidr": "10.200.0.0/16", "serviceCidr": "10.201.0.0/16",
    },
}  # fmt: skip
BEFORE: Object = {"nodePools": [{"name": "gpu", "diskGb": 100}], "apiEndpoint": "shop.example.org:6443"}
STAYS: list[Any] = [
    pytest.param({"infrastructure": "simulated"}, "of kubevirt, which cannot become another", id="infrastructure"),
    pytest.param({"podCidr": "10.202.0.0/16"}, "in 10.200.0.0/16, which cannot become another", id="pods"),
    pytest.param({"serviceCidr": "10.202.0.0/16"}, "in 10.201.0.0/16, which cannot become another", id="Services"),
    pytest.param({"apiEndpoint": "other.example.org:6443"}, "leave it as it was", id="endpoint"),
    pytest.param({"apiEndpoint": None}, "leave it as it was", id="endpoint taken out"),
    pytest.param({"nodePools": [{"name": "gpu", "diskGb": 99}]}, "disks do not shrink", id="disk of a pool"),
]
MAY_CHANGE: list[Any] = [
    pytest.param({"podCidr": "10.200.0.0/16", "infrastructure": "kubevirt"}, id="what there is, spelled out"),
    pytest.param({"nodePools": [{"name": "gpu", "diskGb": 200, "replicas": 3}]}, id="larger disk"),
    pytest.param({"nodePools": [{"name": "other", "diskGb": 10}]}, id="another pool"),
    pytest.param({"nodePools": None}, id="no pool"),
]


async def made(stage: Stage, kind: str, name: str, revision: str = "v2") -> None:
    asked = claim(kind, name, infrastructure="kubevirt", **(BEFORE if revision != "v1" else {}))
    await stage.client.create(resource_of(kind), asked)
    await stage.client.patch(resource_of(kind), name, {"spec": {"parameters": {"infrastructure": None}}}, NAMESPACE)
    status: Object = {
        "parameters": USED[kind],
        "compositionRevision": revision,
        "clusterRef": {"name": name, "namespace": NAMESPACE},
    }
    await stage.client.patch(resource_of(kind), name, {"status": status}, NAMESPACE, subresource="status")


@pytest.mark.parametrize(
    ("kind", "smaller"),
    [(WORKLOAD, {"diskGb": 99}), (KUBERNETES, {"workerStorage": "99Gi"})],
    ids=[WORKLOAD, KUBERNETES],
)
async def test_what_a_cluster_was_made_with_stays(tmp_path: Path, kind: str, smaller: Object) -> None:
    async with opened(tmp_path) as stage:
        await made(stage, kind, "shop")
        refused_changes: list[Any] = [*STAYS, pytest.param(smaller, "disks do not shrink", id="disk")]
        for each in refused_changes:
            change, because = each.values
            with pytest.raises(errors.Invalid) as refused:
                await stage.client.patch(resource_of(kind), "shop", {"spec": {"parameters": change}}, NAMESPACE)
            assert because in refused.value.message, each.id
        for number, each in enumerate(MAY_CHANGE):
            await made(stage, kind, f"other-{number}")
            patch: Object = {"spec": {"parameters": each.values[0]}}
            assert await stage.client.patch(resource_of(kind), f"other-{number}", patch, NAMESPACE), each.id


async def test_a_claim_of_the_first_revision_is_told_how_to_move_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as stage:
        await made(stage, WORKLOAD, "old", revision="v1")
        with pytest.raises(errors.Invalid, match="steelyard revise old -n team-a --to v2"):
            await stage.client.patch(resource_of(WORKLOAD), "old", {"spec": {"parameters": {"ttl": "1h"}}}, NAMESPACE)
        patch: Object = {"spec": {"parameters": {"workerReplicas": 3}}}
        assert await stage.client.patch(resource_of(WORKLOAD), "old", patch, NAMESPACE)
        both: Object = {
            "metadata": {"annotations": {"steelyard.dev/composition-revision": "v2"}},
            "spec": {"parameters": {"ttl": "1h"}},
        }
        assert await stage.client.patch(resource_of(WORKLOAD), "old", both, NAMESPACE), "as one commit in Git"


async def test_who_may_not_delete_a_claim_cannot_have_it_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as stage:
        await made(stage, WORKLOAD, "shop")
        rules = [
            {"verbs": ["get", "create", "patch", "update"], "apiGroups": ["compute.steelyard.dev"], "resources": ["*"]}
        ]
        role: Object = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "a", "namespace": NAMESPACE}}
        await stage.client.create(Resource(RBAC, "v1", "roles", "Role"), {**role, "rules": rules})
        binding: Object = {
            "metadata": {"name": "a", "namespace": NAMESPACE},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "a"},
            "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "mallory"}],
        }
        await stage.client.create(Resource(RBAC, "v1", "rolebindings", "RoleBinding"), binding)
        mallory = stage.as_(User("mallory", (AUTHENTICATED,)))
        patch: Object = {"spec": {"parameters": {"ttl": "10m"}}}

        with pytest.raises(errors.Forbidden, match="it deletes the claim, which mallory may not"):
            await mallory.patch(resource_of(WORKLOAD), "shop", patch, NAMESPACE)
        assert await mallory.create(resource_of(WORKLOAD), claim(WORKLOAD, "own", ttl="10m"))
        assert await stage.client.patch(resource_of(WORKLOAD), "shop", patch, NAMESPACE)
        assert await mallory.patch(
            resource_of(WORKLOAD), "shop", {"spec": {"parameters": {"workerReplicas": 3}}}, NAMESPACE
        )


@pytest.mark.parametrize("kind", [WORKLOAD, KUBERNETES])
async def test_a_protected_claim_is_deleted_by_nobody(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path) as stage:
        await stage.client.create(resource_of(kind), claim(kind, deletionProtection=True))
        await stage.client.patch(
            resource_of(kind), "shop", {"metadata": {"annotations": {"steelyard.dev/protected": "false"}}}, NAMESPACE
        )
        with pytest.raises(errors.Forbidden, match=r"protected by spec\.parameters\.deletionProtection"):
            await stage.client.delete(resource_of(kind), "shop", NAMESPACE)
        with pytest.raises(errors.Forbidden, match=r"protected by spec\.parameters\.deletionProtection"):
            await stage.client.delete_collection(resource_of(kind), NAMESPACE)
        patch: Object = {"spec": {"parameters": {"deletionProtection": False}}}
        await stage.client.patch(resource_of(kind), "shop", patch, NAMESPACE)
        await stage.client.delete(resource_of(kind), "shop", NAMESPACE)
        assert await stage.find(resource_of(kind), "shop") is None
