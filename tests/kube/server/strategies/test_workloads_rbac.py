from typing import Any

import pytest

from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from steelyard.kube.server.strategies import lookup

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
JOBS = Resource("batch", "v1", "jobs", "Job")
GROUP = "rbac.authorization.k8s.io"
ROLES = Resource(GROUP, "v1", "roles", "Role")
CLUSTER_ROLES = Resource(GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False)
ROLE_BINDINGS = Resource(GROUP, "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLE_BINDINGS = Resource(GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False
)


def workload(**spec: Any) -> Object:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]},
    }
    return {
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec},
    }


def create(resource: Resource, obj: Object) -> list[str]:
    strategy = lookup.of(resource)
    strategy.prepare_create(obj)
    return [f"{cause.field}: {cause.message}" for cause in strategy.validate_create(obj)]


def test_a_deployment_gets_the_defaults_users_know() -> None:
    obj = workload()
    assert create(DEPLOYMENTS, obj) == []
    spec = obj["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    }
    assert spec["template"]["spec"] == {
        "containers": [
            {
                "name": "web",
                "image": "nginx:1.27",
                "imagePullPolicy": "IfNotPresent",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    assert "status" not in obj


@pytest.mark.parametrize(
    "image,policy",
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("registry:5000/nginx", "Always"),
        ("nginx@sha256:abc", "IfNotPresent"),
    ],
)
def test_images_that_may_change_are_always_pulled(image: str, policy: str) -> None:
    obj = workload()
    obj["spec"]["template"]["spec"]["containers"][0]["image"] = image
    create(DEPLOYMENTS, obj)
    assert obj["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_other_workloads_have_defaults_too() -> None:
    stateful, daemon, replicas = workload(), workload(), workload()
    assert create(STATEFUL_SETS, stateful) == create(DAEMON_SETS, daemon) == create(REPLICA_SETS, replicas) == []
    assert stateful["spec"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    assert stateful["spec"]["podManagementPolicy"] == "OrderedReady"
    assert daemon["spec"]["updateStrategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert replicas["spec"]["replicas"] == 1


WORKLOADS: list[tuple[str, Object, list[str]]] = [
    (
        "a selector is needed",
        workload(selector=None),
        [
            "spec.selector: Required value",
            'spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template `labels`',
        ],
    ),
    (
        "a variable has a name",
        workload(
            template={
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx:1.27", "env": [{"name": "A"}, {"name": ""}]}]},
            }
        ),
        ["spec.template.spec.containers[0].env[1].name: Required value"],
    ),
    (
        "an empty selector",
        workload(selector={}),
        ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
    ),
    (
        "the selector fits the template",
        workload(selector={"matchLabels": {"app": "other"}}),
        ['spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template `labels`'],
    ),
    (
        "expressions count",
        workload(selector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}),
        [],
    ),
    (
        "containers are needed",
        workload(template={"metadata": {"labels": {"app": "web"}}}),
        ["spec.template.spec.containers: Required value"],
    ),
    (
        "a container has a name and an image",
        workload(template={"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{}]}}),
        [
            "spec.template.spec.containers[0].name: Required value",
            "spec.template.spec.containers[0].image: Required value",
        ],
    ),
    (
        "replicas are not negative",
        workload(replicas=-1),
        ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
    ),
    (
        "recreating rolls nothing",
        workload(strategy={"type": "Recreate", "rollingUpdate": {}}),
        ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
    ),
    (
        "a deadline after readiness",
        workload(progressDeadlineSeconds=5, minReadySeconds=5),
        ["spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"],
    ),
]


@pytest.mark.parametrize("obj,expected", [case[1:] for case in WORKLOADS], ids=[case[0] for case in WORKLOADS])
def test_deployments(obj: Object, expected: list[str]) -> None:
    assert create(DEPLOYMENTS, obj) == expected


def test_a_selector_is_immutable() -> None:
    old, new = workload(), workload(selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]})
    create(DEPLOYMENTS, old)
    strategy = lookup.of(DEPLOYMENTS)
    strategy.prepare_update(new, old)
    assert [f"{cause.field}: {cause.message}" for cause in strategy.validate_update(new, old)] == [
        'spec.selector: Invalid value: {"matchExpressions":[{"key":"app","operator":"Exists"}]}: field is immutable'
    ]


def test_a_job_must_end() -> None:
    obj = workload(manualSelector=True)
    assert create(JOBS, obj) == ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']
    obj["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    assert create(JOBS, obj) == []
    assert (obj["spec"]["completions"], obj["spec"]["backoffLimit"]) == (1, 6)


def binding(**changes: Any) -> Object:
    return {
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "a"}],
        **changes,
    }


RIGHTS: list[tuple[str, Resource, Object, list[str]]] = [
    ("groups are filled in", CLUSTER_ROLE_BINDINGS, binding(), []),
    (
        "a cluster-wide binding takes cluster roles",
        CLUSTER_ROLE_BINDINGS,
        binding(roleRef={"kind": "Role", "name": "a"}),
        ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'],
    ),
    ("a namespaced one takes both", ROLE_BINDINGS, binding(roleRef={"kind": "Role", "name": "a"}), []),
    (
        "an account has a namespace",
        CLUSTER_ROLE_BINDINGS,
        binding(subjects=[{"kind": "ServiceAccount", "name": "a"}]),
        ["subjects[0].namespace: Required value"],
    ),
    (
        "an unknown subject",
        ROLE_BINDINGS,
        binding(subjects=[{"kind": "Robot", "name": "a"}]),
        ['subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"'],
    ),
    (
        "a rule is complete",
        ROLES,
        {"rules": [{}]},
        [
            "rules[0].verbs: Required value: verbs must contain at least one value",
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            "rules[0].resources: Required value: resource rules must supply at least one resource",
        ],
    ),
    (
        "paths are for the whole cluster",
        ROLES,
        {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]},
        ['rules[0].nonResourceURLs: Invalid value: ["/healthz"]: namespaced rules cannot apply to non-resource URLs'],
    ),
    ("paths in a cluster role", CLUSTER_ROLES, {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]}, []),
    (
        "a webhook is named like a host and called somewhere",
        WEBHOOKS,
        {"webhooks": [{"name": "a", "sideEffects": "None", "admissionReviewVersions": ["v1"]}]},
        [
            'webhooks[0].name: Invalid value: "a": should be a domain with at least three segments separated by dots',
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        ],
    ),
]


@pytest.mark.parametrize("resource,obj,expected", [case[1:] for case in RIGHTS], ids=[case[0] for case in RIGHTS])
def test_rights_and_webhooks(resource: Resource, obj: Object, expected: list[str]) -> None:
    assert create(resource, obj) == expected


def test_a_binding_keeps_its_role() -> None:
    old, new = binding(), binding(roleRef={"kind": "ClusterRole", "name": "admin"})
    create(CLUSTER_ROLE_BINDINGS, old)
    strategy = lookup.of(CLUSTER_ROLE_BINDINGS)
    strategy.prepare_update(new, old)
    assert [f"{cause.field}: {cause.message}" for cause in strategy.validate_update(new, old)] == [
        'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"admin"}: cannot '
        "change roleRef"
    ]


def test_generations_are_counted_where_upstream_counts_them() -> None:
    assert lookup.of(DEPLOYMENTS).tracks_generation
    assert lookup.of(CUSTOM_RESOURCE_DEFINITIONS).tracks_generation
    assert not lookup.of(ROLES).tracks_generation
