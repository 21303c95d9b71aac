"""Which server a command asks: the table of who has what, and what a failure says about the choice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from steelyard.cli import reach
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.reach import Given
from steelyard.kube.client import kubeconfig
from tests.cli.terminal import Terminal
from tests.harness import PlatformProcess

LOCAL, NAMED, WORK, HOME_CONFIG = (f"https://{name}:6443" for name in ("local", "named", "work", "home"))


def write(path: Path, server: str, *, namespace: str = "", name: str = "main") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    kubeconfig.write(path, kubeconfig.build(name, server, token="t", context=name, namespace=namespace))
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write(tmp_path / "work.yaml", WORK, namespace="team-a", name="work")
    write(tmp_path / "named" / "kubeconfig", NAMED)
    return tmp_path


def asked(given: Given, home: Path, *, local: bool = False, in_home: bool = False, **environment: str) -> reach.Server:
    if local:
        write(home / ".local" / "share" / "steelyard" / "kubeconfig", LOCAL)
    if in_home:
        write(home / ".kube" / "config", HOME_CONFIG)
    return reach.choose(given, {"HOME": str(home), "XDG_DATA_HOME": str(home / ".local" / "share"), **environment})


def test_who_runs_a_platform_here_reaches_it_whatever_kubeconfig_is_for(home: Path) -> None:
    server = asked(Given(), home, local=True, in_home=True, KUBECONFIG=str(home / "work.yaml"))
    assert server.connection.server == LOCAL
    assert server.is_contested


def test_who_runs_none_needs_only_what_kubectl_needs(home: Path) -> None:
    server = asked(Given(), home, KUBECONFIG=str(home / "work.yaml"))
    assert (server.connection.server, server.namespace) == (WORK, "team-a")
    assert server.why == "KUBECONFIG, context work"
    assert asked(Given(), home, in_home=True).connection.server == HOME_CONFIG


def test_several_files_count_as_one_and_the_first_says_what_is_current(home: Path) -> None:
    other = write(home / "other.yaml", "https://other:6443", name="other")
    both = f"{other}:{home / 'work.yaml'}:{home / 'not-there.yaml'}"
    assert asked(Given(), home, KUBECONFIG=both).connection.server == "https://other:6443"
    assert asked(Given(context="work"), home, KUBECONFIG=both).connection.server == WORK


@pytest.mark.parametrize("is_local", [False, True])
def test_what_is_said_on_the_command_line_counts_most(home: Path, is_local: bool) -> None:
    for given, server, flags in (
        (Given(kubeconfig=home / "work.yaml"), WORK, f" --kubeconfig {home / 'work.yaml'}"),
        (Given(data_dir=home / "named"), NAMED, f" --data-dir {home / 'named'}"),
        (Given(context="work"), WORK, " --context work"),
    ):
        chosen = asked(given, home, local=is_local, KUBECONFIG=str(home / "work.yaml"))
        assert chosen.connection.server == server
        assert chosen.hints.flags == flags


def test_the_data_directory_of_the_environment_goes_before_kubeconfig(home: Path) -> None:
    chosen = asked(Given(), home, STEELYARD_DATA_DIR=str(home / "named"), KUBECONFIG=str(home / "work.yaml"))
    assert chosen.connection.server == NAMED


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Given(data_dir=Path("a"), kubeconfig=Path("b")), "give one of them"),
        (Given(data_dir=Path("a"), context="b"), "leave one out"),
        (Given(kubeconfig=Path("/not/there")), "/not/there"),
        (Given(context="nobody"), 'no context "nobody", only: work'),
    ],
    ids=["two platforms", "a context of a directory", "no such file", "no such context"],
)
def test_what_names_no_server_or_two_is_refused(home: Path, given: Given, words: str) -> None:
    with pytest.raises(CommandError, match=words) as caught:
        asked(given, home, KUBECONFIG=str(home / "work.yaml"))
    assert caught.value.code == Exit.USAGE


def test_nothing_to_ask_says_both_ways_to_get_something(home: Path) -> None:
    with pytest.raises(CommandError, match=r"steelyard up\nTo reach one .* --kubeconfig"):
        asked(Given(), home)
    with pytest.raises(CommandError, match="KUBECONFIG names no file that is there: /no"):
        asked(Given(), home, KUBECONFIG="/no")


def test_from_elsewhere_with_nothing_but_a_kubeconfig(
    shared: PlatformProcess, terminal: Terminal, ready_claim: str, tmp_path: Path
) -> None:
    copy = shutil.copy(shared.data_dir.kubeconfig, tmp_path / "copy")
    remote = terminal.elsewhere(tmp_path / "home", KUBECONFIG=str(copy))
    assert f"reading     {ready_claim}" in remote.quick("get").out
    assert "dev on simulated machines" in remote.quick("describe", ready_claim).out
    status = remote.quick("status")
    assert "reached: KUBECONFIG, context steelyard-admin@steelyard" in status.out
    assert "ok    platform: answers at https://" in remote.quick("doctor", "--context", "steelyard-admin@steelyard").out

    flags = ("--kubeconfig", str(copy))
    bare = terminal.elsewhere(tmp_path / "home")
    told = bare.quick("describe", ready_claim, *flags).out
    assert f"steelyard scale {ready_claim} -n reading --workers 3 --kubeconfig {copy}" in told
    assert bare.quick("get").code == Exit.NOT_RUNNING
    lost = bare.quick("describe", "nobody", *flags)
    assert lost.err.splitlines()[-1].endswith(f"--kubeconfig {copy}, context steelyard-admin@steelyard.")
    refused = bare.quick("kubeconfig", *flags)
    assert (refused.code, refused.out) == (Exit.FAILED, "")
    backup = bare.quick("backup", str(tmp_path / "there.tar"), *flags)
    assert (backup.code, (tmp_path / "there.tar").exists()) == (Exit.OK, True)


def test_a_server_that_does_not_answer_is_named_with_the_reason_for_asking_it(tmp_path: Path) -> None:
    nowhere = write(tmp_path / "config", "https://127.0.0.1:9", name="gone")
    done = Terminal(tmp_path, tmp_path).elsewhere(tmp_path, KUBECONFIG=str(nowhere)).quick("get")
    assert done.code == Exit.NOT_RUNNING
    assert "Asked was https://127.0.0.1:9: KUBECONFIG, context gone." in done.err


def test_the_contexts_namespace_is_where_a_command_looks(
    shared: PlatformProcess, terminal: Terminal, ready_claim: str, tmp_path: Path
) -> None:
    config = kubeconfig.load(shared.data_dir.kubeconfig)
    name = config.current_context
    context = kubeconfig.Context("steelyard", "steelyard-admin", "elsewhere")
    kubeconfig.write(tmp_path / "c", kubeconfig.Kubeconfig(config.clusters, config.users, {name: context}, name))
    remote = terminal.elsewhere(tmp_path, KUBECONFIG=str(tmp_path / "c"))
    assert remote.quick("get").err == "No claims in namespace elsewhere.\n"
    assert f"reading     {ready_claim}" in remote.quick("get", "-A").out
    missed = remote.quick("describe", ready_claim)
    assert f'"{ready_claim}" not found in namespace elsewhere; did you mean reading/{ready_claim}?' in missed.err
    made = remote.quick("create", "cluster", "x", "--environment", "dev", "--dry-run", "-o", "yaml")
    assert "namespace: elsewhere" in made.out

    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: placed, namespace: reading}\n"
    assert remote.quick("apply", "-f", "-", given=manifest).out == "configmap/placed created\n"
    assert "placed" in remote.quick("get", "configmap", "placed", "-n", "reading").out
    clash = remote.quick("apply", "-f", "-", "-n", "elsewhere", given=manifest)
    assert "it is for namespace reading, and -n says elsewhere" in clash.err
    assert remote.quick("delete", "-f", "-", "--yes", given=manifest).code == Exit.OK
    assert ready_claim in remote.quick("get", ready_claim, "-n", "reading").out
