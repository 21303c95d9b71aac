"""Crossplane's provider-sql, built from its module, takes over what ours made on a real PostgreSQL, and gives it back.

Both work on the same objects, one after the other, against the platform's API. The server logs every statement that
changes anything: a hand-over must show none, and databases, roles and password hashes must be the very same.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import yaml

from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.kube.objects import Object
from tests import postgresserver
from tests.ecosystem import managers
from tests.ecosystem.outcome import Outcome
from tests.harness import INSTANT, PlatformProcess, built
from tests.kubectl import Kubectl
from tests.postgresserver import PostgresServer

VERSION: Final = "0.16.0"
_MODULE: Final = "github.com/crossplane-contrib/provider-sql"
_NAME: Final = f"Crossplane's provider-sql {VERSION}, and back"
_GROUP: Final = "postgresql.sql.crossplane.io"
_SECONDS: Final = 90.0
_CHANGES: Final = re.compile(r"statement: +((CREATE|DROP|ALTER|GRANT|REVOKE)\b.*)", re.IGNORECASE)
_FLAGS: Final = ("--poll=2s", "--sync=1h", "--metrics-bind-address=0", "--max-reconcile-rate=50")
_SERVER: Final = {"log_statement": "ddl", "log_line_prefix": "%m [%a] "}


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    program = built("provider-sql")[0]
    programs = postgresserver.programs()
    if programs is None:
        return Outcome(_NAME, 0, 1, story=postgresserver.WHY_SKIPPED)
    with tempfile.TemporaryDirectory(prefix="steelyard-handover-") as place:
        server = PostgresServer(Path(place), programs, _SERVER)
        server.start()
        passed: list[str] = []
        try:
            for step in _story(folder, kubectl, program, server):
                passed.append(step)
                print(f"  {step}", flush=True)
        except (AssertionError, OSError, subprocess.SubprocessError, psycopg.Error) as error:
            log = folder / "provider-sql.log"
            said = log.read_text()[-3000:] if log.exists() else "nothing"
            story = f"after: {', '.join(passed)}\n{type(error).__name__}: {error}\nprovider-sql said:\n{said}"
            return Outcome(_NAME, len(passed), 1, story=story)
        finally:
            server.stop()
    return Outcome(_NAME, len(passed), 0, "; ".join(passed))


class World:
    def __init__(self, folder: Path, kubectl: str, server: PostgresServer) -> None:
        self.folder = folder
        self.server = server
        file = f"postgresql: {{dsn: 'postgresql://postgres@127.0.0.1:{server.port}/postgres?sslmode=disable'}}\n"
        self.platform = PlatformProcess(folder / "platform", platform=INSTANT + file)
        self.kube = Kubectl(kubectl, self.platform.data_dir.kubeconfig, folder / "cache")
        self._read = 0

    def managed(self) -> list[Object]:
        return self.kube.json("get", ",".join(f"{kind}.{_GROUP}" for kind in _KINDS))["items"]

    def until(self, reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _SECONDS
        while not reached():
            assert time.monotonic() < deadline, f"{what}; there is {_told(self.managed())}"
            time.sleep(0.3)

    def all_ready(self) -> bool:
        return all(_is(obj, "Ready") and _is(obj, "Synced") for obj in self.managed())

    def identities(self) -> dict[str, Any]:
        """What must be the very same thing, whoever looks after it."""
        with self.server.connect() as connection:
            databases = connection.execute("SELECT datname, oid FROM pg_database ORDER BY 1").fetchall()
            roles = connection.execute(
                "SELECT rolname, oid, rolpassword FROM pg_authid WHERE oid > 16383 ORDER BY 1"
            ).fetchall()
        return {"databases": databases, "roles": roles}

    def setting(self, query: str) -> Any:
        with self.server.connect() as connection:
            row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None

    def changes(self) -> list[str]:
        """Statements in the server's log since the last call that made or changed something."""
        text = self.server.log.read_text(errors="replace")[self._read :]
        self._read += len(text)
        return [found[1] for found in map(_CHANGES.search, text.splitlines()) if found]


_KINDS: Final = ("databases", "roles", "grants", "schemas", "extensions")


def _story(folder: Path, kubectl: str, program: str, server: PostgresServer) -> Iterator[str]:
    world = World(folder, kubectl, server)
    kube = world.kube
    try:
        world.platform.start()
        kube("apply", "-f", "-", stdin=_manifests("shop"))
        world.until(world.all_ready, "ours makes everything")
        before, count = world.identities(), len(world.managed())
        yield f"ours makes {count} objects of {len(_KINDS)} kinds on PostgreSQL {_version(server)}"

        world.platform.terminate()
        world.changes()
        _without(world.platform).start()
        _install(world)
        with _upstream(world, program) as log:
            world.until(lambda: _users(kube) == count, "upstream looks after every object")
            time.sleep(5)
            world.until(world.all_ready, "everything is Ready with upstream")
            assert world.identities() == before, (before, world.identities())
            seen = world.changes()
            assert any("CONNECTION LIMIT" in each for each in seen), "upstream sets limits whenever it looks at a role"
            assert not _of_note(seen), _of_note(seen)
            yield f"upstream adopts all {count}: same oids and password hashes, no CREATE, DROP or PASSWORD in the log"

            _patch(kube, "role", "shop", {"connectionLimit": 17})
            world.until(lambda: world.setting(_LIMIT) == 17, "upstream changes a limit")
            kube("apply", "-f", "-", stdin=_manifests("second"))
            world.until(world.all_ready, "upstream makes more")
            yield "upstream changes a limit, and makes a second database with its roles and grants"
            during = world.identities()
            told = log.read_text()[-2000:]
        world.platform.terminate()
        world.changes()

        world.platform = _with(world.platform)
        world.platform.start()
        _patch(kube, "role", "shop", {"connectionLimit": 19})
        world.until(lambda: world.setting(_LIMIT) == 19, f"ours has taken over; upstream's last words: {told}")
        world.until(world.all_ready, "everything is Ready with ours")
        time.sleep(3)
        assert world.identities() == during, (during, world.identities())
        made = _of_note(world.changes())
        assert not made, made
        yield "ours takes all of it back, what upstream made too: same oids, same hashes, nothing made or dropped"

        for kind in ("extensions", "schemas", "grants", "databases", "roles"):
            kube("delete", f"{kind}.{_GROUP}", "--all", "--wait=true", f"--timeout={_SECONDS:.0f}s")
        left = world.identities()
        assert left["roles"] == [], left
        assert {name for name, _ in left["databases"]} == {"postgres", "template0", "template1"}, left
        yield "deleted: nothing is left on the server"
    finally:
        world.platform.kill()


