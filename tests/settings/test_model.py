"""The defaults of the platform file: the matrix of environments, and what is derived from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from steelyard import settings
from steelyard.settings import (
    ClusterNetwork,
    Environment,
    Integration,
    Integrations,
    Platform,
    Previews,
    Simulated,
    kvmhosts,
)
from steelyard.settings.model import SettingsModel

EXAMPLE = Path(__file__).parents[2] / "examples" / "platform.yaml"


@pytest.mark.parametrize(
    ("name", "control_plane", "workers", "cores", "memory", "disk", "deploy", "apps", "prefix", "maturity"),
    [
        ("dev", 1, 2, 8, 32, 100, "auto", 2, "dev_", "alpha"),
        ("staging", 1, 3, 12, 48, 200, "auto", 3, "staging_", "alpha"),
        ("uat", 1, 3, 12, 48, 200, "manual", 3, "uat_", "beta"),
        ("preprod", 3, 4, 24, 96, 300, "manual", 4, "preprod_", "beta"),
        ("production", 3, 5, 32, 128, 500, "manual", 5, "prod_", "stable"),
        ("sandbox", 1, 2, 16, 64, 200, "daily", 2, "sandbox_", "stable-clone"),
    ],
)
def test_environments_default_to_the_matrix(
    name: str,
    control_plane: int,
    workers: int,
    cores: int,
    memory: int,
    disk: int,
    deploy: str,
    apps: int,
    prefix: str,
    maturity: str,
) -> None:
    environment = Platform().environments[name]

    assert (environment.control_plane_replicas, environment.worker_replicas) == (control_plane, workers)
    assert (environment.cpu_cores, environment.memory_gi, environment.disk_gb) == (cores, memory, disk)
    assert (environment.auto_deploy, environment.app_replicas) == (deploy, apps)
    assert (environment.database_prefix, environment.maturity) == (prefix, maturity)
    assert environment.kubernetes_version == "v1.32.1"


def test_promotion_waits_for_consent_where_deployment_is_manual() -> None:
    environments = Platform().environments

    assert [name for name, each in environments.items() if each.approval] == ["uat", "preprod", "production"]


def test_ingress_domains_follow_the_platforms_domain_unless_set() -> None:
    platform = settings.parse("domain: pnats.cloud\nenvironments: {uat: {ingressDomain: try.example.org}}")

    assert platform.ingress_domain("dev") == "dev.pnats.cloud"
    assert platform.ingress_domain("production") == "pnats.cloud"
    assert platform.ingress_domain("uat") == "try.example.org"


def test_embedded_defaults_need_nothing_installed() -> None:
    platform = Platform()

    assert platform.infrastructure == "simulated"
    assert platform.integrations.enabled() == ()
    assert platform.simulated.boot_seconds * 2 + platform.simulated.join_seconds * 2 < 2


def test_enabled_integrations_are_named_as_the_file_writes_them() -> None:
    platform = settings.parse("integrations: {externalSecrets: {enabled: true}, argocd: {enabled: true}}")

    assert platform.integrations.enabled() == ("argocd", "externalSecrets")


def test_settings_cannot_be_changed_after_loading() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Platform().domain = "other.example.org"


def test_every_setting_says_what_it_is_for() -> None:
    models: list[type[SettingsModel]] = [
        Platform, Previews, Environment, ClusterNetwork, Integrations, Integration, Simulated
    ]  # fmt: skip

    silent = [
        f"{model.__name__}.{name}"
        for model in models
        for name, field in model.model_fields.items()
        if not field.description
    ]
    assert silent == []


def test_an_environment_of_ones_own_is_like_a_built_in_one_where_it_does_not_say() -> None:
    platform = settings.parse("environments: {load-test: {like: staging, workerReplicas: 7}}")

    own, like = platform.environments["load-test"], platform.environments["staging"]
    assert (own.worker_replicas, own.cpu_cores, own.memory_gi) == (7, like.cpu_cores, like.memory_gi)
    assert own.database_prefix == "load_test_"
    assert own.aliases == ()
    assert list(platform.environments) == ["dev", "staging", "uat", "preprod", "production", "sandbox", "load-test"]


def test_names_that_claims_may_use_are_those_of_enabled_environments_and_their_aliases() -> None:
    platform = settings.parse("environments: {sandbox: {enabled: false}, qa: {like: uat, aliases: [quality]}}")

    assert platform.environment_names() == (
        "dev", "staging", "uat", "preprod", "production", "qa", "test", "prod", "quality"
    )  # fmt: skip
    assert platform.environment_name("prod") == "production"
    assert platform.environment("sandbox") is not None, "claims that are there already go on"
    assert platform.environment("xyzzy") is None


def test_pull_requests_have_environments_without_an_entry() -> None:
    platform = settings.parse("previews: {like: staging}")

    assert platform.environment("pr-17") == platform.environments["staging"]
    assert platform.environment("pr-017") is None
    assert settings.parse("previews: {like: ~}").environment("pr-17") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("{qa: {like: stagin}}", "qa.like: stagin is none of the built-in", id="like nothing"),
        pytest.param("{qa: {like: dev, databasePrefix: dev_}}", "dev_ is that of dev already", id="databases meet"),
        pytest.param("{qa: {like: dev, aliases: [uat]}}", "uat is the name of another one", id="alias of another"),
        pytest.param("{qa: {like: dev, aliases: [prod]}}", "prod is the name of another one", id="alias twice"),
        pytest.param("{stage: {workerReplicas: 1}}", "did you mean staging?", id="a misspelt name becomes none"),
        pytest.param("{qa_1: {like: dev}}", "does not match", id="no name for a label"),
    ],
)
def test_an_environment_that_cannot_be_is_refused(text: str, said: str) -> None:
    with pytest.raises(settings.SettingsError, match=said):
        settings.parse(f"environments: {text}")


def _sections(of: object) -> Iterator[SettingsModel]:
    """Everything that settings consist of, the whole included."""
    if isinstance(of, SettingsModel):
        yield of
        of = [getattr(of, name) for name in type(of).model_fields]
    if isinstance(of, dict):
        of = list(cast("dict[str, object]", of).values())
    if isinstance(of, list | tuple):
        for each in cast("list[object]", of):
            yield from _sections(each)


KNOWN = [*_sections(Platform.known()), *_sections(kvmhosts.STANDARD)]


@pytest.mark.parametrize("model", dict.fromkeys(type(each) for each in KNOWN), ids=lambda each: each.__name__)
def test_what_our_sources_say_would_pass_every_check(model: type[SettingsModel]) -> None:
    said = [each for each in KNOWN if type(each) is model]

    assert [model.model_validate(each.written(), by_alias=True, by_name=False) for each in said] == said


def test_a_platform_without_a_file_is_one_whose_defaults_were_checked() -> None:
    assert Platform() == Platform.known()


@pytest.mark.parametrize("platform", [Platform.known(), settings.load(EXAMPLE)], ids=["defaults", "example"])
def test_settings_are_written_as_the_file_has_them(platform: Platform) -> None:
    assert platform.written() == platform.model_dump(mode="json", by_alias=True)
    assert list(platform.written()) == list(platform.model_dump(mode="json", by_alias=True))
