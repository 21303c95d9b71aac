"""The commands as a user runs them: processes against a platform, judged by output, exit code and what is there."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

import steelyard
from steelyard.api.clusterapi.resources import KUBEADM_CONTROL_PLANES
from steelyard.cli.exits import Exit
from steelyard.cli.main import app
from steelyard.kube.client.http import HttpClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from tests.cli.terminal import Done, Terminal, await_connection
from tests.harness import ROOT, PlatformProcess
from tools import cli_reference

CLAIMS = "workloadclusters.compute.steelyard.dev"
OF_FILES = (
    "up", "down", "logs", "restore", "renew-authority", "explain", "crds", "render", "secrets policy", "image build",
    "image list", "image verify", "image rm", "function", "crossplane package", "provider kvm manifests",
    "manifests",
)  # fmt: skip
"""Commands that need no API."""
OF_OTHERS = ("provider kvm", "provider kvm manifests", "manifests")
"""Commands for management clusters, which have no data directory."""


# The platform itself.


def test_a_second_up_on_the_same_data_directory_says_so(shared: PlatformProcess, terminal: Terminal) -> None:
    assert shared.process is not None
    done = terminal.run("up", "--port", "0")
    assert done.code == Exit.FAILED
    assert done.out == ""
    assert "already running" in done.err
    assert f"process {shared.process.pid}" in done.err
    assert "steelyard down" in done.err
    detached = terminal.run("up", "--port", "0", "--detach")
    assert detached.code == Exit.FAILED
    assert "already running" in detached.err


def test_up_on_a_taken_port_names_the_port_and_what_to_do(idle: Terminal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = idle.run("up", "--port", port)
    assert done.code == Exit.FAILED
    assert f"127.0.0.1:{port}" in done.err
    assert "--port" in done.err
    assert "Traceback" not in done.err


def test_a_data_directory_that_cannot_be_one_is_named(idle: Terminal) -> None:
    idle.data_dir.write_text("a file")
    for arguments in (["up", "--port", "0"], ["get"]):
        done = idle.run(*arguments)
        assert done.code == Exit.FAILED
        assert str(idle.data_dir) in done.err
        assert "--data-dir" in done.err
        assert "Traceback" not in done.err
    done = idle.run("doctor")
    assert done.code == Exit.FAILED
    assert f"FAIL  data directory: {idle.data_dir} is not a writable directory" in done.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_signal_ends_the_platform_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with PlatformProcess(tmp_path) as platform:
        instance = platform.start()
        assert platform.process is not None
        os.kill(platform.process.pid, number)
        assert platform.process.wait(60) == Exit.OK
        assert platform.data_dir.running() is None
        told = platform.log.read_text()
        assert f"serves the Kubernetes API at {instance.url}" in told
        assert f"export KUBECONFIG={platform.data_dir.kubeconfig}" in told
        assert "Traceback" not in told


def test_a_detached_platform_runs_until_down_and_keeps_its_data(idle: Terminal) -> None:
    assert idle.run("status").code == Exit.NOT_RUNNING
    try:
        done = idle.run("up", "--detach", "--port", "0")
        assert done.code == Exit.OK, done.err
        assert done.out == ""
        assert str(idle.data_dir / "kubeconfig") in done.err
        status = idle.ok("status")
        assert "running: https://127.0.0.1:" in status
        assert "claims:  0" in status
    finally:
        ended = idle.run("down")
    assert ended.code == Exit.OK
    assert "ended" in ended.err
    assert (idle.data_dir / "steelyard.db").exists()

    status = idle.run("status")
    assert status.code == Exit.NOT_RUNNING
    assert "not running" in status.out
    get = idle.run("get")
    assert get.code == Exit.NOT_RUNNING
    assert "steelyard up" in get.err
    assert idle.run("down") == Done(0, "", f"no platform runs in {idle.data_dir}\n")


@pytest.mark.parametrize("arguments", [["kubeconfig"], ["describe", "shop"]], ids=" ".join)
def test_without_a_platform_a_command_says_how_to_start_one(idle: Terminal, arguments: list[str]) -> None:
    done = idle.run(*arguments)
    assert done.code == Exit.NOT_RUNNING
    assert "steelyard up" in done.out + done.err
    assert not idle.data_dir.exists()


def test_a_mistyped_key_of_the_platform_file_is_named_with_its_line(idle: Terminal) -> None:
    file = idle.directory / "platform.yaml"
    file.write_text("domain: example.org\nenvironments:\n  dev:\n    wokerReplicas: 4\n")
    done = idle.run("up", "--port", "0")
    assert done.code == Exit.USAGE
    assert "platform.yaml:4" in done.err
    assert "wokerReplicas" in done.err
    assert "workerReplicas?" in done.err
    assert not idle.data_dir.exists()


def test_status_counts_the_ready_claims(terminal: Terminal, ready_claim: str) -> None:
    assert ready_claim
    status = terminal.ok("status")
    assert f"data:    {terminal.data_dir}" in status
    assert "ready" in status.splitlines()[-1]


def test_version_names_the_command_and_the_running_platform(terminal: Terminal, idle: Terminal) -> None:
    first, second = terminal.ok("version").splitlines()
    assert first.startswith(f"steelyard {steelyard.__version__} (Python ")
    assert second.startswith(f"platform  {steelyard.__version__} at https://127.0.0.1:")
    assert idle.ok("version").splitlines() == [first]


def test_doctor_finds_a_sound_platform(terminal: Terminal) -> None:
    findings = terminal.ok("doctor").splitlines()
    assert not any(line.startswith("FAIL") for line in findings)
    assert any(line.startswith("ok    platform: answers at https://") for line in findings)


def test_doctor_says_what_is_wrong_and_how_to_mend_it(idle: Terminal) -> None:
    idle.data_dir.mkdir()
    kubeconfig = idle.data_dir / "kubeconfig"
    kubeconfig.write_text("{}")
    kubeconfig.chmod(0o644)
    (idle.directory / "platform.yaml").write_text("domian: example.org\n")
    done = idle.run("doctor")
    assert done.code == Exit.FAILED
    failures = [line for line in done.out.splitlines() if line.startswith("FAIL")]
    assert any("kubeconfig: mode 644" in line and f"chmod 600 {kubeconfig}" in line for line in failures)
    assert any("platform.yaml:1" in line and "domain?" in line for line in failures)


# Kubeconfigs.


def test_the_administrators_kubeconfig_is_private_and_complete(shared: PlatformProcess, terminal: Terminal) -> None:
    file = shared.data_dir.kubeconfig
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(shared.data_dir.root.stat().st_mode) == 0o700
    printed = terminal.ok("kubeconfig")
    assert printed == file.read_text()
    config = yaml.safe_load(printed)
    instance = shared.data_dir.running()
    assert instance is not None
    assert config["clusters"][0]["cluster"]["server"] == instance.url
    assert config["clusters"][0]["cluster"]["certificate-authority-data"]
    assert config["current-context"] == config["contexts"][0]["name"]


def test_a_clusters_kubeconfig_leads_to_its_own_api(terminal: Terminal, ready_claim: str) -> None:
    config = yaml.safe_load(terminal.ok("kubeconfig", ready_claim))
    claim = terminal.json("get", "cluster", ready_claim)
    assert config["clusters"][0]["cluster"]["server"] == claim["status"]["endpoint"]


@pytest.fixture(scope="module")
def tampered_claim(shared: PlatformProcess, tmp_path_factory: pytest.TempPathFactory) -> str:
    """One whose machines are lost for a moment, which tests of others would see."""
    terminal = Terminal(shared.data_dir.root, tmp_path_factory.mktemp("terminal"))
    terminal.ok("create", "cluster", "tampered", "--environment", "dev", "-n", "tampering", "--wait")
    return "tampered"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"users": [{"name": "u", "user": {"exec": {"command": "sh"}}}]}, 'user "u" has exec'),
        ({"clusters": [{"name": "c", "cluster": {"server": "https://elsewhere"}}]}, "its server is https://elsewhere"),
    ],
)
def test_a_kubeconfig_that_somebody_has_tampered_with_is_not_printed(
    terminal: Terminal, tampered_claim: str, change: dict[str, Any], complaint: str
) -> None:
    config = yaml.safe_load(terminal.ok("kubeconfig", tampered_claim)) | change
    config["contexts"] = [{"name": "x", "context": {"cluster": config["clusters"][0]["name"]}}]
    config["current-context"] = "x"
    value = base64.b64encode(yaml.safe_dump(config).encode()).decode()
    claim = terminal.json("get", "cluster", tampered_claim)
    reference = claim["status"]["kubeconfigSecret"]

    async def tamper(paused: str | None) -> str:
        """While the control plane is paused, since it puts its Secret right at once."""
        client = HttpClient.from_kubeconfig(terminal.data_dir / "kubeconfig")
        pause: Object = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": paused}}}
        try:
            before = await client.get(SECRETS, reference["name"], reference["namespace"])
            await client.patch(KUBEADM_CONTROL_PLANES, f"{tampered_claim}-control-plane", pause, reference["namespace"])
            await client.patch(SECRETS, reference["name"], {"data": {"value": value}}, reference["namespace"])
            return before["data"]["value"]
        finally:
            await client.close()

    before = asyncio.run(tamper("true"))
    try:
        done = terminal.run("kubeconfig", tampered_claim)
        assert (done.code, done.out) == (Exit.FAILED, "")
        assert complaint in done.err
        assert "delete the Secret" in done.err
    finally:
        value = before
        asyncio.run(tamper(None))


def test_the_kubeconfig_of_an_unknown_cluster_is_an_error(terminal: Terminal) -> None:
    done = terminal.run("kubeconfig", "nobody")
    assert (done.code, done.out) == (Exit.FAILED, "")
    assert '"nobody" not found' in done.err


def test_kubeconfigs_are_merged_into_the_file_that_kubectl_reads(
    shared: PlatformProcess, terminal: Terminal, ready_claim: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    here = terminal.elsewhere(home, STEELYARD_DATA_DIR=str(terminal.data_dir))
    file = home / ".kube" / "config"
    assert here.quick("kubeconfig", "--merge").err.splitlines() == [
        f'context "steelyard-admin@steelyard" added to {file}',
        "  it is the current context: kubectl get claim -A",
    ]
    added = here.quick("kubeconfig", ready_claim, "--merge")
    assert (added.out, added.err.splitlines()) == (
        "",
        [f'context "ready-admin@ready" added to {file}', "  kubectl --context ready-admin@ready get nodes"],
    )
    assert "already in" in here.quick("kubeconfig", ready_claim, "--merge").err
    assert "current context" in here.quick("kubeconfig", ready_claim, "--merge", "--name", "mine", "--use").err
    config = yaml.safe_load(file.read_text())
    assert [each["name"] for each in config["contexts"]] == ["steelyard-admin@steelyard", "ready-admin@ready", "mine"]
    assert config["current-context"] == "mine"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    own = terminal.elsewhere(home, KUBECONFIG=str(shared.data_dir.kubeconfig))
    before = shared.data_dir.kubeconfig.read_text()
    refused = own.quick("kubeconfig", ready_claim, "--merge")
    assert refused.code == Exit.USAGE
    assert "which is the platform's own" in refused.err
    assert shared.data_dir.kubeconfig.read_text() == before
    assert here.quick("kubeconfig", "--name", "x").code == Exit.USAGE


# Creating.


def test_a_bad_value_is_refused_by_field_and_nothing_is_created(terminal: Terminal) -> None:
    for flag, value, complaint in (
        ("--control-plane-replicas", "2", "spec.parameters.controlPlaneReplicas: Unsupported value: 2"),
        ("--worker-replicas", "-1", "spec.parameters.workerReplicas: Invalid value: -1"),
        ("--kubernetes-version", "newest", '"newest" is not offered: clusters are made of Kubernetes'),
        ("--worker-replicas", "many", 'spec.parameters.workerReplicas: must be of type integer, not "many"'),
    ):
        done = terminal.run("create", "cluster", "bad", "--environment", "dev", "-n", "for-bad-values", flag, value)
        assert (done.code, done.out) == (Exit.FAILED, "")
        assert complaint in done.err
    assert "for-bad-values" not in terminal.ok("get", "namespaces", "-o", "name")
    assert "/bad" not in terminal.ok("get", "-o", "name")


def test_everything_that_is_wrong_is_told_at_once_with_the_nearest_word(terminal: Terminal) -> None:
    flags = ("--environment", "prodution", "--control-plane-replicas", "2", "--kubernetes-version", "newest")
    done = terminal.run("create", "cluster", "bad", *flags)
    assert (done.code, done.out) == (Exit.FAILED, "")
    head, *mistakes = done.err.splitlines()
    assert head == "error: WorkloadCluster default/bad has 3 mistakes:"
    assert sorted(line.split(":")[0].strip() for line in mistakes) == [
        "spec.parameters.controlPlaneReplicas",
        "spec.parameters.environment",
        "spec.parameters.kubernetesVersion",
    ]
    assert any("did you mean production?" in line for line in mistakes)


def test_creating_twice_is_refused(terminal: Terminal, ready_claim: str) -> None:
    done = terminal.run("create", "cluster", ready_claim, "--environment", "dev", "-n", "reading")
    assert (done.code, done.out) == (Exit.FAILED, "")
    assert f'{CLAIMS} "{ready_claim}" already exists' in done.err


def test_a_dry_run_shows_the_claim_and_creates_nothing(terminal: Terminal) -> None:
    words = ("create", "cluster", "dry", "--environment", "dev", "--worker-replicas", "7", "--dry-run")
    claim = terminal.json(*words)
    assert claim["spec"]["parameters"] == {"environment": "dev", "workerReplicas": 7}
    assert terminal.ok(*words) == "workloadcluster.compute.steelyard.dev/dry would be created in namespace default\n"
    assert "/dry" not in terminal.ok("get", "-o", "name")


# Reading.


def test_get_prints_every_format(terminal: Terminal, ready_claim: str) -> None:
    header, row = terminal.ok("get", "-n", "reading").splitlines()
    assert header.split()[:3] == ["NAME", "ENVIRONMENT", "VERSION"]
    assert row.split()[:2] == [ready_claim, "dev"]
    everywhere = terminal.ok("get").splitlines()
    assert everywhere[0].split()[:2] == ["NAMESPACE", "NAME"]
    assert any(line.split()[:2] == ["reading", ready_claim] for line in everywhere[1:])

    assert terminal.ok("get", "-n", "reading", "-o", "name") == f"workloadcluster.compute.steelyard.dev/{ready_claim}\n"
    listing = terminal.json("get", "-n", "reading")
    assert [item["metadata"]["name"] for item in listing["items"]] == [ready_claim]
    one = yaml.safe_load(terminal.ok("get", "cluster", ready_claim, "-o", "yaml"))
    assert one == listing["items"][0]
    assert terminal.ok("get", f"machines.cluster.x-k8s.io/{_first_machine(terminal)}").count("\n") == 2


def test_get_of_nothing_says_so_beside_the_result(terminal: Terminal) -> None:
    assert terminal.run("get", "-n", "empty") == Done(0, "", "No claims in namespace empty.\n")
    assert terminal.run("get", "machines", "-n", "empty", "-o", "name") == Done(0, "", "")
    assert yaml.safe_load(terminal.ok("get", "-n", "empty", "-o", "yaml"))["items"] == []


def test_get_selects_by_label(terminal: Terminal, ready_claim: str) -> None:
    assert ready_claim
    words = ("get", "machines", "-n", "reading", "-o", "name")
    everything = terminal.ok(*words).splitlines()
    workers = terminal.ok(*words, "-l", "!cluster.x-k8s.io/control-plane").splitlines()
    assert (len(everything), len(workers)) == (3, 2)
    table = terminal.ok(*words[:-2], "-l", "cluster.x-k8s.io/cluster-name in (ready, other)")
    assert table.count("\n") == 4


def test_an_unknown_kind_is_an_error_that_says_where_to_look(terminal: Terminal) -> None:
    done = terminal.run("get", "umbrellas")
    assert (done.code, done.out) == (Exit.FAILED, "")
    assert 'no resource "umbrellas", and no claim of that name' in done.err
    assert "api-resources" in done.err
    assert 'did you mean "machines"?' in terminal.run("get", "machnes").err
    assert terminal.run("get", "one", "two", "three").code == Exit.USAGE


def test_kinds_go_by_their_short_names_too(terminal: Terminal, ready_claim: str) -> None:
    assert ready_claim
    assert "namespace/reading\n" in terminal.ok("get", "ns", "-o", "name")
    assert terminal.ok("get", "kcp", "-n", "reading", "-o", "name").endswith("/ready-control-plane\n")


def test_describe_tells_of_a_claim_what_it_is_made_of_and_what_to_do_next(terminal: Terminal, ready_claim: str) -> None:
    told = terminal.ok("describe", ready_claim)
    assert told.startswith(f"WorkloadCluster reading/{ready_claim}: Ready for ")
    assert "dev on simulated machines" in told
    assert "workers: 2 of 2 ready" in told
    assert _first_machine(terminal) in told
    assert f"steelyard kubeconfig {ready_claim} -n reading" in told


def test_describe_tells_of_any_other_kind_its_conditions_and_fields(terminal: Terminal, ready_claim: str) -> None:
    told = terminal.ok("describe", "kubeadmcontrolplane", f"{ready_claim}-control-plane", "-n", "reading")
    assert told.startswith(f"KubeadmControlPlane reading/{ready_claim}-control-plane\n")
    assert "Conditions" in told
    assert "replicas: 1" in told


# Waiting and deleting.


def test_wait_gives_up_after_its_time(terminal: Terminal, ready_claim: str) -> None:
    done = terminal.run("wait", ready_claim, "--for", "Perfect", "--timeout", "1s")
    assert (done.code, done.out) == (Exit.TIMEOUT, "")
    assert f"WorkloadCluster reading/{ready_claim} is not Perfect after 1 s" in done.err
    assert f"steelyard describe {ready_claim}" in done.err


def test_ctrl_c_ends_a_wait(terminal: Terminal, ready_claim: str) -> None:
    waiting = terminal.start("wait", ready_claim, "--for", "Perfect", "--timeout", "90s")
    await_connection(waiting.pid)
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out) == (Exit.INTERRUPTED, "")
    assert "Traceback" not in err


def test_wait_refuses_what_is_no_duration(terminal: Terminal, ready_claim: str) -> None:
    done = terminal.run("wait", ready_claim, "--timeout", "soon")
    assert done.code == Exit.USAGE
    assert '"soon" is not a duration' in done.err


def test_what_is_ready_or_gone_already_is_not_waited_for(terminal: Terminal, ready_claim: str) -> None:
    done = terminal.run("wait", ready_claim)
    assert (done.code, done.out) == (Exit.OK, "")
    assert re.fullmatch(r"WorkloadCluster reading/ready is Ready after 0\.\d s\n", done.err)
    assert terminal.run("wait", "never-was", "--for", "deleted") == Done(0, "", "never-was is gone\n")
    assert terminal.run("wait", "never-was").code == Exit.FAILED


def test_what_is_not_there_yet_can_be_waited_for(terminal: Terminal) -> None:
    waiting = terminal.start("wait", "later", "--for=create", "--timeout", "90s")
    await_connection(waiting.pid)
    terminal.quick("create", "cluster", "later", "--environment", "dev", "--worker-replicas", "0")
    _, err = waiting.communicate(timeout=30)
    assert waiting.returncode == Exit.OK
    assert err.startswith("WorkloadCluster default/later is there after")
    assert terminal.quick("wait", "never", "--for=create", "--timeout", "1s").code == Exit.TIMEOUT


def test_the_same_name_in_two_namespaces_needs_the_namespace(terminal: Terminal) -> None:
    for namespace in ("left", "right"):
        terminal.ok("create", "cluster", "twin", "--environment", "dev", "--worker-replicas", "0", "-n", namespace)
    done = terminal.run("delete", "twin", "--yes")
    assert done.code == Exit.USAGE
    assert "left, right" in done.err
    assert "--namespace" in done.err

    deleted = terminal.run("delete", "twin", "--yes", "-n", "left")
    assert (deleted.code, deleted.out) == (Exit.OK, "")
    assert re.fullmatch(r"WorkloadCluster left/twin deleted after [\d.]+ s", deleted.err.splitlines()[-1])
    assert terminal.ok("get", "-n", "left", "-o", "name") == ""
    assert terminal.ok("get", "machines", "-n", "left", "-o", "name") == ""

    going = terminal.run("delete", "cluster/twin", "--yes", "--no-wait")
    assert going == Done(0, "", "WorkloadCluster right/twin is being deleted\n")
    terminal.ok("wait", "twin", "-n", "right", "--for", "deleted", "--timeout", "90s")
    assert terminal.ok("get", "-n", "right", "-o", "name") == ""


def test_deleting_what_is_not_there_is_an_error(terminal: Terminal) -> None:
    done = terminal.run("delete", "nobody", "--yes")
    assert (done.code, done.out) == (Exit.FAILED, "")
    assert 'claim "nobody" not found' in done.err


# Help.


@pytest.mark.parametrize("command", cli_reference.commands(app), ids=lambda command: command.name)
def test_help_has_an_example_that_parses(command: cli_reference.Command) -> None:
    """The example is a line of its own, and names only options that the command has."""
    assert command.example.removeprefix("sudo ").startswith(f"steelyard {command.name}"), command.name
    options = {name for option in command.options for name in option.names}
    used = {word.partition("=")[0] for word in command.example.split() if word.startswith("-")}
    assert used <= options
    assert "--data-dir" in options or command.name in OF_OTHERS
    assert {"--kubeconfig", "--context"} <= options or command.name in OF_FILES


def test_the_installed_command_is_there() -> None:
    program = shutil.which("steelyard", path=str(Path(sys.executable).parent))
    assert program is not None
    done = subprocess.run([program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Usage: steelyard" in done.stdout + done.stderr


def _first_machine(terminal: Terminal) -> str:
    items = cast("list[dict[str, Any]]", terminal.json("get", "machines", "-n", "reading")["items"])
    return str(items[0]["metadata"]["name"])


def test_a_name_that_is_not_there_leads_to_the_one_that_was_meant(terminal: Terminal, ready_claim: str) -> None:
    done = terminal.run("describe", f"{ready_claim}x")
    assert done.code == Exit.FAILED
    assert done.err.rstrip().endswith(f'"{ready_claim}x" not found; did you mean reading/{ready_claim}?')
    done = terminal.run("describe", "machine", "zzz")
    assert done.err.rstrip().endswith('"zzz" not found; steelyard get machines lists all machines')


def test_waiting_for_a_condition_that_is_not_there_names_those_that_are(terminal: Terminal, ready_claim: str) -> None:
    done = terminal.run("wait", ready_claim, "--for", "Redy", "--timeout", "1s")
    assert done.code == Exit.TIMEOUT
    assert "(it has the conditions Ready, Synced, UpToDate)" in done.err
