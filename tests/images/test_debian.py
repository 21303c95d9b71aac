"""The state of Debian's archive: what it is known by, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.images import debian
from steelyard.images.failing import BuildFailed

MIRROR = "http://mirror.example.org/debian"
MAIN = """-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA256

Origin: Debian
Suite: oldstable
Version: 12.15
Codename: bookworm
Date: Sat, 11 Jul 2026 10:16:37 UTC
MD5Sum:
 0ed6d4c8891eb86358b94bb35d9e4da4  1484322 main/binary-amd64/Packages
SHA256:
 515e692f2c4121c6fcec444ef100cc18f79a991910615f3a88c8b7becfc94d2f 50060337 main/binary-amd64/Packages
 9e0b5aabb2465b3d2e7a7fe27f9913846277833f7a2826e7767acccff5b588c5  8790396 main/binary-amd64/Packages.xz
 0b0cd0be7afe97b48e1f593e40d471cc673c576408d5513b3eee0bae4b28e52f    53480 contrib/binary-amd64/Packages.xz
"""
TEXTS = dict.fromkeys(debian.suites(MIRROR), MAIN)


def test_it_says_which_version_of_the_operating_system_there_is() -> None:
    found = debian.state(MIRROR, TEXTS)
    assert (found.version, found.epoch) == ("12.15", 1783764997)
    assert found.sources == (
        "deb http://mirror.example.org/debian bookworm main",
        "deb http://mirror.example.org/debian bookworm-updates main",
        "deb http://mirror.example.org/debian-security bookworm-security main",
    )


def test_a_list_that_was_signed_again_is_the_same_state() -> None:
    signed_again = TEXTS | {"bookworm-security": MAIN.replace("Sat, 11 Jul", "Sun, 12 Jul")}
    assert debian.state(MIRROR, signed_again).digest == debian.state(MIRROR, TEXTS).digest


def test_other_packages_are_another_state() -> None:
    updated = TEXTS | {"bookworm-security": MAIN.replace("515e692f", "615e692f")}
    assert debian.state(MIRROR, updated).digest != debian.state(MIRROR, TEXTS).digest


def test_what_is_not_ours_makes_no_difference() -> None:
    other = TEXTS | {"bookworm": MAIN.replace("0b0cd0be", "1b0cd0be")}
    assert debian.state(MIRROR, other).digest == debian.state(MIRROR, TEXTS).digest


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("<html>", "is no list of Debian's", id="a page of a proxy"),
        pytest.param(MAIN.replace("12.15", "13.1"), "says to be version 13.1", id="another release"),
        pytest.param(MAIN.replace("Date:", "When:"), "of no date", id="no date"),
    ],
)
def test_what_is_no_archive_of_debian_12_is_refused(text: str, why: str) -> None:
    with pytest.raises(BuildFailed, match=why):
        debian.state(MIRROR, TEXTS | {"bookworm": text})


def test_it_is_read_from_a_mirror(tmp_path: Path) -> None:
    for suite, base in debian.suites(f"file://{tmp_path}/debian").items():
        folder = Path(base.removeprefix("file://")) / "dists" / suite
        folder.mkdir(parents=True)
        (folder / "InRelease").write_text(MAIN)
    assert debian.archive(f"file://{tmp_path}/debian").version == "12.15"


def test_a_mirror_that_is_away_is_told(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="InRelease cannot be reached"):
        debian.archive(f"file://{tmp_path}/debian")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("sources.list", "# deb http://old.example.org/debian x\ndeb {} bookworm main\n", id="one line"),
        pytest.param("sources.list", "deb [arch=amd64 signed-by=/k.gpg] {}/ bookworm main\n", id="with options"),
        pytest.param(
            "sources.list.d/debian.sources",
            "Types: deb\nURIs: http://other.example.org/docker {}\nSuites: bookworm\n",
            id="by fields",
        ),
    ],
)
def test_without_a_mirror_it_is_that_of_the_host(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "aside.save").write_text("deb http://aside.example.org/debian bookworm main\n")
    (tmp_path / name).write_text(text.replace("{}", MIRROR))
    assert debian.mirror_of_host(tmp_path) == MIRROR


def test_a_host_that_has_no_debian_is_told_to_name_a_mirror(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="name a mirror with --debian-mirror URL"):
        debian.mirror_of_host(tmp_path)
