"""A sample of `make soak ARGS=damage`, and what a user is told of a damaged database."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import orjson
import pytest

from tests import forked
from tests.harness import DidNotStart, PlatformProcess
from tests.soak import damage
from tests.soak.site import CONFIG_MAPS, Site, config_map

FLIPS = 200


async def test_no_changed_byte_gives_a_wrong_answer(tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)
    figures = await damage.campaign(tmp_path, random.Random(seed), FLIPS)
    assert figures.wrong == [], f"seed {seed}"
    assert figures.outcomes["write-ahead log: page in a frame"].keys() == {"told"}
    assert figures.outcomes["database: overflow or free page"].keys() == {"told"}


async def test_a_platform_with_a_damaged_log_does_not_start_until_a_backup_is_restored(
    tmp_path: Path, platform: PlatformProcess
) -> None:
    backup = tmp_path / "backup.tar"
    async with Site(platform) as site:
        site.look()
        assert (await site.call("POST", CONFIG_MAPS, config_map("saved")))[0] == 201
        await _steelyard("backup", str(backup), platform)
        assert (await site.call("POST", CONFIG_MAPS, config_map("lost", "MARK" * 50)))[0] == 201
        platform.kill()
        log = platform.data_dir.database.with_name("steelyard.db-wal")
        _change(log, b"MARKMARK", b"MARKmARK")

        with pytest.raises(DidNotStart) as refusal:
            await asyncio.to_thread(platform.start)
        told = str(refusal.value)
        assert "exit code 1" in told
        assert "was acknowledged: its write-ahead log is damaged or missing" in told
        assert "steelyard restore FILE --force" in told

        await _steelyard("restore", str(backup), platform, "--force")
        await asyncio.to_thread(platform.start)
        site.look()
        assert (await site.call("GET", f"{CONFIG_MAPS}/saved"))[0] == 200
        assert (await site.call("GET", f"{CONFIG_MAPS}/lost"))[0] == 404


async def test_damage_found_by_a_running_platform_is_told_everywhere(platform: PlatformProcess) -> None:
    async with Site(platform) as site:
        site.look()
        _, made = await site.call("POST", CONFIG_MAPS, config_map("a", "first"))
        _, marked = await site.call("PUT", f"{CONFIG_MAPS}/a", config_map("a", "MARK" * 50))
        await site.call("PUT", f"{CONFIG_MAPS}/a", config_map("a", "third"))
        await asyncio.to_thread(platform.terminate)
        await asyncio.to_thread(platform.start)
        site.look()
        _change(platform.data_dir.database, b"MARKMARK", b"MARKmARK")

        before, damaged = made["metadata"]["resourceVersion"], marked["metadata"]["resourceVersion"]
        problem = f"main/core/configmaps/default/a at revision {damaged} fails its checksum; restore a backup"
        async with site.session.get(f"{site.url}{CONFIG_MAPS}?watch=1&resourceVersion={before}") as watch:
            event = orjson.loads(await watch.content.readline())
        assert event["type"] == "ERROR"
        assert (event["object"]["code"], problem in event["object"]["message"]) == (500, True)
        code, ready = await site.call("GET", "/readyz/store")
        assert (code, problem in ready) == (500, True)
        code, refused = await site.call("POST", CONFIG_MAPS, config_map("b"))
        assert (code, problem in refused["message"]) == (500, True)
        code, current = await site.call("GET", f"{CONFIG_MAPS}/a")
        assert (code, current["data"]) == (200, {"text": "third"})
        assert "the store refuses writes until it is opened again" in platform.log.read_text()


async def _steelyard(command: str, argument: str, platform: PlatformProcess, *flags: str) -> None:
    arguments = [command, argument, *flags, "--data-dir", str(platform.data_dir.root)]
    done = await asyncio.to_thread(forked.run, arguments)
    assert done.returncode == 0, done.stderr


def _change(path: Path, old: bytes, new: bytes) -> None:
    """In its place: the file may be open, and whoever reads it must never see it shorter."""
    assert len(old) == len(new)
    with path.open("r+b") as file:
        at = file.read().index(old)
        file.seek(at)
        file.write(new)
