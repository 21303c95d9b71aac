"""The package for Crossplane: what it defines is what upstream's own definitions accept, and what the CRDs say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from steelyard.api import crd, xrd
from steelyard.api.crossplane import KUBERNETES_CONFIG
from steelyard.api.xrd import Form
from steelyard.cli import main
from steelyard.compose import guarding
from steelyard.compose.composed import NOTHING
from steelyard.compose.offering import STANDARD
from steelyard.crossplane import package
from steelyard.crossplane.package.references import References
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.schema import parse as schemas
from steelyard.kube.schema import prune, validate
from steelyard.settings import Platform, parse
from tests.compose import printed, upstream
from tests.crossplane.test_composing import cluster

PLATFORM = parse("redis: {mode: helm}\npostgresql: {servers: [{providerConfig: second, namespaces: [team-b]}]}")
FILES = package.files(STANDARD, PLATFORM, References())
KINDS = [kind.definition(PLATFORM.domain) for kind in STANDARD.kinds]
FORMS = pytest.mark.parametrize("form", xrd.FORMS)


@upstream.needed
@pytest.mark.parametrize("name", sorted(FILES))
def test_what_is_crossplanes_passes_its_own_definitions(name: str) -> None:
    for obj in FILES[name]:
        group, _, version = obj["apiVersion"].partition("/")
        if not group.endswith("crossplane.io"):
            continue
        plural = f"{obj['kind'].lower()}s"
        schema = upstream.schema_of(f"{plural}.{group}", version)
        assert upstream.problems(schema, obj) == [], f"{obj['kind']} {objects.name(obj)}"


@FORMS
def test_each_kind_has_a_definition_a_composition_and_an_example(form: Form) -> None:
    for kind in KINDS:
        plural = kind.resource.plural
        (definition,), (composition,), (example,) = (
            FILES[f"{form}/{part}/{plural}.yaml"] for part in ("definitions", "compositions", "examples")
        )
        names = definition["spec"]["names"]
        assert composition["spec"]["compositeTypeRef"]["kind"] == names["kind"]
        assert composition["spec"]["mode"] == "Pipeline"
        assert objects.labels(composition)["crossplane.io/xrd"] == f"x{plural}.{kind.resource.group}"
        claimed = definition["spec"].get("claimNames", names)["kind"]
        assert example["kind"] == claimed == kind.resource.kind
        assert composition["spec"].get("writeConnectionSecretsToNamespace") == (
            "crossplane-system" if form == xrd.LEGACY else None
        )


@FORMS
def test_examples_are_accepted_and_say_nothing_that_their_definitions_do_not_know(form: Form) -> None:
    for described, kind in zip(STANDARD.kinds, KINDS, strict=True):
        (example,) = FILES[f"{form}/examples/{kind.resource.plural}.yaml"]
        assert described.compose(example, NOTHING, PLATFORM).refusal is None, example
        reference = objects.mapping(objects.at(example, "spec", "writeConnectionSecretToRef"))
        assert reference.keys() <= ({"name"} if form == xrd.LEGACY else {"name", "namespace"}), example


@FORMS
def test_a_definition_says_of_parameters_and_status_what_the_crd_says(form: Form) -> None:
    for kind in KINDS:
        mine, theirs = xrd.schema(kind, form)["properties"], crd.object_schema(kind)["properties"]
        assert mine["spec"]["properties"]["parameters"] == theirs["spec"]["properties"]["parameters"]
        assert mine["status"]["properties"].keys() == theirs["status"]["properties"].keys() - {"conditions"}
        assert not mine["spec"]["properties"].keys() & xrd.OWN_FIELDS
        assert ("writeConnectionSecretToRef" in mine["spec"]["properties"]) == (form == xrd.NAMESPACED)


def test_the_documents_claims_fit_the_legacy_definitions_but_for_the_namespace_of_a_secret() -> None:
    """Crossplane's own fields are added as it adds them."""
    for claim in printed.EVERYTHING.values():
        kind = next(each for each in KINDS if each.resource.kind == claim["kind"])
        schema = xrd.schema(kind, xrd.LEGACY)
        own: Object = {
            name: {"type": "object", "x-kubernetes-preserve-unknown-fields": True} for name in xrd.OWN_FIELDS
        }
        own["writeConnectionSecretToRef"] = {"type": "object", "properties": {"name": {"type": "string"}}}
        schema["properties"]["spec"]["properties"] |= own
        schema["properties"] |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
        checked = objects.copy(claim)
        parsed = schemas.from_openapi(schema)
        assert validate.validate(parsed, checked) == []
        assert [each for each in prune.prune(parsed, checked) if "namespace" not in each] == []


