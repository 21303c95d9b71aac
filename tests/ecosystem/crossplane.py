"""Crossplane v2.1 composes our claims with our function, on a real kube-apiserver, with real providers: one claim of
each kind as a composite in a namespace, then the same as legacy claims.

Databases are made by Crossplane's provider-sql on a real PostgreSQL, what is elsewhere by provider-kubernetes; machines
are simulated, and roll and go as `steelyard controllers` has them do. Nothing makes releases of provider-helm: a cache
gets its Release, and no more.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg

from steelyard.api import authors
from steelyard.api.xrd import Form
from steelyard.compose.offering import STANDARD
from steelyard.crossplane.composites import CONNECTION_COPY
from steelyard.kube.objects import Object
from tests import postgresserver
from tests.conformance import keys, upstream
from tests.ecosystem import crossplane_programs as programs
from tests.ecosystem import crossplane_render as package
from tests.ecosystem import crossplane_world, departures
from tests.ecosystem.crossplane_world import GRANTED, TEAM, World
from tests.ecosystem.departures import Departures
from tests.ecosystem.outcome import Outcome
from tests.kubectl import Kubectl
from tests.postgresserver import PostgresServer

VERSION: Final = "2.1.0"
_NAME: Final = f"Crossplane {VERSION} with provider-kubernetes 1.2.1 and provider-sql 0.16.0"
_CLAIM_KIND: Final = "steelyard.dev/claim-kind"
_CLUSTER: Final = "clusters.cluster.x-k8s.io"
_MACHINES: Final = "machines.cluster.x-k8s.io"
_INFRASTRUCTURES: Final = "simulatedclusters"
_TEMPLATES: Final = "simulatedmachinetemplates"


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
        kube = Kubectl(kubectl, folder / "kubeconfig", folder / "cache", TEAM)
        port = int(api.url.rpartition(":")[2])
        return await asyncio.to_thread(_told, kube, folder, server, port)


def _told(kube: Kubectl, folder: Path, server: PostgresServer, port: int) -> Outcome:
    passed: list[str] = []
    try:
        for step in _story(World(kube, folder, server), port):
            passed.append(step)
            print(f"  {step}", flush=True)
    except (AssertionError, OSError, subprocess.SubprocessError, psycopg.Error) as error:
        story = f"after: {', '.join(passed)}\n{crossplane_world.told(error)}\n{programs.last_words(folder)}"
        return Outcome(_NAME, len(passed), 1, story=story)
    return Outcome(_NAME, len(passed), 0, "; ".join(passed))


def _story(world: World, port: int) -> Iterator[str]:
    kube, folder = world.kube, world.folder
    programs.write_certificates(folder)
    crossplane_world.install(world)
    serving = str(folder / "serving")
    with package.function("--tls-certs-dir", serving) as address, programs.running(kube, folder, port):
        programs.install_function(kube, address)
        yield "the definitions, rights and policies of the package are installed, and Crossplane runs with them"
        crossplane_world.define(world, "namespaced")
        yield f"{len(STANDARD.kinds)} kinds in a namespace are defined by Crossplane"
        with crossplane_world.controllers(world, ("lifecycle", "simulated", "postgres")):
            yield from _namespaced(world)
        crossplane_world.forget(world, "namespaced")
        crossplane_world.define(world, "legacy")
        # Databases are in no namespace in this form, and the provider of ours knows these: provider-sql has them alone.
        with crossplane_world.controllers(world, ("lifecycle", "simulated")):
            yield from _legacy(world)


def _namespaced(world: World) -> Iterator[str]:
    kube = world.kube
    claims = world.examples("namespaced")
    claims["PostgreSQLInstance"]["spec"]["writeConnectionSecretToRef"] = {"name": "shop-db", "namespace": GRANTED}
    claims["KubernetesCluster"]["spec"]["writeConnectionSecretToRef"] = {"name": "blog", "namespace": "default"}
    claims["KubernetesCluster"]["metadata"]["annotations"] = _authors(world)
    refused = _another(claims["WorkloadCluster"], "elsewhere")
    refused["spec"]["parameters"]["environment"] = "nowhere"
    said = kube.refused("create", "-f", "-", stdin=refused)
    assert "nowhere" in said, said
    yield "a claim that names no environment is refused by the shipped policy"

    programs.apply(kube, claims.values())
    yield from _made(world, claims, "namespaced")
    yield from _database(world, "shop-db", GRANTED)
    yield _access(world)
    yield from _cluster(world)
    yield _drift(world)
    yield _forbidden(world)
    yield _taken(world, claims["WorkloadCluster"])
    yield from _deleted(world, claims, "namespaced")


def _legacy(world: World) -> Iterator[str]:
    claims = world.examples("legacy")
    claims["WorkloadCluster"]["spec"]["writeConnectionSecretToRef"] = {"name": "shop-connection"}
    claims["PostgreSQLInstance"]["spec"]["writeConnectionSecretToRef"] = {"name": "shop-db"}
    claims["PostgreSQLInstance"]["metadata"]["annotations"] = {CONNECTION_COPY: f"{GRANTED}/copied"}
    programs.apply(world.kube, claims.values())
    (composite,) = world.until(lambda: world.items("xworkloadclusters"), "a composite is made of the claim")
    called = composite["metadata"]["name"]
    assert called != "shop", called
    yield from _made(world, claims, "legacy")
    yield from _database(world, "copied", GRANTED)
    world.secret("shop-db", TEAM)
    yield f"the claim's Secret is Crossplane's, and the granted copy in {GRANTED} is a part"
    login = world.until(lambda: world.items("temporarylogins"), "the login of a PostgreSQLAccess is asked for")
    assert [each["spec"]["database"] for each in login] == [
        world.get("PostgreSQLInstance", "shop")["status"]["database"]
    ]
    yield from _cluster(world)
    yield _drift(world)
    assert "kubeconfig" in world.secret("shop-connection", TEAM)
    yield f"a legacy claim: composite {called}, Cluster shop, its kubeconfig in the claim's Secret"
    yield from _deleted(world, claims, "legacy")


def _made(world: World, claims: dict[str, Object], form: Form) -> Iterator[str]:
    """Every object that `steelyard render` prints is there, under its name, out of what holds it."""
    place = world.folder / f"claims-{form}"
    place.mkdir()
    count = 0
    for kind, claim in claims.items():
        (place / f"{kind}.yaml").write_text(json.dumps(claim))
    for kind, parts in package.printed(place, world.file).items():
        for part in parts.values():
            what = f"{kind}: {part['kind']} {part['metadata']['name']}"
            world.until(lambda part=part: _is_there(world, part, form), what)
            count += 1
    yield f"{form}, one claim of each kind: all {count} objects that steelyard render prints are there"


def _is_there(world: World, part: Object, form: Form) -> bool:
    group = part["apiVersion"].rpartition("/")[0]
    namespace = part["metadata"].get("namespace", "")
    if form == "namespaced" and group.endswith(("sql.crossplane.io", "helm.crossplane.io")):
        group, namespace = group.replace(".crossplane.io", ".m.crossplane.io"), TEAM
    kind = f"{part['kind']}.{group}" if group else part["kind"]
    where = ("-n", namespace) if namespace else ()
    return world.kube.try_("get", kind, part["metadata"]["name"], *where).code == 0


def _database(world: World, secret: str, namespace: str) -> Iterator[str]:
    kind = "PostgreSQLInstance"
    world.until(lambda: world.is_ready(kind, "shop"), "the database is Ready")
    name = world.get(kind, "shop")["status"]["database"]
    assert name in world.ask("SELECT datname FROM pg_database"), name
    assert name.startswith("dev_team_a_shop_"), "called after the claim, not after the composite"
    data = world.secret(secret, namespace)
    with psycopg.connect(_login(world, data, name)) as connection:
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


def _login(world: World, data: dict[str, str], database: str) -> str:
    address = f"host=127.0.0.1 port={world.server.port} dbname={database}"
    return f"{address} user={data['username']} password={data['password']}"


def _access(world: World) -> str:
    kind = "PostgreSQLAccess"
    world.until(lambda: world.is_ready(kind, "shop"), "the temporary login is Ready")
    data = world.secret("shop-postgresqlaccess", TEAM)
    with psycopg.connect(_login(world, data, data["database"])) as connection:
        found = connection.execute("SELECT count(*) FROM t").fetchone()
    assert found == (0,), found
    return f"a PostgreSQLAccess is Ready, and its login {data['username']} reads what the owner made"


def _cluster(world: World) -> Iterator[str]:
    kind = "WorkloadCluster"
    world.until(lambda: world.is_ready(kind, "shop"), "the cluster is Ready")
    assert world.state(kind, "shop") == "Ready", world.states()
    assert world.condition(kind, "shop", "UpToDate").get("status") == "True", world.states()
    yield f"the cluster is Ready, with {len(_machines(world))} machines"

    world.change(kind, "shop", {"workerReplicas": 5})
    world.until(lambda: len(_machines(world)) == 6 and world.state(kind, "shop") == "Ready", "two more machines")
    yield "an update arrives: 5 workers"

    machines, templates = _machines(world), _templates(world)
    with departures.watched(world.kube, [_MACHINES, _TEMPLATES]) as gone:
        world.change(kind, "shop", {"cpuCores": 12})
        world.until(lambda: not machines & _machines(world), "all machines are new")
        world.until(lambda: not templates & _templates(world), "the old templates go")
        world.until(lambda: world.state(kind, "shop") == "Ready", "the cluster is Ready again")
    _went_after(gone, _TEMPLATES, templates, _MACHINES, machines)
    assert len(_machines(world)) == 6
    yield f"larger machines roll: {len(machines)} are new, and the old templates went after the last old machine"


def _drift(world: World) -> str:
    """Somebody points the workers at another template. Putting it back would replace the machines once more: it stays,
    until somebody runs the command that the claim tells."""
    kind, workers = "WorkloadCluster", "machinedeployments.cluster.x-k8s.io"
    (other,) = (name for name in _templates(world) if name.startswith("shop-control-plane-"))

    def used() -> str:
        return world.get(workers, "shop-md-0")["spec"]["template"]["spec"]["infrastructureRef"]["name"]

    wanted = used()
    by_hand = {"spec": {"template": {"spec": {"infrastructureRef": {"name": other}}}}}
    world.kube("patch", workers, "shop-md-0", "--type=merge", "-p", json.dumps(by_hand))
    world.until(lambda: world.state(kind, "shop") == "Drifted", "the change by hand is told of")
    assert used() == other
    command = world.get(kind, "shop")["status"]["message"].partition("To have it put back: kubectl ")[2]
    assert command, world.states()
    world.kube(*command.split())
    world.until(lambda: used() == wanted, "who agrees has it put back")
    world.until(lambda: world.state(kind, "shop") == "Ready", "the cluster is Ready again")
    return "what was changed by hand stays where putting it back replaces machines, and is put back when told to"


def _machines(world: World) -> set[str]:
    found = world.items(_MACHINES, "-l", "cluster.x-k8s.io/cluster-name=shop")
    return {each["metadata"]["name"] for each in found}


def _templates(world: World) -> set[str]:
    """Of the cluster's machines."""
    found = world.items(_TEMPLATES, "-l", f"{_CLAIM_KIND}=WorkloadCluster")
    return {each["metadata"]["name"] for each in found}


