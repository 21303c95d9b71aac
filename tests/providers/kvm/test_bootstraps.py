"""A machine whose bootstrap has failed: what it says of itself, and how little of that is believed and shown."""

from __future__ import annotations

import base64
import gzip
import os
import subprocess
import time
from pathlib import Path

import pytest

from steelyard.api.resources import KVM_MACHINES
from steelyard.kube import objects
from steelyard.kube.resources import EVENTS
from steelyard.kube.runtime import conditions
from steelyard.providers.kvm import bootstraps, masking
from steelyard.providers.kvm.bootstraps import LONGEST
from steelyard.providers.kvm.pace import Pace
from steelyard.providers.kvm.seed import watching
from tests.providers.kvm import world
from tests.providers.kvm.daemons import Libvirtd
from tests.providers.kvm.world import NAMESPACE, World, eventually

UUID = "0b1e4b4c-6c7e-4f0e-9a53-3d4b8d1f2a60"
TOKEN = "abcdef.0123456789abcdef"
CERTIFICATE_KEY = "9f" * 32
WATCHFUL = Pace(retry=0.2, host_retry=0.2, soon=0.1, boots=0.2)

PREFLIGHT = """Cloud-init v. 22.4.2 running 'modules:final' at Wed, 18 Nov 2026 07:00:00 +0000. Up 40.11 seconds.
[init] Using Kubernetes version: v1.34.4
[preflight] Running pre-flight checks
error execution phase preflight: [preflight] Some fatal errors occurred:
\t[ERROR Port-6443]: Port 6443 is in use
\t[ERROR NumCPU]: the number of available CPUs 1 is less than the required 2
[preflight] If you know what you are doing, you can make a check non-fatal with `--ignore-preflight-errors=...`
To see the stack trace of this error execute with --v=5 or higher
2026-11-18 07:00:41,002 - cc_scripts_user.py[WARNING]: Failed to run module scripts-user (scripts in /var/lib/cloud)
Cloud-init v. 22.4.2 finished at Wed, 18 Nov 2026 07:00:41 +0000. Datasource DataSourceNoCloud. Up 41.0 seconds
"""
JOIN = """[preflight] Running pre-flight checks
error execution phase preflight: couldn't validate the identity of the API Server: expected a 32 byte SHA-256 hash
To see the stack trace of this error execute with --v=5 or higher
+ echo after kubeadm
after kubeadm
"""
NO_KUBEADM = """+ mount /dev/vdz /data
mount: /data: special device /dev/vdz does not exist.
/var/lib/cloud/instance/scripts/runcmd: 3: kubeadm: not found
"""


def _run(folder: Path, log: str | None, *, has_succeeded: bool = False) -> str:
    """What the machine's program writes to its console."""
    if log is not None:
        (folder / "log").write_bytes(log.encode("utf-8", "surrogateescape"))
    if has_succeeded:
        (folder / "sentinel").touch()
    for name, program in (("sleep", ""), ("sync", f"touch {folder}/written")):
        (folder / name).write_text(f"#!/bin/sh\n{program}\n")
        (folder / name).chmod(0o755)
    console = folder / "console"
    program = watching.program(UUID, sentinel=f"{folder}/sentinel", log=f"{folder}/log", console=str(console))
    # A file keeps what was written to it before by being added to; a console by itself.
    program = program.replace(f">{console}", f">>{console}")
    done = subprocess.run(
        ["sh", "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return console.read_text() if console.exists() else ""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        pytest.param(
            PREFLIGHT,
            "error execution phase preflight: [preflight] Some fatal errors occurred: [ERROR Port-6443]: Port 6443 is "
            "in use; [ERROR NumCPU]: the number of available CPUs 1 is less than the required 2",
            id="kubeadm's words, without its advice and cloud-init's own",
        ),
        pytest.param(
            JOIN,
            "error execution phase preflight: couldn't validate the identity of the API Server: expected a 32 byte "
            "SHA-256 hash",
            id="whatever was run after kubeadm",
        ),
        pytest.param(
            NO_KUBEADM,
            "+ mount /dev/vdz /data; mount: /data: special device /dev/vdz does not exist.; "
            "/var/lib/cloud/instance/scripts/runcmd: 3: kubeadm: not found",
            id="the last lines, where kubeadm says nothing",
        ),
        pytest.param(
            "\x1b[31;1merror: port in use\x1b[0m\r\n\x1b]0;title\x07\x1b(B\t[ERROR A]: one\x1b[K\n\x1b[0m\n",
            "error: port in use; [ERROR A]: one",
            id="in colours, which are not text",
        ),
        pytest.param(
            "ci-info: | Route |  Gateway   |\nci-info: +-------+------------+\nruncmd: 2: kubeadm: not found\n",
            "runcmd: 2: kubeadm: not found",
            id="without cloud-init's tables of addresses",
        ),
        pytest.param("", "it does not say why", id="nothing"),
        pytest.param(None, "it does not say why", id="no log"),
    ],
)
def test_a_machine_says_why_its_bootstrap_failed(tmp_path: Path, log: str | None, words: str) -> None:
    console = _run(tmp_path, log)
    assert console.count(watching.mark(UUID)) == 3, "the kernel may write in the middle of one"
    line = bootstraps.said(console.encode(), UUID)
    assert line is not None
    assert bootstraps.words(line) == words


