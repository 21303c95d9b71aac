"""A restart rolls nobody: what a start with other settings would change is told first, and refused unless agreed to."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.api import resources
from steelyard.api.clusterapi.resources import MACHINES
from steelyard.cli.exits import Exit
from steelyard.kube import objects
from steelyard.kube.objects import Object
from tests import forked
from tests.harness import INSTANT, PlatformProcess

CLAIMS = resources.workload_clusters("steelyard.dev")
LARGE = INSTANT + "environments: {dev: {memoryGi: 64, workerReplicas: 1}}\n"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    """A platform that was started with a file of its own, has a claim that got its size from there, and was ended."""
    with PlatformProcess(tmp_path_factory.mktemp("site"), platform=LARGE) as platform:
        platform.start()
        asyncio.run(_claim(platform))
        assert platform.terminate() == 0
        yield platform


@pytest.fixture
def site(stopped: PlatformProcess, tmp_path: Path) -> Iterator[PlatformProcess]:
    """A copy of it."""
    with PlatformProcess(tmp_path / "site", platform=LARGE) as platform:
        shutil.copytree(stopped.data_dir.root, platform.data_dir.root)
        remembered = platform.data_dir.remembered
        text = remembered.read_text().replace(str(stopped.platform_file), str(platform.platform_file))
        remembered.write_text(text)
        yield platform


async def _claim(platform: PlatformProcess) -> None:
    claim: Object = {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"parameters": {"environment": "dev"}},
    }
    client = platform.client()
    await client.create(CLAIMS, claim)
    for _ in range(600):
        status = objects.at(await client.get(CLAIMS, "shop", "default"), "status", "conditions")
        if any(each["type"] == "Ready" and each["status"] == "True" for each in objects.sequence(status)):
            break
        await asyncio.sleep(0.05)
    await asyncio.sleep(1)
    await client.close()


async def _machines(platform: PlatformProcess) -> set[str]:
    client = platform.client()
    try:
        return {objects.name(machine) for machine in (await client.list(MACHINES)).items}
    finally:
        await client.close()


def _rows(platform: PlatformProcess) -> tuple[int, set[str]]:
    """The newest revision and the Machines in the database of a platform that does not run."""
    connection = sqlite3.connect(platform.data_dir.database)
    try:
        keys = {str(key) for (key,) in connection.execute("SELECT key FROM log WHERE key LIKE '%/machines/%'")}
        return int(connection.execute("SELECT max(revision) FROM log").fetchone()[0]), keys
    finally:
        connection.close()


def up(platform: PlatformProcess, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A start that is expected to be refused."""
    directory.mkdir(exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if key != "STEELYARD_PLATFORM"}
    command = ["up", "--port", "0", "--data-dir", str(platform.data_dir.root)]
    return forked.run([*command, *arguments], cwd=directory, environment=environment)


def detached(platform: PlatformProcess, directory: Path, *arguments: str) -> str:
    """Starts the platform in the background; what it logged by then. To be ended with `down`."""
    done = up(platform, directory, "--detach", *arguments)
    assert done.returncode == 0, done.stderr
    return platform.data_dir.log_file.read_text()


def down(platform: PlatformProcess) -> None:
    done = forked.run(["down", "--data-dir", str(platform.data_dir.root)])
    assert done.returncode == 0, done.stderr


def test_started_in_another_directory_it_goes_on_with_the_file_of_the_last_start(
    site: PlatformProcess, tmp_path: Path
) -> None:
    revision, machines = _rows(site)
    try:
        told = detached(site, tmp_path / "elsewhere")
        assert f"that of the last start, {site.platform_file}" in told
        assert f"platform file: {site.platform_file}" in told
    finally:
        down(site)
    assert _rows(site) == (revision, machines)


def test_a_file_that_is_gone_is_not_replaced_by_defaults(site: PlatformProcess, tmp_path: Path) -> None:
    before = _rows(site)
    site.platform_file.unlink()
    done = up(site, tmp_path / "elsewhere")
    assert done.returncode == Exit.USAGE
    assert str(site.platform_file) in done.stderr
    assert "--platform FILE" in done.stderr
    assert str(site.data_dir.remembered) in done.stderr
    assert _rows(site) == before


