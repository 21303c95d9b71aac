"""Files of a data directory that are gone, cut or unreadable: what `up` says, and that it makes nothing worse."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard import app, settings
from steelyard.kube.client import kubeconfig
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, SECRETS
from tests import forked
from tests.harness import PlatformProcess


def steelyard(*arguments: str) -> subprocess.CompletedProcess[str]:
    return forked.run(arguments)


def refused(platform: PlatformProcess, *arguments: str) -> str:
    """What a start says that must not succeed, and must not change anything."""
    before = contents(platform.data_dir.root)
    done = steelyard(
        *("up", "--port", "0", "--data-dir", str(platform.data_dir.root)),
        *("--platform", str(platform.platform_file), *arguments),
    )
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
    assert contents(platform.data_dir.root) == before
    return done.stderr


def contents(root: Path) -> dict[str, bytes]:
    """Every file but locks, SQLite's index of its log, and databases that are sound: those may take up their log."""
    is_sound = all(path.exists() and path.stat().st_size for path in (root / "steelyard.db", root / "simulated.db"))
    passing = (".pid", ".lock", "-shm", *((".db", "-wal") if is_sound else ()))
    files = (path for path in root.rglob("*") if path.is_file() and not path.name.endswith(passing))
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def refused_here(platform: PlatformProcess) -> str:
    """The same without a process of its own."""

    async def start() -> None:
        chosen = settings.load(platform.platform_file)
        options = app.Options(platform.data_dir, "127.0.0.1", 0, chosen, platform_file=platform.platform_file)
        async with app.started(options):
            pass

    before = contents(platform.data_dir.root)
    with pytest.raises(app.CannotStart) as told:
        asyncio.run(start())
    assert contents(platform.data_dir.root) == before
    return str(told.value)


async def _use(platform: PlatformProcess) -> None:
    client = platform.client()
    metadata = {"name": "kept", "namespace": "default"}
    config: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}
    secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"a": "b"}}
    await client.create(CONFIG_MAPS, config)
    await client.create(SECRETS, secret)
    await client.close()


async def _is_kept(platform: PlatformProcess) -> bool:
    client = platform.client()
    try:
        return (await client.get(CONFIG_MAPS, "kept", "default"))["data"] == {"a": "b"}
    finally:
        await client.close()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    """A platform that was used and killed: much of it is in the write-ahead log alone."""
    with PlatformProcess(tmp_path_factory.mktemp("site")) as platform:
        platform.start()
        asyncio.run(_use(platform))
        platform.kill()
        yield platform


@pytest.fixture
def site(killed: PlatformProcess, tmp_path: Path) -> Iterator[PlatformProcess]:
    """A copy of it."""
    with PlatformProcess(tmp_path / "site") as platform:
        shutil.copytree(killed.data_dir.root, platform.data_dir.root)
        shutil.copy(killed.platform_file, platform.platform_file)
        text = platform.data_dir.remembered.read_text()
        platform.data_dir.remembered.write_text(text.replace(str(killed.platform_file), str(platform.platform_file)))
        yield platform


@pytest.mark.parametrize("what", ["removed", "emptied"])
def test_a_lost_database_is_told_and_its_write_ahead_log_survives(site: PlatformProcess, what: str) -> None:
    database = site.data_dir.database
    whole = database.read_bytes()
    if what == "removed":
        database.unlink()
    else:
        database.write_bytes(b"")
    told = refused(site)
    assert "steelyard.db-wal" in told
    assert "steelyard.db.acknowledged" in told
    assert "steelyard restore FILE --force" in told
    assert f"mv {site.data_dir.root}" in told
    database.write_bytes(whole)
    site.start()
    assert asyncio.run(_is_kept(site))


def test_a_lost_database_is_told_by_whatever_else_is_there(site: PlatformProcess) -> None:
    for path in site.data_dir.root.glob("steelyard.db*"):
        path.unlink()
    assert "pki/ca.crt" in refused_here(site)


def test_a_lost_world_is_told_and_can_be_gone_without(site: PlatformProcess) -> None:
    site.data_dir.provider_database("simulated").unlink()
    told = refused_here(site)
    assert "simulated.db" in told
    for path in site.data_dir.root.glob("simulated.db*"):
        if path.suffix != ".lock":
            assert str(path) in told
            path.unlink()
    site.start()


def test_lost_keys_are_told(site: PlatformProcess) -> None:
    site.data_dir.encryption_keys.unlink()
    assert "encryption.json is missing" in refused_here(site)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "sa.key"])