def test_a_machine_whose_bootstrap_has_succeeded_says_nothing(tmp_path: Path) -> None:
    assert _run(tmp_path, PREFLIGHT, has_succeeded=True) == ""
    assert (tmp_path / "written").exists(), "what it has written is on the disk"


def test_a_log_without_end_and_without_lines_is_one_short_line(tmp_path: Path) -> None:
    console = _run(tmp_path, "error: \x1b[2J\udcff\udcfe\x07" + "x" * 1_000_000)
    assert len(console) < 6000
    assert console.count("\n") == 6
    assert "\x1b" not in console


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("\x1b[31;1mport\x1b[0m in \x1b]0;title\x07use\r", "port in use", id="escapes"),
        pytest.param("a\x00b\x08c\x9bd\u202ee\u200bf\u2028g", "abcdefg", id="what is not seen, or turns text around"),
        pytest.param("\x1b[" + ";" * 400, ";" * 400, id="an escape without end"),
        pytest.param(" \t ", "it does not say why", id="blank"),
        pytest.param("x" * 4000, "it does not say why", id="a word without end, which may be a secret's beginning"),
        pytest.param(f"token {TOKEN[:8]}\u200b{TOKEN[8:]} no", "token ****** no", id="a token with nothing in it"),
        pytest.param(
            f"--certificate-key {CERTIFICATE_KEY.upper()}", "--certificate-key ******", id="a certificate key"
        ),
        pytest.param(f"hash sha256:{CERTIFICATE_KEY}: bad", "hash sha256:******: bad", id="a digest"),
        pytest.param("via http://me:pw@proxy:3128 no", "via http://******@proxy:3128 no", id="a login in a URL"),
        pytest.param("Bearer eyJhbGciOiJS.eyJpc3MiOi.c2ln", "Bearer ******", id="a JSON Web Token"),
    ],
)
def test_what_a_machine_says_is_short_plain_text_without_secrets(line: str, words: str) -> None:
    shown = bootstraps.words(line)
    assert shown.startswith(words)
    assert len(shown) <= LONGEST
    assert shown.isprintable()


def test_long_words_end_where_they_can_be_read() -> None:
    shown = bootstraps.words("port in use; " * 300)
    assert len(shown) == LONGEST
    assert shown.endswith(" …")
    cut = bootstraps.words(f"{'x ' * 594}token {TOKEN} is invalid")
    assert "abcdef" not in cut, "not a part of it, either"


@pytest.mark.parametrize(
    "console",
    [
        b"",
        b"\xff\x00" * 1000,
        watching.mark(UUID).encode(),
        watching.mark(UUID).encode() + b"half a line",
        watching.mark("another").encode() + b"its words\n",
    ],
    ids=["empty", "bytes", "the mark alone", "a line that is being written", "of another machine"],
)
def test_what_is_not_a_whole_line_of_the_machine_says_nothing(console: bytes) -> None:
    assert bootstraps.said(console, UUID) is None


def test_the_last_whole_line_counts() -> None:
    mark = watching.mark(UUID).encode()
    assert bootstraps.said(mark + b"one\n" + mark + b"two\r\n" + mark + b"thr", UUID) == "two\r"
    assert bootstraps.said(mark + b"x" * 100_000, UUID) == "x" * 4096
    started = time.monotonic()
    assert bootstraps.said((mark * 10_000)[: bootstraps.MOST_READ], UUID) is not None
    assert bootstraps.words(("\x1b]" + "\x1b[") * 1000)
    assert time.monotonic() - started < 5


PASSWORD = "correct-horse"
FILE = "user = sync\nsecret_access_key = wJalrXUtnFEMIK7MDENG\n"
DATA = f"""#cloud-config
# {world.SECRET}
users: [{{name: ops, passwd: {PASSWORD}}}]
write_files:
- path: /etc/kubernetes/pki/ca2.key
  content: |
    -----BEGIN RSA PRIVATE KEY-----
    {"MIIEpAIBAAKCAQEA" * 4}
    Zk8sT2yQ+9x/=
- path: /etc/sync.conf
  encoding: base64
  content: {base64.b64encode(FILE.encode()).decode()}
- path: /run/kubeadm/kubeadm.yaml
  content: |
    apiVersion: kubeadm.k8s.io/v1beta4
    controlPlaneEndpoint: shop.k8s.example.org:6443
    kubernetesVersion: v1.34.4
    token: {TOKEN}
"""


@pytest.mark.parametrize(
    "data",
    [DATA.encode(), gzip.compress(DATA.encode()), DATA.replace("base64", "gzip+base64").encode()],
    ids=["plain", "packed", "with another name for it"],
)
@pytest.mark.parametrize("secret", [world.SECRET, PASSWORD, TOKEN, "Zk8sT2yQ+9x/", "wJalrXUtnFEMIK7MDENG"])
def test_what_stands_in_the_bootstrap_data_is_hidden(secret: str, data: bytes) -> None:
    assert masking.hide(f"login of ops/{secret}: refused", data).removesuffix(": refused") == "login of ops/******"


