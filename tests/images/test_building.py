"""A build puts an image in its place whole, or leaves nothing: whatever fails, whenever it does."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard.images import (
    building,
    catalogue,
    commands,
    containers,
    debian,
    disk,
    machine,
    manifest,
    node,
    oci,
    preloading,
    programs,
    system,
)
from steelyard.images.building import Order, Outcome
from steelyard.images.catalogue import InUse
from steelyard.images.containers import Wanted
from steelyard.images.debian import Archive
from steelyard.images.failing import BuildFailed
from steelyard.images.manifest import OperatingSystem
from steelyard.images.oci import Archived
from steelyard.images.programs import Built, Programs
from steelyard.images.system import Package
from steelyard.settings.kvm import IMAGE
from tests.images import examples

ARCHIVE = Archive(("deb http://example.org bookworm main",), "12.15", 1_700_000_000, "a" * 64)
PAUSE = Archived("registry.k8s.io/pause:3.10.1", f"sha256:{'1' * 64}", f"sha256:{'2' * 64}", 3)
EACH_STEP = (
    (machine, "unpack"),
    (machine, "install"),
    (node, "install"),
    (containers, "filters"),
    (oci, "write"),
    (preloading, "preload"),
    (machine, "clean"),
    (system, "packages"),
    (disk, "make"),
    (disk, "convert"),
    (catalogue, "digest"),
)


class Site:
    """A host on which every step of a build only makes the files that the next one looks for."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.images, self.machines, self.folder = folder / "images", folder / "machines", folder
        self.said: list[str] = []
        self.monkeypatch = monkeypatch
        self.kubelet = folder / "kubelet"
        self.kubelet.write_bytes(b"kubelet")
        self.archive = ARCHIVE
        built = Built("v1.34.4", self.kubelet, "go1.26.8")
        self.found = Programs({"kubelet": built}, {}, Wanted({"pause": PAUSE.name}), built)
        for module, name, replacement in (
            (building, "_check_host", self.nothing),
            (building, "_described", self.described),
            (containers, "filters", self.none),
            (containers, "images", self.one),
            (debian, "archive", self.state),
            (disk, "convert", self.convert),
            (disk, "make", self.make),
            (machine, "clean", self.nothing),
            (machine, "install", self.nothing),
            (machine, "unpack", self.unpack),
            (node, "install", self.nothing),
            (oci, "write", self.write),
            (preloading, "preload", self.preload),
            (programs, "from_go", self.programs),
            (system, "packages", self.packages),
            (system, "tree", self.nothing),
        ):
            monkeypatch.setattr(module, name, replacement)

    def nothing(self, *_given: object) -> None:
        pass

    def none(self, *_given: object) -> list[object]:
        return []

    def one(self, *_given: object) -> list[object]:
        return [object()]

    def described(self, _root: Path) -> OperatingSystem:
        return OperatingSystem(name="Debian", version="12.15", kernel="6.1")

    def state(self, _mirror: str) -> Archive:
        return self.archive

    def programs(self, *_given: object) -> Programs:
        return self.found

    def packages(self, _root: Path) -> list[Package]:
        return [Package("systemd", "252")]

    def preload(self, *_given: object) -> list[str]:
        return [PAUSE.name]

    def unpack(self, _tree: Path, root: Path) -> None:
        root.mkdir()

    def write(self, _image: object, target: Path, _epoch: int) -> Archived:
        target.write_bytes(b"image")
        return PAUSE

    def make(self, _root: Path, target: Path, _epoch: int) -> None:
        target.write_bytes(b"disk")

    def convert(self, raw: Path, target: Path) -> None:
        target.write_bytes(b"image of " + raw.read_bytes())

    def build(self, **changed: Any) -> Outcome:
        order: dict[str, Any] = {"source": "go", "storage_roots": (self.machines,)}
        return building.build(Order("v1.34.4", self.images, **(order | changed)), self.said.append)

    def left(self) -> list[str]:
        return sorted(path.name for path in self.images.iterdir())


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_given: Any) -> Any:
        raise error

    return fail


def test_an_image_stands_beside_its_manifest(site: Site) -> None:
    outcome = site.build()
    assert outcome.is_new
    assert outcome.path == site.images / examples.NAME
    assert outcome.path.read_bytes() == b"image of disk"
    assert site.left() == ["debian-12-kubernetes-v1.34.4.json", "debian-12-kubernetes-v1.34.4.qcow2"]
    assert catalogue.verify(outcome.path) == outcome.manifest
    kept = manifest.read(outcome.path)
    assert kept is not None
    assert kept.operating_system.version == "12.15"
    assert kept.programs["kubelet"].version == "v1.34.4"
    assert [image.name for image in kept.images] == [PAUSE.name]
    assert kept.packages == {"systemd": "252"}


def test_an_image_has_the_name_that_machines_look_for() -> None:
    assert building.NAME == IMAGE


def test_an_image_of_the_same_is_not_made_again(site: Site) -> None:
    first = site.build()
    inode = first.path.stat().st_ino
    again = site.build()
    assert not again.is_new
    assert again.manifest == first.manifest
    assert first.path.stat().st_ino == inode


