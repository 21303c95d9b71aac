"""What is encrypted on disk, and with which keys: `pki/encryption.json`, mode 0600, the newest key first.

Secrets are, and Cluster API's kinds that carry a machine's bootstrap configuration: join tokens, passwords of users and
the contents of files are in their specs, because upstream's contract puts them there.

The first start makes the file. From then on it is never replaced by a new one: without its keys the Secrets are lost,
so a start without them is refused and says so. Rotation puts a new key first and encrypts everything again; older keys
stay in the file for backups that were made without keys.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from steelyard import durable
from steelyard.api.clusterapi import resources as capi
from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.store import sealing
from steelyard.kube.store.errors import StoreError
from steelyard.kube.store.sealing import Sealer
from steelyard.kube.store.store import Store

ROTATION_PATH: Final = "/steelyard.dev/v1/rotate-keys"
SEALED: Final = (
    "core/secrets",
    *(
        f"{resource.group}/{resource.plural}"
        for resource in (
            capi.KUBEADM_CONFIGS,
            capi.KUBEADM_CONFIG_TEMPLATES,
            capi.KUBEADM_CONTROL_PLANES,
            capi.KUBEADM_CONTROL_PLANE_TEMPLATES,
        )
    ),
)
"""Collections whose objects are encrypted, in every space."""
_FORMAT: Final = 1


class BadKeys(Exception):
    """The file of keys cannot be used; the message says why."""


def sealer(keys: Sequence[bytes]) -> Sealer:
    return Sealer(keys, SEALED)


def new_key() -> bytes:
    return secrets.token_bytes(sealing.KEY_BYTES)


def load(path: Path) -> list[bytes]:
    """The keys in the file; none where there is no file. Raises BadKeys."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise BadKeys(f"{path} cannot be read: {error}") from error
    try:
        fields = cast("dict[str, Any]", json.loads(text))
        keys = [_key(entry) for entry in fields["keys"]]
        is_known = fields["format"] == _FORMAT
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error):
        raise BadKeys(f"{path} is damaged; bring it back from a copy, Secrets cannot be read without it") from None
    if not keys or not is_known:
        raise BadKeys(f"{path} holds no keys that this version can use")
    return keys


def save(path: Path, keys: Sequence[bytes]) -> None:
    """All or nothing, and durable when this returns."""
    entries = [
        {"id": sealing.identity(key).hex(), "algorithm": "AES-256-GCM", "secret": base64.b64encode(key).decode()}
        for key in keys
    ]
    durable.write(path, json.dumps({"format": _FORMAT, "keys": entries}, indent=2).encode())


class Rotation:
    """A new key for the running platform."""

    def __init__(self, path: Path, sealer: Sealer, stores: Sequence[Store]) -> None:
        self._path = path
        self._sealer = sealer
        self._stores = stores
        self._busy = False

    @contextlib.asynccontextmanager
    async def perform(self, _options: Mapping[str, str]) -> AsyncGenerator[Object]:
        """Written down before it is used, used before anything is encrypted again: a crash loses nothing."""
        if self._busy:
            raise errors.TooManyRequests("keys are being rotated already; try again later", retry_after=5)
        self._busy = True
        try:
            key = new_key()
            save(self._path, [key, *load(self._path)])
            self._sealer.use(key)
            resealed = 0
            for store in self._stores:
                resealed += await store.reseal()
            yield {"key": sealing.identity(key).hex(), "encrypted": resealed}
        except (BadKeys, OSError, StoreError) as error:
            raise errors.InternalError(f"Internal error occurred: keys were not rotated: {error}") from error
        finally:
            self._busy = False


def _key(entry: Mapping[str, str]) -> bytes:
    key = base64.b64decode(entry["secret"], validate=True)
    if len(key) != sealing.KEY_BYTES or sealing.identity(key).hex() != entry["id"]:
        raise ValueError("the key is not the one that was written")
    return key
