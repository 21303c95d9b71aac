"""What upstream says of built-in kinds that are wrong, and what it fills in; the corpus compares the same with it."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import LEASES, NODES, SECRETS, Resource
from steelyard.kube.server.strategies import schedules
from tests.kube.server.bench import Bench, make

ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
LIMITS = Resource("", "v1", "limitranges", "LimitRange")
PRIORITIES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")

POD: Object = {"containers": [{"name": "c", "image": "i"}]}
SELECTED: Object = {
    "selector": {"matchLabels": {"x": "1"}},
    "template": {"metadata": {"labels": {"x": "1"}}, "spec": POD},
}
ENDING: Object = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}


def of(resource: Resource, spec: Object | None = None, **more: Any) -> Object:
    return {**make(resource, "a", spec), **more}


WRONG: list[tuple[str, Resource, Object, list[str]]] = [
    (
        "a quota for nothing there is",
        QUOTAS,
        of(QUOTAS, {"hard": {"odd": "1"}}),
        [
            'spec.hard[odd]: Invalid value: "odd": must be a standard resource type or fully qualified',
            'spec.hard[odd]: Invalid value: "odd": must be a standard resource for quota',
        ],
    ),
    (
        "half a pod",
        QUOTAS,
        of(QUOTAS, {"hard": {"pods": "500m"}}),
        ['spec.hard[pods]: Invalid value: "500m": must be an integer'],
    ),
    (
        "scopes that exclude each other",
        QUOTAS,
        of(QUOTAS, {"scopes": ["Terminating", "NotTerminating"]}),
        ['spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes'],
    ),
    (
        "a least that is more than the most",
        LIMITS,
        of(LIMITS, {"limits": [{"type": "Pod", "max": {"cpu": "500m"}, "min": {"cpu": "1"}}]}),
        ['spec.limits[0].min[cpu]: Invalid value: "1": min value 1 is greater than max value 500m'],
    ),
    (
        "a priority of the system's",
        PRIORITIES,
        of(PRIORITIES, value=2000000000),
        ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
    ),
    (
        "a slice without addresses",
        SLICES,
        of(SLICES, addressType="IPv4", endpoints=[{"addresses": []}]),
        ["endpoints[0].addresses: Required value: must contain at least 1 address"],
    ),
    (
        "an address of the other family",
        SLICES,
        of(SLICES, addressType="IPv6", endpoints=[{"addresses": ["10.0.0.1"]}]),
        ['endpoints[0].addresses: Invalid value: "10.0.0.1": must be an IPv6 address'],
    ),
    (
        "endpoints that lead nowhere",
        ENDPOINTS,
        of(ENDPOINTS, subsets=[{}]),
        ["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"],
    ),
    (
        "a policy for nobody",
        POLICIES,
        of(POLICIES, {"podSelector": {}, "ingress": [{"from": [{}]}]}),
        ["spec.ingress[0].from[0]: Required value: must specify a peer"],
    ),
    (
        "an exception outside of its range",
        POLICIES,
        of(POLICIES, {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]}]}),
        ['spec.egress[0].to[0].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`'],
    ),
    (
        "a way in to nowhere",
        INGRESSES,
        of(INGRESSES, {}),
        ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
    ),
    (
        "a way in to no port",
        INGRESSES,
        of(INGRESSES, {"defaultBackend": {"service": {"name": "s"}}}),
        ["spec.defaultBackend: Required value: port name or number is required"],
    ),
    (
        "a share of nothing",
        BUDGETS,
        of(BUDGETS, {"minAvailable": "101%"}),
        ['spec.minAvailable: Invalid value: "101%": must not be greater than 100%'],
    ),
    (
        "a rollout that cannot move",
        DEPLOYMENTS,
        of(DEPLOYMENTS, {**SELECTED, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}),
        ["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
    ),
    (
        "a strategy that does not exist",
        DAEMON_SETS,
        of(DAEMON_SETS, {**SELECTED, "updateStrategy": {"type": "Odd"}}),
        [
            'spec.updateStrategy: Unsupported value: {"Type":"Odd","RollingUpdate":null}: supported values: '
            '"RollingUpdate", "OnDelete"'
        ],
    ),
    (
        "an order that does not exist",
        STATEFUL_SETS,
        of(STATEFUL_SETS, {**SELECTED, "podManagementPolicy": "Odd"}),
        ["spec.podManagementPolicy: Invalid value: \"Odd\": must be 'OrderedReady' or 'Parallel'"],
    ),
    (
        "a schedule that is none",
        CRON_JOBS,
        of(CRON_JOBS, {"schedule": "often", "jobTemplate": {"spec": ENDING}}),
        ['spec.schedule: Invalid value: "often": expected exactly 5 fields, found 1: [often]'],
    ),
    (
        "a range that is none",
        NODES,
        of(NODES, {"podCIDR": "nonsense"}),
        [
            'spec.podCIDRs[0]: Invalid value: "nonsense": must be a valid CIDR value, (e.g. 10.9.8.0/24 or '
            "2001:db8::/64)"
        ],
    ),
]


@pytest.mark.parametrize("resource,body,expected", [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
async def test_kinds_that_are_wrong(bench: Bench, resource: Resource, body: Object, expected: list[str]) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await bench.create(resource, body)
    assert [f"{cause.field}: {cause.message}" for cause in caught.value.causes] == expected


async def test_a_job_selects_its_pods_by_its_uid(bench: Bench) -> None:
    job = await bench.create(JOBS, of(JOBS, ENDING))
    labels = {"batch.kubernetes.io/controller-uid": objects.uid(job)}
    assert job["spec"]["selector"] == {"matchLabels": labels}
    assert job["spec"]["template"]["metadata"]["labels"].items() >= labels.items()
    assert objects.labels(job)["job-name"] == "a"


async def test_a_daemon_set_counts_its_templates(bench: Bench) -> None:
    made = await bench.create(DAEMON_SETS, of(DAEMON_SETS, SELECTED))
    assert objects.annotations(made) == {"deprecated.daemonset.template.generation": "1"}
    template = {"spec": {"template": {"metadata": {"labels": {"y": "2"}}}}}
    changed = await bench.patch(DAEMON_SETS, "a", template)
    assert objects.annotations(changed) == {"deprecated.daemonset.template.generation": "2"}


async def test_a_deployment_is_another_with_other_annotations(bench: Bench) -> None:
    await bench.create(DEPLOYMENTS, of(DEPLOYMENTS, SELECTED))
    changed = await bench.patch(DEPLOYMENTS, "a", {"metadata": {"annotations": {"a": "b"}}})
    assert objects.generation(changed) == 2


async def test_limits_are_filled_in_from_each_other(bench: Bench) -> None:
    limit = {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}
    made = await bench.create(LIMITS, of(LIMITS, {"limits": [limit]}))
    [filled] = made["spec"]["limits"]
    assert (filled["default"], filled["defaultRequest"]) == ({"cpu": "2"}, {"cpu": "2", "memory": "1Mi"})


async def test_every_answer_about_endpoints_says_that_they_are_of_old(bench: Bench) -> None:
    told = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    body = of(ENDPOINTS, subsets=[{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}])
    reply = await bench.call("create", ENDPOINTS, body=body)
    assert reply.warnings == (told,)
    assert (await bench.call("get", ENDPOINTS, "a")).warnings == (told,)
    with pytest.raises(errors.Invalid) as caught:
        await bench.create(ENDPOINTS, of(ENDPOINTS, subsets=[{}]))
    assert caught.value.warnings == (told,)


async def test_a_certificate_that_is_none_is_stored_and_warned_of(bench: Bench) -> None:
    pair = of(SECRETS, type="kubernetes.io/tls", stringData={"tls.crt": "c", "tls.key": "k"})
    reply = await bench.call("create", SECRETS, body=pair)
    assert reply.warnings == ("tls: failed to find any PEM data in certificate input",)


async def test_a_lease_is_created_by_an_update(bench: Bench) -> None:
    assert (await bench.call("update", LEASES, "a", body=of(LEASES, {"holderIdentity": "me"}))).code == 201


@pytest.mark.parametrize(
    "schedule,told",
    [
        ("*/5 0-6 1,15 jan-mar mon", ""),
        ("@hourly", ""),
        ("@every 1h30m", ""),
        ("@often", "unrecognized descriptor: @often"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
    ],
)
def test_schedules(schedule: str, told: str) -> None:
    assert schedules.problem(schedule) == told
