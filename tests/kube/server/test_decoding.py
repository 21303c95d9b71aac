import pytest

from steelyard.kube import resources
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server import decoding

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
SERVICES = Resource("", "v1", "services", "Service")
QUANTITIES = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

WRONG: list[tuple[str, Resource, Object, str]] = [
    (
        "a text for a number",
        DEPLOYMENTS,
        {"spec": {"replicas": "3"}},
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    (
        "a fraction for an integer",
        DEPLOYMENTS,
        {"spec": {"replicas": 1.5}},
        "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    (
        "a number too large",
        DEPLOYMENTS,
        {"spec": {"replicas": 3000000000}},
        "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    (
        "a number for a label",
        resources.SECRETS,
        {"metadata": {"labels": {"a": 1}}},
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
    ),
    (
        "a text for a list",
        DEPLOYMENTS,
        {"spec": {"template": {"spec": {"containers": "x"}}}},
        "json: cannot unmarshal string into Go struct field PodSpec.spec.template.spec.containers of type "
        "[]v1.Container",
    ),
    (
        "a list for an object",
        DEPLOYMENTS,
        {"spec": []},
        "json: cannot unmarshal array into Go struct field Deployment.spec of type v1.DeploymentSpec",
    ),
    (
        "a text for a boolean",
        resources.CONFIG_MAPS,
        {"immutable": "yes"},
        "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool",
    ),
    (
        "an object for a map of texts",
        resources.CONFIG_MAPS,
        {"data": {"a": {"b": "c"}}},
        "json: cannot unmarshal object into Go struct field ConfigMap.data of type string",
    ),
    ("text that is not base64", resources.SECRETS, {"data": {"a": "no!"}}, "illegal base64 data at input byte 2"),
    (
        "a quantity without digits",
        DEPLOYMENTS,
        {"spec": {"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "lots"}}}]}}}},
        QUANTITIES,
    ),
    (
        "a time that is none",
        resources.LEASES,
        {"metadata": {"creationTimestamp": "today"}},
        'parsing time "today" as "2006-01-02T15:04:05Z07:00": cannot parse "today" as "2006"',
    ),
    (
        "a boolean for a port",
        SERVICES,
        {"spec": {"ports": [{"targetPort": True}]}},
        "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
    ),
]


@pytest.mark.parametrize("resource,obj,expected", [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_type_is_refused(resource: Resource, obj: Object, expected: str) -> None:
    error = decoding.check(resource, obj)
    assert error is not None
    assert error.message == f'{resource.kind} in version "v1" cannot be handled as a {resource.kind}: {expected}'
    assert error.code == 400


def test_what_go_reads_is_accepted() -> None:
    obj: Object = {
        "metadata": {"name": "a", "creationTimestamp": None, "labels": None, "unknown": 5},
        "spec": {
            "replicas": 3.0,
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
            "template": {"spec": {"containers": [{"resources": {"limits": {"cpu": 1, "memory": "1.5Gi"}}}]}},
        },
    }
    assert decoding.check(DEPLOYMENTS, obj) is None


def test_a_custom_resource_has_its_metadata_checked() -> None:
    widgets = Resource("example.com", "v1", "widgets", "Widget")
    assert decoding.check_metadata(widgets, {"metadata": {"name": "a"}, "spec": {"x": 1}}) is None
    error = decoding.check_metadata(widgets, {"metadata": {"finalizers": "a"}})
    assert error is not None
    assert error.message == (
        'Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal string into Go struct field '
        "ObjectMeta.metadata.finalizers of type []string"
    )
