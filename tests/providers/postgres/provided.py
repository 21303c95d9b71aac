"""Objects of Crossplane's provider-sql on a real server, reconciled one after another until nothing is left to do.

life = Life(rig)                                  # on the server and API of `ourkinds.Rig`
await life.make("shop"); await life.settle()      # owner, login with Secret, database, grants: all Ready
with life.login("shop") as connection: ...        # as an application does, with what the Secret says
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import shutil
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from steelyard.api.crossplane import DATABASES, EXTENSIONS, EXTERNAL_NAME, GRANTS, ROLES, SCHEMAS
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from steelyard.kube.runtime import conditions
from steelyard.kube.runtime.keys import Key
from steelyard.providers.postgres.embedded import programs
from steelyard.providers.postgres.embedded.programs import Programs
from tests import postgresserver, scratch
from tests.postgresserver import PostgresServer
from tests.providers.postgres.ourkinds import CONFIG, NAMESPACE, Rig

ORDER: Final = (ROLES, DATABASES, GRANTS, SCHEMAS, EXTENSIONS)
GOING: Final = tuple(reversed(ORDER))
_ROUNDS: Final = 12
_CONNECT: Final = 10
_HBA: Final = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


def all_programs() -> list[Programs]:
    """The host's and the wheel's, one of each: whatever holds must hold on both."""
    found = {each.is_wheel: each for each in sorted(programs.everywhere(), key=lambda each: each.major)}
    return [each for each in found.values() if each.is_wheel or not postgresserver.IS_WHEEL_WANTED]


def each_programs() -> Iterator[Any]:
    for each in all_programs():
        yield pytest.param(each.folder, id=f"{'wheel' if each.is_wheel else 'host'}-{each.major}")


@contextlib.contextmanager
def folder() -> Generator[Path]:
    """One that a server's user can enter."""
    made = scratch.folder("postgres")
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def running(programs_folder: Path, **settings: str) -> Generator[PostgresServer]:
    """A server that asks everybody but its administrator for a password."""
    with folder() as root:
        hba = root / "pg_hba.conf"
        hba.write_text(_HBA)
        # What a server that is killed has acknowledged is there afterwards.
        usual = {"hba_file": str(hba), "max_connections": "40", "synchronous_commit": "on"}
        server = PostgresServer(root, programs_folder, {**usual, **settings})
        try:
            server.start()
            yield server
        finally:
            server.stop()


def clean(server: PostgresServer) -> None:
    """Leaves what a new server has."""
    with server.connect() as connection:
        for (name,) in connection.execute(
            "SELECT datname FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres'"
        ).fetchall():
            server.drop_database(name)
        for (name,) in connection.execute(
            "SELECT rolname FROM pg_roles WHERE rolname NOT LIKE 'pg\\_%' AND rolname <> 'postgres'"
        ).fetchall():
            connection.execute(f'DROP ROLE IF EXISTS "{name}"'.encode())