def test_settings_that_replace_machines_are_refused_with_the_machines(site: PlatformProcess, tmp_path: Path) -> None:
    before = _rows(site)
    other = tmp_path / "other.yaml"
    other.write_text(INSTANT + "environments: {dev: {workerReplicas: 0}}\n")
    for arguments in (["--platform", str(other)], ["--platform", str(other), "--detach"]):
        done = up(site, tmp_path / "elsewhere", *arguments)
        assert done.returncode == Exit.FAILED
        assert "Traceback" not in done.stderr
        assert "default/shop: workerReplicas 1 -> 0, memoryGi 64 -> 32" in done.stderr
        assert "MachineDeployment shop-md-0" in done.stderr
        for machine in before[1]:
            assert machine.rpartition("/")[2] in done.stderr
        assert "removes 1 machine" in done.stderr
        assert f"--platform {site.platform_file}" in done.stderr
        assert "--accept-platform-change" in done.stderr
    assert _rows(site) == before


async def test_what_was_agreed_to_is_done_and_remembered(site: PlatformProcess, tmp_path: Path) -> None:
    _, before = _rows(site)
    site.platform_file.write_text(INSTANT + "environments: {dev: {memoryGi: 48, workerReplicas: 1}}\n")
    refused = up(site, tmp_path, "--platform", str(site.platform_file))
    assert "memoryGi 64 -> 48" in refused.stderr
    assert str(site.data_dir.remembered) in refused.stderr
    try:
        told = detached(site, tmp_path, "--platform", str(site.platform_file), "--accept-platform-change")
        assert "memoryGi 64 -> 48" in told
        now: set[str] = set()
        for _ in range(600):
            now = await _machines(site)
            if len(now) == 2 and not now & {key.rpartition("/")[2] for key in before}:
                break
            await asyncio.sleep(0.05)
        assert len(now) == 2, now
    finally:
        down(site)
    site.start()


def test_another_domain_is_refused_with_the_claims_it_would_leave_alone(site: PlatformProcess, tmp_path: Path) -> None:
    before = _rows(site)
    site.platform_file.write_text(LARGE + "domain: example.org\n")
    done = up(site, tmp_path, "--platform", str(site.platform_file))
    assert done.returncode == Exit.FAILED
    assert "left alone" in done.stderr
    assert "default/shop (compute.steelyard.dev)" in done.stderr
    assert _rows(site) == before
    site.data_dir.remembered.unlink()
    assert "default/shop" in up(site, tmp_path, "--platform", str(site.platform_file)).stderr


def test_settings_that_change_no_claim_are_taken(site: PlatformProcess) -> None:
    site.platform_file.write_text(LARGE + "audit: {keep: 2}\n")
    site.start()
    assert "no claim is affected" in site.log.read_text()
    assert "keep: 2" in site.data_dir.remembered.read_text()


def test_a_data_directory_from_before_remembers_what_it_is_started_with(site: PlatformProcess) -> None:
    site.data_dir.remembered.unlink()
    site.start()
    assert "memoryGi: 64" in site.data_dir.remembered.read_text()


def test_what_is_remembered_and_cannot_be_read_is_no_reason_to_go_on(site: PlatformProcess, tmp_path: Path) -> None:
    site.data_dir.remembered.write_text("gone bad")
    done = up(site, tmp_path, "--platform", str(site.platform_file))
    assert done.returncode == Exit.FAILED
    assert f"{site.data_dir.remembered} is damaged" in done.stderr
    assert "--accept-platform-change" in done.stderr


def test_a_failed_start_remembers_nothing(site: PlatformProcess, tmp_path: Path) -> None:
    before = site.data_dir.remembered.read_bytes()
    site.platform_file.write_text(LARGE + "audit: {keep: 2}\n")
    done = up(site, tmp_path, "--platform", str(site.platform_file), "--host", "192.0.2.1")
    assert done.returncode == Exit.FAILED
    assert site.data_dir.remembered.read_bytes() == before
