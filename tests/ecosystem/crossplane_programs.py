"""Crossplane's core, provider-kubernetes and provider-sql beside a real kube-apiserver, and our function where
Crossplane finds it.

Packages cannot be pulled here, so what the package manager would do is done by hand, and it took this: the package
runtime is `External`, and a FunctionRevision that is paused (the package manager leaves it alone) names the function's
address in `status.endpoint`, with the capability `composition`. Crossplane calls it with the certificates that it is
given (`--tls-client-certs-dir`). Each program has a ServiceAccount with the rights of Crossplane's own chart, or those
that our package gives, and no others; what its RBAC manager gives for composites is written here. provider-kubernetes,
whose ports nobody can choose, runs in a network of its own (`apart.py`).
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import yaml

from steelyard.crossplane.package import roles
from steelyard.crossplane.package.references import FUNCTION
from steelyard.kube import pki
from steelyard.kube.objects import Object
from tests.conformance import upstream
from tests.ecosystem import managers
from tests.harness import ROOT, built
from tests.kubectl import Kubectl

CROSSPLANE: Final = "github.com/crossplane/crossplane/v2"
PROVIDER_KUBERNETES: Final = "github.com/crossplane-contrib/provider-kubernetes"
PROVIDER_SQL: Final = "github.com/crossplane-contrib/provider-sql"
HOME: Final = "crossplane-system"
_RELEASES: Final = ("helm.m.crossplane.io", "helm.crossplane.io")


def definitions() -> list[Object]:
    """Of all kinds but claims. provider-helm's is a stand-in: nothing runs here that would make a release."""
    folders = (
        managers.folder_of(CROSSPLANE, "crossplane") / "cluster" / "crds",
        managers.folder_of(PROVIDER_KUBERNETES, "provider-kubernetes") / "package" / "crds",
        managers.folder_of(PROVIDER_SQL, "provider-sql") / "package" / "crds",
    )
    found = [each for folder in folders for path in sorted(folder.glob("*.yaml")) for each in documents(path)]
    for each in found:
        # An older version of Objects is converted by a program that is not asked here.
        each["spec"].pop("conversion", None)
    module = managers.folder_of(managers.CLUSTER_API, "cluster-api")
    cluster_api = [
        each
        for part in (".", "bootstrap/kubeadm", "controlplane/kubeadm")
        for each in managers.definitions(module / part, managers.CONTRACT)
    ]
    return [*found, *cluster_api, *map(_releases, _RELEASES)]


def _releases(group: str) -> Object:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"releases.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if ".m." in group else "Cluster",
            "names": {"kind": "Release", "listKind": "ReleaseList", "plural": "releases", "singular": "release"},
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


def rights(kube: Kubectl, groups_of_claims: Sequence[str]) -> None:
    """The role of Crossplane's chart for its account, and what it gets for composites and their claims."""
    charts = managers.folder_of(CROSSPLANE, "crossplane") / "cluster" / "charts" / "crossplane" / "templates"
    composites: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "composites", "labels": {roles.AGGREGATED: "true"}},
        "rules": [{"apiGroups": list(groups_of_claims), "resources": ["*"], "verbs": ["*"]}],
    }
    made = [*_role(charts / "clusterrole.yaml"), composites, _account("crossplane"), _bound("crossplane", "crossplane")]
    # Both providers: what their packages would be given for their own kinds, Secrets of credentials and leases.
    own = ["kubernetes.crossplane.io", "kubernetes.m.crossplane.io"]
    sql = [f"{kind}.sql{place}.crossplane.io" for kind in ("postgresql", "mysql", "mssql") for place in ("", ".m")]
    for account, groups in (("provider-kubernetes", own), ("provider-sql", sql)):
        rules = [
            {"apiGroups": groups, "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["secrets", "events", "configmaps"], "verbs": ["*"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
            {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["*"]},
        ]
        name = f"{account}-system"
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}
        made += [_account(account), {**role, "rules": rules}, _bound(account, name)]
    apply(kube, made)


def _role(path: Path) -> list[Object]:
    """A chart's template without what Helm would fill in."""
    text = path.read_text().replace('{{ template "crossplane.name" . }}', "crossplane")
    kept = [line for line in text.splitlines() if "{{" not in line]
    found = [cast("Object", each) for each in yaml.safe_load_all("\n".join(kept)) if each]
    return [each for each in found if each["kind"] == "ClusterRole"]


def _account(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": HOME}}


def _bound(account: str, role: str) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{account}-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": HOME}],
    }


def kubeconfig_of(kube: Kubectl, account: str, folder: Path, home: str = HOME) -> Path:
    """With a token of the account's, and nothing else."""
    token = kube("create", "token", account, "--namespace", home, "--duration=8h").strip()
    config = kube.json("config", "view", "--raw", "--flatten")
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    path = folder / f"{account}.kubeconfig"
    path.write_text(json.dumps(config))
    return path


