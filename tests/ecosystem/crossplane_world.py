"""Where Crossplane composes our claims: kube-apiserver, PostgreSQL, the package that `steelyard crossplane package`
writes, and `steelyard controllers` for what is below claims: Cluster API's kinds, simulated machines, temporary logins.
"""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Final

from steelyard.api.xrd import Form
from steelyard.compose.offering import STANDARD
from steelyard.kube.objects import Object
from steelyard.settings import Platform, parse
from tests.conformance import upstream
from tests.ecosystem import crossplane_programs as programs
from tests.ecosystem import crossplane_render as package
from tests.ecosystem import managers
from tests.harness import INSTANT, ROOT
from tests.kubectl import Kubectl
from tests.postgresserver import PostgresServer

TEAM: Final = "team-a"
GRANTED: Final = "argocd"
"""The namespace to which claims may have Secrets written."""
_SECONDS: Final = 300.0
_AT_ONCE: Final = 12
_ACCOUNT: Final = "steelyard-controllers"
_ACCOUNT_HOME: Final = "steelyard-system"
_NAMES: Final = {"WorkloadCluster": "shop", "KubernetesCluster": "blog", "VirtualCluster": "wiki"}
"""Clusters of different kinds have different names; everything else is a shop."""


class World:
    def __init__(self, kube: Kubectl, folder: Path, server: PostgresServer) -> None:
        self.kube = kube
        self.folder = folder
        self.server = server
        dsn = f"postgresql://postgres@127.0.0.1:{server.port}/postgres?sslmode=disable"
        text = f"{INSTANT}{package.PLATFORM}postgresql: {{dsn: '{dsn}', sslMode: disable}}\n"
        self.platform: Platform = parse(text)
        self.package, self.file = package.write_package(folder, text)

    def get(self, kind: str, name: str, namespace: str = TEAM) -> Object:
        return self.kube.json("get", kind, name, "-n", namespace)

    def find(self, kind: str, name: str, namespace: str = TEAM) -> Object | None:
        done = self.kube.try_("get", kind, name, "-n", namespace, "-o", "json")
        return json.loads(done.out) if done.code == 0 else None

    def items(self, kind: str, *more: str) -> list[Object]:
        return self.kube.json("get", kind, "-A", *more)["items"]

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + _SECONDS
        while not (found := holds()):
            assert time.monotonic() < deadline, f"not within {_SECONDS:.0f} s: {what}; {self.states()}"
            time.sleep(1)
        return found

    def states(self) -> str:
        """How the composites are, for whoever reads that something did not come about."""
        told: list[str] = []
        for kind in STANDARD.kinds:
            resource = kind.resource(self.platform.domain)
            done = self.kube.try_("get", resource.group_resource, "-A", "-o", "json")
            for each in json.loads(done.out)["items"] if done.code == 0 else ():
                status = each.get("status", {})
                said = [
                    f"{one['type']}={one['status']} {one.get('message', '')}" for one in status.get("conditions", [])
                ]
                told.append(f"{resource.kind}: {status.get('state')} {status.get('message')} {said}")
        return "\n".join(told)

    def state(self, kind: str, name: str) -> str:
        return str(self.get(kind, name).get("status", {}).get("state"))

    def condition(self, kind: str, name: str, type_: str) -> Object:
        conditions: list[Object] = self.get(kind, name).get("status", {}).get("conditions", [])
        found = [each for each in conditions if each["type"] == type_]
        return found[0] if found else {}

    def is_ready(self, kind: str, name: str) -> bool:
        return self.condition(kind, name, "Ready").get("status") == "True"

    def change(self, kind: str, name: str, parameters: Object) -> None:
        self.kube("patch", kind, name, "--type=merge", "-p", json.dumps({"spec": {"parameters": parameters}}))

    def secret(self, name: str, namespace: str) -> dict[str, str]:
        """Its data, once it is there."""
        held = self.until(lambda: self.find("secret", name, namespace), f"Secret {namespace}/{name}")
        return {key: base64.b64decode(value).decode() for key, value in held["data"].items()}

    def ask(self, query: str) -> list[Any]:
        with self.server.connect() as connection:
            return [row[0] for row in connection.execute(query.encode()).fetchall()]

    def group(self, kind: str) -> str:
        found = (each.resource(self.platform.domain) for each in STANDARD.kinds)
        return next(each.group for each in found if each.kind == kind)

    def examples(self, form: Form) -> dict[str, Object]:
        """One claim of each kind, as the package has them; each with a Secret of its own."""
        found: dict[str, Object] = {}
        for path in sorted((self.package / form / "examples").glob("*.yaml")):
            (claim,) = programs.documents(path)
            claim["metadata"]["name"] = name = _NAMES.get(claim["kind"], "shop")
            if "writeConnectionSecretToRef" in claim["spec"]:
                claim["spec"]["writeConnectionSecretToRef"]["name"] = f"{name}-{claim['kind'].lower()}"
            found[claim["kind"]] = claim
        return found


