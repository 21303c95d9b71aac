"""The catalogue of versions as an API server enforces it: the same answers as on the command line, and when."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from steelyard import settings
from steelyard.api import policies
from steelyard.compose import offering, shipped
from steelyard.kube import errors
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from tests.api.test_admission import CLAIMS, change, claim, define, server

FILE = """
versions:
  infrastructures:
    simulated:
      builtIn: false
      offered: {v1.35: {}, v1.34.2: {}, v1.32.1: {state: ended}, v1.31: {state: refused}, v1.31.3: {}}
"""


@pytest.fixture
async def client(tmp_path: Path) -> AsyncGenerator[LocalClient]:
    async with server(tmp_path) as opened:
        await guard(opened, settings.parse(FILE))
        yield opened


async def guard(client: LocalClient, platform: Platform) -> None:
    for policy, binding in shipped.guards(platform, offering.STANDARD):
        await client.apply(policies.POLICIES, policy, field_manager="test", force=True)
        await client.apply(policies.BINDINGS, binding, field_manager="test", force=True)


async def answer(client: LocalClient, asked: Object) -> str:
    try:
        await client.create(CLAIMS, asked, dry_run=True)
    except errors.Invalid as refused:
        return refused.message.partition("spec.parameters.kubernetesVersion: ")[2]
    return ""


@pytest.mark.parametrize("refuses_ended", [False, True])
async def test_the_api_says_what_the_command_line_says(client: LocalClient, *, refuses_ended: bool) -> None:
    platform = settings.parse(FILE.replace("versions:", f"versions:\n  refuseEnded: {str(refuses_ended).lower()}"))
    await guard(client, platform)
    for version in (
        "v1.35.0", "1.35.17", "v1.34.2", "v1.34.1", "v1.34.30", "v1.33.0", "v1.32.1", "1.32.1", "v1.32.2", "v1.31.0",
        "v1.31.3", "v1.22.0",
    ):  # fmt: skip
        said = await answer(client, claim(kubernetesVersion=version))
        assert said == platform.versions.problem("simulated", version), version
    assert await answer(client, claim()) == "", "what the claim does not say is the platform's"


async def test_a_stored_version_is_not_judged_again(client: LocalClient) -> None:
    await guard(client, Platform())
    await client.create(CLAIMS, claim(kubernetesVersion="v1.33.4"))
    await guard(client, settings.parse(FILE))
    await change(client, workerReplicas=1)
    with pytest.raises(errors.Invalid, match=r"v1\.33\.5 is not offered on simulated; the nearest is v1\.34\.2"):
        await change(client, kubernetesVersion="v1.33.5")
    await change(client, kubernetesVersion="v1.34.2")


async def test_a_version_that_has_ended_is_warned_of(client: LocalClient) -> None:
    asked: list[tuple[str, Any]] = [("v1.32.1", True), ("v1.34.2", False)]
    ended = next(policy for policy, _ in shipped.guards(settings.parse(FILE), offering.STANDARD) if is_warning(policy))
    binding = policies.binding(ended)
    # Denied instead of warned of, so that it can be seen here; a client is shown the same words.
    await client.apply(policies.BINDINGS, binding, field_manager="test", force=True)
    for version, is_told in asked:
        said = await answer(client, claim(kubernetesVersion=version))
        assert said == (f"Kubernetes {version} gets no more fixes; choose a newer version" if is_told else "")


def is_warning(policy: Object) -> bool:
    return str(policy["metadata"]["name"]).startswith("ended-")


def test_warnings_warn_and_the_rest_denies() -> None:
    actions = {
        str(policy["metadata"]["name"]).partition(".")[0]: binding["spec"]["validationActions"]
        for policy, binding in shipped.guards(Platform(), offering.STANDARD)
    }
    assert actions.pop("ended-kubernetes-versions") == ["Warn"]
    assert actions.pop("ended-k8s-versions") == ["Warn"]
    assert list(actions.values()) == [["Deny"]] * len(actions)
    refusing = settings.parse("versions: {refuseEnded: true}")
    assert not any(is_warning(policy) for policy, _ in shipped.guards(refusing, offering.STANDARD))


async def test_an_infrastructure_without_a_catalogue_is_not_restricted(client: LocalClient) -> None:
    await define(client, "simulated", "paper")
    assert await answer(client, claim(kubernetesVersion="v1.22.5", infrastructure="paper")) == ""