@pytest.mark.parametrize("changed", ["a program", "a package", "the image itself", "the manifest is gone"])
def test_an_image_of_something_else_is_made_again(site: Site, changed: str) -> None:
    first = site.build()
    if changed == "a program":
        site.kubelet.write_bytes(b"another")
    elif changed == "a package":
        site.archive = Archive(ARCHIVE.sources, "12.15", ARCHIVE.epoch, "b" * 64)
    elif changed == "the image itself":
        first.path.write_bytes(b"image of disC")
    else:
        manifest.path_of(first.path).unlink()
    again = site.build()
    assert again.is_new
    assert catalogue.verify(again.path).inputs == again.manifest.inputs
    assert (again.manifest.inputs == first.manifest.inputs) is (changed not in ("a program", "a package"))


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "disk.raw"),
        BuildFailed("`mke2fs` ended with exit code 1"),
        KeyboardInterrupt(),
    ],
    ids=["disk full", "a program failed", "Ctrl-C"],
)
@pytest.mark.parametrize(("module", "step"), EACH_STEP, ids=[step for _, step in EACH_STEP])
def test_nothing_half_made_is_left(site: Site, module: Any, step: str, error: BaseException) -> None:
    site.monkeypatch.setattr(module, step, failing(error))
    with pytest.raises(type(error)):
        site.build()
    assert site.left() == []


def test_a_build_that_fails_leaves_the_image_that_was_there(site: Site) -> None:
    before = site.build()
    site.kubelet.write_bytes(b"another")
    site.monkeypatch.setattr(disk, "convert", failing(OSError(errno.ENOSPC, "full", "x")))
    with pytest.raises(OSError, match="full"):
        site.build()
    assert catalogue.verify(before.path) == before.manifest
    assert len(site.left()) == 2


def test_what_a_killed_build_left_is_taken_away(site: Site) -> None:
    (site.images / ".building-x7f" / "root" / "etc").mkdir(parents=True)
    (site.images / ".building-x7f" / "disk.raw").touch()
    site.build()
    assert len(site.left()) == 2


def test_an_image_that_machines_are_on_is_not_replaced(site: Site) -> None:
    before = site.build()
    examples.overlay(site.machines, "some-machine", before.path)
    site.kubelet.write_bytes(b"another")
    with pytest.raises(InUse, match="some-machine"):
        site.build()
    assert site.build(name="another").path.name == "another.qcow2"
    assert catalogue.verify(before.path) == before.manifest


def test_an_image_of_the_same_may_have_machines_on_it(site: Site) -> None:
    before = site.build()
    examples.overlay(site.machines, "some-machine", before.path)
    again = site.build()
    assert not again.is_new
    assert again.manifest == before.manifest


def test_a_machine_that_was_made_while_its_image_is_built_again_keeps_it(site: Site) -> None:
    before = site.build()
    site.kubelet.write_bytes(b"another")

    def convert(_raw: Path, target: Path) -> None:
        target.write_bytes(b"new")
        examples.overlay(site.machines, "some-machine", before.path)

    site.monkeypatch.setattr(disk, "convert", convert)
    with pytest.raises(InUse):
        site.build()
    assert catalogue.verify(before.path) == before.manifest
    assert len(site.left()) == 2


def test_two_builds_in_one_directory_go_one_after_the_other(site: Site) -> None:
    site.images.mkdir()
    held = os.open(site.images, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)

    def report(text: str) -> None:
        site.said.append(text)
        if text.startswith("waiting"):
            fcntl.flock(held, fcntl.LOCK_UN)

    try:
        building.build(Order("v1.34.4", site.images, source="go"), report)
    finally:
        os.close(held)
    assert site.said[0] == f"waiting for another build in {site.images} to end"


def test_each_step_is_told_with_its_seconds(site: Site) -> None:
    site.build()
    told = [line.rpartition(": ")[0] for line in site.said if line.endswith(" s")]
    assert told == [
        "programs of Kubernetes v1.34.4",
        "state of Debian's archive",
        "Debian 12.15",
        "tree of files",
        "container images",
        "import of 1 container images",
        "disk",
        "image",
    ]


def test_too_little_room_is_told_before_anything_is_made(site: Site) -> None:
    site.monkeypatch.setattr(building, "_ROOM", 1 << 60)
    with pytest.raises(BuildFailed, match=r"GiB left, and a build needs .* --to DIR"):
        site.build()
    assert site.left() == []


def test_a_container_image_that_containerd_did_not_keep_ends_the_build(site: Site) -> None:
    site.monkeypatch.setattr(preloading, "preload", site.none)
    with pytest.raises(BuildFailed, match=r"containerd did not keep registry.k8s.io/pause:3.10.1"):
        site.build()
    assert site.left() == []


@pytest.mark.parametrize("name", ["../elsewhere", ".hidden", "x" * 300])
def test_a_name_that_is_none_is_refused(site: Site, name: str) -> None:
    with pytest.raises(BuildFailed, match="is no name of an image"):
        site.build(name=name)


def test_only_root_can_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BuildFailed, match="needs root"):
        building.build(Order("v1.34.4", tmp_path), print)


def test_missing_programs_are_told_with_the_command_that_installs_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(commands, "missing", lambda: ["mmdebstrap", "qemu-utils"])
    with pytest.raises(BuildFailed, match="apt install mmdebstrap qemu-utils"):
        building.build(Order("v1.34.4", tmp_path), print)
