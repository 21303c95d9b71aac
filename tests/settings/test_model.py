"""The defaults of the platform file: the matrix of environments, and what is derived from it."""

from __future__ import annotations

import pytest

from steelyard import settings
from steelyard.settings import (
    ClusterNetwork,
    Environment,
    EnvironmentName,
    Environments,
    Integration,
    Integrations,
    Platform,
    Simulated,
)
from steelyard.settings.model import ENVIRONMENT_NAMES, SettingsModel


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
    name: EnvironmentName,
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
    environment = Platform().environments.named(name)

    assert (environment.control_plane_replicas, environment.worker_replicas) == (control_plane, workers)
    assert (environment.cpu_cores, environment.memory_gi, environment.disk_gb) == (cores, memory, disk)
    assert (environment.auto_deploy, environment.app_replicas) == (deploy, apps)
    assert (environment.database_prefix, environment.maturity) == (prefix, maturity)
    assert environment.kubernetes_version == "v1.32.1"


def test_promotion_waits_for_consent_where_deployment_is_manual() -> None:
    environments = Platform().environments

    assert [name for name in ENVIRONMENT_NAMES if environments.named(name).approval] == ["uat", "preprod", "production"]


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
        Platform, Environments, Environment, ClusterNetwork, Integrations, Integration, Simulated
    ]  # fmt: skip

    silent = [
        f"{model.__name__}.{name}"
        for model in models
        for name, field in model.model_fields.items()
        if not field.description
    ]
    assert silent == []
