"""`steelyard controllers` as a user runs it: a process, judged by what it says, its exit code and what is there."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest
import yaml

from steelyard.cli.exits import Exit
from steelyard.kube.objects import Object
from tests import forked
from tests.cli.terminal import Done
from tests.harness import PlatformProcess

DEADLINE = 180.0
"""Of a machine that has other things to do."""


def controllers(*arguments: str, home: Path) -> forked.Piped:
    environment = {**os.environ, "HOME": str(home)}
    for name in ("KUBECONFIG", "STEELYARD_PLATFORM", "POD_NAMESPACE"):
        environment.pop(name, None)
    return forked.piped(["controllers", *arguments], cwd=home, environment=environment)


def refused(*arguments: str, home: Path) -> Done:
    process = controllers(*arguments, home=home)
    try:
        out, err = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
    assert "Traceback" not in err
    return Done(process.wait(), out, err)


def test_without_a_kubeconfig_it_says_which_one_it_wants(tmp_path: Path) -> None:
    done = refused(home=tmp_path)
    assert done.code == Exit.USAGE
    assert f"there is no kubeconfig: {tmp_path}/.kube/config is not there" in done.err
    assert "--kubeconfig" in done.err

    done = refused("--kubeconfig", "missing.yaml", home=tmp_path)
    assert done.code == Exit.USAGE
    assert "cannot read the kubeconfig missing.yaml: No such file" in done.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--with", "claims,clams"], "--with clams: there is no such part; there are claims, lifecycle, simulated"),
        (["--health-address", "9440"], "write HOST:PORT"),
        (["--platform", "missing.yaml"], "missing.yaml"),
    ],
    ids=["an unknown part", "half an address", "no platform file"],
)
def test_a_wrong_option_is_named(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    done = refused("--kubeconfig", str(_somewhere(tmp_path, 1)), *arguments, home=tmp_path)
    assert done.code == Exit.USAGE
    assert complaint in done.err


def test_an_api_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done = refused("--kubeconfig", str(_somewhere(tmp_path, port)), "--health-address", "", home=tmp_path)
    assert done.code == Exit.NOT_RUNNING
    assert f"cannot connect to http://127.0.0.1:{port}" in done.err


def test_it_works_until_sigterm_and_gives_its_lease_back(tmp_path: Path) -> None:
    with PlatformProcess(tmp_path / "api") as platform:
        platform.arguments = ["--without", "claims", "--without", "kvm"]
        platform.start()
        kubeconfig = str(platform.data_dir.kubeconfig)
        process = controllers(
            "--kubeconfig", kubeconfig, "-n", "default", "--health-address", "127.0.0.1:0", home=tmp_path
        )
        try:
            line = process.stderr.readline()
            while "at work" not in line:
                assert line, "it ended"
                line = process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            started = time.monotonic()
            assert process.wait(DEADLINE) == Exit.OK
            assert time.monotonic() - started < DEADLINE / 2
        finally:
            process.kill()
            process.communicate()


def _somewhere(folder: Path, port: int) -> Path:
    path = folder / "config"
    content: Object = {
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "a", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path
