"""A cache as a user has it with kubectl and redis-cli, through a platform that is killed and started again."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from steelyard.kube.objects import Object
from steelyard.providers.redis import processes
from tests.e2e.test_first_cluster import Shell
from tests.harness import INSTANT, PlatformProcess

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("redis-cli") is None, reason="redis-cli is not installed"),
]

CLAIM = """\
apiVersion: cache.yourdomain.com/v1alpha1
kind: RedisInstance
metadata:
  name: dev-redis
  namespace: dev
spec:
  parameters:
    environment: dev
    replicas: {replicas}
    memoryGB: 1
  compositionSelector:
    matchLabels:
      crossplane.io/xrd: xredisinstances.cache.yourdomain.com
  writeConnectionSecretToRef:
    name: redis-connection
"""


@pytest.fixture
def shell(tmp_path: Path, kubectl: str) -> Iterator[Shell]:
    try:
        with PlatformProcess(tmp_path, platform=f"{INSTANT}domain: yourdomain.com\n") as platform:
            platform.start()
            shell = Shell(platform, kubectl, tmp_path / "kubectl-cache")
            shell.kubectl("create", "namespace", "dev")
            yield shell
    finally:
        for pid in running(tmp_path):
            os.kill(pid, signal.SIGKILL)


def running(folder: Path) -> list[int]:
    return sorted(pid for pids in processes.below(folder).values() for pid in pids)


def redis(shell: Shell, *command: str) -> str:
    data = shell.json("get", "secret", "redis-connection", "-n", "dev")["data"]
    return asked(base64.b64decode(data["uri"]).decode(), *command)


def asked(uri: str, *command: str) -> str:
    told = ["redis-cli", "--no-auth-warning", "-u", uri, *command]
    return subprocess.run(told, capture_output=True, text=True, timeout=60).stdout.strip()


def eventually(reached: Callable[[], object], within: float = 90.0) -> None:
    end = time.monotonic() + within
    while not reached():
        assert time.monotonic() < end, f"never so: {reached}"
        time.sleep(0.1)


def server(shell: Shell) -> Object:
    (found,) = shell.json("get", "redisservers")["items"]
    return found


def test_a_cache_serves_through_the_death_of_the_platform_and_leaves_nothing(shell: Shell, tmp_path: Path) -> None:
    shell.kubectl("apply", "-f", "-", stdin=CLAIM.format(replicas=2))
    shell.kubectl("wait", "redisinstance/dev-redis", "-n", "dev", "--for=condition=Ready", "--timeout=90s")
    assert redis(shell, "set", "greeting", "hello") == "OK"
    shown = shell.kubectl("get", "redisinstances", "-n", "dev", "-o", "wide")
    assert "127.0.0.1" in shown
    assert "redis-connection" in shown
    told = shell.steelyard("describe", "cache", "dev-redis", "-n", "dev")
    assert "a primary and 2 replicas with 1 GiB of memory" in told
    status = shell.steelyard("status")
    assert "3 servers of 1 cache" in status

    before = running(tmp_path)
    assert len(before) == 3
    data = shell.json("get", "secret", "redis-connection", "-n", "dev")["data"]
    uri = base64.b64decode(data["uri"]).decode()
    shell.platform.kill()
    assert asked(uri, "incr", "while-it-was-away") == "1", "nothing of the platform is in between"
    shell.platform.start()
    eventually(lambda: "True" in shell.kubectl("get", "redisservers"))
    eventually(lambda: redis(shell, "get", "while-it-was-away") == "1")
    assert running(tmp_path) == before, "taken over as they ran, and none doubled"

    lost = server(shell)["status"]["atProvider"]["servers"][0]
    assert (lost["role"], lost["pid"] in before) == ("primary", True)
    os.kill(lost["pid"], signal.SIGKILL)
    eventually(lambda: redis(shell, "set", "greeting", "hello again") == "OK")
    eventually(lambda: len(running(tmp_path)) == 3)
    shell.kubectl("wait", "redisinstance/dev-redis", "-n", "dev", "--for=condition=UpToDate", "--timeout=90s")
    assert redis(shell, "get", "while-it-was-away") == "1"

    shell.kubectl("delete", "redisinstance", "dev-redis", "-n", "dev", "--timeout=90s")
    assert running(tmp_path) == []
    left = [each for each in (shell.platform.data_dir.root / "redis").rglob("*") if "bin" not in each.parts]
    assert left == []
    assert shell.json("get", "redisservers")["items"] == []
    secrets = shell.kubectl("get", "secrets", "-A", "-o", "name")
    assert "redis" not in secrets
    assert asked(uri, "ping") == ""


def test_a_server_whose_platform_was_killed_while_it_was_gone_is_not_forgotten(shell: Shell, tmp_path: Path) -> None:
    """The server dies while nobody looks, too."""
    shell.kubectl("apply", "-f", "-", stdin=CLAIM.format(replicas=1))
    shell.kubectl("wait", "redisinstance/dev-redis", "-n", "dev", "--for=condition=Ready", "--timeout=90s")
    assert redis(shell, "set", "greeting", "hello") == "OK"
    (pid,) = running(tmp_path)
    shell.platform.kill()
    os.kill(pid, signal.SIGKILL)
    shell.platform.start()
    eventually(lambda: redis(shell, "get", "greeting") == "hello")
    shell.platform.terminate()
    assert running(tmp_path) == []
