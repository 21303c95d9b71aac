"""Vault's key-value engine, version 2: one version of a secret after the other, with remarks beside them.

Every write says which version it is made of, so that two who change different keys of one secret at the same time both
get theirs in. What is there is marked as External Secrets marks it, `managed-by: external-secrets`: nothing that others
put there is overwritten or deleted, and External Secrets can take over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.vault import errors, paths
from steelyard.vault.client import Vault

MANAGED_BY: Final = "managed-by"
MANAGER: Final = "external-secrets"
_TRIES: Final = 10


@frozen
class Stored:
    data: Mapping[str, Any]
    version: int
    is_managed: bool
    """Whether it was put there by us or by External Secrets."""


class KeyValue:
    def __init__(self, vault: Vault, mount: str) -> None:
        self._vault = vault
        self._mount = paths.checked(mount)

    async def read(self, path: str) -> Stored | None:
        """The newest version; None where there is none, or it was deleted."""
        found = await self._vault.read(f"{self._mount}/data/{paths.checked(path)}")
        if found is None:
            return None
        inner = _mapping(found.get("data"))
        data, metadata = inner.get("data"), _mapping(inner.get("metadata"))
        if not isinstance(data, dict):
            return None
        remarks = _mapping(metadata.get("custom_metadata"))
        return Stored(cast(Object, data), int(metadata.get("version") or 0), remarks.get(MANAGED_BY) == MANAGER)

    async def change(self, path: str, edit: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> bool:
        """Brings what is there to what `edit` makes of it; nothing is written where that is the same. An empty outcome
        deletes the secret with its history. Raises `Invalid` where it is somebody else's."""
        for attempt in range(_TRIES):
            stored, version = await self._state(path)
            before: Mapping[str, Any] = stored.data if stored is not None else {}
            after = edit(before)
            if stored is not None and after == before:
                return False
            if stored is None and not after:
                return False
            if stored is not None and not stored.is_managed:
                raise errors.Invalid(
                    f"{self._mount}/{path} in Vault was put there by somebody else, and is left alone: delete it, or "
                    f"mark it with the metadata {MANAGED_BY}={MANAGER} if the platform may have it"
                )
            if not after:
                await self.destroy(path)
                return True
            try:
                await self._put(path, after, version, is_new=stored is None)
            except errors.Conflict:
                if attempt == _TRIES - 1:
                    raise
                continue
            return True
        return False

    async def destroy(self, path: str) -> None:
        """All versions, and that there ever were some."""
        await self._vault.delete(f"{self._mount}/metadata/{paths.checked(path)}")

    async def walk(self, folder: str, *, limit: int = 10_000) -> list[str]:
        """Paths of the secrets below a folder, sorted."""
        found: list[str] = []
        waiting = [folder]
        while waiting and len(found) < limit:
            here = waiting.pop()
            for name in await self._vault.list(f"{self._mount}/metadata/{here}"):
                below = f"{here}/{name.rstrip('/')}"
                if paths.problem(below):
                    continue
                if name.endswith("/"):
                    waiting.append(below)
                else:
                    found.append(below)
        return sorted(set(found))

    async def _state(self, path: str) -> tuple[Stored | None, int]:
        """What is there, and the version that the next one comes after. Where nothing is, that is asked first: whoever
        writes in between is then noticed."""
        stored = await self.read(path)
        if stored is not None:
            return stored, stored.version
        last = await self._last_version(path)
        stored = await self.read(path)
        return stored, last if stored is None else stored.version

    async def _put(self, path: str, data: Mapping[str, Any], version: int, *, is_new: bool) -> None:
        """The mark comes first: a secret without it would be nobody's after a crash."""
        if is_new:
            await self._vault.write(f"{self._mount}/metadata/{path}", {"custom_metadata": {MANAGED_BY: MANAGER}})
        body: Object = {"data": dict(data), "options": {"cas": version}}
        await self._vault.write(f"{self._mount}/data/{path}", body)

    async def _last_version(self, path: str) -> int:
        """Of one whose newest version was deleted; 0 for one that never was."""
        found = await self._vault.read(f"{self._mount}/metadata/{path}")
        return int(_mapping(_mapping(found).get("data")).get("current_version") or 0)


def _mapping(value: object) -> Object:
    return cast(Object, value) if isinstance(value, dict) else {}
