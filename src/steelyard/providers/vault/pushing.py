"""PushSecret: values of a Secret kept at a path in Vault.

What is written there is recorded in `status.syncedPushSecrets` before it is, so that it is found again whatever happens
in between; what no longer belongs there goes. Nothing is written to Vault while what is there is right, and nothing to
the object either: `refreshTime` is when something was last written, not when it was last looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from steelyard.api.externalsecrets.kinds import PUSH_FINALIZER, PUSH_SECRETS
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import finalizers
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key
from steelyard.providers.vault import sources, telling
from steelyard.providers.vault.sources import Source
from steelyard.providers.vault.stores import CLUSTER, Connection, Stores
from steelyard.providers.vault.telling import Problem, Said
from steelyard.vault import paths

Synced: TypeAlias = dict[str, dict[str, Object]]
"""As the status has it: what was put where, by store (`Kind/name`) and place (`path/property`)."""
_HOURLY = 3600.0
_SYNCED = "PushSecret synced successfully"


@dataclass(slots=True)
class _Path:
    """What is to be at one path: some of its keys, or, where `whole`, exactly these."""

    keys: dict[str, str] = field(default_factory=dict[str, str])
    """Key there, with the key of the source."""
    whole: bool = False


class PushSecretReconciler:
    def __init__(self, client: Client, stores: Stores, clock: Clock) -> None:
        self._client = client
        self._stores = stores
        self._clock = clock
        self._patience = telling.Patience()

    async def reconcile(self, key: Key) -> Result:
        try:
            push = await self._client.get(PUSH_SECRETS, key.name, key.namespace)
        except errors.NotFound:
            self._patience.forget(key)
            return Result()
        if telling.is_paused(push):
            return Result()
        try:
            if objects.is_being_deleted(push):
                return await self._end(push)
            push = await self._held(push)
            done = await self._bring_about(push)
        except telling.TOLD as error:
            said = Said("Ready", False, "Errored", str(error))
            await telling.report(self._client, PUSH_SECRETS, push, [said], self._clock)
            return self._patience.after(key, error)
        self._patience.forget(key)
        return done

    async def _held(self, push: Object) -> Object:
        """With the finalizer, where what is in Vault goes with the object; without where it stays."""
        if objects.at(push, "spec", "deletionPolicy") == "Delete":
            return await finalizers.ensure(self._client, PUSH_SECRETS, push, PUSH_FINALIZER)
        return await finalizers.remove(self._client, PUSH_SECRETS, push, PUSH_FINALIZER)

    async def _bring_about(self, push: Object) -> Result:
        source = await sources.of(self._client, push)
        wanted, by_path = _wanted(push), _by_path(push)
        connections = {store: await self._connection(store, objects.namespace(push)) for store in sorted(wanted)}
        before = _synced(push)
        push = await self._record(push, _merged(wanted, before))
        has_written = False
        for connection in connections.values():
            for path, each in by_path.items():
                has_written |= await self._put(push, connection, path, each, source)
        if objects.at(push, "spec", "deletionPolicy") == "Delete":
            has_written |= await self._take_away(push, before, wanted)
        status: Object = {"syncedPushSecrets": wanted}
        if has_written or not objects.at(push, "status", "refreshTime"):
            status["refreshTime"] = clocks.rfc3339(self._clock.now())
        said = Said("Ready", True, "Synced", _SYNCED)
        await telling.report(self._client, PUSH_SECRETS, push, [said], self._clock, status)
        return telling.refreshed(objects.at(push, "spec", "refreshInterval"), _HOURLY)

    async def _record(self, push: Object, synced: Synced) -> Object:
        if synced == _synced(push):
            return push
        return await telling.report(self._client, PUSH_SECRETS, push, (), self._clock, {"syncedPushSecrets": synced})

    async def _put(self, push: Object, connection: Connection, path: str, wanted: _Path, source: Source) -> bool:
        keeps = objects.at(push, "spec", "updatePolicy") == "IfNotExists"

        def edit(here: Mapping[str, Any]) -> Mapping[str, Any]:
            if keeps and here and (wanted.whole or all(each in here for each in wanted.keys)):
                return here
            values = source.values()
            if wanted.whole:
                return {key: _text(key, value) for key, value in values.items()}
            found = dict(here)
            for name, key in wanted.keys.items():
                if key not in values:
                    raise Problem(f"the Secret has no key {key}, which is to be put at {path}")
                if not (keeps and name in here):
                    found[name] = _text(key, values[key])
            return found

        return await connection.keys.change(path, edit)

    async def _take_away(self, push: Object, old: Synced, kept: Synced) -> bool:
        """What was put somewhere and no longer belongs there."""
        has_written = False
        for store, places in old.items():
            gone = [each for place, each in places.items() if place not in kept.get(store, {})]
            if not gone:
                continue
            connection = await self._connection(store, objects.namespace(push))
            for each in gone:
                path, name = _place(each)
                if not any(_place(other) == (path, "") for other in kept.get(store, {}).values()):
                    has_written |= await self._remove(connection, path, name)
        return has_written

    async def _remove(self, connection: Connection, path: str, name: str) -> bool:
        """What others put there stays, as it does with External Secrets."""
        stored = await connection.keys.read(path)
        if stored is None or not stored.is_managed:
            return False

        def edit(here: Mapping[str, Any]) -> Mapping[str, Any]:
            return {key: value for key, value in here.items() if name and key != name}

        return await connection.keys.change(path, edit)

    async def _end(self, push: Object) -> Result:
        if not finalizers.has(push, PUSH_FINALIZER):
            return Result()
        await self._take_away(push, _synced(push), {})
        await finalizers.remove(self._client, PUSH_SECRETS, push, PUSH_FINALIZER)
        return Result()

    async def _connection(self, store: str, namespace: str) -> Connection:
        kind, _, name = store.partition("/")
        return await self._stores.for_use(kind, name, namespace)


def _wanted(push: Object) -> Synced:
    found: Synced = {}
    for reference in objects.sequence(objects.at(push, "spec", "secretStoreRefs")):
        here = objects.mapping(reference)
        if not here.get("name"):
            raise Problem("spec.secretStoreRefs must name stores: selecting them by label is not supported here")
        store = f"{here.get('kind') or 'SecretStore'}/{here['name']}"
        found[store] = {_called(each): each for each in _entries(push)}
    return found


def _by_path(push: Object) -> dict[str, _Path]:
    found: dict[str, _Path] = {}
    for each in _entries(push):
        path, name = _place(each)
        here = found.setdefault(path, _Path())
        key = str(objects.at(each, "match", "secretKey") or "")
        if name:
            here.keys[name] = key or name
        elif key:
            raise Problem(f"spec.data: {path} needs a property, the key under which {key} is put there")
        else:
            here.whole = True
    for path, here in found.items():
        if here.whole and here.keys:
            raise Problem(f"spec.data: {path} is to have the whole Secret and single keys; choose one")
    return found


def _entries(push: Object) -> list[Object]:
    found = [objects.mapping(each) for each in objects.sequence(objects.at(push, "spec", "data"))]
    for each in found:
        path = _place(each)[0]
        if problem := paths.problem(path):
            raise Problem(f"spec.data: {path[:100]} is no path in Vault: {problem}")
        if each.get("conversionStrategy") not in (None, "None") or each.get("metadata"):
            raise Problem("spec.data: conversionStrategy and metadata are not supported here")
    if not found:
        raise Problem("spec.data is empty: it says what is put where")
    return found


def _place(entry: Object) -> tuple[str, str]:
    reference = objects.mapping(objects.at(entry, "match", "remoteRef"))
    return str(reference.get("remoteKey") or ""), str(reference.get("property") or "")


def _called(entry: Object) -> str:
    return "/".join(filter(None, _place(entry)))


def _synced(push: Object) -> Synced:
    found = objects.mapping(objects.at(push, "status", "syncedPushSecrets"))
    return {store: {**objects.mapping(places)} for store, places in found.items()}


def _merged(first: Synced, second: Synced) -> Synced:
    return {store: {**second.get(store, {}), **first.get(store, {})} for store in {**second, **first}}


def _text(key: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Problem(f"the value of {key} is not text, which Vault keeps: put it there with b64enc") from None
    return value


def stores_of(push: Object) -> list[str]:
    """As `Kind/namespace/name`."""
    return [
        f"{kind}/{'' if kind == CLUSTER else objects.namespace(push)}/{each.get('name')}"
        for each in map(objects.mapping, objects.sequence(objects.at(push, "spec", "secretStoreRefs")))
        for kind in (str(each.get("kind") or "SecretStore"),)
    ]


def secret_of(push: Object) -> list[str]:
    name = objects.at(push, "spec", "selector", "secret", "name")
    return [f"{objects.namespace(push)}/{name}"] if name else []