def _went_after(gone: Departures, later: str, those: set[str], earlier: str, these: set[str]) -> None:
    first = min(gone.revisions[later][name] for name in those)
    last = max(gone.revisions[earlier][name] for name in these)
    assert last < first, gone.revisions


def _forbidden(world: World) -> str:
    """The connection Secret of a cluster was to go where no grant is."""
    world.until(lambda: world.state("KubernetesCluster", "blog") == "Refused", "the Secret elsewhere is told of")

    def is_told() -> bool:
        said = [each["message"] for each in world.items("events") if each.get("reason") == "ConnectionSecretForbidden"]
        return any("namespace default" in each for each in said)

    world.until(is_told, "a warning says so")
    assert world.find("secret", "blog", "default") is None
    return "a Secret to a namespace without a grant is not made, and a warning says so"


def _taken(world: World, example: Object) -> str:
    """Somebody has a Cluster of the name already."""
    kube = world.kube
    theirs = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "taken"}}
    kube("create", "-f", "-", stdin={**theirs, "spec": {"paused": True}})
    kube("create", "-f", "-", stdin=_another(example, "taken"))
    world.until(
        lambda: "not made for this claim" in world.condition("WorkloadCluster", "taken", "Synced").get("message", ""),
        "somebody else's Cluster is told of",
    )
    assert not world.get(_CLUSTER, "taken")["metadata"].get("ownerReferences")
    assert world.find(_INFRASTRUCTURES, "taken") is None, "nothing is made of a claim that is refused"
    kube("delete", _CLUSTER, "taken")
    world.until(lambda: world.is_ready("WorkloadCluster", "taken"), "the name is free, and the cluster comes about")
    kube("delete", "WorkloadCluster", "taken", "--cascade=foreground", "--wait=false")
    world.until(lambda: world.find("WorkloadCluster", "taken") is None, "it goes")
    return "somebody else's Cluster of the name is left alone, and told of; when it is gone, the claim goes on"


