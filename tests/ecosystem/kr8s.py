"""The test suite of kr8s, a client library, from its source archive on the package index, unmodified.

The suite asks for a kind cluster; `standin/pytest_kind` gives it the platform instead, with what a kind cluster has
and the suite looks for: a client certificate in the kubeconfig, a node, a pod in kube-system. Tests that wait for a pod
to run, or talk to one, are left out by name in `kr8s-needs-pods.txt`, and so are a race and a search that
another kind of the same name answers.
"""

from __future__ import annotations

import base64
import datetime
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Final, cast

import yaml

from steelyard.installation import credentials
from steelyard.kube import pki
from tests.ecosystem.outcome import Outcome
from tests.harness import ROOT, PlatformProcess
from tests.kubectl import Kubectl

VERSION: Final = "0.20.15"
HERE: Final = Path(__file__).parent
_REQUIREMENTS: Final = HERE / "kr8s-requirements.txt"
_STANDING: Final = """\
apiVersion: v1
kind: Node
metadata: {name: control-plane}
---
apiVersion: v1
kind: Pod
metadata: {name: etcd, namespace: kube-system, labels: {component: etcd, tier: control-plane}}
spec: {containers: [{name: etcd, image: example.org/etcd}]}
"""
_SECONDS: Final = 900


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    python = _environment(cache)
    source = _source(python, cache)
    with PlatformProcess(folder) as platform:
        platform.start()
        kubeconfig = _with_certificate(platform, folder / "kubeconfig")
        kube = Kubectl(kubectl, kubeconfig, folder / "cache", "kube-system")
        kube("create", "-f", "-", stdin=_STANDING)
        kube("patch", "pod", "etcd", "--subresource=status", "--type=merge", "-p", '{"status": {"phase": "Running"}}')
        environment = {
            **os.environ,
            "PYTHONPATH": str(HERE / "standin"),
            "STEELYARD_KUBECONFIG": str(kubeconfig),
            "KUBECTL": kubectl,
        }
        log = folder / "kr8s.log"
        with log.open("wb") as out:
            subprocess.run(
                [str(python), *_arguments()], cwd=source, env=environment, stdout=out, stderr=out, timeout=_SECONDS
            )
    return _read(log.read_text())


def _arguments() -> list[str]:
    left_out = [line for line in (HERE / "kr8s-needs-pods.txt").read_text().splitlines() if line and line[0] != "#"]
    return [
        *("-W", "ignore", "-m", "pytest", "-p", "pytest_kind.plugin", "kr8s/tests"),
        *("-o", "addopts=", "-q", "--timeout=60", "--tb=short", "-rfE"),
        *(f"--deselect=kr8s/tests/{name}" for name in left_out),
    ]


def _read(log: str) -> Outcome:
    """From the last line: `2 failed, 150 passed, 1 skipped, 1 xfailed, 34 deselected in 61.2s`."""
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", log.rstrip().rpartition("\n")[2])}
    failed = counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0)
    story = log[-6000:] if failed or not counts.get("passed") else ""
    left_out = f"{counts.get('deselected', 0)} left out by name (running pods, a race, a kind of the same name)"
    what = f"{left_out}, {counts.get('skipped', 0)} skipped by kr8s"
    return Outcome(f"kr8s {VERSION}, its own tests", counts.get("passed", 0), failed, what, story)


def _environment(cache: Path) -> Path:
    """A virtual environment of its own: the suite's plug-ins are not for our tests."""
    python = cache / "venv" / "bin" / "python"
    ready = cache / "venv" / "ready"
    if not ready.exists() or ready.read_text() != _REQUIREMENTS.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(cache / "venv")], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--requirement", str(_REQUIREMENTS)], check=True, cwd=ROOT)
        ready.write_text(_REQUIREMENTS.read_text())
    return python


def _source(python: Path, cache: Path) -> Path:
    folder = cache / f"kr8s-{VERSION}"
    if not folder.exists():
        pip = [str(python), "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        how = ["--no-binary", ":all:", "--no-build-isolation", "--dest", str(cache), f"kr8s=={VERSION}"]
        subprocess.run([*pip, *how], check=True)
        with tarfile.open(cache / f"kr8s-{VERSION}.tar.gz") as archive:
            archive.extractall(cache, filter="data")
    return folder


def _with_certificate(platform: PlatformProcess, path: Path) -> Path:
    """The platform's kubeconfig, its user known by a certificate instead of a token."""
    now = datetime.datetime.now(datetime.UTC)
    authority = credentials.authority(platform.data_dir, now=now)
    issued = pki.issue_client(authority, "kubernetes-admin", ["system:masters"], now=now)
    given = cast("dict[str, Any]", yaml.safe_load(platform.data_dir.kubeconfig.read_text()))
    for user in given["users"]:
        user["user"] = {
            "client-certificate-data": base64.b64encode(issued.certificate).decode(),
            "client-key-data": base64.b64encode(issued.key).decode(),
        }
    path.write_text(yaml.safe_dump(given))
    return path
