"""`kubeconfig --merge`: what others keep in the file stays, twice is once, nobody else can read it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import yaml

from steelyard.kube.client import kubeconfig, merging
from steelyard.kube.client.kubeconfig import InvalidKubeconfig, Kubeconfig

FOREIGN = """\
apiVersion: v1
kind: Config
preferences: {colors: true}
clusters:
- name: work
  cluster: {server: "https://work:6443", extensions: [{name: x, extension: {a: 1}}]}
users:
- name: me
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: login, interactiveMode: Never}}
contexts:
- name: work
  context: {cluster: work, user: me}
current-context: work
"""


def ours(server: str = "https://127.0.0.1:7443", authority: bytes = b"CA") -> Kubeconfig:
    return kubeconfig.build("shop", server, certificate_authority=authority, token="secret")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / ".kube" / "config"
    path.parent.mkdir()
    path.write_text(FOREIGN)
    path.chmod(0o644)
    return path


def test_what_others_have_put_there_stays_as_it_is(file: Path) -> None:
    done = merging.into(file, ours())
    assert (done.added, done.is_current) == (True, False)
    after, before = yaml.safe_load(file.read_text()), yaml.safe_load(FOREIGN)
    assert after["preferences"] == before["preferences"]
    for section in ("clusters", "users", "contexts"):
        assert after[section][0] == before[section][0]
        assert len(after[section]) == 2
    assert after["current-context"] == "work"
    assert kubeconfig.load(file).resolve("shop-admin@shop").token == "secret"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(each.name for each in file.parent.iterdir()) == ["config"]


def test_doing_it_again_changes_nothing(file: Path) -> None:
    merging.into(file, ours())
    once, at = file.read_bytes(), file.stat().st_mtime_ns
    done = merging.into(file, ours())
    assert (done.added, done.changed) == (False, False)
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (once, at)


@pytest.mark.parametrize(
    "again",
    [ours("https://127.0.0.1:9999"), ours(authority=b"renewed")],
    ids=["on another port", "with another authority"],
)
def test_the_same_cluster_is_brought_up_to_date(file: Path, again: Kubeconfig) -> None:
    merging.into(file, ours())
    done = merging.into(file, again)
    assert (done.added, done.changed) == (False, True)
    assert kubeconfig.load(file).clusters["shop"] == again.clusters["shop"]
    assert len(yaml.safe_load(file.read_text())["clusters"]) == 2


def test_another_cluster_of_the_same_name_is_not_replaced(file: Path) -> None:
    merging.into(file, ours())
    before = file.read_bytes()
    with pytest.raises(InvalidKubeconfig, match=r'another cluster named "shop" already, .* --name'):
        merging.into(file, ours("https://elsewhere:6443", b"another"))
    assert file.read_bytes() == before
    renamed = merging.renamed(ours("https://elsewhere:6443", b"another"), "shop-b")
    assert merging.into(file, renamed, make_current=True).is_current
    assert kubeconfig.load(file).resolve().server == "https://elsewhere:6443"


def test_a_file_that_is_none_is_left_as_it_is(file: Path) -> None:
    for text in ("- a list", "{", "contexts: 7"):
        file.write_text(text)
        with pytest.raises(InvalidKubeconfig):
            merging.into(file, ours())
        assert file.read_text() == text


def test_a_new_file_is_private_and_a_link_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles" / "kube", tmp_path / "home" / "config"
    link.parent.mkdir()
    real.parent.mkdir()
    real.write_text("")
    link.symlink_to(real)
    assert merging.into(link, ours()).is_current
    assert link.is_symlink()
    assert kubeconfig.load(real).current_context == "shop-admin@shop"
    made = merging.into(tmp_path / "new" / ".kube" / "config", ours())
    assert made.is_current
    assert stat.S_IMODE((tmp_path / "new" / ".kube" / "config").stat().st_mode) == 0o600


def test_a_file_that_somebody_else_is_changing_is_waited_for_but_not_for_ever(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "_PATIENCE", 0.1)
    lock = file.with_name("config.lock")
    lock.touch()
    with pytest.raises(InvalidKubeconfig, match=r"another program is changing .*config\.lock"):
        merging.into(file, ours())
    assert lock.exists()