def install(world: World) -> None:
    """Definitions, rights, policies and ProviderConfigs, as the package has them."""
    kube = world.kube
    for name in (TEAM, programs.HOME, GRANTED):
        programs.apply(kube, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
    found = programs.definitions()
    for start in range(0, len(found), _AT_ONCE):
        programs.apply(kube, found[start : start + _AT_ONCE])
    groups = sorted({kind.resource(world.platform.domain).group for kind in STANDARD.kinds})
    programs.rights(kube, groups)
    for name in ("definitions", "clusterroles", "policies"):
        programs.apply(kube, programs.documents(world.package / "install" / f"{name}.yaml"))
    kube("wait", "--for=condition=Established", "crd", "--all", "--timeout=100s")
    admin = {"endpoint": "127.0.0.1", "port": str(world.server.port), "username": "postgres", "password": "none"}
    config = programs.kubeconfig_of(kube, "provider-kubernetes", world.folder).read_text()
    for name, data in (("postgres-admin-creds", admin), ("itself", {"kubeconfig": config})):
        metadata = {"name": name, "namespace": programs.HOME}
        programs.apply(kube, [{"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}])
    for form in ("legacy", "namespaced"):
        for each in programs.documents(world.package / "install" / f"providerconfigs-{form}.yaml"):
            if each["apiVersion"].startswith("helm"):
                continue
            if each["apiVersion"].startswith("kubernetes"):
                # Outside of a cluster there is no identity to be injected: the account's token, instead.
                secret = {"namespace": programs.HOME, "name": "itself", "key": "kubeconfig"}
                each["spec"]["credentials"] = {"source": "Secret", "secretRef": secret}
            programs.apply(kube, [each])


def define(world: World, form: Form) -> None:
    for folder in ("definitions", "compositions"):
        for path in sorted((world.package / form / folder).glob("*.yaml")):
            programs.apply(world.kube, programs.documents(path))
    wanted = "Offered" if form == "legacy" else "Established"

    def are_served() -> bool:
        done = world.kube.json("get", "compositeresourcedefinitions")["items"]
        return bool(done) and all(
            any(
                one["type"] == wanted and one["status"] == "True"
                for one in each.get("status", {}).get("conditions", [])
            )
            for each in done
        )

    world.until(are_served, f"the {form} definitions are served")


def forget(world: World, form: Form) -> None:
    for folder in ("compositions", "definitions"):
        for path in sorted((world.package / form / folder).glob("*.yaml")):
            world.kube("delete", "-f", str(path), "--wait=true", "--timeout=100s")


@contextlib.contextmanager
def controllers(world: World, parts: Sequence[str]) -> Generator[None]:
    """`steelyard controllers` without claims, as the account of its manifests."""
    folder, kube, chosen = world.folder, world.kube, ",".join(parts)
    written = folder / f"manifests-{len(parts)}"
    package.steelyard("manifests", "--with", chosen, "--platform", str(world.file), "-o", str(written))
    programs.apply(kube, programs.documents(written / "rights.yaml"))
    config = programs.kubeconfig_of(kube, _ACCOUNT, folder, _ACCOUNT_HOME)
    (health,) = upstream.free_ports(1)
    command = [
        sys.executable, "-m", "steelyard", "controllers", "--kubeconfig", str(config), "--with", chosen,
        "--platform", str(world.file), "--data-dir", str(folder / "controllers"),
        # It is the only one, and a busy machine may not answer as soon as a lease asks for.
        "--health-address", f"127.0.0.1:{health}", "--no-leader-elect",
    ]  # fmt: skip
    with programs.started(folder, "controllers", command, {"PYTHONPATH": str(ROOT / "src")}):
        managers.until(lambda: managers.is_ready(health), bool, _SECONDS)
        yield


def told(error: Exception) -> str:
    """With what a program said that failed."""
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
    return f"{type(error).__name__}: {error}\n{said or ''}"