def judged(kind: str, claim: Object) -> str:
    found = next(each for each in KINDS if each.resource.kind == kind)
    rules = xrd.rules_of_whole(found)
    assert rules is not None
    return " ".join(guarding.judge([rules], found.resource)(claim))


def test_rules_of_whole_objects_are_judged_by_a_policy() -> None:
    assert judged("WorkloadCluster", cluster()) == ""
    asked = cluster()
    asked["spec"]["writeConnectionSecretToRef"] = {"name": "shop-etcd"}
    assert "Cluster API makes a Secret of this name" in judged("WorkloadCluster", asked)
    pools = [{"name": "a" * 40, "replicas": 1}]
    long = cluster(nodePools=pools)
    long["metadata"]["name"] = "b" * 40
    assert "shorten the names of pools" in judged("WorkloadCluster", long)
    named = cluster()
    named["metadata"]["name"] = "c" * 50
    assert "may not be longer than 49" in judged("WorkloadCluster", named)
    dotted = cluster()
    dotted["metadata"]["name"] = "a.b"
    assert "metadata.name: must match" in judged("WorkloadCluster", dotted)


def test_every_rule_of_a_whole_object_is_in_the_policy() -> None:
    for kind in KINDS:
        rules = kind.rules.get("", ())
        found = xrd.rules_of_whole(kind)
        count = len(rules) + sum(key in kind.name_schema for key in ("maxLength", "pattern"))
        assert (len(found[0]["spec"]["validations"]) if found is not None else 0) == count
        for each in found[0]["spec"]["validations"] if found is not None else ():
            assert "elf" not in each["expression"].replace("itself", ""), each


def test_crossplane_may_make_every_kind_that_claims_become_and_nobody_else_gets_anything() -> None:
    first, second, binding = FILES["install/clusterroles.yaml"]
    assert objects.labels(first) == {"rbac.crossplane.io/aggregate-to-crossplane": "true"}
    allowed = {
        (group, plural)
        for rule in first["rules"]
        if "create" in rule["verbs"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    for kind in STANDARD.kinds:
        assert {(each.group, each.plural) for each in kind.makes} <= allowed
    assert not objects.labels(second)
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "provider-kubernetes", "namespace": "crossplane-system"}
    ]
    assert all("*" not in rule["verbs"] + rule["resources"] for role in (first, second) for rule in role["rules"])


def test_every_server_of_the_platform_file_has_its_provider_config() -> None:
    for form, kinds in (("legacy", {"ProviderConfig"}), ("namespaced", {"ProviderConfig", "ClusterProviderConfig"})):
        made = [obj for obj in FILES[f"install/providerconfigs-{form}.yaml"] if "sql" in obj["apiVersion"]]
        assert {objects.name(obj) for obj in made} == {"postgres-provider", "second"}
        assert {obj["kind"] for obj in made} == kinds


@FORMS
def test_what_objects_need_is_there_in_both_forms(form: Form) -> None:
    configs = FILES[f"install/providerconfigs-{form}.yaml"]
    (config,) = [obj for obj in configs if obj["apiVersion"].startswith("kubernetes.m.crossplane.io/")]
    assert (config["kind"], objects.name(config)) == ("ClusterProviderConfig", KUBERNETES_CONFIG)
    (configuration,) = FILES[f"{form}/crossplane.yaml"]
    depends = [each["package"].rpartition("/")[2] for each in configuration["spec"]["dependsOn"]]
    assert "provider-kubernetes" in depends


def test_providers_say_nothing_of_what_is_in_secrets() -> None:
    runtimes = [obj for obj in FILES["install/providers.yaml"] if obj["kind"] == "DeploymentRuntimeConfig"]
    (runtime,) = [obj for obj in runtimes if objects.name(obj) == "provider-kubernetes"]
    (container,) = runtime["spec"]["deploymentTemplate"]["spec"]["template"]["spec"]["containers"]
    assert "--sanitize-secrets" in container["args"]


def test_the_command_writes_the_files_and_says_what_will_not_come_about(tmp_path: Path) -> None:
    done = CliRunner().invoke(main.app, ["crossplane", "package", "-o", str(tmp_path / "out")])

    assert done.exit_code == 0, done.output
    written = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert written == {*FILES, "function/Dockerfile"}
    assert "redis.mode is process" in done.stderr
    text = (tmp_path / "out" / "namespaced" / "compositions" / "workloadclusters.yaml").read_text()
    assert yaml.safe_load(text)["spec"]["pipeline"][0]["input"]["platform"]["domain"] == Platform().domain


def test_a_function_package_must_have_a_version(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main.app, ["crossplane", "package", "-o", str(tmp_path), "--function-package", "registry.example.org:5000/a/b"]
    )
    assert done.exit_code == 2
    assert "name its version" in done.stderr
