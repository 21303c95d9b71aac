"""VaultEntry: something that Vault is configured with. Read, compared, and written only where it differs.

Engines (`sys/mounts/x`, `sys/auth/x`) are made once and never changed by writing there again; one of another type is
somebody else's and left alone. Values out of Secrets are not shown by Vault to anybody, so it is remembered which
versions of the Secrets were written.
"""

from __future__ import annotations

import base64
from typing import Final

from steelyard.api.resources import VAULT_ENTRIES
from steelyard.frozen import frozen
from steelyard.kube import errors as api
from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import finalizers
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key
from steelyard.providers.vault import comparing, telling
from steelyard.providers.vault.leaving import ENTRY_FINALIZER
from steelyard.providers.vault.stores import CLUSTER, Connection, Stores
from steelyard.providers.vault.telling import Problem, Said
from steelyard.vault import errors, paths

_EVERY: Final = 600.0
_ENGINES: Final = {"sys/mounts": "", "sys/auth": "auth/"}
"""Where engines are enabled, and what comes before their names in the paths that they serve."""


@frozen
class _Body:
    data: Object
    """With the secrets in it."""
    secrets: tuple[str, ...]
    versions: list[Object]


class VaultEntryReconciler:
    def __init__(self, client: Client, stores: Stores, clock: Clock) -> None:
        self._client = client
        self._stores = stores
        self._clock = clock
        self._patience = telling.Patience()

    async def reconcile(self, key: Key) -> Result:
        try:
            entry = await self._client.get(VAULT_ENTRIES, key.name)
        except api.NotFound:
            self._patience.forget(key)
            return Result()
        if telling.is_paused(entry):
            return Result()
        try:
            if objects.is_being_deleted(entry):
                return await self._end(entry)
            entry = await finalizers.ensure(self._client, VAULT_ENTRIES, entry, ENTRY_FINALIZER)
            done = await self._bring_about(entry)
        except telling.TOLD as error:
            await self._failed(entry, error)
            return self._patience.after(key, error)
        self._patience.forget(key)
        return done

    async def _bring_about(self, entry: Object) -> Result:
        spec = objects.mapping(entry.get("spec"))
        path = str(spec.get("path") or "")
        if problem := paths.problem(path):
            raise Problem(f"{path[:100]} is no path in Vault: {problem}")
        entry = await self._moved(entry, path)
        connection = await self._connection(entry)
        body = await self._body(spec)
        has_written = await self._write(entry, connection, path, body)
        status: Object = {}
        if has_written or not objects.at(entry, "status", "writtenGeneration"):
            status = {"writtenAt": clocks.rfc3339(self._clock.now())}
        status |= {"writtenGeneration": objects.generation(entry), "secrets": body.versions or None}
        said = [Said("Ready", True, "Available"), Said("Synced", True, "ReconcileSuccess")]
        await telling.report(self._client, VAULT_ENTRIES, entry, said, self._clock, status)
        return telling.refreshed(spec.get("refreshInterval"), _EVERY)

    async def _moved(self, entry: Object, path: str) -> Object:
        """With path and store recorded; what was at another path before is taken away first."""
        before, store = str(objects.at(entry, "status", "path") or ""), _store(entry)
        if before == path and objects.at(entry, "status", "store") == store:
            return entry
        if before and before != path and objects.at(entry, "spec", "deletionPolicy") != "Orphan":
            connection = await self._stores.for_platform(str(objects.at(entry, "status", "store") or store))
            await connection.vault.delete(before)
        recorded: Object = {"path": path, "store": store, "writtenGeneration": None, "secrets": None}
        return await telling.report(self._client, VAULT_ENTRIES, entry, (), self._clock, recorded)

    async def _write(self, entry: Object, connection: Connection, path: str, body: _Body) -> bool:
        spec = objects.mapping(entry.get("spec"))
        if engine := engine_of(path):
            return await self._enable(connection, path, engine, body.data)
        shown = await self._shown(connection, spec, path)
        here = objects.mapping(objects.mapping(shown).get("data"))
        if shown is not None and spec.get("onlyIfAbsent"):
            return False
        fields = [str(each) for each in objects.sequence(spec.get("compare"))] or None
        is_as_written = (
            shown is not None
            and objects.at(entry, "status", "writtenGeneration") == objects.generation(entry)
            and (objects.at(entry, "status", "secrets") or []) == body.versions
            and not comparing.differs(objects.mapping(spec.get("data")), here, fields)
        )
        if is_as_written:
            return False
        try:
            await connection.vault.write(path, body.data)
        except errors.VaultError as error:
            raise errors.without(error, body.secrets) from None
        return True

    async def _shown(self, connection: Connection, spec: Object, path: str) -> Object | None:
        try:
            return await connection.vault.read(str(spec.get("readPath") or path))
        except errors.Invalid:
            # Asked for something that can be made only once, some engines complain that it was not made yet.
            if spec.get("onlyIfAbsent"):
                return None
            raise

    async def _enable(self, connection: Connection, path: str, engine: str, data: Object) -> bool:
        """Vault answers for one that is missing as for a bad request; so all are asked for."""
        kind, _, name = path.partition("/")[2].partition("/")
        found = objects.mapping(await connection.vault.read(f"sys/{kind}"))
        here = objects.mapping(found.get("data")).get(f"{name}/") or found.get(f"{name}/")
        if here is not None:
            _check_engine(engine, data, objects.mapping(here))
            return False
        await connection.vault.write(path, data)
        return True

    async def _body(self, spec: Object) -> _Body:
        data: Object = dict(objects.mapping(spec.get("data")))
        secrets: list[str] = []
        versions: dict[str, str] = {}
        for each in map(objects.mapping, objects.sequence(spec.get("secretData"))):
            namespace, name, key = (str(each.get(field) or "") for field in ("namespace", "name", "key"))
            try:
                secret = await self._client.get(SECRETS, name, namespace)
            except api.NotFound:
                raise Problem(f"there is no Secret {namespace}/{name}, which Vault is to be told of") from None
            try:
                value = base64.b64decode(str(objects.at(secret, "data", key) or ""), validate=True).decode()
            except ValueError:
                value = ""
            if not value:
                raise Problem(f"Secret {namespace}/{name} has no {key}, which Vault is to be told")
            data[str(each.get("field"))] = value
            secrets.append(value)
            versions[f"{namespace}/{name}"] = objects.resource_version(secret)
        told: list[Object] = [{"name": name, "version": version} for name, version in sorted(versions.items())]
        return _Body(data, tuple(secrets), told)

    async def _failed(self, entry: Object, error: Exception) -> None:
        """What was there before goes on; so Ready stays as it was, once it has been true."""
        was_ready = bool(objects.at(entry, "status", "writtenGeneration"))
        said = [Said("Synced", False, "ReconcileError", str(error))]
        if not was_ready or objects.is_being_deleted(entry):
            reason = "Deleting" if objects.is_being_deleted(entry) else "Creating"
            said.append(Said("Ready", False, reason, str(error)))
        await telling.report(self._client, VAULT_ENTRIES, entry, said, self._clock)

    async def _end(self, entry: Object) -> Result:
        if not finalizers.has(entry, ENTRY_FINALIZER):
            return Result()
        path = str(objects.at(entry, "status", "path") or "")
        if path and objects.at(entry, "spec", "deletionPolicy") != "Orphan":
            connection = await self._connection(entry)
            if leases := objects.at(entry, "spec", "revokeLeases"):
                # What was given out would otherwise live on, and nobody could take it back any more.
                await connection.vault.write(f"sys/leases/revoke-prefix/{leases}", {"sync": True})
            await connection.vault.delete(path)
        await finalizers.remove(self._client, VAULT_ENTRIES, entry, ENTRY_FINALIZER)
        return Result()

    async def _connection(self, entry: Object) -> Connection:
        return await self._stores.for_platform(_store(entry))


