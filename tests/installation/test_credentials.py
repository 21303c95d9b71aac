"""The platform's own certificates, over years."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from steelyard import app, parts
from steelyard.installation import credentials
from steelyard.installation.datadir import DataDir
from steelyard.kube import pki
from steelyard.kube.runtime.clock import VirtualClock
from steelyard.settings import Platform
from tests.kube.server.test_hosting import shown_by

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
HOSTS = ["localhost", "127.0.0.1"]
DAY = 86400.0


@pytest.fixture
def data_dir(tmp_path: Path) -> DataDir:
    made = DataDir(tmp_path / "data")
    made.create()
    return made


def test_certificate_is_kept_until_a_third_of_its_life_is_left(data_dir: DataDir) -> None:
    authority = credentials.authority(data_dir, now=NOW)
    first = credentials.serving(data_dir, authority, HOSTS, now=NOW)
    assert credentials.serving(data_dir, authority, HOSTS, now=NOW + datetime.timedelta(days=240)) == first
    later = credentials.serving(data_dir, authority, HOSTS, now=NOW + datetime.timedelta(days=250))
    assert later != first
    assert credentials.serving(data_dir, authority, HOSTS, now=NOW + datetime.timedelta(days=251)) == later


def test_pair_that_a_crash_left_half_written_is_made_anew(data_dir: DataDir) -> None:
    authority = credentials.authority(data_dir, now=NOW)
    credentials.serving(data_dir, authority, HOSTS, now=NOW)
    (data_dir.pki / "server.key").write_bytes(pki.new_private_key())
    pki.check(credentials.serving(data_dir, authority, HOSTS, now=NOW))


async def test_running_platform_never_shows_a_certificate_that_has_run_out(tmp_path: Path) -> None:
    clock = VirtualClock(datetime.datetime.now(datetime.UTC))
    # Whoever looks after objects would look at them every few seconds of those four hundred days.
    others = frozenset(parts.names(app.PROVIDERS))
    options = app.Options(DataDir(tmp_path / "data"), "127.0.0.1", 0, Platform(), clock=clock, without=others)
    async with app.started(options) as platform:
        port = int(platform.url.rpartition(":")[2])
        first = await shown_by(port)
        await clock.advance(400 * DAY)
        second = await shown_by(port)
        assert second != first
        assert pki.expiry_of(second) - clock.now() > datetime.timedelta(days=100)
        assert (options.data_dir.pki / "server.crt").read_bytes() == second