_LIMIT: Final = "SELECT rolconnlimit FROM pg_roles WHERE rolname = 'shop'"


def _manifests(name: str) -> str:
    config = {"providerConfigRef": {"name": "postgres-provider"}}
    owner, database = f"{name}_owner", f"{name}_db"

    def one(kind: str, called: str, parameters: Object, external: str = "", **more: Any) -> Object:
        metadata: Object = {"name": called}
        if external:
            metadata["annotations"] = {EXTERNAL_NAME: external}
        spec = {"forProvider": parameters, **config, **more}
        return {"apiVersion": f"{_GROUP}/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}

    settings = [{"name": "role", "value": owner}, {"name": "work_mem", "value": "4MB"}]
    denied = dict.fromkeys(("superUser", "createDb", "createRole", "replication", "bypassRls"), False)
    secret = {"namespace": "crossplane-system", "name": f"{name}-login"}
    access: Object = {"role": name, "database": database, "privileges": ["ALL"], "revokePublicOnDb": True}
    made = [
        one("Role", f"{name}-owner", {"privileges": {"login": False, "inherit": True, **denied}}, owner),
        one(
            "Role",
            name,
            {
                "privileges": {"login": True, "inherit": True, **denied},
                "connectionLimit": 5,
                "configurationParameters": settings,
            },
            writeConnectionSecretToRef=secret,
        ),
        one(
            "Database",
            f"{name}-db",
            {"owner": owner, "encoding": "UTF8", "template": "template0", "connectionLimit": 5},
            database,
        ),
        one("Grant", f"{name}-membership", {"role": name, "memberOf": owner}),
        one("Grant", f"{name}-access", access),
        one("Schema", f"{name}-sales", {"database": database, "role": owner}, "sales"),
        one("Extension", f"{name}-plpgsql", {"database": database, "extension": "plpgsql"}),
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": made})


def _of_note(statements: list[str]) -> list[str]:
    """Those that make or drop something, or set a password."""
    noted = re.compile(r"^(CREATE|DROP)\b|\bPASSWORD\b", re.IGNORECASE)
    return [each for each in statements if noted.search(each)]


def _install(world: World) -> None:
    """The definitions of the kinds that it has besides, for which it would wait."""
    folder = managers.folder_of(_MODULE, "provider-sql") / "package" / "crds"
    served = set(world.kube("get", "crd", "-o", "name").split())
    found = [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]
    missing = [
        each
        for each in found
        if f"customresourcedefinition.apiextensions.k8s.io/{each['metadata']['name']}" not in served
    ]
    world.kube("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": missing}))
    world.kube("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")


@contextlib.contextmanager
def _upstream(world: World, program: str) -> Generator[Path]:
    log = world.folder / "provider-sql.log"
    environment = {**os.environ, "KUBECONFIG": str(world.platform.data_dir.kubeconfig)}
    with log.open("wb") as output:
        process = subprocess.Popen([program, *_FLAGS], stdout=output, stderr=output, env=environment)
    try:
        yield log
        assert process.poll() is None, f"it ended: {log.read_text()[-2000:]}"
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


def _without(platform: PlatformProcess) -> PlatformProcess:
    """Somebody else brings the objects of PostgreSQL about."""
    platform.arguments = ["--without", "postgres"]
    return platform


def _with(platform: PlatformProcess) -> PlatformProcess:
    platform.arguments = []
    return platform


def _users(kube: Kubectl) -> int:
    return len(kube.json("get", f"providerconfigusages.{_GROUP}")["items"])


def _patch(kube: Kubectl, kind: str, name: str, parameters: Object) -> None:
    kube("patch", f"{kind}.{_GROUP}", name, "--type=merge", "-p", json.dumps({"spec": {"forProvider": parameters}}))


def _is(obj: Object, type_: str) -> bool:
    conditions = obj.get("status", {}).get("conditions", [])
    return any(each["type"] == type_ and each["status"] == "True" for each in conditions)


def _told(found: list[Object]) -> list[tuple[str, str, Any]]:
    return [
        (obj["kind"], obj["metadata"]["name"], [each.get("message") or each["reason"] for each in conditions])
        for obj in found
        for conditions in [obj.get("status", {}).get("conditions", [])]
        if not (_is(obj, "Ready") and _is(obj, "Synced"))
    ]


def _version(server: PostgresServer) -> str:
    with server.connect() as connection:
        return str(connection.info.server_version // 10000)