def _store(entry: Object) -> str:
    return str(objects.at(entry, "spec", "storeRef", "name") or "")


def engine_of(path: str) -> str:
    """What the paths of an engine begin with that is enabled at this one; empty for what enables none.

    >>> engine_of("sys/auth/kubernetes-shop")
    'auth/kubernetes-shop'
    """
    for enabling, before in _ENGINES.items():
        if path.startswith(f"{enabling}/") and not path.endswith("/tune"):
            return f"{before}{path.removeprefix(f'{enabling}/')}"
    return ""


def _check_engine(engine: str, wanted: Object, here: Object) -> None:
    if here.get("type") != wanted.get("type"):
        raise Problem(
            f"{engine} in Vault is an engine of type {here.get('type')}, and is to be of type {wanted.get('type')}: it "
            "is left alone. Name another in the platform file, or disable that one if nobody needs it"
        )
    version = objects.at(wanted, "options", "version")
    if version is not None and str(objects.at(here, "options", "version") or "1") != str(version):
        raise Problem(f"{engine} in Vault is not version {version} of its engine: upgrade it, or name another")


def stores_of(entry: Object) -> list[str]:
    """As `Kind/namespace/name`."""
    return [f"{CLUSTER}//{_store(entry)}"]


def secrets_of(entry: Object) -> list[str]:
    return [
        f"{each.get('namespace')}/{each.get('name')}"
        for each in map(objects.mapping, objects.sequence(objects.at(entry, "spec", "secretData")))
    ]