@pytest.mark.parametrize("damage", [Path.unlink, _cut, _empty], ids=["missing", "cut", "empty"])
def test_a_damaged_authority_is_named_and_never_made_anew_unasked(
    site: PlatformProcess, name: str, damage: object
) -> None:
    assert callable(damage)
    damage(site.data_dir.pki / name)
    told = refused_here(site)
    assert str(site.data_dir.pki / name) in told
    assert "--port" not in told
    assert "steelyard restore FILE --force" in told
    assert "steelyard renew-authority" in told


def test_a_key_of_another_certificate_is_named(site: PlatformProcess) -> None:
    shutil.copy(site.data_dir.pki / "server.key", site.data_dir.pki / "ca.key")
    assert "ca.key is not the key of the certificate beside it" in refused(site)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        pytest.param("server.crt", _cut, id="the certificate is cut"),
        pytest.param("server.key", Path.unlink, id="the key is missing"),
    ],
)
def test_a_damaged_serving_certificate_is_made_anew(site: PlatformProcess, name: str, damage: object) -> None:
    """Clients trust the authority, so that nobody notices."""
    assert callable(damage)
    damage(site.data_dir.pki / name)
    site.start()
    assert asyncio.run(_is_kept(site))


@pytest.mark.parametrize("damage", [_cut, _empty], ids=["cut", "empty"])
def test_a_damaged_kubeconfig_is_not_overwritten(site: PlatformProcess, damage: object) -> None:
    assert callable(damage)
    damage(site.data_dir.kubeconfig)
    told = refused_here(site)
    assert str(site.data_dir.kubeconfig) in told
    assert "new token" in told


def test_a_missing_kubeconfig_is_written_with_a_new_token_and_that_is_told(site: PlatformProcess) -> None:
    before = kubeconfig.load(site.data_dir.kubeconfig).resolve().token
    site.data_dir.kubeconfig.unlink()
    site.start()
    assert kubeconfig.load(site.data_dir.kubeconfig).resolve().token != before
    assert "new token" in site.log.read_text()


def test_the_authority_is_renewed_only_when_told(site: PlatformProcess) -> None:
    where = ["--data-dir", str(site.data_dir.root)]
    before = kubeconfig.load(site.data_dir.kubeconfig).resolve()
    (site.data_dir.pki / "ca.key").unlink()
    unasked = steelyard("renew-authority", *where)
    assert unasked.returncode == 2
    assert "--yes" in unasked.stderr
    assert not (site.data_dir.pki / "ca.key").exists()
    done = steelyard("renew-authority", "--yes", *where)
    assert done.returncode == 0, done.stderr
    assert "new kubeconfig" in done.stderr
    [kept] = site.data_dir.root.glob("replaced-*")
    assert str(kept) in done.stderr
    assert (kept / "pki" / "ca.crt").exists()
    site.start()
    after = kubeconfig.load(site.data_dir.kubeconfig).resolve()
    assert after.certificate_authority != before.certificate_authority
    assert after.token == before.token
    assert asyncio.run(_is_kept(site))
    running = steelyard("renew-authority", "--yes", *where)
    assert running.returncode == 1
    assert "steelyard down" in running.stderr


def test_the_first_start_killed_between_the_halves_of_its_authority_goes_on(tmp_path: Path) -> None:
    with PlatformProcess(tmp_path) as platform:
        platform.start()
        platform.kill()
        for path in (platform.data_dir.pki / "ca.crt", platform.data_dir.pki / "server.crt"):
            path.unlink()
        platform.data_dir.kubeconfig.unlink()
        platform.data_dir.remembered.unlink()
        platform.start()


def test_ports_and_addresses_that_cannot_be_served_on_are_told_as_such(site: PlatformProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = refused(site, "--port", str(taken.getsockname()[1]))
    assert "--port 0 takes any free one" in told
    elsewhere = steelyard("up", "--host", "192.0.2.1", "--data-dir", str(site.data_dir.root))
    assert elsewhere.returncode == 1
    assert "no address of this machine" in elsewhere.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to the superuser")
@pytest.mark.parametrize("name", ["steelyard.db", "pki/ca.key", "pki/encryption.json", "kubeconfig"])
def test_a_file_that_may_not_be_read_is_named(site: PlatformProcess, name: str) -> None:
    (site.data_dir.root / name).chmod(0)
    done = steelyard("up", "--port", "0", "--data-dir", str(site.data_dir.root))
    assert done.returncode == 1
    assert name in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_private_is_for_its_owner_only(site: PlatformProcess) -> None:
    site.start()
    for path in site.data_dir.root.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
