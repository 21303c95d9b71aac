"""The images of a host: listed with what is wrong, verified, and removed only when nothing lies over them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steelyard.images import catalogue, manifest, overlays
from steelyard.images.catalogue import InUse, Mismatch
from steelyard.images.failing import BuildFailed
from steelyard.images.overlays import Overlay
from tests.images import examples

MACHINE = "4be0643f-1d98-473b-97cd-ca98a65347dd"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "images"


@pytest.fixture
def machines(tmp_path: Path) -> Path:
    return tmp_path / "machines"


def test_a_directory_that_is_not_there_has_no_images(root: Path) -> None:
    assert catalogue.found(root) == []


def test_images_are_listed_by_name_with_what_is_wrong(root: Path) -> None:
    examples.image(root, "b.qcow2", size=1)
    examples.image(root, "a.qcow2")
    examples.qcow2(root / "c.qcow2")
    examples.qcow2(root / "d.qcow2")
    (root / "d.json").write_text("{}")
    (root / ".hidden.qcow2").touch()
    found = catalogue.found(root)
    assert [image.path.name for image in found] == ["a.qcow2", "b.qcow2", "c.qcow2", "d.qcow2"]
    assert [image.problem for image in found][:3] == [
        "",
        "its manifest says 1 bytes, and it has 512",
        "it has no manifest c.json",
    ]
    assert "is no manifest of an image: name: Field required" in found[3].problem


def test_an_image_is_found_with_and_without_its_ending(root: Path) -> None:
    path = examples.image(root)
    assert catalogue.named(root, path.name) == catalogue.named(root, path.stem) == path


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", ".hidden"])
def test_a_name_never_leads_out_of_the_directory(root: Path, name: str) -> None:
    with pytest.raises(BuildFailed, match="is no name of an image"):
        catalogue.named(root, name)


def test_a_name_that_is_not_there_is_told_with_those_that_are(root: Path) -> None:
    examples.image(root)
    with pytest.raises(BuildFailed, match=f"has no image other.qcow2; it has {examples.NAME}"):
        catalogue.named(root, "other")


def test_an_image_is_verified_by_all_of_its_bytes(root: Path) -> None:
    path = examples.image(root)
    assert catalogue.verify(path).name == path.name
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(Mismatch, match="it was changed since it was built"):
        catalogue.verify(path)


def test_without_a_manifest_nothing_can_be_verified(root: Path) -> None:
    with pytest.raises(BuildFailed, match="has no manifest"):
        catalogue.verify(examples.qcow2(root / "x.qcow2"))


def test_an_image_is_removed_with_its_manifest(root: Path, machines: Path) -> None:
    path, other = examples.image(root), examples.image(root, "other.qcow2")
    examples.overlay(machines, MACHINE, other)
    catalogue.remove(path, [machines])
    assert sorted(each.name for each in root.iterdir()) == ["other.json", "other.qcow2"]


@pytest.mark.parametrize("how", ["absolute", "relative", "by a link"])
def test_an_image_with_a_machine_on_it_stays(root: Path, machines: Path, how: str) -> None:
    path = examples.image(root)
    base: Path | str = path
    if how == "relative":
        base = os.path.relpath(path, machines / MACHINE)
    if how == "by a link":
        (machines.parent / "linked").symlink_to(root)
        base = machines.parent / "linked" / path.name
    disk = examples.overlay(machines, MACHINE, base)
    with pytest.raises(InUse) as refused:
        catalogue.remove(path, [machines])
    assert f"the disks of 1 machine lie over, which would be worthless without it: {MACHINE} ({disk})" in str(
        refused.value
    )
    assert catalogue.verify(path)


def test_of_many_machines_some_are_named(root: Path, machines: Path) -> None:
    path = examples.image(root)
    for number in range(8):
        examples.overlay(machines, f"machine-{number}", path)
    with pytest.raises(InUse, match=r"the disks of 8 machines .* and 3 more"):
        catalogue.remove(path, [machines])


def test_a_machine_that_comes_while_its_image_is_removed_keeps_it(
    root: Path, machines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = examples.image(root)
    look = overlays.over
    looked: list[int] = []

    def over(image: Path, roots: list[Path]) -> list[Overlay]:
        looked.append(1)
        if len(looked) == 2:
            examples.overlay(machines, MACHINE, path)
        return look(image, roots)

    monkeypatch.setattr(overlays, "over", over)
    with pytest.raises(InUse):
        catalogue.remove(path, [machines])
    assert catalogue.verify(path)


def test_a_disk_that_cannot_be_understood_keeps_every_image(root: Path, machines: Path) -> None:
    path = examples.image(root)
    disk = examples.overlay(machines, MACHINE, path)
    disk.write_bytes(disk.read_bytes()[:8])
    with pytest.raises(BuildFailed, match="nobody knows what it lies over"):
        catalogue.remove(path, [machines])
    assert path.exists()


def test_links_and_deep_directories_do_not_lead_the_search_away(root: Path, machines: Path) -> None:
    path = examples.image(root)
    (machines / "x").mkdir(parents=True)
    (machines / "x" / "loop").symlink_to(machines)
    os.mkfifo(machines / "x" / "pipe")
    assert overlays.over(path, [machines, machines.parent / "absent"]) == []


def test_a_removal_that_was_killed_is_put_right(root: Path) -> None:
    before, after = examples.image(root, "before.qcow2"), examples.image(root, "after.qcow2")
    before.rename(root / ".removed-before.qcow2")
    after.rename(root / ".removed-after.qcow2")
    manifest.path_of(after).unlink()
    catalogue.restore(root)
    assert sorted(each.name for each in root.iterdir()) == ["before.json", "before.qcow2"]
