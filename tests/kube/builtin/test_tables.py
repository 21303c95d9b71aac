"""The tables list the kinds as upstream's discovery does, and their schemas say how upstream merges and checks them."""

from steelyard.kube.builtin import tables
from steelyard.kube.schema.model import ANY, MISSING, Schema


def test_kinds_carry_what_discovery_shows() -> None:
    deployments = tables.find("apps", "v1", "deployments")
    assert deployments is not None
    assert deployments.resource.kind == "Deployment"
    assert deployments.resource.namespaced
    assert (deployments.singular, deployments.short_names, deployments.categories) == (
        "deployment",
        ("deploy",),
        ("all",),
    )
    assert set(deployments.verbs) == {
        *("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    }
    scale = next(inner for inner in deployments.subresources if inner.name == "scale")
    assert (scale.group, scale.version, scale.kind) == ("autoscaling", "v1", "Scale")


def test_only_versions_served_by_default_are_listed() -> None:
    assert {kind.resource.version for kind in tables.kinds()} == {"v1", "v2"}
    assert tables.find("apps", "v1beta1", "deployments") is None


def test_the_core_group_comes_first() -> None:
    groups = list(dict.fromkeys(kind.resource.group for kind in tables.kinds()))
    assert groups[0] == ""
    assert len(groups) == 21


def test_every_kind_has_a_schema_with_metadata_or_a_reason() -> None:
    without = {
        kind.resource.kind
        for kind in tables.kinds()
        if "metadata"
        not in tables.schema(kind.resource.group, kind.resource.version, kind.resource.kind).resolve().properties
    }
    assert without == set()


def at(schema: Schema, *path: str) -> Schema:
    for step in path:
        found = schema.item() if step == "*" else schema.child(step)
        assert found is not None, step
        schema = found
    return schema


def test_lists_know_how_they_merge() -> None:
    deployment = tables.schema("apps", "v1", "Deployment")
    ports = at(deployment, "spec", "template", "spec", "containers", "*", "ports")
    assert (ports.list_type, ports.list_map_keys) == ("map", ("containerPort", "protocol"))
    assert (ports.patch_strategy, ports.patch_merge_key) == (("merge",), "containerPort")
    assert at(deployment, "spec", "template", "spec", "containers", "*", "args").list_type == "atomic"
    finalizers = at(deployment, "metadata", "finalizers")
    assert (finalizers.list_type, finalizers.patch_strategy) == ("set", ("merge",))


def test_structures_know_when_they_are_replaced_whole() -> None:
    deployment = tables.schema("apps", "v1", "Deployment")
    assert at(deployment, "spec", "selector").map_type == "atomic"
    assert at(deployment, "spec", "strategy").patch_strategy == ("retainKeys",)
    assert at(tables.schema("", "v1", "Service"), "spec", "selector").map_type == "atomic"
    assert at(tables.schema("", "v1", "ConfigMap"), "data").map_type == "granular"


def test_inlined_structures_show_their_fields() -> None:
    pod = tables.schema("", "v1", "Pod")
    assert {"name", "configMap", "emptyDir"} <= set(at(pod, "spec", "volumes", "*").properties)
    probe = at(pod, "spec", "containers", "*", "livenessProbe")
    assert {"httpGet", "periodSeconds"} <= set(probe.properties)


def test_special_types_accept_what_upstream_reads() -> None:
    pod = tables.schema("", "v1", "Pod")
    container = at(pod, "spec", "containers", "*")
    assert at(container, "livenessProbe", "httpGet", "port").int_or_string
    quantity = at(container, "resources", "requests", "cpu")
    assert [option.type for option in quantity.any_of] == ["string", "number"]
    assert at(tables.schema("", "v1", "Secret"), "data", "key").format == "byte"
    assert at(pod, "metadata", "creationTimestamp").format == "date-time"
    assert at(pod, "metadata", "managedFields", "*", "fieldsV1").preserve_unknown


def test_a_type_that_contains_itself_is_no_trouble() -> None:
    crd = tables.schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    schema = at(crd, "spec", "versions", "*", "schema", "openAPIV3Schema")
    assert at(schema, "properties", "a", "properties", "b", "not") is schema
    assert at(schema, "items") is ANY


def test_defaults_and_enumerations_are_upstreams() -> None:
    port = at(tables.schema("", "v1", "Pod"), "spec", "containers", "*", "ports", "*")
    assert port.properties["protocol"].default == "TCP"
    assert port.properties["protocol"].enum == ("SCTP", "TCP", "UDP")
    assert port.properties["containerPort"].default == 0, "a key that Go always writes"
    assert port.properties["hostPort"].default is MISSING


def test_texts_and_structures_are_required_but_reports_are_taken_as_they_are() -> None:
    pod = tables.schema("", "v1", "Pod")
    assert "name" in at(pod, "spec", "containers", "*").required
    assert at(pod, "status", "containerStatuses", "*").required == ()
    assert at(pod, "status", "phase").enum is None
    assert tables.schema("rbac.authorization.k8s.io", "v1", "ClusterRole").required == ()
    assert "apiGroup" not in at(tables.schema("rbac.authorization.k8s.io", "v1", "RoleBinding"), "roleRef").required


def test_schemas_are_shared() -> None:
    assert tables.schema("", "v1", "Pod") is tables.schema("", "v1", "Pod")
    spec = at(tables.schema("apps", "v1", "Deployment"), "spec", "template", "spec")
    assert spec is at(tables.schema("batch", "v1", "Job"), "spec", "template", "spec")


def test_options_of_requests_are_known_in_every_group() -> None:
    assert "propagationPolicy" in tables.schema("batch", "v1", "DeleteOptions").properties
    assert tables.type_name("batch", "v1", "Gadget") is None