class Life:
    """What is on a server for one application, and the objects that stand for it."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self._kinds: dict[Resource, Any] = {}

    def forget(self) -> None:
        """As after a restart of the platform."""
        self._kinds = {}

    async def create(
        self, resource: Resource, name: str, parameters: Object, *, external: str = "", **spec: Any
    ) -> Object:
        annotations = {EXTERNAL_NAME: external} if external else {}
        given: Object = {"forProvider": parameters, "providerConfigRef": {"name": CONFIG}, **spec}
        return await self.rig.create(resource, name, given, annotations=annotations)

    async def make(self, name: str, *, limit: int = 5) -> None:
        """What a claim is composed to."""
        login: Object = {
            "privileges": {"login": True, "superUser": False, "createDb": False, "createRole": False},
            "connectionLimit": limit,
            "configurationParameters": [
                {"name": "role", "value": f"{name}_owner"},
                {"name": "work_mem", "value": "4MB"},
                {"name": "search_path", "value": '"$user", public'},
            ],
        }
        database: Object = {"owner": f"{name}_owner", "encoding": "UTF8", "template": "template0"}
        place = {"namespace": NAMESPACE, "name": f"{name}-login"}
        access: Object = {"role": name, "database": name, "privileges": ["ALL"], "revokePublicOnDb": True}
        await self.create(ROLES, f"{name}-owner", {"privileges": {"login": False}}, external=f"{name}_owner")
        await self.create(ROLES, name, login, writeConnectionSecretToRef=place)
        await self.create(DATABASES, name, {**database, "connectionLimit": limit, "allowConnections": True})
        await self.create(GRANTS, f"{name}-membership", {"role": name, "memberOf": f"{name}_owner"})
        await self.create(GRANTS, f"{name}-access", access)

    async def change(self, resource: Resource, name: str, **parameters: Any) -> None:
        await self.rig.live.patch(resource, name, {"spec": {"forProvider": parameters}})

    async def resize(self, name: str, limit: int) -> None:
        await self.change(ROLES, name, connectionLimit=limit)
        await self.change(DATABASES, name, connectionLimit=limit)

    async def rotate(self, name: str, moment: str) -> None:
        await self.change(ROLES, name, passwordRotationTrigger=moment)

    async def delete(self, *resources: Resource) -> None:
        for resource in resources or GOING:
            for obj in (await self.rig.live.list(resource)).items:
                await self.rig.live.delete(resource, objects.name(obj))

    async def objects(self) -> list[tuple[Resource, Object]]:
        return [(resource, obj) for resource in ORDER for obj in (await self.rig.live.list(resource)).items]

    async def round(self) -> None:
        """Each object once; those that go in the order in which a claim lets them go."""
        going = [pair for pair in reversed(await self.objects()) if objects.is_being_deleted(pair[1])]
        staying = [pair for pair in await self.objects() if not objects.is_being_deleted(pair[1])]
        for resource, obj in (*going, *staying):
            await self.reconcile(resource, objects.name(obj))

    async def reconcile(self, resource: Resource, name: str) -> None:
        if resource not in self._kinds:
            module = importlib.import_module(f"steelyard.providers.postgres.{resource.plural}")
            self._kinds[resource] = module.reconciler(self.rig.tools)
        for _ in range(5):
            try:
                await self._kinds[resource].reconcile(Key("", name))
            except errors.Conflict:
                continue
            return

    async def settle(self) -> None:
        """Until everything is as it should be."""
        for _ in range(_ROUNDS):
            await self.round()
            if all(map(_is_well, [obj for _, obj in await self.objects()])):
                return
        told = [(obj["kind"], objects.name(obj), obj.get("status")) for _, obj in await self.objects()]
        raise AssertionError(f"not settled: {[each for each in told if each]}")

    async def versions(self) -> dict[str, str]:
        listed = [*(await self.objects()), *((SECRETS, each) for each in (await self.rig.live.list(SECRETS)).items)]
        return {f"{kind.kind}/{objects.name(obj)}": objects.resource_version(obj) for kind, obj in listed}

    async def credentials(self, name: str) -> dict[str, str]:
        return await self.rig.secret(f"{name}-login")

    async def set_password(self, name: str, password: str) -> None:
        data = {"password": base64.b64encode(password.encode()).decode()}
        await self.rig.live.patch(SECRETS, f"{name}-login", {"data": data}, NAMESPACE)

    async def connect(self, name: str, database: str = "", password: str = "") -> psycopg.Connection[Any]:
        """As an application does."""
        found = await self.credentials(name)
        return psycopg.connect(
            host=found["endpoint"],
            port=int(found["port"]),
            user=found["username"],
            password=password or found["password"],
            dbname=database or name,
            autocommit=True,
            connect_timeout=_CONNECT,
        )

    def on_server(self) -> dict[str, Any]:
        """Everything that the provider could have made: what is compared after faults."""
        return {
            "databases": self.rig.sql(
                "SELECT datname, pg_get_userbyid(datdba), datconnlimit, datallowconn, datistemplate, datacl::text "
                "FROM pg_database WHERE datname NOT LIKE 'template%' AND datname <> 'postgres' ORDER BY 1"
            ),
            "roles": self.rig.sql(
                "SELECT rolname, rolcanlogin, rolconnlimit, rolconfig, rolsuper FROM pg_roles "
                "WHERE rolname NOT LIKE 'pg\\_%' AND rolname <> 'postgres' ORDER BY 1"
            ),
            "members": self.rig.sql(
                "SELECT pg_get_userbyid(member), pg_get_userbyid(roleid), admin_option FROM pg_auth_members "
                "WHERE member > 16383 ORDER BY 1, 2"
            ),
        }


def _is_well(obj: Object) -> bool:
    return conditions.is_true(obj, "Ready") and conditions.is_true(obj, "Synced") and not objects.is_being_deleted(obj)


def psql(folder: Path, uri: str, statement: str) -> str:
    done = subprocess.run([folder / "psql", uri, "-Atqc", statement], capture_output=True, text=True, check=True)
    return done.stdout.strip()
