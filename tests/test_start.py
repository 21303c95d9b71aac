"""What a platform has loaded when it is ready, and has nothing to do yet. Half of its start is loading, and what is
loaded stays in memory: whatever only some command, provider or kind needs comes with that."""

from __future__ import annotations

import re
import sys
from typing import Final

import pytest

from tests.harness import PlatformProcess

MOST: Final = 890
"""Modules, those of Python itself included. Where there are to be more of them, something else can come later."""
COMMANDS: Final = frozenset((
    "completing", "exits", "findings", "hints", "logfile", "main", "offered", "output", "platform", "reach", "services",
    "session", "targets", "verbs", "yamltext",
))  # fmt: skip
"""What `up` takes of the command line."""
LATER: Final = (
    "aiohttp", "asyncpg", "google", "grpc", "hvac", "libvirt", "prometheus_client", "psycopg", "re2", "requests",
    "rich", "xml",
    "steelyard.api.databases", "steelyard.api.kvm", "steelyard.api.postgresql", "steelyard.api.redisserver",
    "steelyard.api.workloadcluster", "steelyard.clusterctl", "steelyard.compose.offering", "steelyard.crossplane",
    "steelyard.images", "steelyard.installation.consent", "steelyard.management", "steelyard.moving",
    "steelyard.plan.changes",
    "steelyard.kube.cel.program", "steelyard.providers.kvm.machines", "steelyard.providers.redis.fleet",
    "steelyard.providers.vault.entries", "steelyard.vault", "steelyard.controllers.claims.reconcile",
    "steelyard.controllers.delivery.reconcile",
)  # fmt: skip


LISTED: Final = "loaded: "
BUILT: Final = "built: "
TELLING: Final = f"""
import atexit, sys

from steelyard.__main__ import main

def tell():
    from steelyard.settings.base import SettingsModel

    def models(base):
        return [base, *(each for model in base.__subclasses__() for each in models(model))]

    print("{LISTED}", *sys.modules)
    print("{BUILT}", *(each.__name__ for each in models(SettingsModel) if each.__pydantic_complete__))

atexit.register(tell)
# Without the platform file, which is named last.
sys.argv = ["steelyard", *sys.argv[4:-2]]
main()
"""
"""Runs the program that is named after it, and tells at its end what was loaded. What tells of imports as they happen
leaves those out that are asked for by name."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What two starts say at their end, one after the other."""
    folder = tmp_path_factory.mktemp("start")
    found: list[str] = []
    with PlatformProcess(folder, wrapper=(sys.executable, "-c", TELLING)) as platform:
        for _ in range(2):
            platform.start()
            platform.terminate()
            found.append(platform.log.read_text())
    return found


@pytest.fixture(scope="module")
def loaded(told: list[str]) -> frozenset[str]:
    [listed] = re.findall(rf"^{LISTED}(.*)$", told[0], re.MULTILINE)
    return frozenset(listed.split())


def test_nothing_is_made_ready_to_check_settings_that_nobody_has_given(told: list[str]) -> None:
    # Both, as the second finds what the first remembered.
    assert re.findall(rf"^{BUILT}(.*)$", told[-1], re.MULTILINE) == [""] * 2


def test_what_nobody_has_asked_for_is_not_loaded(loaded: frozenset[str]) -> None:
    assert {each for each in loaded for name in LATER if each == name or each.startswith(f"{name}.")} == set()


def test_a_reconciler_of_clusters_comes_with_the_first_object_of_its_kind(loaded: frozenset[str]) -> None:
    assert {each for each in loaded if re.fullmatch(r"steelyard\.controllers\.lifecycle\..*\.reconcile", each)} == set()


def test_no_command_but_the_one_that_was_called_is_loaded(loaded: frozenset[str]) -> None:
    of_commands = {each.removeprefix("steelyard.cli.") for each in loaded if each.startswith("steelyard.cli.")}
    assert of_commands - COMMANDS == set()


def test_no_more_is_loaded_than_there_was(loaded: frozenset[str]) -> None:
    assert "steelyard.app" in loaded
    assert len(loaded) <= MOST, len(loaded)