def _authors(world: World) -> dict[str, str]:
    """What the policies have whoever asks for a Secret elsewhere say."""
    who = world.kube.json("auth", "whoami")["status"]["userInfo"]
    return {authors.AUTHOR: who["username"], authors.GROUPS: "\n".join(who["groups"])}


def _another(claim: Object, name: str) -> Object:
    made = json.loads(json.dumps(claim))
    made["metadata"]["name"] = name
    del made["spec"]["writeConnectionSecretToRef"]
    return made


def _deleted(world: World, claims: dict[str, Object], form: Form) -> Iterator[str]:
    kube = world.kube
    place = ".m" if form == "namespaced" else ""
    grants, databases, roles = (
        f"{kind}.postgresql.sql{place}.crossplane.io" for kind in ("grants", "databases", "roles")
    )
    watched = [grants, databases, roles, _MACHINES, _INFRASTRUCTURES, _CLUSTER]
    with departures.watched(kube, watched) as gone:
        for kind, claim in claims.items():
            cascade = ("--cascade=foreground",) if form == "namespaced" else ()
            name = claim["metadata"]["name"]
            kube("delete", f"{kind}.{world.group(kind)}", name, *cascade, "--wait=false")
        for kind, claim in claims.items():
            kind, name = f"{kind}.{world.group(kind)}", claim["metadata"]["name"]
            world.until(lambda kind=kind, name=name: world.find(kind, name) is None, f"{kind} {name} goes")
        yield from _nothing_left(world)
    assert gone.last(grants) < gone.first(databases), gone.revisions
    assert gone.last(databases) < gone.first(roles), gone.revisions
    yield "Grants went first, then the Database, then Roles"
    for name, revision in gone.revisions[_INFRASTRUCTURES].items():
        machines = [each for machine, each in gone.revisions[_MACHINES].items() if machine.startswith(f"{name}-")]
        assert machines, gone.revisions
        assert max(machines) < revision, gone.revisions
    yield f"the infrastructure of {len(gone.revisions[_INFRASTRUCTURES])} clusters went after the last machine of each"


def _nothing_left(world: World) -> Iterator[str]:
    kube = world.kube
    kinds = kube("api-resources", "--verbs=list,delete", "-o", "name").split()
    skipped = ("events", "events.events.k8s.io", "componentstatuses")

    def left() -> list[str]:
        named = ",".join(each for each in kinds if each not in skipped)
        found = kube.json("get", named, "-A", "-l", _CLAIM_KIND)["items"]
        more = ("usages.protection.crossplane.io", "clusterusages", _CLUSTER, _MACHINES, _INFRASTRUCTURES)
        found += [each for kind in more for each in world.items(kind)]
        return [f"{each['kind']} {each['metadata']['name']}" for each in found]

    world.until(lambda: not left(), "nothing is left")
    assert left() == []
    databases = world.ask("SELECT datname FROM pg_database WHERE datname LIKE 'dev_%'")
    roles = world.ask("SELECT rolname FROM pg_roles WHERE rolname LIKE 'dev_%' OR rolname LIKE 'tmp_%'")
    assert (databases, roles) == ([], []), (databases, roles)
    yield "deleted: no object of a claim is left, no machine, no Usage, no database and no role"
