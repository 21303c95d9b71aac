"""`steelyard image` as a user has it: what is printed, where, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from steelyard.cli.main import app
from steelyard.images import building, catalogue
from steelyard.images.building import Order, Outcome
from steelyard.images.failing import BuildFailed
from tests.images import examples


class Host:
    """Two directories, and a platform file that names them."""

    def __init__(self, folder: Path) -> None:
        self.images, self.machines = folder / "images", folder / "machines"
        self.images.mkdir()
        self.file = folder / "platform.yaml"
        host = {"storageRoots": [str(self.machines)], "imageRoots": [str(self.images)]}
        self.file.write_text(yaml.safe_dump({"kvm": {"hosts": {"here": host}}}))
        self.data = folder / "data"

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(
            app, ["image", *words, "--platform", str(self.file), "--data-dir", str(self.data)], catch_exceptions=False
        )


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_no_images_are_told_with_the_command_that_makes_one(host: Host) -> None:
    done = host.run("list")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f"There are no images in {host.images}. Build one with: steelyard image build\n"


def test_images_are_listed_as_a_table(host: Host) -> None:
    path = examples.image(host.images)
    examples.overlay(host.machines, "one", path)
    examples.qcow2(host.images / "stranger.qcow2")
    done = host.run("list")
    assert done.exit_code == 0
    assert [line.split(maxsplit=6) for line in done.stdout.splitlines()] == [
        ["NAME", "KUBERNETES", "OS", "SIZE", "MACHINES", "STATE"],
        [examples.NAME, "v1.34.4", "Debian", "12.15", "0.0", "GiB", "1          ok"],
        ["stranger.qcow2", "-", "-", "0.0", "GiB", "0", "it has no manifest stranger.json"],
    ]


@pytest.mark.parametrize(("format_", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_images_are_listed_for_programs(host: Host, format_: str, read: Any) -> None:
    path = examples.image(host.images)
    (row,) = read(host.run("list", "-o", format_).stdout)
    assert row == {
        "name": examples.NAME,
        "path": str(path),
        "kubernetes": "v1.34.4",
        "operatingSystem": "Debian 12.15",
        "sizeBytes": 512,
        "sha256": catalogue.digest(path),
        "machines": 0,
        "problem": "",
    }


def test_machines_that_cannot_be_seen_are_no_reason_to_list_nothing(host: Host) -> None:
    disk = examples.overlay(host.machines, "one", examples.image(host.images))
    disk.write_bytes(disk.read_bytes()[:8])
    done = host.run("list")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[1].split()[-2:] == ["?", "ok"]
    assert "nobody knows what it lies over" in done.stderr


def test_names_alone_are_listed_one_by_one(host: Host) -> None:
    examples.image(host.images)
    assert host.run("list", "-o", "name").stdout == f"{examples.NAME}\n"


def test_an_image_that_is_whole_is_said_to_be(host: Host) -> None:
    path = examples.image(host.images)
    done = host.run("verify", path.stem)
    assert done.exit_code == 0
    assert done.stdout == f"{path.name}: sha256:{catalogue.digest(path)} as its manifest says\n"


def test_an_image_that_was_changed_is_an_error(host: Host) -> None:
    path = examples.image(host.images)
    path.write_bytes(path.read_bytes() + b"x")
    done = host.run("verify", path.name)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "it was changed since it was built" in done.stderr
    assert "steelyard image build --kubernetes v1.34.4" in done.stderr


def test_an_image_is_removed(host: Host) -> None:
    path = examples.image(host.images)
    done = host.run("rm", path.name)
    assert (done.exit_code, done.stdout) == (0, f"{path.name} removed\n")
    assert list(host.images.iterdir()) == []


def test_an_image_that_machines_are_on_is_not_removed(host: Host) -> None:
    path = examples.image(host.images)
    examples.overlay(host.machines, "4be0643f-1d98-473b-97cd-ca98a65347dd", path)
    done = host.run("rm", path.name)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "4be0643f-1d98-473b-97cd-ca98a65347dd" in done.stderr
    assert path.exists()


def test_an_image_is_built_where_the_platform_file_says(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[Order] = []

    def build(order: Order, report: Any) -> Outcome:
        orders.append(order)
        report("disk: 1.0 s")
        path = examples.image(order.to)
        return Outcome(path, examples.described(path), is_new=len(orders) == 1)

    monkeypatch.setattr(building, "build", build)
    done = host.run("build", "--kubernetes", "v1.34.5", "--from", "go")
    assert (done.exit_code, done.stdout) == (0, f"{host.images / examples.NAME}\n")
    assert done.stderr.splitlines()[0] == "disk: 1.0 s"
    assert done.stderr.splitlines()[1].startswith(f"{examples.NAME} built (")
    assert "unchanged: it was made from the same" in host.run("build").stderr
    assert orders[0].kubernetes == "v1.34.5"
    assert (orders[0].source, orders[1].source) == ("go", "auto")
    assert orders[0].to == host.images
    assert orders[0].storage_roots == (host.machines,)


def test_a_build_that_fails_tells_why(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(_order: Order, _report: Any) -> Outcome:
        raise BuildFailed("`mke2fs` ended with exit code 1")

    monkeypatch.setattr(building, "build", build)
    done = host.run("build")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "error: `mke2fs` ended with exit code 1\n"


def test_a_build_that_is_interrupted_says_so_by_its_exit_code(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(_order: Order, _report: Any) -> Outcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(building, "build", build)
    assert host.run("build").exit_code == 130


def test_a_platform_file_without_a_host_that_is_this_machine_wants_a_directory(host: Host) -> None:
    host.file.write_text("kvm: {hosts: {far: {uri: qemu+ssh://root@far/system}}}\n")
    done = host.run("list")
    assert done.exit_code == 1
    assert "names no KVM host that is this machine" in done.stderr
    assert host.run("list", "--in", str(host.images)).exit_code == 0
