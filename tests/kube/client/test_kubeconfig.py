from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

import pytest
import yaml

from steelyard.kube import foreignconfig
from steelyard.kube.client import kubeconfig
from steelyard.kube.client.kubeconfig import InvalidKubeconfig


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


TWO_CONTEXTS = f"""
apiVersion: v1
kind: Config
current-context: one
clusters:
- name: a
  cluster: {{server: "https://a:6443/", certificate-authority-data: {encoded("CA")}, tls-server-name: kubernetes}}
- name: b
  cluster: {{server: "https://b:6443", insecure-skip-tls-verify: true, proxy-url: "http://proxy:3128"}}
users:
- name: cert
  user: {{client-certificate-data: {encoded("CERT")}, client-key-data: {encoded("KEY")}}}
- name: token
  user: {{token: secret}}
- name: plugin
  user: {{exec: {{command: aws}}}}
contexts:
- name: one
  context: {{cluster: a, user: cert, namespace: team-a}}
- name: two
  context: {{cluster: b, user: token}}
- name: three
  context: {{cluster: b, user: plugin}}
- name: dangling
  context: {{cluster: missing, user: token}}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(TWO_CONTEXTS)
    return path


def test_current_context_is_used_unless_another_is_named(own: Path) -> None:
    config = kubeconfig.load(own)
    one = config.resolve()
    assert one.server == "https://a:6443"
    assert (one.certificate_authority, one.client_certificate, one.client_key) == (b"CA", b"CERT", b"KEY")
    assert (one.namespace, one.tls_server_name) == ("team-a", "kubernetes")
    two = config.resolve("two")
    assert (two.token, two.insecure_skip_tls_verify, two.namespace) == ("secret", True, "default")
    assert two.proxy_url == "http://proxy:3128"


@pytest.mark.parametrize(
    ("context", "message"),
    [
        pytest.param("four", 'no context "four", only: one, two, three, dangling', id="unknown context"),
        pytest.param("dangling", 'cluster "missing", which is missing', id="missing cluster"),
        pytest.param("three", "authenticates by exec, which is not supported", id="exec plugin"),
    ],
)
def test_what_cannot_be_resolved_says_why(own: Path, context: str, message: str) -> None:
    with pytest.raises(InvalidKubeconfig, match=message):
        kubeconfig.load(own).resolve(context)


def foreign(cluster: str = "", user: str = "") -> str:
    return (
        "current-context: c\n"
        f"clusters: [{{name: a, cluster: {{server: 'https://a', {cluster}}}}}]\n"
        f"users: [{{name: u, user: {{{user}}}}}]\n"
        "contexts: [{name: c, context: {cluster: a, user: u}}]\n"
    )


def test_text_from_elsewhere_brings_everything_along() -> None:
    text = foreign(f"certificate-authority-data: {encoded('CA')}, tls-server-name: kubernetes", "token: secret")
    resolved = kubeconfig.parse(text).resolve()
    assert (resolved.certificate_authority, resolved.token) == (b"CA", "secret")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(foreign(user="tokenFile: /etc/shadow"), 'user "u" has tokenFile, which names a file', id="token"),
        pytest.param(foreign(user="client-key: key"), "has client-key, which names a file", id="key"),
        pytest.param(foreign(user="client-certificate: c"), "has client-certificate, which names", id="certificate"),
        pytest.param(foreign("certificate-authority: /dev/zero"), "certificate-authority, which names a", id="ca"),
        pytest.param(foreign("proxy-url: 'http://p'"), "has proxy-url, which is not allowed", id="proxy"),
        pytest.param(foreign("insecure-skip-tls-verify: true"), "has insecure-skip-tls-verify", id="insecure"),
        pytest.param(foreign(user="exec: {command: sh}"), "has exec, which is not supported", id="exec"),
        pytest.param(foreign(user="auth-provider: {name: x}"), "has auth-provider", id="auth provider"),
        pytest.param(foreign(user="as: root"), "has as, which is not supported", id="impersonation"),
        pytest.param("#" * (foreignconfig.MAX_BYTES + 1), "larger than", id="too large"),
        pytest.param("[" * 1000, "nested deeper", id="too deep"),
        pytest.param("a: &a {b: 1}\nc: {<<: [*a, *a]}", "aliases", id="aliases"),
    ],
)
def test_text_from_elsewhere_points_nowhere(text: str, message: str) -> None:
    with pytest.raises(InvalidKubeconfig, match=message):
        kubeconfig.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [", "not valid YAML", id="broken YAML"),
        pytest.param("{a", "not valid YAML", id="broken JSON"),
        pytest.param("- a", "not a mapping", id="a list"),
        pytest.param("clusters: [{cluster: {server: x}}]", "an entry of clusters has no name", id="nameless"),
        pytest.param("clusters: [{name: a, cluster: {server: 3}}]", "server must be text", id="wrong type"),
        pytest.param(
            "users: [{name: a, user: {client-key-data: '%%'}}]", "client-key-data is not base64", id="no base64"
        ),
    ],
)
def test_broken_files_say_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(InvalidKubeconfig, match=message):
        kubeconfig.parse(text)


def test_empty_file_has_no_context_to_use() -> None:
    with pytest.raises(InvalidKubeconfig, match="no current-context"):
        kubeconfig.parse("").resolve()


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("CA")
    (tmp_path / "config").write_text(
        "current-context: c\n"
        "clusters: [{name: a, cluster: {server: 'https://a', certificate-authority: ca.crt}}]\n"
        "users: [{name: u, user: {tokenFile: token, client-key: absent.key}}]\n"
        "contexts: [{name: c, context: {cluster: a, user: u}}, {name: d, context: {cluster: a}}]\n"
    )
    config = kubeconfig.load(tmp_path / "config")
    assert config.resolve("d").certificate_authority == b"CA"
    with pytest.raises(InvalidKubeconfig, match=r"cannot read .*absent\.key: No such file"):
        config.resolve("c")
    assert config.users["u"].token_file == str(tmp_path / "token")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidKubeconfig, match=r"cannot read the kubeconfig .*nowhere: No such file"):
        kubeconfig.load(tmp_path / "nowhere")


def test_of_several_files_the_first_that_says_something_wins(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("clusters: [{name: a, cluster: {server: 'https://first'}}]")
    second.write_text(
        "current-context: c\n"
        "clusters: [{name: a, cluster: {server: 'https://second'}}]\n"
        "contexts: [{name: c, context: {cluster: a}}]"
    )
    environment = {"KUBECONFIG": os.pathsep.join(map(str, (first, tmp_path / "absent", second)))}
    assert kubeconfig.load_default(environment).resolve().server == "https://first"


def test_default_file_is_in_the_home_directory(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("current-context: mine")
    assert kubeconfig.load_default({"HOME": str(tmp_path)}).current_context == "mine"


def test_built_file_reads_back_as_it_was(tmp_path: Path) -> None:
    built = kubeconfig.build(
        "dev", "https://127.0.0.1:6443", certificate_authority=b"CA", client_certificate=b"CERT", client_key=b"KEY"
    )
    assert built.current_context == "dev-admin@dev"
    path = tmp_path / "deep" / "config"
    kubeconfig.write(path, built)
    assert kubeconfig.load(path) == built
    assert yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"


def test_written_file_belongs_to_its_owner_alone_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("old")
    path.chmod(0o644)
    kubeconfig.write(path, kubeconfig.build("a", "https://a", token="t"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["config"]


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        kubeconfig.write(path, kubeconfig.build("a", "https://a", token="t"))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["config"]
