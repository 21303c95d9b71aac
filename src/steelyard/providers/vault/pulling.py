"""ExternalSecret: a Secret made of what is in Vault, and made again when that changes.

A Secret that is there already and is not the ExternalSecret's own is not touched: whoever may write ExternalSecrets
does not thereby write Secrets of others. While Vault is away the Secret stays as it was made last.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final, cast

from steelyard.api.externalsecrets.kinds import EXTERNAL_FINALIZER, EXTERNAL_SECRETS, MANAGED_LABEL
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import finalizers, patching
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key
from steelyard.providers.vault import telling, templates
from steelyard.providers.vault.stores import CLUSTER, OWN, Connection, Stores
from steelyard.providers.vault.telling import Problem, Said
from steelyard.vault import paths

_HOURLY: Final = 3600.0
_FORBIDDEN_TYPES: Final = frozenset({"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"})
"""Secrets of which the API makes logins."""


class ExternalSecretReconciler:
    def __init__(self, client: Client, stores: Stores, clock: Clock) -> None:
        self._client = client
        self._stores = stores
        self._clock = clock
        self._patience = telling.Patience()

    async def reconcile(self, key: Key) -> Result:
        try:
            external = await self._client.get(EXTERNAL_SECRETS, key.name, key.namespace)
        except errors.NotFound:
            self._patience.forget(key)
            return Result()
        if objects.is_being_deleted(external):
            # Its Secret goes by its owner reference. External Secrets, where it ran before, has left a finalizer.
            await finalizers.remove(self._client, EXTERNAL_SECRETS, external, EXTERNAL_FINALIZER)
            return Result()
        if telling.is_paused(external):
            return Result()
        try:
            done = await self._bring_about(external)
        except telling.TOLD as error:
            said = Said("Ready", False, "SecretSyncedError", str(error))
            await telling.report(self._client, EXTERNAL_SECRETS, external, [said], self._clock)
            return self._patience.after(key, error)
        self._patience.forget(key)
        return done

    async def _bring_about(self, external: Object) -> Result:
        spec, target = objects.mapping(external.get("spec")), objects.mapping(objects.at(external, "spec", "target"))
        policy = str(target.get("creationPolicy") or "Owner")
        if policy not in ("Owner", "Orphan", "Merge", "None"):
            raise Problem(f"spec.target.creationPolicy {policy} is not supported here")
        name = str(target.get("name") or objects.name(external))
        present = await self._present(name, objects.namespace(external))
        if spec.get("refreshPolicy") == "CreatedOnce" and present is not None and _is_own(present, external):
            return await self._done(external, name, has_written=False)
        found = await self._read(external)
        values = _templated(objects.mapping(target.get("template")), found)
        has_written = await self._write(external, present, name, policy, values) if policy != "None" else False
        return await self._done(external, name, has_written=has_written)

    async def _done(self, external: Object, name: str, *, has_written: bool) -> Result:
        status: Object = {"binding": {"name": name}}
        if has_written or not objects.at(external, "status", "refreshTime"):
            status["refreshTime"] = clocks.rfc3339(self._clock.now())
        said = Said("Ready", True, "SecretSynced", "secret synced")
        await telling.report(self._client, EXTERNAL_SECRETS, external, [said], self._clock, status)
        policy = objects.at(external, "spec", "refreshPolicy") or "Periodic"
        if policy != "Periodic":
            return Result()
        return telling.refreshed(objects.at(external, "spec", "refreshInterval"), _HOURLY)

    async def _read(self, external: Object) -> dict[str, bytes]:
        spec, namespace = objects.mapping(external.get("spec")), objects.namespace(external)
        store = objects.mapping(spec.get("secretStoreRef"))
        found: dict[str, bytes] = {}
        for each in map(objects.mapping, objects.sequence(spec.get("dataFrom"))):
            if not each.get("extract") or each.get("rewrite") or objects.at(each, "sourceRef", "generatorRef"):
                raise Problem("spec.dataFrom: only extract is supported here, without rewrite")
            reference = objects.mapping(each.get("extract"))
            connection = await self._connection(objects.at(each, "sourceRef", "storeRef") or store, namespace)
            value = await _value(connection, reference)
            whole = cast(Any, value) if isinstance(value, dict) else _parsed(value, reference)
            found |= {key: _decoded(_bytes(inner), reference) for key, inner in cast(Object, whole).items()}
        for each in map(objects.mapping, objects.sequence(spec.get("data"))):
            reference = objects.mapping(each.get("remoteRef"))
            connection = await self._connection(objects.at(each, "sourceRef", "storeRef") or store, namespace)
            found[str(each.get("secretKey"))] = _decoded(_bytes(await _value(connection, reference)), reference)
        if not found:
            raise Problem("spec.data and spec.dataFrom are empty: they say what is read from Vault")
        return found

    async def _connection(self, store: Any, namespace: str) -> Connection:
        reference = objects.mapping(store)
        if not reference.get("name"):
            raise Problem("spec.secretStoreRef must name a store")
        return await self._stores.for_use(str(reference.get("kind") or OWN), str(reference["name"]), namespace)

    async def _present(self, name: str, namespace: str) -> Object | None:
        try:
            return await self._client.get(SECRETS, name, namespace)
        except errors.NotFound:
            return None

    async def _write(
        self, external: Object, present: Object | None, name: str, policy: str, values: dict[str, bytes]
    ) -> bool:
        target = objects.mapping(objects.at(external, "spec", "target"))
        data = {key: base64.b64encode(value).decode() for key, value in sorted(values.items())}
        if policy == "Merge":
            return await self._merge(present, name, data)
        if present is not None and not _is_own(present, external):
            raise Problem(
                f"Secret {name} is there already and is not made of this ExternalSecret: delete it, or choose another "
                "name"
            )
        wanted = _secret(external, name, target, data, is_owned=policy == "Owner")
        if present is None:
            await self._client.create(SECRETS, wanted)
            return True
        if objects.at(present, "immutable"):
            return False
        merged = objects.copy(present)
        merged["data"] = data
        merged["metadata"] = {
            **objects.metadata(present),
            **{
                field: {**objects.mapping(objects.metadata(present).get(field)), **objects.mapping(value)}
                for field, value in objects.metadata(wanted).items()
                if field in ("labels", "annotations")
            },
        }
        after = await patching.patch(self._client, SECRETS, present, merged)
        return after is not present

    async def _merge(self, present: Object | None, name: str, data: dict[str, str]) -> bool:
        if present is None:
            raise Problem(f"there is no Secret {name} to put the values into: creationPolicy Merge makes none")
        merged = {**objects.copy(present), "data": {**objects.mapping(present.get("data")), **data}}
        return await patching.patch(self._client, SECRETS, present, merged) is not present


async def _value(connection: Connection, reference: Object) -> Any:
    path, name = str(reference.get("key") or ""), str(reference.get("property") or "")
    if problem := paths.problem(path):
        raise Problem(f"{path[:100]} is no path in Vault: {problem}")
    for field, allowed in (("metadataPolicy", (None, "None")), ("version", (None, ""))):
        if reference.get(field) not in allowed:
            raise Problem(f"remoteRef.{field} is not supported here")
    stored = await connection.keys.read(path)
    if stored is None:
        raise Problem(f"there is nothing at {path} in Vault: it is waited for")
    if not name:
        return dict(stored.data)
    if name in stored.data:
        return stored.data[name]
    inner: Any = stored.data
    for step in name.split("."):
        inner = cast(Object, inner).get(step) if isinstance(inner, dict) else None
    if inner is None:
        raise Problem(f"there is no {name} at {path} in Vault; it has {', '.join(sorted(stored.data)) or 'nothing'}")
    return inner


def _parsed(value: Any, reference: Object) -> Object:
    try:
        found = json.loads(value)
    except (TypeError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise Problem(f"what is at {reference.get('key')} in Vault is no set of keys, which extract needs")
    return cast(Object, found)


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode(errors="surrogateescape")
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def _decoded(value: bytes, reference: Object) -> bytes:
    strategy = reference.get("decodingStrategy") or "None"
    if strategy == "None":
        return value
    if strategy != "Base64":
        raise Problem(f"remoteRef.decodingStrategy {strategy} is not supported here: None and Base64 are")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise Problem(f"what is at {reference.get('key')} in Vault is not base64") from None


def _templated(template: Object, found: dict[str, bytes]) -> dict[str, bytes]:
    if template.get("templateFrom"):
        raise Problem("spec.target.template.templateFrom is not supported here: write it into template.data")
    data: Mapping[str, Any] = objects.mapping(template.get("data"))
    if not data:
        return found
    values = {key: value.decode(errors="surrogateescape") for key, value in found.items()}
    made = {key: templates.render(str(text), values).encode(errors="surrogateescape") for key, text in data.items()}
    return {**found, **made} if template.get("mergePolicy") == "Merge" else made


def _secret(external: Object, name: str, target: Object, data: dict[str, str], *, is_owned: bool) -> Object:
    template = objects.mapping(target.get("template"))
    kind = str(template.get("type") or "Opaque")
    if kind in _FORBIDDEN_TYPES:
        raise Problem(f"a Secret of type {kind} cannot be made of an ExternalSecret: the API makes logins of those")
    said = objects.mapping(template.get("metadata"))
    metadata: Object = {
        "name": name,
        "namespace": objects.namespace(external),
        "labels": {**objects.mapping(said.get("labels")), MANAGED_LABEL: "true"},
    }
    if said.get("annotations"):
        metadata["annotations"] = dict(objects.mapping(said.get("annotations")))
    if is_owned:
        metadata["ownerReferences"] = [
            {
                "apiVersion": EXTERNAL_SECRETS.api_version,
                "kind": EXTERNAL_SECRETS.kind,
                "name": objects.name(external),
                "uid": objects.uid(external),
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    made: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": data}
    return {**made, "immutable": True} if target.get("immutable") else made


def _is_own(secret: Object, external: Object) -> bool:
    """Whether it was made of this very ExternalSecret: it controls it, or, where it is to outlive it, says so."""
    owner = objects.controller_of(secret)
    if owner is not None:
        return owner.get("uid") == objects.uid(external)
    binding = objects.at(external, "status", "binding", "name")
    is_orphan = objects.at(external, "spec", "target", "creationPolicy") == "Orphan"
    return is_orphan and binding == objects.name(secret) and objects.labels(secret).get(MANAGED_LABEL) == "true"


def stores_of(external: Object) -> list[str]:
    """As `Kind/namespace/name`."""
    spec = objects.mapping(external.get("spec"))
    sources = [*objects.sequence(spec.get("data")), *objects.sequence(spec.get("dataFrom"))]
    references = [spec.get("secretStoreRef"), *(objects.at(each, "sourceRef", "storeRef") for each in sources)]
    found: set[str] = set()
    for each in map(objects.mapping, references):
        if each.get("name"):
            kind = str(each.get("kind") or OWN)
            found.add(f"{kind}/{'' if kind == CLUSTER else objects.namespace(external)}/{each['name']}")
    return sorted(found)


def target_of(external: Object) -> list[str]:
    name = objects.at(external, "spec", "target", "name") or objects.name(external)
    return [f"{objects.namespace(external)}/{name}"]