def write_certificates(folder: Path) -> tuple[Path, Path]:
    """For whoever serves, and for Crossplane as who calls; both of one authority."""
    now = datetime.datetime.now(datetime.UTC)
    authority = pki.new_authority("crossplane", now=now)
    serving = pki.issue_serving(authority, "function", ["127.0.0.1", "localhost"], now=now)
    calling = pki.issue_client(authority, "crossplane", now=now)
    for name, pair in (("serving", serving), ("calling", calling)):
        place = folder / name
        place.mkdir()
        (place / "ca.crt").write_bytes(authority.certificate)
        (place / "tls.crt").write_bytes(pair.certificate)
        (place / "tls.key").write_bytes(pair.key)
    return folder / "serving", folder / "calling"


def install_function(kube: Kubectl, address: str) -> None:
    """What the package manager would have made of the Function."""
    revision: Object = {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": "FunctionRevision",
        "metadata": {
            "name": f"{FUNCTION}-1",
            "labels": {"pkg.crossplane.io/package": FUNCTION},
            "annotations": {"crossplane.io/paused": "true"},
        },
        "spec": {"image": "registry.example.org/steelyard/function:v1", "desiredState": "Active", "revision": 1},
    }
    apply(kube, [revision])
    status = json.dumps({"status": {"endpoint": address, "capabilities": ["composition"]}})
    kube("patch", "functionrevision", f"{FUNCTION}-1", "--subresource=status", "--type=merge", "-p", status)


def install_usage_webhook(kube: Kubectl, port: int, authority: bytes) -> None:
    """By which deletion in order is kept; the program is on loopback."""
    path = managers.folder_of(CROSSPLANE, "crossplane") / "cluster" / "webhookconfigurations" / "usage.yaml"
    (found,) = documents(path)
    for each in found["webhooks"]:
        where = each["clientConfig"]["service"]["path"]
        bundle = base64.b64encode(authority).decode()
        each["clientConfig"] = {"url": f"https://127.0.0.1:{port}{where}", "caBundle": bundle}
    apply(kube, [found])


@contextlib.contextmanager
def started(
    folder: Path, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
) -> Generator[Path]:
    """Gives its log; it is ended, whatever happens."""
    path = folder / f"{name}.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **(environment or {})},
        )
        try:
            yield path
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def running(kube: Kubectl, folder: Path, port: int) -> Generator[None]:
    """All programs, with the function's own certificates for everybody who serves. `port` is the API server's."""
    crossplane, kubernetes, sql = built("crossplane", "provider-kubernetes", "provider-sql")
    serving, calling = folder / "serving", folder / "calling"
    hooks, metrics, health = upstream.free_ports(3)
    install_usage_webhook(kube, hooks, (serving / "ca.crt").read_bytes())
    core = [
        crossplane, "core", "start", "--debug",
        f"--namespace={HOME}", "--package-runtime=External", f"--xpkg-cache-dir={folder / 'xpkg'}",
        f"--webhook-port={hooks}", f"--metrics-port={metrics}", f"--health-probe-port={health}",
        f"--tls-server-certs-dir={serving}", f"--tls-client-certs-dir={calling}",
    ]  # fmt: skip
    objects = [
        sys.executable, "-m", "tests.ecosystem.apart", str(port), "--",
        kubernetes, "--sanitize-secrets", "--enable-watches", "--poll=30s",
    ]  # fmt: skip
    databases = [sql, "--poll=5s", "--metrics-bind-address=0", "--max-reconcile-rate=20"]
    programs = {"crossplane": core, "provider-kubernetes": objects, "provider-sql": databases}
    with contextlib.ExitStack() as stack:
        for name, command in programs.items():
            config = str(kubeconfig_of(kube, name, folder))
            environment = {"KUBECONFIG": config, "TLS_SERVER_CERTS_DIR": str(serving), "PYTHONPATH": _paths()}
            stack.enter_context(started(folder, name, command, environment))
        yield


def _paths() -> str:
    """Where this program finds its modules, from another folder."""
    return os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])


def documents(path: Path) -> list[Object]:
    return [cast("Object", each) for each in yaml.safe_load_all(path.read_text()) if each]


def apply(kube: Kubectl, made: Iterable[Object]) -> None:
    places: dict[str, list[Object]] = {}
    for each in made:
        places.setdefault(each["metadata"].get("namespace", kube.namespace), []).append(each)
    for namespace, items in places.items():
        listed: Any = {"apiVersion": "v1", "kind": "List", "items": items}
        # Fields are checked by the server; kubectl would first read the schemas of everything there is.
        command = (
            "apply",
            "--namespace",
            namespace,
            "--server-side",
            "--force-conflicts",
            "--validate=false",
            "-f",
            "-",
        )
        kube(*command, stdin=json.dumps(listed))


def last_words(folder: Path) -> str:
    """The ends of the logs, without what is only said for debugging."""
    said: list[str] = []
    for name in ("crossplane", "provider-kubernetes", "provider-sql", "controllers"):
        path = folder / f"{name}.log"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        told = [line for line in lines if re.search(r"error|fatal|cannot|Error", line)][-12:]
        said.append(f"{name}:\n" + "\n".join(line[:400] for line in told))
    return "\n".join(said)