def test_files_packed_in_the_bootstrap_data_are_known_as_well() -> None:
    packed = base64.b64encode(gzip.compress(FILE.encode())).decode()
    assert masking.hide("wJalrXUtnFEMIK7MDENG?", f"content: {packed}".encode()) == "******?"


def test_what_helps_is_not_hidden_although_the_bootstrap_data_has_it() -> None:
    words = (
        "couldn't read /etc/kubernetes/pki/ca2.key: lookup shop.k8s.example.org:6443 on 10.200.0.1:53: no such host "
        "(controlPlaneEndpoint, v1.34.4, kubeadm.k8s.io/v1beta4)"
    )
    assert masking.hide(words, DATA.encode()) == words


def test_bootstrap_data_that_grows_when_it_is_unpacked_costs_little() -> None:
    bomb = base64.b64encode(gzip.compress(b"a1b2c3d4 " * 4_000_000)).decode()
    started = time.monotonic()
    assert masking.hide("port in use", "\n".join([bomb] * 12).encode()) == "port in use"
    assert masking.hide("port in use", gzip.compress(b"\0" * 50_000_000)) == "port in use"
    assert masking.hide("port in use", b"\x1f\x8bnot packed") == "port in use"
    assert time.monotonic() - started < 20


def _tell(kvm: World, uuid: str, words: str) -> None:
    """As the machine does: the ones here have nothing that they could boot."""
    _write(kvm, uuid, f"\n{watching.mark(uuid)}{words}\n")


def _write(kvm: World, uuid: str, text: str) -> None:
    with (kvm.folder / "machines" / uuid / "console.log").open("a") as console:
        console.write(text)


async def test_a_machine_whose_bootstrap_fails_says_so_until_its_node_is_there(
    daemon: Libvirtd, tmp_path: Path
) -> None:
    world.image(tmp_path)
    async with world.world(daemon, tmp_path, pace=WATCHFUL) as kvm:
        await kvm.cluster()
        machine = await kvm.running("one", user_data=f"password: {PASSWORD}\n")
        uuid = str(machine["spec"]["providerID"]).removeprefix("kvm://")
        _tell(kvm, uuid, f"\x1b[31merror: token {TOKEN} and {PASSWORD} and {world.SECRET}\x07 are invalid")

        failed = await kvm.becomes("one", "BootstrapFailed")
        message = conditions.message_of(failed, "Ready")
        assert conditions.is_false(failed, "Ready")
        assert failed["status"]["initialization"] == {"provisioned": True}
        assert "error: token ****** and ****** and ****** are invalid" in message
        assert "steelyard logs machine one" in message
        assert message.isprintable()

        for number in range(3):
            _tell(kvm, uuid, f"something else {number}")
            await kvm.client.patch(KVM_MACHINES, "one", {"metadata": {"annotations": {"look": str(number)}}}, NAMESPACE)
            await kvm.manager.idle(settle=0.3)
        again = await kvm.client.get(KVM_MACHINES, "one", NAMESPACE)
        assert again["status"] == failed["status"], "told once, whatever it goes on to say"
        events = (await kvm.client.list(EVENTS, NAMESPACE)).items
        (event,) = [each for each in events if each["reason"] == "BootstrapFailed"]
        assert (event["count"], event["involvedObject"]["name"]) == (1, "one")

        await kvm.joined("one")
        assert conditions.is_true(await kvm.becomes("one", "Running"), "Ready")
        assert objects.at(await kvm.client.get(KVM_MACHINES, "one", NAMESPACE), "status", "phase") == "Running"
        await kvm.remove("one")


async def test_a_machine_whose_node_is_there_is_not_asked_what_it_said(daemon: Libvirtd, tmp_path: Path) -> None:
    asked: list[str] = []
    world.image(tmp_path)
    fleet = world.fleet(daemon, lambda what, work: (asked.append(what), work())[1])
    async with world.world(daemon, tmp_path, fleet=fleet, pace=WATCHFUL) as kvm:
        await kvm.cluster()
        machine = await kvm.running("one")
        uuid = str(machine["spec"]["providerID"]).removeprefix("kvm://")

        async def is_read() -> bool:
            _write(kvm, uuid, "booting\n")
            return "read console.log" in asked

        await eventually(is_read, world.PATIENCE)
        await kvm.joined("one")
        await kvm.manager.idle(settle=0.5)
        asked.clear()
        _tell(kvm, uuid, "it would be a lie")
        await kvm.client.patch(KVM_MACHINES, "one", {"metadata": {"annotations": {"look": "again"}}}, NAMESPACE)
        await kvm.manager.idle(settle=0.5)
        assert "look at the disks" in asked
        assert "read console.log" not in asked
        assert conditions.is_true(await kvm.client.get(KVM_MACHINES, "one", NAMESPACE), "Ready")
