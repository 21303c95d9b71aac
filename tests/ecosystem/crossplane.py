"""Crossplane v2.1 composes our claims with our function, on a real kube-apiserver, with real providers: one claim of
each kind as a composite in a namespace, then a cluster and a database as legacy claims.

Databases are made by Crossplane's provider-sql on a real PostgreSQL, what is elsewhere by provider-kubernetes. Cluster
API and provider-helm are played here: this file says what their controllers would say of objects that are there.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg

from steelyard.compose.offering import STANDARD
from steelyard.crossplane.composites import CONNECTION_COPY
from steelyard.kube.objects import Object
from steelyard.settings import Platform, parse
from tests import postgresserver
from tests.conformance import keys, upstream
from tests.ecosystem import crossplane_programs as programs
from tests.ecosystem import crossplane_render as package
from tests.ecosystem.outcome import Outcome
from tests.kubectl import Kubectl
from tests.postgresserver import PostgresServer

VERSION: Final = "2.1.0"
_NAME: Final = f"Crossplane {VERSION} with provider-kubernetes 1.2.1 and provider-sql 0.16.0"
_SECONDS: Final = 300.0
_TEAM: Final = "team-a"
_KUBECONFIG: Final = """\
apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "https://10.0.0.1:6443"}}]
users: [{name: a, user: {token: secret}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
"""
_AT_ONCE: Final = 12
_CLAIM_KIND: Final = "steelyard.dev/claim-kind"


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    found = postgresserver.programs()
    if found is None:
        return Outcome(_NAME, 0, 1, story=postgresserver.WHY_SKIPPED)
    with tempfile.TemporaryDirectory(prefix="steelyard-crossplane-") as place:
        server = PostgresServer(Path(place), found)
        server.start()
        try:
            return asyncio.run(_run(folder, kubectl, server))
        finally:
            server.stop()


async def _run(folder: Path, kubectl: str, server: PostgresServer) -> Outcome:
    shared = folder / "shared"
    keys.write(shared)
    async with upstream.running(folder, shared) as api:
        kube = Kubectl(kubectl, folder / "kubeconfig", folder / "cache", _TEAM)
        port = int(api.url.rpartition(":")[2])
        return await asyncio.to_thread(_told, kube, folder, server, port)


def _told(kube: Kubectl, folder: Path, server: PostgresServer, port: int) -> Outcome:
    passed: list[str] = []
    try:
        for step in _story(World(kube, folder, server), port):
            passed.append(step)
            print(f"  {step}", flush=True)
    except (AssertionError, OSError, subprocess.SubprocessError, psycopg.Error) as error:
        story = f"after: {', '.join(passed)}\n{type(error).__name__}: {error}\n{programs.last_words(folder)}"
        return Outcome(_NAME, len(passed), 1, story=story)
    return Outcome(_NAME, len(passed), 0, "; ".join(passed))


class World:
    def __init__(self, kube: Kubectl, folder: Path, server: PostgresServer) -> None:
        self.kube = kube
        self.folder = folder
        self.server = server
        dsn = f"postgresql://postgres@127.0.0.1:{server.port}/postgres?sslmode=disable"
        text = package.PLATFORM + f"postgresql: {{dsn: '{dsn}', sslMode: disable}}\n"
        self.platform: Platform = parse(text)
        self.package, self.file = package.write_package(folder, text)

    def get(self, kind: str, name: str, namespace: str = _TEAM) -> Object:
        return self.kube.json("get", kind, name, "-n", namespace)

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

    def is_ready(self, kind: str, name: str) -> bool:
        conditions = self.get(kind, name).get("status", {}).get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def status(self, kind: str, name: str, status: Object, namespace: str = _TEAM) -> None:
        patch = json.dumps({"status": status})
        self.kube("patch", kind, name, "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)

    def change(self, kind: str, name: str, parameters: Object) -> None:
        self.kube("patch", kind, name, "--type=merge", "-p", json.dumps({"spec": {"parameters": parameters}}))

    def ask(self, query: str) -> list[Any]:
        with self.server.connect() as connection:
            return [row[0] for row in connection.execute(query.encode()).fetchall()]

    def complete(self, cluster: str) -> None:
        """What Cluster API says of a cluster all of whose machines are there and up to date."""
        kube = self.kube
        made = self.get("clusters.cluster.x-k8s.io", cluster)
        endpoint = {"spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}}}
        kube("patch", "clusters.cluster.x-k8s.io", cluster, "--type=merge", "-p", json.dumps(endpoint))
        done = {"infrastructureProvisioned": True, "controlPlaneInitialized": True}
        self.status("clusters.cluster.x-k8s.io", cluster, {"initialization": done})
        for kind in ("machinedeployments", "kubeadmcontrolplanes"):
            for each in self.kube.json("get", kind)["items"]:
                if each["metadata"]["labels"].get("cluster.x-k8s.io/cluster-name") == cluster:
                    counts = dict.fromkeys(("replicas", "readyReplicas", "upToDateReplicas"), each["spec"]["replicas"])
                    seen = {**counts, "observedGeneration": each["metadata"]["generation"]}
                    self.status(kind, each["metadata"]["name"], seen)
        owner = {key: made[key] for key in ("apiVersion", "kind")}
        owner |= {"name": cluster, "uid": made["metadata"]["uid"], "controller": True}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{cluster}-kubeconfig", "namespace": _TEAM, "ownerReferences": [owner]},
            "data": {"value": base64.b64encode(_KUBECONFIG.encode()).decode()},
        }
        programs.apply(kube, [secret])


def _story(world: World, port: int) -> Iterator[str]:
    kube, folder = world.kube, world.folder
    programs.write_certificates(folder)
    _install(world)
    serving = str(folder / "serving")
    with package.function("--tls-certs-dir", serving) as address, programs.running(kube, folder, port):
        programs.install_function(kube, address)
        yield "the definitions, rights and policies of the package are installed, and Crossplane runs with them"
        _define(world, "namespaced")
        yield f"{len(STANDARD.kinds)} kinds in a namespace are defined by Crossplane"
        yield from _namespaced(world)
        _forget(world, "namespaced")
        _define(world, "legacy")
        yield from _legacy(world)


def _install(world: World) -> None:
    kube = world.kube
    for name in (_TEAM, programs.HOME, "argocd"):
        programs.apply(kube, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
    found = programs.definitions()
    for start in range(0, len(found), _AT_ONCE):
        programs.apply(kube, found[start : start + _AT_ONCE])
    groups = sorted({kind.resource(world.platform.domain).group for kind in STANDARD.kinds})
    programs.rights(kube, groups)
    for name in ("definitions", "clusterroles", "policies"):
        programs.apply(kube, programs.documents(world.package / "install" / f"{name}.yaml"))
    kube("wait", "--for=condition=Established", "crd", "--all", "--timeout=300s")
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


def _define(world: World, form: str) -> None:
    for folder in ("definitions", "compositions"):
        for path in sorted((world.package / form / folder).glob("*.yaml")):
            programs.apply(world.kube, programs.documents(path))

    def are_served() -> bool:
        done = world.kube.json("get", "compositeresourcedefinitions")["items"]
        wanted = "Offered" if form == "legacy" else "Established"
        return bool(done) and all(
            any(
                one["type"] == wanted and one["status"] == "True"
                for one in each.get("status", {}).get("conditions", [])
            )
            for each in done
        )

    world.until(are_served, f"the {form} definitions are served")


def _forget(world: World, form: str) -> None:
    for folder in ("compositions", "definitions"):
        for path in sorted((world.package / form / folder).glob("*.yaml")):
            world.kube("delete", "-f", str(path), "--wait=true", "--timeout=300s")


def _examples(world: World, form: str) -> dict[str, Object]:
    found: dict[str, Object] = {}
    for path in sorted((world.package / form / "examples").glob("*.yaml")):
        (claim,) = programs.documents(path)
        claim["metadata"]["name"] = _name(claim["kind"])
        found[claim["kind"]] = claim
    return found


def _name(kind: str) -> str:
    return {"WorkloadCluster": "shop", "KubernetesCluster": "blog", "VirtualCluster": "wiki"}.get(kind, "shop")


def _namespaced(world: World) -> Iterator[str]:
    kube = world.kube
    claims = _examples(world, "namespaced")
    claims["PostgreSQLInstance"]["spec"]["writeConnectionSecretToRef"] = {"name": "shop-db", "namespace": "argocd"}
    refused = json.loads(json.dumps(claims["WorkloadCluster"]))
    refused["spec"]["parameters"]["environment"] = "nowhere"
    said = kube.refused("create", "-f", "-", stdin=refused)
    assert "nowhere" in said, said
    yield "a claim that names no environment is refused by the shipped policy"

    programs.apply(kube, claims.values())
    yield from _made(world, claims)
    yield from _database(world, "shop-db", "argocd")
    yield from _cluster(world)
    for kind in claims:
        kube("delete", kind, _name(kind), "--cascade=foreground", "--wait=true", "--timeout=300s")
    yield from _nothing_left(world)


def _made(world: World, claims: dict[str, Object]) -> Iterator[str]:
    """Every object that `steelyard render` prints is there, under its name, out of what holds it."""
    place = world.folder / "claims"
    place.mkdir(exist_ok=True)
    count = 0
    for kind, claim in claims.items():
        (place / f"{kind}.yaml").write_text(json.dumps(claim))
    printed = package.printed(place, world.file)
    for kind, parts in printed.items():
        for part in parts.values():
            world.until(lambda part=part: _is_there(world, part), f"{kind}: {part['kind']} {part['metadata']['name']}")
            count += 1
    yield f"one claim of each kind: all {count} objects that steelyard render prints are there"


def _is_there(world: World, part: Object) -> bool:
    group = part["apiVersion"].rpartition("/")[0]
    namespace = part["metadata"].get("namespace", "")
    if group.endswith(("sql.crossplane.io", "helm.crossplane.io")):
        group, namespace = group.replace(".crossplane.io", ".m.crossplane.io"), _TEAM
    kind = f"{part['kind']}.{group}" if group else part["kind"]
    where = ("-n", namespace) if namespace else ()
    return world.kube.try_("get", kind, part["metadata"]["name"], *where).code == 0


def _database(world: World, secret: str, namespace: str) -> Iterator[str]:
    kind, kube = "PostgreSQLInstance", world.kube
    world.until(lambda: world.is_ready(kind, "shop"), "the database is Ready")
    name = world.get(kind, "shop")["status"]["database"]
    assert name in world.ask("SELECT datname FROM pg_database"), name
    assert name.startswith("dev_team_a_shop_"), "called after the claim, not after the composite"
    held = world.until(lambda: kube.try_("get", "secret", secret, "-n", namespace, "-o", "json").out, "the Secret")
    data = {key: base64.b64decode(value).decode() for key, value in json.loads(held)["data"].items()}
    login = f"host=127.0.0.1 port={world.server.port} dbname={name} user={data['username']}"
    with psycopg.connect(f"{login} password={data['password']}") as connection:
        connection.execute("CREATE TABLE t (a int)")
    encoded = base64.b64encode(data["password"].encode()).decode()
    said = json.dumps([each.get("status") for each in world.items("objects.kubernetes.m.crossplane.io")])
    assert encoded not in said, "the password is in the status of an Object"
    yield f"provider-sql made database {name}, and its Secret in {namespace} logs in"

    limit = world.platform.postgresql.sizes.of("large").connections
    world.change(kind, "shop", {"size": "large"})
    query = f"SELECT rolconnlimit FROM pg_roles WHERE rolname = '{data['username']}'"
    world.until(lambda: world.ask(query) == [limit], "a larger size arrives at the server")
    yield f"a larger size arrives: the login may have {limit} connections"


def _cluster(world: World) -> Iterator[str]:
    kind = "WorkloadCluster"
    world.complete("shop")
    world.until(lambda: world.is_ready(kind, "shop"), "the cluster is Ready")
    yield "the cluster is Ready once Cluster API says that its machines are"

    world.change(kind, "shop", {"workerReplicas": 5})
    world.until(
        lambda: world.get("machinedeployments", "shop-md-0")["spec"]["replicas"] == 5, "more workers are asked for"
    )
    world.complete("shop")
    old = _templates(world)
    world.change(kind, "shop", {"cpuCores": 12})

    def both() -> set[str]:
        found = _templates(world)
        return found if len(found) > len(old) else set()

    new = world.until(both, "a second template")
    world.until(
        lambda: (
            world.get("machinedeployments", "shop-md-0")["spec"]["template"]["spec"]["infrastructureRef"]["name"]
            in new - old
        ),
        "the machines' template is the new one",
    )
    time.sleep(20)
    assert old <= _templates(world), "the old template went while machines were made of it"
    assert world.state(kind, "shop") == "Updating", world.states()
    world.complete("shop")
    world.until(lambda: not old & _templates(world), "the old template goes when all machines are new")
    yield "5 workers arrive; larger machines roll: a new template, the old one stays until all machines are new"


def _templates(world: World) -> set[str]:
    """Of the cluster's machines."""
    found = world.items("simulatedmachinetemplates", "-l", f"{_CLAIM_KIND}=WorkloadCluster")
    return {each["metadata"]["name"] for each in found}


def _nothing_left(world: World) -> Iterator[str]:
    kube = world.kube
    kinds = kube("api-resources", "--verbs=list,delete", "-o", "name").split()
    skipped = ("events", "events.events.k8s.io", "componentstatuses")

    def left() -> list[str]:
        named = ",".join(each for each in kinds if each not in skipped)
        found = kube.json("get", named, "-A", "-l", _CLAIM_KIND)["items"]
        usages = [each for kind in ("usages.protection.crossplane.io", "clusterusages") for each in world.items(kind)]
        return [f"{each['kind']} {each['metadata']['name']}" for each in (*found, *usages)]

    world.until(lambda: not left(), "nothing is left")
    assert left() == []
    databases, roles = (
        world.ask("SELECT datname FROM pg_database WHERE datname LIKE 'dev_%'"),
        world.ask("SELECT rolname FROM pg_roles WHERE rolname LIKE 'dev_%'"),
    )
    assert (databases, roles) == ([], []), (databases, roles)
    yield "deleted: no object of a claim is left, no Usage, no database and no role"


def _legacy(world: World) -> Iterator[str]:
    kube = world.kube
    claims = {kind: each for kind, each in _examples(world, "legacy").items() if kind in _OF_LEGACY}
    claims["WorkloadCluster"]["spec"]["writeConnectionSecretToRef"] = {"name": "shop-connection"}
    claims["PostgreSQLInstance"]["spec"]["writeConnectionSecretToRef"] = {"name": "shop-db"}
    claims["PostgreSQLInstance"]["metadata"]["annotations"] = {CONNECTION_COPY: "argocd/copied"}
    programs.apply(kube, claims.values())
    (composite,) = world.until(lambda: world.items("xworkloadclusters"), "a composite is made of the claim")
    assert composite["metadata"]["name"] != "shop"
    world.until(lambda: kube.try_("get", "clusters.cluster.x-k8s.io", "shop").code == 0, "the Cluster is there")
    world.complete("shop")
    world.until(lambda: world.is_ready("WorkloadCluster", "shop"), "the claim of the cluster is Ready")
    secret = world.until(lambda: kube.try_("get", "secret", "shop-connection", "-o", "json").out, "the claim's Secret")
    assert "kubeconfig" in json.loads(secret)["data"], secret
    called = composite["metadata"]["name"]
    yield f"a legacy claim: composite {called}, Cluster shop, its kubeconfig in the claim's Secret"
    yield from _database(world, "copied", "argocd")
    world.until(lambda: kube.try_("get", "secret", "shop-db").code == 0, "the claim's own Secret")
    yield "the claim's Secret is Crossplane's, and the granted copy in argocd is a part"
    for kind in claims:
        kube("delete", f"{kind}.{_group(world, kind)}", "shop", "--wait=true", "--timeout=300s")
    yield from _nothing_left(world)


_OF_LEGACY: Final = ("WorkloadCluster", "PostgreSQLInstance")


def _group(world: World, kind: str) -> str:
    found = next(each.resource(world.platform.domain) for each in STANDARD.kinds if each.resource("").kind == kind)
    return found.group
