"""Network plugins from manifests that the platform file names, without Argo CD."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from steelyard.compose import names
from steelyard.compose.composed import NOTHING, Composed
from steelyard.kube import objects
from steelyard.kube.objects import Object
from tests.compose.integrations import clusters
from tests.compose.integrations.clusters import claim, compose, up

PLATFORM = "kubevirt: {networkManifests: {cilium: [{name: cilium}]}}"
FROM_SECRET = "kubevirt: {networkManifests: {cilium: [{name: cilium, kind: Secret}]}}"
SET, COPY = "inside-network-plugin", "inside-network-plugin-manifests"


def source(**data: str) -> Object:
    return {"metadata": {"name": "cilium", "namespace": "steelyard-system"}, "data": data}


def network(composed: Composed) -> Any:
    return next((each for each in composed.conditions if each.type == "NetworkInstalled"), None)


def texts(composed: Composed) -> list[str]:
    return [base64.b64decode(value).decode() for value in composed.desired[COPY].object["data"].values()]


def test_each_cluster_gets_a_copy_where_its_set_finds_it() -> None:
    asked = claim()
    composed = compose(asked, PLATFORM, up(asked, network_manifests_0=source(**{"a.yaml": "kind: DaemonSet"})))
    copy, applied = composed.desired[COPY].object, composed.desired[SET].object

    home = names.external("team-a", "shop")
    assert objects.namespace(copy) == objects.namespace(applied) == home
    assert copy["type"] == "addons.cluster.x-k8s.io/resource-set", "Cluster API takes no other Secret"
    assert applied["spec"]["resources"] == [{"kind": "Secret", "name": objects.name(copy)}]
    cluster = composed.desired["cluster"].object
    assert objects.matches(applied["spec"]["clusterSelector"]["matchLabels"], cluster)
    assert network(composed) is None
    assert composed.requirements["network-manifests-0"].namespace == "steelyard-system"


def test_what_is_different_in_each_cluster_is_filled_in_and_nothing_else() -> None:
    asked = claim()
    text = "${POD_CIDR} ${SERVICE_CIDR} ${CONTROL_PLANE_ENDPOINT_HOST}:${CONTROL_PLANE_ENDPOINT_PORT} ${HOME} $POD_CIDR"
    composed = compose(asked, PLATFORM, up(asked, network_manifests_0=source(**{"a.yaml": text})))

    assert texts(composed) == ["10.243.0.0/16 10.95.0.0/16 192.168.0.225:6443 ${HOME} $POD_CIDR"]


@pytest.mark.parametrize(
    ("platform", "found", "told"),
    [
        (PLATFORM, None, "there is no ConfigMap steelyard-system/cilium, which the platform file names"),
        (PLATFORM, source(), "ConfigMap steelyard-system/cilium is empty"),
        (PLATFORM, source(a="${CONTROL_PLANE_ADDRESSES}"), "asks for CONTROL_PLANE_ADDRESSES, which is not known yet"),
        (FROM_SECRET, source(a="no base64!"), "Secret steelyard-system/cilium holds what is no text"),
        (FROM_SECRET, source(a="/////w=="), "Secret steelyard-system/cilium holds what is no text"),
    ],
    ids=["missing", "empty", "not known yet", "no base64", "no text"],
)
def test_manifests_that_cannot_be_used_are_told_of(platform: str, found: Object | None, told: str) -> None:
    asked = claim()
    composed = compose(asked, platform, up(asked, **({} if found is None else {"network_manifests_0": found})))

    assert (network(composed).status, network(composed).reason) == ("False", "ManifestsNotUsable")
    assert told in network(composed).message
    assert {SET, COPY} <= composed.retained, "what was installed before stays"
    assert SET not in composed.desired


def test_a_secret_is_read_as_well() -> None:
    asked = claim()
    found = source(a=base64.b64encode(b"kind: DaemonSet").decode())

    assert texts(compose(asked, FROM_SECRET, up(asked, network_manifests_0=found))) == ["kind: DaemonSet"]


def test_the_addresses_of_the_control_plane_are_filled_in_once_they_are_known() -> None:
    asked = claim()
    observed = up(asked, network_manifests_0=source(a="${CONTROL_PLANE_ADDRESSES}"))
    machines = [
        {
            "metadata": {"name": address, "labels": {"cluster.x-k8s.io/control-plane": ""}},
            "status": {"addresses": [{"type": "InternalIP", "address": address}]},
        }
        for address in ("10.16.0.8", "10.16.0.7")
    ]
    observed = type(observed)(observed.resources, {**observed.required, "machines": machines})

    assert texts(compose(asked, PLATFORM, observed)) == ["10.16.0.7,10.16.0.8"]


@pytest.mark.parametrize(
    ("infrastructure", "platform", "told"),
    [
        ("kubevirt", "", ("Unknown", "NobodyInstallsIt")),
        ("kubevirt", "kubevirt: {networkManifests: {calico: [{name: calico}]}}", ("Unknown", "NobodyInstallsIt")),
        ("kubevirt", f"integrations: {{argocd: {{enabled: true}}}}\n{PLATFORM}", None),
        ("simulated", PLATFORM, None),
    ],
    ids=["nobody", "another plugin's only", "argo cd does it", "machines with a network"],
)
def test_nobody_is_told_to_wait_for_a_plugin_that_somebody_installs(
    infrastructure: str, platform: str, told: tuple[str, str] | None
) -> None:
    found = network(compose(clusters.claim(infrastructure), platform, NOTHING))

    assert (None if found is None else (found.status, found.reason)) == told
